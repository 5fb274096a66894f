"""Pretrained word vectors from a text file, for the words of a vocabulary."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from attention_zoo.data.text.reading import decode_utf8, read_numbered_lines
from attention_zoo.data.tokenizers.vocabulary import PAD


def read_word_vectors(path: str | Path, vocabulary: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Read the vectors of a vocabulary from a file in the text format of GloVe or word2vec.

    A line contains a word, a space, and E numbers. An optional first line "count E" defines E.
    Words may contain spaces, as in GloVe's largest file. If the file lacks a token, the vector of
    its lower-case form is used. If a word is on two lines, the first one is used. Only vectors of
    the vocabulary are kept in memory.

    Args:
        path: the file, UTF-8, gzipped or not.
        vocabulary: tokens in the order of their ids; the first is padding and has no vector.

    Returns:
        Vectors `(V, E)` float32, 0 where none was found; booleans `(V,)`, whether one was found.

    Raises:
        ValueError: a missing or empty file, a line with a different number of values, an invalid or
            non-finite number (file:line).

    Source:
        Pennington et al. 2014, "GloVe: Global vectors for word representation"; Mikolov et al.
        2013, arXiv 1301.3781.
    """
    exact, lowercase = _index_vocabulary(vocabulary)
    vectors: dict[bytes, np.ndarray] = {}
    width, has_vectors = None, False
    for number, (location, raw) in enumerate(read_numbered_lines(path), 1):
        line = raw.strip(b" \t").replace(b"\t", b" ")
        if number == 1 and (width := _parse_header(line)) is not None:
            continue
        if width is None:
            width = _count_numbers(location, line)
        word, has_vectors = _parse_word(location, line, width), True
        if word not in vectors and (word in exact or word in lowercase):
            vectors[word] = _parse_vector(location, line, width)
    if width is None or not has_vectors:
        raise ValueError(f"{path}: contains no vectors; give one word and its numbers per line")
    return _make_matrix(len(vocabulary), width, vectors, exact, lowercase)


Ids = dict[bytes, list[int]]


def _index_vocabulary(vocabulary: Sequence[str]) -> tuple[Ids, Ids]:
    """Return the ids by token, and by the token in lower case."""
    exact: Ids = {}
    lowercase: Ids = {}
    for number, token in enumerate(vocabulary):
        if number != PAD:
            exact.setdefault(token.encode(), []).append(number)
            lowercase.setdefault(token.lower().encode(), []).append(number)
    return exact, lowercase


def _parse_header(line: bytes) -> int | None:
    """Return E of a first line "count E", None for any other line."""
    parts = line.split(b" ")
    return int(parts[1]) if len(parts) == 2 and all(x.isdigit() for x in parts) else None


def _count_numbers(location: str, line: bytes) -> int:
    """Return the number of numbers at the end of the first line."""
    count = 0
    for value in reversed(line.split(b" ")[1:]):
        if not _is_number(value):
            break
        count += 1
    if not count:
        raise ValueError(
            f"{location}: no vector; expected a word and its numbers, separated by spaces"
        )
    return count


def _is_number(value: bytes) -> bool:
    try:
        float(value)
    except ValueError:
        return False
    return True


def _parse_word(location: str, line: bytes, width: int) -> bytes:
    """Return the word before the numbers; raise ValueError if there are too few or too many."""
    num_spaces = line.count(b" ")
    if num_spaces == width:
        return line[: line.index(b" ")]
    word = line.rsplit(b" ", width)[0] if num_spaces > width else b""
    if not word or _is_number(word.rsplit(b" ", 1)[-1]):
        numbers = sum(_is_number(value) for value in line.split(b" ")[1:])
        raise ValueError(f"{location}: expected {width} numbers, got {numbers}; restore the file")
    return word


def _parse_vector(location: str, line: bytes, width: int) -> np.ndarray:
    values = line.rsplit(b" ", width)[1:]
    try:
        vector = np.array([float(value) for value in values], "float32")
    except ValueError:
        invalid = next(value for value in values if not _is_number(value))
        raise ValueError(
            f"{location}: {decode_utf8(location, invalid)!r} is not a number; restore the file"
        ) from None
    if not np.isfinite(vector).all():
        raise ValueError(f"{location}: a number is not finite; restore the file")
    return vector


def _make_matrix(
    size: int, width: int, vectors: dict[bytes, np.ndarray], exact: Ids, lowercase: Ids
) -> tuple[np.ndarray, np.ndarray]:
    """Return the vectors by id, and whether each was found; exact matches take precedence."""
    matrix, is_found = np.zeros((size, width), "float32"), np.zeros(size, "bool")
    for ids_by_word in (lowercase, exact):
        for word, ids in ids_by_word.items():
            if word in vectors:
                matrix[ids], is_found[ids] = vectors[word], True
    return matrix, is_found
