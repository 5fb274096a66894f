"""Shape checks of attention inputs, when a layer is built and for calls with other shapes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from keras import ops

from attention_zoo.layers.scores.base import built_widths
from attention_zoo.ops import check_shape
from attention_zoo.typing import Shape, Tensor


def check_shapes(query: Shape, value: Shape, key: Shape) -> tuple[Shape, Shape, Shape]:
    """Return the shapes; raise ValueError unless query, value and key fit together."""
    for name, shape in (("query", query), ("value", value), ("key", key)):
        check_shape(name, shape, ("batch", "steps", "features"))
    _check_memory(value, key)
    _check_batches("query", query, "value", value)
    return tuple(query), tuple(value), tuple(key)


def check_built_shapes(layer: Any, query: Tensor | None, value: Tensor, key: Tensor | None) -> None:
    """Raise ValueError unless the tensors fit together and have the widths of the built layer."""
    query_width, value_width, key_width = built_widths(
        layer, None if query is None else query.shape[-1]
    )
    name, keys = ("value", value) if key is None else ("key", key)
    if query is not None:
        check_shape("query", query.shape, ("batch", "steps", query_width or "features"))
    check_shape(name, keys.shape, ("batch", "steps", key_width or "features"))
    if query is not None:
        _check_batches("query", query.shape, name, keys.shape)
    if key is not None:
        value_width = value_width if layer.heads else None  # projected by multi-head layers only
        check_shape("value", value.shape, ("batch", "steps", value_width or "features"))
        _check_memory(value.shape, key.shape)


def broadcast_batch(*sizes: int | None) -> int | None:
    """Return the batch size to which all static sizes broadcast: the one that is not 1, if any."""
    return next((size for size in sizes if size != 1), 1)


def repeat_batch(*tensors: Tensor | None, like: Sequence[Tensor]) -> tuple[Any, ...]:
    """Repeat tensors with a batch of 1 to the batch size of others; None stays None.

    Args:
        *tensors: `(B or 1, ...)` or None.
        like: tensors `(B or 1, ...)`.
    """
    others = [x for x in like if x.shape[0] != 1]
    if not others:
        return tensors
    size = ops.shape(others[0])[0]
    return tuple(
        x if x is None or x.shape[0] != 1 else ops.repeat(x, size, axis=0) for x in tensors
    )


def _check_memory(value: Shape, key: Shape) -> None:
    if None not in (value[1], key[1]) and value[1] != key[1]:
        raise ValueError(
            f"value and key must have the same number of steps, got {value[1]} and {key[1]}"
        )
    _check_batches("value", value, "key", key)


def _check_batches(name: str, shape: Shape, other_name: str, other: Shape) -> None:
    """Raise ValueError for known batch sizes that differ; a batch of 1 broadcasts."""
    if len({shape[0], other[0]} - {None, 1}) > 1:
        raise ValueError(
            f"{name} and {other_name} must have the same batch size, got {shape[0]} and {other[0]}"
        )
