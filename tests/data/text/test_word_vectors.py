from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from attention_zoo.data import read_word_vectors
from tests.refusals import refuses

VOCABULARY = ["<pad>", "<unk>", "the", "The", "Paris", "PARIS", "new york", "3.5", "naïve", "gone"]
LINES = [
    "the 1 2.5",
    "Paris -1e-2 7",
    "new york 3 4",
    "3.5 5 6",
    "naïve 8 9",
    ". . . 0 0",
    "the 9 9",
    "<pad> 1 1",
]
EXPECTED = {
    "the": [1, 2.5],
    "The": [1, 2.5],
    "Paris": [-0.01, 7],
    "new york": [3, 4],
    "3.5": [5, 6],
    "naïve": [8, 9],
}


def write_file(folder: Path, lines: list[str], end: str = "\n", is_gzipped: bool = False) -> Path:
    path = folder / "vectors.txt"
    raw = "".join(line + end for line in lines).encode()
    path.write_bytes(gzip.compress(raw) if is_gzipped else raw)
    return path


@pytest.mark.parametrize(
    ("header", "end", "is_gzipped"),
    [([], "\n", False), (["8 2"], "\n", True), (["8 2 "], " \r\n", False)],
    ids=["glove", "word2vec", "blanks"],
)
def test_reads_glove_and_word2vec_formats(
    tmp_path: Path, header: list[str], end: str, is_gzipped: bool
) -> None:
    path = write_file(tmp_path, [*header, *LINES], end, is_gzipped)
    vectors, is_found = read_word_vectors(path, VOCABULARY)
    assert vectors.dtype == "float32"
    assert [VOCABULARY[n] for n in np.flatnonzero(is_found)] == list(EXPECTED)
    np.testing.assert_allclose(vectors[is_found], list(EXPECTED.values()), rtol=1e-6)
    assert not vectors[~is_found].any()


def test_exact_match_precedes_lower_case(tmp_path: Path) -> None:
    for lines in (["us 1", "US 2"], ["US 2", "us 1"]):
        vectors, _ = read_word_vectors(write_file(tmp_path, lines), ["<pad>", "us", "US", "Us"])
        assert vectors[:, 0].tolist() == [0, 1, 2, 1]


def test_only_vectors_of_the_vocabulary_are_parsed(tmp_path: Path) -> None:
    """Large files are read quickly and need little memory."""
    path = write_file(tmp_path, ["a 1 2", "b ? 2", "a ? ?"])
    vectors, is_found = read_word_vectors(path, ["<pad>", "a"])
    assert vectors[1].tolist() == [1, 2]
    assert is_found.tolist() == [False, True]


@refuses(
    (["a 1 2", "b 1"], r"vectors.txt:2: expected 2 numbers, got 1"),
    (["a 1 2", "b 1 2 3"], r"vectors.txt:2: expected 2 numbers, got 3"),
    (["9 3", "a 1 2"], r"vectors.txt:2: expected 3 numbers, got 2"),
    (["a 1 2", ""], r"vectors.txt:2: expected 2 numbers, got 0"),
    (["a 1 2", "b 1 x"], r"vectors.txt:2: 'x' is not a number"),
    (["a 1 2", "b 1 nan"], r"vectors.txt:2: a number is not finite"),
    (["some words only"], r"vectors.txt:1: no vector; expected a word and its numbers"),
    (["7 3"], r"vectors.txt: contains no vectors; give one word and its numbers per line"),
    ([], r"vectors.txt: contains no vectors; give one word and its numbers per line"),
)
def test_invalid_files_raise(lines: list[str], tmp_path: Path) -> None:
    read_word_vectors(write_file(tmp_path, lines), ["<pad>", "a", "b"])


def test_missing_file_raises(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"nowhere.txt: No such file"):
        read_word_vectors(tmp_path / "nowhere.txt", ["<pad>", "a"])
