"""Word vectors from a text file, of the words of a vocabulary only."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from attention_zoo.data.reading import decoded, numbered_lines
from attention_zoo.data.vocabulary import PAD


def read_word_vectors(path: str | Path, vocabulary: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """The vectors that a file of GloVe's or word2vec's text format has of a vocabulary.

    A line is a word, a blank, and E numbers; a first line "count E" may say how many there are.
    Words with blanks in them, as in GloVe's largest file, are understood. A word that the file has
    not is looked for in lower case too. Of a word on two lines the first counts. Only the vectors
    that are found are held in memory.

    Args:
        path: the file, UTF-8, gzipped or not.
        vocabulary: tokens in the order of their ids; the first is padding and gets none.

    Returns:
        Vectors `(V, E)` float32, 0 where none was found, and which were found, `(V,)` booleans.

    Raises:
        ValueError: no file, an empty one, a line of another width, or what is no number
            (file:line).

    Source:
        Pennington et al. 2014, "GloVe: Global vectors for word representation"; Mikolov et al.
        2013, arXiv 1301.3781.
    """
    exact, lowered = _wanted(vocabulary)
    vectors: dict[bytes, np.ndarray] = {}
    width, some = None, False
    for number, (where, raw) in enumerate(numbered_lines(path), 1):
        line = raw.strip(b" \t").replace(b"\t", b" ")
        if number == 1 and (width := _header(line)) is not None:
            continue
        if width is None:
            width = _first_width(where, line)
        word, some = _word(where, line, width), True
        if word not in vectors and (word in exact or word in lowered):
            vectors[word] = _numbers(where, line, width)
    if width is None or not some:
        raise ValueError(f"{path}: no vectors; give a word and its numbers a line")
    return _rows(len(vocabulary), width, vectors, exact, lowered)


Ids = dict[bytes, list[int]]


def _wanted(vocabulary: Sequence[str]) -> tuple[Ids, Ids]:
    """Ids by word, and by the word in lower case."""
    exact: Ids = {}
    lowered: Ids = {}
    for number, token in enumerate(vocabulary):
        if number != PAD:
            exact.setdefault(token.encode(), []).append(number)
            lowered.setdefault(token.lower().encode(), []).append(number)
    return exact, lowered


def _header(line: bytes) -> int | None:
    """E of a first line "count E", None of any other."""
    parts = line.split(b" ")
    return int(parts[1]) if len(parts) == 2 and all(x.isdigit() for x in parts) else None


def _first_width(where: str, line: bytes) -> int:
    """How many numbers the first line ends in."""
    count = 0
    for piece in reversed(line.split(b" ")[1:]):
        if not _is_number(piece):
            break
        count += 1
    if not count:
        raise ValueError(f"{where}: no vector; a line is a word and its numbers, with blanks")
    return count


def _is_number(piece: bytes) -> bool:
    try:
        float(piece)
    except ValueError:
        return False
    return True


def _word(where: str, line: bytes, width: int) -> bytes:
    """What stands before the numbers; ValueError where there are too few of them, or too many."""
    blanks = line.count(b" ")
    if blanks == width:
        return line[: line.index(b" ")]
    word = line.rsplit(b" ", width)[0] if blanks > width else b""
    if not word or _is_number(word.rsplit(b" ", 1)[-1]):
        numbers = sum(_is_number(piece) for piece in line.split(b" ")[1:])
        raise ValueError(
            f"{where}: {numbers} numbers, but vectors are {width} wide here; restore the file"
        )
    return word


def _numbers(where: str, line: bytes, width: int) -> np.ndarray:
    pieces = line.rsplit(b" ", width)[1:]
    try:
        vector = np.array([float(piece) for piece in pieces], "float32")
    except ValueError:
        bad = next(piece for piece in pieces if not _is_number(piece))
        raise ValueError(
            f"{where}: {decoded(where, bad)!r} is no number; restore the file"
        ) from None
    if not np.isfinite(vector).all():
        raise ValueError(f"{where}: a number is not finite; restore the file")
    return vector


def _rows(
    size: int, width: int, vectors: dict[bytes, np.ndarray], exact: Ids, lowered: Ids
) -> tuple[np.ndarray, np.ndarray]:
    """The vectors by id, those of the word itself before those of its lower case."""
    matrix, found = np.zeros((size, width), "float32"), np.zeros(size, "bool")
    for ids_of in (lowered, exact):
        for word, ids in ids_of.items():
            if word in vectors:
                matrix[ids], found[ids] = vectors[word], True
    return matrix, found
