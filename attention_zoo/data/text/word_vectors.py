"""Pretrained word vectors from a text file, for the words of a vocabulary."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, takewhile
from pathlib import Path

import numpy as np

from attention_zoo.data.reading import decode_utf8, read_numbered_lines
from attention_zoo.data.tokenizers.vocabulary import PAD

MAX_WIDTH = 1 << 14
"""Maximum number of numbers of a vector."""


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
    tokens = [(token.encode(), token.lower().encode()) for token in vocabulary]
    wanted = {*chain(*tokens[PAD + 1 :])}
    vectors: dict[bytes, np.ndarray] = {}
    width, has_vectors = None, False
    for number, (location, raw) in enumerate(read_numbered_lines(path), 1):
        line = raw.strip(b" \t").replace(b"\t", b" ")
        if (count := line.count(b" ")) > MAX_WIDTH:
            raise ValueError(
                f"{location}: a vector must have at most {MAX_WIDTH:,} numbers, got {count:,}."
                " Restore the file."
            )
        if number == 1 and (width := _parse_header(line)) is not None:
            continue
        if width is None:
            width = _count_numbers(location, line)
        word, has_vectors = _parse_word(location, line, width), True
        if word in wanted and word not in vectors:
            vectors[word] = _parse_vector(location, line, width)
    if width is None or not has_vectors:
        raise ValueError(f"{path}: contains no vectors; give one word and its numbers per line")
    matrix, is_found = np.zeros((len(tokens), width), "float32"), np.zeros(len(tokens), "bool")
    for token_id, (token, lowercase) in enumerate(tokens):
        vector = vectors.get(token, vectors.get(lowercase))
        if token_id != PAD and vector is not None:
            matrix[token_id], is_found[token_id] = vector, True
    return matrix, is_found


def _parse_header(line: bytes) -> int | None:
    """Return E of a first line "count E", None for any other line."""
    parts = line.split(b" ")
    return int(parts[1]) if len(parts) == 2 and all(x.isdigit() for x in parts) else None


def _count_numbers(location: str, line: bytes) -> int:
    """Return the number of numbers at the end of the first line."""
    count = sum(1 for _ in takewhile(_is_number, reversed(line.split(b" ")[1:])))
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
