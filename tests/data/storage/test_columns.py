"""Columns in Arrow files return what was appended, in every order of access."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import pytest

from attention_zoo.data.storage.columns import BATCH, ArrowColumn


def make_column(path: Path, values: list[Any]) -> ArrowColumn:
    column = ArrowColumn(path, create=True)
    for value in values:
        column.append(value)
    column.close()
    return ArrowColumn(path)


@pytest.mark.parametrize(
    "values",
    [
        ["a", "", "日本語 \u2028 👍🏽", "tab\tand\x00null"],
        [0, -5, 2**40],
        [("New", "York"), ("a",)],
        [(True, False), (False,)],
        [(3, 4, 9), (2**33,)],
        [0.1, -3.0, 1e300],
        [(), ()],
    ],
    ids=["texts", "integers", "words", "marks", "lines", "floats", "empty lists"],
)
def test_values_are_returned_unchanged(values: list[Any], tmp_path: Path) -> None:
    column = make_column(tmp_path / "column.arrow", values)
    assert [*column] == values
    assert column == values
    assert [column[row] for row in range(len(values))] == values


@pytest.mark.parametrize("size", [1, BATCH - 1, BATCH, BATCH + 1, 2 * BATCH + 5])
def test_rows_are_found_in_their_batch(size: int, tmp_path: Path) -> None:
    column = make_column(tmp_path / "column.arrow", [f"text {row}" for row in range(size)])
    assert len(column) == size
    for row in (0, size // 2, size - 1, -1, -size):
        assert column[row] == f"text {row % size}"
    assert column[size - 1 :] == [f"text {size - 1}"]
    assert column[::-1][0] == f"text {size - 1}"
    for row in (size, -size - 1):
        with pytest.raises(IndexError, match=f"row {row} of {size}"):
            column[row]


@pytest.mark.parametrize("empty", [1, BATCH - 1, BATCH, BATCH + 1, 3 * BATCH])
@pytest.mark.parametrize("value", [("a", "b"), (3,), (True,)])
def test_first_lists_may_be_empty(empty: int, value: tuple[Any, ...], tmp_path: Path) -> None:
    values = [(), *[()] * (empty - 1), value, ()]
    column = make_column(tmp_path / "column.arrow", values)
    assert [*column] == values
    assert (column[empty], column[empty - 1], column[-1]) == (value, (), ())


def test_ranges_become_tuples_and_equal_words_share_memory(tmp_path: Path) -> None:
    lines = make_column(tmp_path / "lines.arrow", [range(4, 7), (9, 11)])
    assert [*lines] == [(4, 5, 6), (9, 11)]
    words = make_column(tmp_path / "words.arrow", [("the", "cat"), ("the",)])
    assert words[0][0] is words[1][0]


def test_a_column_can_be_read_by_its_writer(tmp_path: Path) -> None:
    column = ArrowColumn(tmp_path / "column.arrow", create=True)
    for row in range(BATCH + 3):
        column.append(row)
    assert len(column) == BATCH + 3
    assert column[BATCH + 2] == BATCH + 2
    assert [*column] == [*range(BATCH + 3)]
    with pytest.raises(ValueError, match=r"column\.arrow: the file is complete; no values can"):
        column.append(0)
    assert len(column) == BATCH + 3


def test_a_column_can_be_copied_and_sent_to_another_process(tmp_path: Path) -> None:
    column = make_column(tmp_path / "column.arrow", ["a", "b"])
    for other in (copy.deepcopy(column), pickle.loads(pickle.dumps(column))):
        assert other == ["a", "b"]
    assert repr(column) == f"<ArrowColumn: 2 values in {tmp_path / 'column.arrow'}>"


def test_a_missing_file_is_not_created(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="column"):
        ArrowColumn(tmp_path / "column.arrow")
    assert not [*tmp_path.iterdir()]
