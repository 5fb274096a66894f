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
WANTED = {
    "the": [1, 2.5],
    "The": [1, 2.5],
    "Paris": [-0.01, 7],
    "new york": [3, 4],
    "3.5": [5, 6],
    "naïve": [8, 9],
}


def write(folder: Path, lines: list[str], end: str = "\n", zipped: bool = False) -> Path:
    path = folder / "vectors.txt"
    raw = "".join(line + end for line in lines).encode()
    path.write_bytes(gzip.compress(raw) if zipped else raw)
    return path


@pytest.mark.parametrize(
    ("head", "end", "zipped"),
    [([], "\n", False), (["8 2"], "\n", True), (["8 2 "], " \r\n", False)],
    ids=["glove", "word2vec", "blanks"],
)
def test_both_formats(tmp_path: Path, head: list[str], end: str, zipped: bool) -> None:
    path = write(tmp_path, [*head, *LINES], end, zipped)
    vectors, found = read_word_vectors(path, VOCABULARY)
    assert vectors.dtype == "float32"
    assert [VOCABULARY[n] for n in np.flatnonzero(found)] == list(WANTED)
    np.testing.assert_allclose(vectors[found], list(WANTED.values()), rtol=1e-6)
    assert not vectors[~found].any()


def test_a_word_itself_comes_before_its_lower_case(tmp_path: Path) -> None:
    for lines in (["us 1", "US 2"], ["US 2", "us 1"]):
        vectors, _ = read_word_vectors(write(tmp_path, lines), ["<pad>", "us", "US", "Us"])
        assert vectors[:, 0].tolist() == [0, 1, 2, 1]


def test_only_what_is_wanted_is_parsed(tmp_path: Path) -> None:
    """So a file of millions of lines is read at the pace of the disk, and held by its words."""
    path = write(tmp_path, ["a 1 2", "b ? 2", "a ? ?"])
    vectors, found = read_word_vectors(path, ["<pad>", "a"])
    assert vectors[1].tolist() == [1, 2]
    assert found.tolist() == [False, True]


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
def test_bad_files_are_refused(lines: list[str], tmp_path: Path) -> None:
    read_word_vectors(write(tmp_path, lines), ["<pad>", "a", "b"])


def test_no_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"nowhere.txt: No such file"):
        read_word_vectors(tmp_path / "nowhere.txt", ["<pad>", "a"])
