"""Predictions in batches of equal padded width."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from attention_zoo.data import TextLines
from attention_zoo.tasks import text_inputs
from attention_zoo.tasks.text_inputs import encode_in_parts, predict_by_width


def test_predictions_are_in_order_and_batches_are_padded() -> None:
    encoded = [[5] * width for width in (3, 8, 9, 3, 2, 1)]
    shapes = []

    def predict(rows: list[int], batch: np.ndarray) -> Iterator[tuple[int, int]]:
        shapes.append(batch.shape)
        assert (batch[len(rows) :] == batch[0]).all()
        for row, ids in zip(rows, batch, strict=False):
            yield row, int((ids == 5).sum())

    results = predict_by_width(encoded, 3, predict, step=8)
    assert results == [(row, len(ids)) for row, ids in enumerate(encoded)]
    assert sorted(shapes) == [(1, 16), (2, 8), (3, 8)]


def test_no_sequences_give_no_predictions() -> None:
    def predict(rows: list[int], batch: np.ndarray) -> Any:
        raise AssertionError

    assert predict_by_width([], 3, predict) == []


def test_missing_predictions_raise() -> None:
    with pytest.raises(ValueError, match="shorter"):
        predict_by_width([[5], [6]], 2, lambda rows, batch: rows[:1])


def test_errors_of_encoding_name_the_first_example_of_the_part(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(text_inputs, "PART", 2)
    lines = TextLines(["a", "b", "c", "d", "e"], "here")
    parts = encode_in_parts(lines, range(5), lambda part: part.texts, "lines")
    rows, examples, encoded = zip(*parts, strict=True)
    assert rows == (range(2), range(2, 4), range(4, 5))
    assert encoded == (["a", "b"], ["c", "d"], ["e"]) == tuple(part.texts for part in examples)

    def fail(part: TextLines) -> None:
        if "c" in part.texts:
            raise ValueError("no c")

    with pytest.raises(ValueError, match=r"^here, from line 2 on: no c$"):
        list(encode_in_parts(lines, range(1, 4), fail, "lines"))
