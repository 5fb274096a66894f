"""Requests in the JSON of TensorFlow Serving's REST API, as rows of tensors.

A request has `instances`, a list with one entry for each row, or `inputs`, the columns of all rows.
Binary values are `{"b64": "..."}`. See https://www.tensorflow.org/tfx/serving/api_rest.
"""

from __future__ import annotations

import base64
import functools
import json
from collections.abc import Collection, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

DEFAULT_SIGNATURE = "serving_default"
MAX_DEPTH = 32
_MAX_SIGNS = ((b"[", "lists", 100_000), (b"{", "objects", 100_000), (b",", "commas", 1 << 20))

IMAGE = "image"
"""Name of the inputs that are encoded images."""

_FIELDS = ("signature_name", "instances", "inputs")


class TensorSpec(NamedTuple):
    """An input of a signature.

    Attributes:
        dtype: NumPy dtype; `object` for strings.
        shape: sizes of the axes, None for unknown ones. The first axis of row inputs is that of the
            rows; inputs without axes are options, which hold for all rows.
        is_optional: whether the input has a default.
    """

    dtype: np.dtype[Any]
    shape: tuple[int | None, ...]
    is_optional: bool = False


class PredictRequest(NamedTuple):
    """A request.

    Attributes:
        signature: name of the signature.
        rows: the values of each row by input.
        options: the values of the inputs without axes.
        is_by_row: whether the request has `instances`.
        is_joint: whether `rows` has one entry with whole columns, which are computed together.
    """

    signature: str
    rows: list[dict[str, Any]]
    options: dict[str, Any]
    is_by_row: bool
    is_joint: bool = False


def parse_request(
    body: bytes,
    signatures: Mapping[str, Mapping[str, TensorSpec]],
    max_rows: int = 32,
    joint_signatures: Collection[str] = (),
) -> PredictRequest:
    """Parse the body of a predict request.

    Args:
        body: JSON in UTF-8.
        signatures: the inputs of each signature by name.
        max_rows: maximum number of rows.
        joint_signatures: signatures whose inputs may have different numbers of rows. They require
            `inputs`.

    Raises:
        ValueError: the body is not JSON, has more rows, is nested more than 32 levels deep, has a
            repeated or unknown key, or a value does not fit its input. The message names the field.
    """
    content = _parse_json(body)
    if not isinstance(content, dict):
        raise ValueError(f"the body must be a JSON object, got {_name_type(content)}")
    unknown = sorted(content.keys() - {*_FIELDS})
    if unknown:
        raise ValueError(f"unknown field {_shorten(unknown[0])!r}; known: {', '.join(_FIELDS)}")
    if ("instances" in content) == ("inputs" in content):
        raise ValueError("the body must have either instances or inputs")
    signature = content.get("signature_name", DEFAULT_SIGNATURE)
    if not isinstance(signature, str) or signature not in signatures:
        known = ", ".join(sorted(signatures))
        shown = _shorten(str(signature))
        raise ValueError(f"signature_name: unknown signature {shown!r}; known: {known}")
    specs = signatures[signature]
    is_joint = signature in joint_signatures
    if is_joint and "instances" in content:
        raise ValueError(f"signature_name: {signature!r} does not accept instances; send inputs")
    if "instances" in content:
        rows = [*_parse_instances(content["instances"], specs, max_rows)]
        return PredictRequest(signature, rows, {}, True)
    columns, options = _parse_columns(content["inputs"], specs, max_rows)
    if is_joint:
        arrays = {name: _stack(name, column) for name, column in columns.items()}
        return PredictRequest(signature, [arrays], options, False, True)
    counts = {len(column) for column in columns.values()}
    if len(counts) != 1:
        raise ValueError(f"inputs must have the same number of rows, got {sorted(counts)}")
    rows = [
        dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)
    ]
    return PredictRequest(signature, rows, options, False)


def _stack(name: str, column: list[NDArray[Any]]) -> NDArray[Any]:
    """Return the rows of a column as one array."""
    if len({row.shape for row in column}) > 1:
        raise ValueError(f"inputs.{name} must have rows of equal shapes")
    return np.stack(column)


def _parse_json(body: bytes) -> Any:
    """Parse JSON without repeated keys, NaN and infinity.

    Their number is limited before, because Python's parser delays all other threads.
    """
    for sign, noun, limit in _MAX_SIGNS:
        if body.count(sign) > limit:
            raise ValueError(f"the body must have at most {limit:,} {noun}")
    try:
        content = json.loads(
            body.decode(), object_pairs_hook=_make_object, parse_constant=_reject_constant
        )
    except UnicodeDecodeError:
        raise ValueError("the body must be UTF-8") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"the body is not JSON: {error}") from None
    except ValueError as error:  # a number of too many digits, or an error of the functions above
        digits = "set_int_max_str_digits" in str(error)
        raise ValueError("numbers have too many digits" if digits else str(error)) from None
    except RecursionError:
        raise ValueError(f"the body must be nested at most {MAX_DEPTH} levels deep") from None
    if _is_deep(content, MAX_DEPTH):
        raise ValueError(f"the body must be nested at most {MAX_DEPTH} levels deep")
    return content


def _make_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content: dict[str, Any] = {}
    for name, value in pairs:
        if name in content:
            raise ValueError(f"repeated key {_shorten(name)!r}")
        content[name] = value
    return content


def _reject_constant(name: str) -> None:
    raise ValueError(f"numbers must be finite, got {name}")


def _is_deep(value: Any, depth: int) -> bool:
    """Return whether a value is nested more than `depth` levels deep."""
    if not isinstance(value, (dict, list)):
        return False
    children = value.values() if isinstance(value, dict) else value
    return depth == 0 or any(_is_deep(child, depth - 1) for child in children)


def _parse_instances(
    instances: Any, specs: Mapping[str, TensorSpec], max_rows: int
) -> Iterator[dict[str, Any]]:
    """Yield the values of each row of `instances`."""
    if not isinstance(instances, list) or not instances:
        raise ValueError(f"instances must be a non-empty list, got {_name_type(instances)}")
    _check_rows("instances", instances, max_rows)
    row_specs = {name: spec for name, spec in specs.items() if spec.shape}
    for name, spec in specs.items():
        if not spec.shape and not spec.is_optional:
            raise ValueError(f"{name} has one value for all rows; send inputs instead of instances")
    required = [name for name, spec in row_specs.items() if not spec.is_optional]
    names = None
    for number, instance in enumerate(instances):
        field = f"instances[{number}]"
        if not isinstance(instance, dict) or (len(required) == 1 and _is_binary(instance)):
            if len(required) != 1:
                raise ValueError(f"{field} must be an object with {', '.join(required)}")
            instance = {required[0]: instance}
        options = sorted(name for name in instance if name in specs and name not in row_specs)
        if options:
            raise ValueError(f"{field}.{options[0]} has no rows; send it with inputs")
        _check_names(field, instance, row_specs)
        if names is not None and instance.keys() != names:
            raise ValueError(f"{field} must have the same keys as instances[0]")
        names = instance.keys()
        yield {
            name: _convert(
                f"{field}.{name}", value, row_specs[name].dtype, row_specs[name].shape[1:]
            )
            for name, value in instance.items()
        }


def _parse_columns(
    inputs: Any, specs: Mapping[str, TensorSpec], max_rows: int
) -> tuple[dict[str, list[Any]], dict[str, Any]]:
    """Return the values of each column of `inputs` by name, and its options."""
    required = [name for name, spec in specs.items() if not spec.is_optional]
    if not isinstance(inputs, dict) or (len(required) == 1 and _is_binary(inputs)):
        if len(required) != 1:
            raise ValueError(f"inputs must be an object with {', '.join(required)}")
        inputs = {required[0]: inputs}
    _check_names("inputs", inputs, specs)
    columns: dict[str, list[Any]] = {}
    options: dict[str, Any] = {}
    for name, value in inputs.items():
        field, spec = f"inputs.{name}", specs[name]
        if not spec.shape:
            options[name] = _convert(field, value, spec.dtype, ())
            continue
        if not isinstance(value, list) or not value:
            raise ValueError(f"{field} must be a non-empty list, got {_name_type(value)}")
        _check_rows(field, value, max_rows)
        columns[name] = [
            _convert(f"{field}[{row}]", entry, spec.dtype, spec.shape[1:])
            for row, entry in enumerate(value)
        ]
    return columns, options


def _check_rows(field: str, rows: list[Any], max_rows: int) -> None:
    if len(rows) > max_rows:
        raise ValueError(f"{field} must have at most {max_rows} rows, got {len(rows)}")


def _check_names(field: str, given: Mapping[str, Any], specs: Mapping[str, TensorSpec]) -> None:
    unknown = sorted(given.keys() - specs.keys())
    if unknown:
        name = _shorten(unknown[0])
        raise ValueError(f"{field}: unknown input {name!r}; known: {', '.join(specs)}")
    for name, spec in specs.items():
        if name not in given and not spec.is_optional:
            raise ValueError(f"{field}.{name} is missing")


def _convert(
    field: str, value: Any, dtype: np.dtype[Any], shape: tuple[int | None, ...]
) -> NDArray[Any]:
    """Return a value as an array; ValueError if it does not fit the dtype or the shape."""
    if dtype.kind == "O":
        converted = _map_nested(value, lambda entry: _convert_text(field, entry))
    else:
        converted = _map_nested(value, lambda entry: _check_number(field, entry, dtype))
    try:
        array = np.array(converted, dtype)
        is_ragged = any(isinstance(entry, list) for entry in array.flat)
    except ValueError:
        is_ragged = True
    if is_ragged:
        raise ValueError(f"{field} must be a list of lists of equal lengths")
    fits = array.ndim == len(shape) and all(
        expected in (None, size) for expected, size in zip(shape, array.shape, strict=True)
    )
    if not fits:
        expected = tuple("?" if size is None else size for size in shape)
        raise ValueError(f"{field} must have the shape {expected}, got {array.shape}")
    return array


def _map_nested(value: Any, function: Any) -> Any:
    if isinstance(value, list):
        return [_map_nested(entry, function) for entry in value]
    return function(value)


def _is_binary(value: Any) -> bool:
    return isinstance(value, dict) and value.keys() == {"b64"}


def _convert_text(field: str, value: Any) -> bytes:
    """Return the bytes of a string, or of a base64 object."""
    if isinstance(value, str):
        try:
            return value.encode()
        except UnicodeEncodeError:
            raise ValueError(f"{field} must be valid Unicode, got a lone surrogate") from None
    if _is_binary(value) and isinstance(value["b64"], str):
        try:
            return base64.b64decode(value["b64"], validate=True)
        except ValueError:
            raise ValueError(f"{field}.b64 must be base64") from None
    raise ValueError(f'{field} must be a string or {{"b64": ...}}, got {_name_type(value)}')


def _check_number(field: str, value: Any, dtype: np.dtype[Any]) -> Any:
    """Return a number or boolean; ValueError if it is not of the dtype or out of its range."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if dtype.kind == "b":
        valid, kind = isinstance(value, bool), "true or false"
    elif dtype.kind in "iu":
        low, high = _get_range(dtype)
        valid = is_number and isinstance(value, int) and low <= value <= high
        kind = "an integer in the range of " + dtype.name
    else:
        valid, kind = is_number and abs(value) <= _get_range(dtype)[1], "a finite number"
    if not valid:
        shown = _shorten(repr(value)) if isinstance(value, (int, float)) else _name_type(value)
        raise ValueError(f"{field} must be {kind}, got {shown}")
    return value


@functools.cache
def _get_range(dtype: np.dtype[Any]) -> tuple[Any, Any]:
    """Return the smallest and the largest finite number of a dtype."""
    if dtype.kind in "iu":
        return int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
    largest = float(np.finfo(dtype).max)
    return -largest, largest


def _shorten(text: str) -> str:
    return text if len(text) <= 50 else f"{text[:50]}…"


def _name_type(value: Any) -> str:
    """Return the JSON type of a value, with an article."""
    names: dict[type, str] = {
        dict: "an object",
        list: "a list",
        str: "a string",
        bool: "a boolean",
        int: "a number",
        float: "a number",
        type(None): "null",
    }
    return "an empty list" if value == [] else names[type(value)]
