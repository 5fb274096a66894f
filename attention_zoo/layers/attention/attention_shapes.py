"""Shape checks of attention inputs."""

from __future__ import annotations

from typing import Any

from attention_zoo.layers.scores.base import built_widths
from attention_zoo.ops import check_shape
from attention_zoo.typing import Shape, Tensor


def check_shapes(query: Shape, value: Shape, key: Shape) -> None:
    """Raise ValueError unless the shapes of query, value and key fit together."""
    for name, shape in (("query", query), ("value", value), ("key", key)):
        check_shape(name, shape, ("batch", "steps", "features"))
    _check_pairs(value, key)
    _check_batches("query", query, "value", value)


def check_call(layer: Any, query: Tensor, value: Tensor, key: Tensor | None) -> None:
    """Raise ValueError unless query and keys fit together and fit the built layer."""
    width, _, key_width = built_widths(layer, query.shape[-1])
    check_shape("query", query.shape, ("batch", "steps", width or "features"))
    name, keys = ("value", value) if key is None else ("key", key)
    check_shape(name, keys.shape, ("batch", "steps", key_width or "features"))
    _check_batches("query", query.shape, name, keys.shape)


def check_memory(layer: Any, value: Tensor, key: Tensor | None) -> None:
    """Raise ValueError unless value and key fit together and fit the built layer."""
    _, value_width, key_width = built_widths(layer, None)
    if key is None:
        check_shape("value", value.shape, ("batch", "steps", key_width or "features"))
        return
    value_width = value_width if layer.heads else None  # without heads, values are not projected
    check_shape("value", value.shape, ("batch", "steps", value_width or "features"))
    check_shape("key", key.shape, ("batch", "steps", key_width or "features"))
    _check_pairs(value.shape, key.shape)


def _check_pairs(value: Shape, key: Shape) -> None:
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
