"""Requests of TensorFlow Serving's REST API: worked examples and bad input."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from attention_zoo.serving.rest import TensorSpec, parse_request

STRING, INT = np.dtype(object), np.dtype("int32")
ROWS: tuple[int | None, ...] = (None,)
SIGNATURES = {
    "serving_default": {"text": TensorSpec(STRING, ROWS)},
    "score": {"text": TensorSpec(STRING, ROWS), "target": TensorSpec(STRING, ROWS)},
    "serve_with_options": {
        "text": TensorSpec(STRING, ROWS),
        "max_length": TensorSpec(INT, (), True),
        "temperature": TensorSpec(np.dtype("float32"), (), True),
        "sample": TensorSpec(np.dtype(bool), (), True),
        "prefixes": TensorSpec(STRING, ROWS, True),
    },
    "pixels": {
        "image": TensorSpec(np.dtype("float32"), (None, 2, None)),
        "steps": TensorSpec(np.dtype("int64"), (None, 3), True),
    },
    "words": {"words": TensorSpec(STRING, (None, None))},
}


def parse(content: Any) -> Any:
    body = content if isinstance(content, bytes) else json.dumps(content).encode()
    return parse_request(body, SIGNATURES)


def values(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: value.tolist() for name, value in row.items()} for row in rows]


# requests


def test_instances_of_one_input_need_no_name() -> None:
    request = parse({"instances": ["a", {"text": "été"}, {"b64": "AP8="}]})
    assert request.signature == "serving_default"
    assert request.is_by_row
    assert request.options == {}
    assert values(request.rows) == [{"text": b"a"}, {"text": "été".encode()}, {"text": b"\0\xff"}]


def test_instances_of_several_inputs() -> None:
    instances = [{"text": "a", "target": "b"}, {"target": {"b64": ""}, "text": "c"}]
    request = parse({"signature_name": "score", "instances": instances})
    expected = [{"text": b"a", "target": b"b"}, {"text": b"c", "target": b""}]
    assert values(request.rows) == expected


def test_columns_have_options() -> None:
    inputs = {"text": ["a", "b"], "max_length": 5, "temperature": 1, "sample": True}
    request = parse({"signature_name": "serve_with_options", "inputs": inputs})
    assert not request.is_by_row
    assert values(request.rows) == [{"text": b"a"}, {"text": b"b"}]
    assert request.options["max_length"].dtype == "int32"
    assert {name: value.item() for name, value in request.options.items()} == {
        "max_length": 5,
        "temperature": 1.0,
        "sample": True,
    }
    prefixed = {"text": ["a"], "prefixes": ["b"]}
    request = parse({"signature_name": "serve_with_options", "inputs": prefixed})
    assert values(request.rows) == [{"text": b"a", "prefixes": b"b"}]


def test_columns_of_one_input_need_no_name() -> None:
    assert values(parse({"inputs": ["a"]}).rows) == [{"text": b"a"}]
    assert values(parse({"inputs": {"text": ["a"]}}).rows) == [{"text": b"a"}]


def test_arrays() -> None:
    image = [[1, 2.5, 3], [4, 5, 6]]
    request = parse(
        {"signature_name": "pixels", "instances": [{"image": image, "steps": [1, 2, 3]}]}
    )
    (row,) = request.rows
    assert (row["image"].dtype, row["image"].shape) == ("float32", (2, 3))
    assert row["steps"].dtype == "int64"
    (row,) = parse({"signature_name": "pixels", "inputs": [image]}).rows
    assert row["image"].tolist() == image
    (row,) = parse({"signature_name": "words", "instances": [["a", "b"]]}).rows
    assert row["words"].tolist() == [b"a", b"b"]
    (row,) = parse({"signature_name": "pixels", "instances": [[[], []]]}).rows
    assert row["image"].shape == (2, 0)


DEEP = b'{"instances": ' + b"[" * 40 + b"]" * 40 + b"}"
VERY_DEEP = b'{"instances": ' + b"[" * 200_000
BAD: dict[str, tuple[Any, str]] = {
    "empty": (b"", "the body is not JSON: Expecting value"),
    "no_json": (b'{"instances": [', "the body is not JSON"),
    "no_utf8": (b'{"instances": ["\xff"]}', "the body must be UTF-8"),
    "list": ([1], "the body must be a JSON object, got a list"),
    "null": (None, "the body must be a JSON object, got null"),
    "neither": ({}, "must have either instances or inputs"),
    "both": ({"instances": ["a"], "inputs": ["a"]}, "must have either instances or inputs"),
    "unknown_field": ({"instances": ["a"], "n": 1}, "unknown field 'n'; known: signature_name"),
    "signature": ({"instances": ["a"], "signature_name": "x"}, "unknown signature 'x'; known: pix"),
    "signature_type": ({"instances": ["a"], "signature_name": ["x"]}, "signature_name: unknown"),
    "repeated": (b'{"inputs": ["a"], "inputs": ["b"]}', "repeated key 'inputs'"),
    "nan": (b'{"instances": [NaN]}', "numbers must be finite, got NaN"),
    "infinity": (b'{"instances": [-Infinity]}', "numbers must be finite, got -Infinity"),
    "deep": (DEEP, "nested at most 32 levels deep"),
    "very_deep": (VERY_DEEP, "at most 100,000 lists"),
    "surrogate_key": (b'{"instances": [{"\\ud800": 1}]}', r"unknown input '\\ud800'"),
    "many_digits": (b'{"instances": [' + b"9" * 5000 + b"]}", "numbers have too many digits"),
    "non_ascii_base64": ({"instances": [{"b64": "é"}]}, r"instances\[0\].text.b64 must be base64"),
    "many_rows": ({"instances": ["a"] * 33}, "instances must have at most 32 rows, got 33"),
    "long_column": ({"inputs": ["a"] * 33}, "inputs.text must have at most 32 rows, got 33"),
    "surrogate": (b'{"instances": ["\\ud800"]}', r"instances\[0\].text must be valid Unicode"),
    "no_rows": ({"instances": []}, "instances must be a non-empty list, got an empty list"),
    "object": ({"instances": {"text": "a"}}, "instances must be a non-empty list, got an object"),
    "number": (
        {"instances": ["a", 5]},
        r'instances\[1\].text must be a string or {"b64".*a number',
    ),
    "nested": ({"instances": [["a"]]}, r"instances\[0\].text must have the shape \(\), got \(1,\)"),
    "base64": ({"instances": [{"b64": "?"}]}, r"instances\[0\].text.b64 must be base64"),
    "base64_type": ({"instances": [{"b64": 5}]}, r"instances\[0\].text must be a string or"),
    "unknown_input": (
        {"instances": [{"words": "a"}]},
        r"instances\[0\]: unknown input 'words'; known",
    ),
    "missing": (
        {"signature_name": "score", "instances": [{"text": "a"}]},
        r"instances\[0\].target is missing",
    ),
    "no_names": (
        {"signature_name": "score", "instances": ["a"]},
        r"instances\[0\] must be an object with text, target",
    ),
    "other_names": (
        {
            "signature_name": "serve_with_options",
            "instances": [{"text": "a"}, {"text": "b", "prefixes": "c"}],
        },
        r"instances\[1\] must have the same keys as instances\[0\]",
    ),
    "option_of_a_row": (
        {"signature_name": "serve_with_options", "instances": [{"text": "a", "max_length": 5}]},
        r"instances\[0\].max_length has no rows; send it with inputs",
    ),
    "columns": ({"inputs": "a"}, "inputs.text must be a non-empty list, got a string"),
    "no_columns": ({"inputs": {"text": []}}, "inputs.text must be a non-empty list, got an empty"),
    "column_names": (
        {"signature_name": "score", "inputs": ["a"]},
        "inputs must be an object with text, target",
    ),
    "lengths": (
        {"signature_name": "score", "inputs": {"text": ["a"], "target": ["a", "b"]}},
        r"inputs must have the same number of rows, got \[1, 2\]",
    ),
    "shape": (
        {"signature_name": "pixels", "instances": [[[1], [2], [3]]]},
        r"instances\[0\].image must have the shape \(2, '\?'\), got \(3, 1\)",
    ),
    "ragged": (
        {"signature_name": "pixels", "instances": [[[1], [2, 3]]]},
        r"instances\[0\].image must be a list of lists of equal lengths",
    ),
    "ragged_texts": (
        {"signature_name": "words", "instances": [[["a"], ["b", "c"]]]},
        r"instances\[0\].words must be a list of lists of equal lengths",
    ),
    "text_for_number": (
        {"signature_name": "pixels", "instances": [[["1"], [2]]]},
        r"instances\[0\].image must be a finite number, got a string",
    ),
}
BAD_OPTIONS = {
    "float": ({"max_length": 1.5}, "max_length must be an integer in the range of int32, got 1.5"),
    "large": ({"max_length": 2**31}, "max_length must be an integer .*, got 2147483648"),
    "boolean": ({"max_length": True}, "max_length must be an integer .*, got True"),
    "list": ({"max_length": [1]}, r"max_length must have the shape \(\), got \(1,\)"),
    "large_float": ({"temperature": 1e39}, "temperature must be a finite number, got 1e.39"),
    "digits": ({"temperature": 10**400}, "temperature must be a finite number"),
    "integer": ({"sample": 1}, "sample must be true or false, got 1"),
    "null": ({"sample": None}, "sample must be true or false, got null"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_requests(name: str) -> None:
    content, message = BAD[name]
    with pytest.raises(ValueError, match=message) as error:
        parse(content)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", BAD_OPTIONS)
def test_bad_options(name: str) -> None:
    options, message = BAD_OPTIONS[name]
    with pytest.raises(ValueError, match=f"^inputs.{message}"):
        parse({"signature_name": "serve_with_options", "inputs": {"text": ["a"], **options}})


@pytest.mark.parametrize("part", [b"[],", b"{},", b"1,"])
def test_many_values_are_rejected_before_they_are_parsed(part: bytes) -> None:
    body = b'{"instances": [' + part * 1_100_000 + b"1]}"
    with pytest.raises(ValueError, match="the body must have at most"):
        parse_request(body, SIGNATURES)
