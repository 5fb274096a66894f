"""Flat arrays of token ids: rows added part by part equal rows added at once."""

from __future__ import annotations

import numpy as np
import pytest

from attention_zoo.data.batching.ragged import Ragged, RaggedBuilder

ROWS = [[5, 6, 7], [8], [9, 10], [11, 12, 13, 14]]


def test_parts_equal_the_whole() -> None:
    builder = RaggedBuilder()
    for part in (ROWS[:1], [], ROWS[1:3], [np.array(ROWS[3], np.int32)]):
        builder.extend(part)
    assert len(builder) == 4
    rows = np.array([3, 0])
    for ragged in (Ragged.from_rows(builder, "row"), Ragged.from_rows(ROWS, "row")):
        assert len(ragged) == 4
        assert ragged.lengths.tolist() == [3, 1, 2, 4]
        padded = ragged.pad(rows, 3)
        assert padded.dtype == np.int32
        assert padded.tolist() == [[11, 12, 13, 14, 0, 0], [5, 6, 7, 0, 0, 0]]


def test_flat_arrays_are_compact() -> None:
    builder = RaggedBuilder()
    builder.extend([[True, False], [300]])
    assert builder.flat.dtype == np.int32
    assert builder.flat.tolist() == [1, 0, 300]
    builder.extend([[4]])
    assert builder.flat.tolist() == [1, 0, 300, 4]
    assert builder.lengths.tolist() == [2, 1, 1]


def test_empty_rows_are_rejected() -> None:
    with pytest.raises(ValueError, match="there are no examples"):
        Ragged.from_rows(RaggedBuilder(), "row")
    with pytest.raises(ValueError, match=r"^the source of pair 2 is empty\. Remove it\.$"):
        Ragged.from_rows([[1], []], "the source of pair")
