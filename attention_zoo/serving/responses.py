"""Responses in the JSON of TensorFlow Serving's REST API.

A response has `predictions` or `outputs`, in the format of the request's `instances` or `inputs`.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attention_zoo.extras import explain_missing_package
from attention_zoo.serving.rest import PredictRequest

with explain_missing_package():
    import orjson


def count_bytes(array: NDArray[Any]) -> int:
    """Return about how many bytes an output has in a response."""
    if array.dtype.kind != "O":
        return array.nbytes
    return sum(map(len, array.flat))


def find_row_error(
    outputs: Sequence[Mapping[str, NDArray[Any]]], request: PredictRequest
) -> str | None:
    """Return the error of the first row if no row is valid, or None.

    The signatures of tasks have the outputs `ok` and `error`. A request that has a valid row gets
    the results of all rows.

    Args:
        outputs: the outputs of each row by name, without the axis of the rows.
        request: the request.
    """
    if not outputs or not {"ok", "error"} <= outputs[0].keys():
        return None
    if any(np.any(row["ok"]) for row in outputs):
        return None
    names = [name for name in request.rows[0] if name != "prefixes"]
    field = "instances[0]" if request.is_by_row else "inputs"
    if len(names) == 1:
        field += f".{names[0]}" if request.is_by_row else f".{names[0]}[0]"
    message = np.ravel(outputs[0]["error"])[:1].tolist()
    return f"{field}: {message[0].decode(errors='replace')}" if message else None


def format_response(
    outputs: Sequence[Mapping[str, NDArray[Any]]], is_by_row: bool, is_joint: bool = False
) -> bytes:
    """Return the body of a response: JSON in UTF-8.

    Numbers that are not finite are null, which JSON requires. Strings are decoded as UTF-8; those
    of outputs whose name ends with `_bytes` are base64.

    Args:
        outputs: the outputs of each row by name, without the axis of the rows.
        is_by_row: whether the request had `instances`.
        is_joint: whether `outputs` has one entry with the outputs of all rows.
    """
    rows = [
        {name: _to_json(value, name.endswith("_bytes")) for name, value in row.items()}
        for row in outputs
    ]
    if is_joint:
        (columns,) = rows
        values: Any = columns if len(columns) > 1 else next(iter(columns.values()))
    elif rows and len(rows[0]) == 1:  # a single output has no name
        values = [value for row in rows for value in row.values()]
    elif is_by_row:
        values = rows
    else:
        values = {name: [row[name] for row in rows] for name in (rows[0] if rows else ())}
    field = "predictions" if is_by_row else "outputs"
    return orjson.dumps({field: values}, option=orjson.OPT_SERIALIZE_NUMPY)


def _to_json(value: NDArray[Any], is_binary: bool) -> Any:
    """Return an array of numbers for `orjson`, or nested lists of strings."""
    value = np.asarray(value)
    if value.dtype.kind not in "OSU":
        if value.dtype.kind == "V":  # bfloat16
            value = value.astype("float32")
        return np.ascontiguousarray(value) if value.ndim else value[()]

    def convert(entry: Any) -> Any:
        if isinstance(entry, list):
            return [convert(one) for one in entry]
        if is_binary:
            return {"b64": base64.b64encode(entry).decode()}
        return entry.decode(errors="replace")

    return convert(value.tolist())
