"""Responses of TensorFlow Serving's REST API."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from attention_zoo.serving.responses import count_bytes, find_row_error, format_response
from attention_zoo.serving.rest import PredictRequest


def arrays(**values: Any) -> dict[str, Any]:
    """Return arrays as TensorFlow does, with strings as objects."""
    created = {name: np.array(value) for name, value in values.items()}
    return {
        name: np.array(values[name], object) if array.dtype.kind == "S" else array
        for name, array in created.items()
    }


def test_responses_by_row_and_by_column() -> None:
    rows = [
        arrays(text=[b"un", "été".encode()], scores=[-1.5, -2.0], ok=True),
        arrays(text=[b"deux", b""], scores=[-0.5, -np.inf], ok=False),
    ]
    predictions = [
        {"text": ["un", "été"], "scores": [-1.5, -2.0], "ok": True},
        {"text": ["deux", ""], "scores": [-0.5, None], "ok": False},
    ]
    body = format_response(rows, is_by_row=True)
    assert json.loads(body) == {"predictions": predictions}
    assert "été".encode() in body
    columns = {name: [row[name] for row in predictions] for name in predictions[0]}
    assert json.loads(format_response(rows, is_by_row=False)) == {"outputs": columns}


def test_a_single_output_has_no_name() -> None:
    rows = [arrays(length=3), arrays(length=5)]
    assert json.loads(format_response(rows, is_by_row=True)) == {"predictions": [3, 5]}
    assert json.loads(format_response(rows, is_by_row=False)) == {"outputs": [3, 5]}


def test_bytes_and_invalid_texts() -> None:
    row = arrays(image_bytes=b"\xff\0", text=b"a\xff")
    expected = {"image_bytes": {"b64": "/wA="}, "text": "a\ufffd"}
    assert json.loads(format_response([row], is_by_row=True)) == {"predictions": [expected]}


def test_numbers_are_valid_json() -> None:
    row = arrays(x=np.array([np.nan, np.inf, 1e-45], "float32"), n=np.int64(2**62))
    expected = {"x": [None, None, pytest.approx(1e-45, rel=0.5)], "n": 2**62}
    assert json.loads(format_response([row], is_by_row=True)) == {"predictions": [expected]}


@pytest.mark.parametrize(
    ("rows", "is_by_row", "ok", "expected"),
    [
        ([{"text": b""}], True, [False], "instances[0].text: empty"),
        ([{"text": b""}], False, [False], "inputs.text[0]: empty"),
        ([{"first": b"", "second": b""}], True, [False], "instances[0]: empty"),
        ([{"text": b""}, {"text": b""}], True, [False, False], "instances[0].text: empty"),
        ([{"text": b""}, {"text": b"a"}], True, [False, True], None),
        ([{"text": b"a"}], True, [True], None),
    ],
)
def test_requests_without_a_valid_row_have_an_error(
    rows: list[Any], is_by_row: bool, ok: list[bool], expected: str | None
) -> None:
    request = PredictRequest("serving_default", rows, {}, is_by_row)
    outputs = [
        {"ok": np.array(one), "error": np.array(b"" if one else b"empty", object)} for one in ok
    ]
    assert find_row_error(outputs, request) == expected
    assert find_row_error([{"ok": np.array(False)}], request) is None


def test_sizes_of_outputs() -> None:
    assert count_bytes(np.zeros([2, 3], "float32")) == 24
    assert count_bytes(np.array([b"abc", b"d"], object)) == 4
    assert count_bytes(np.array(b"abc", object)) == 3
