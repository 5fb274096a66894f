"""Inputs of attention layers: lists as in Keras, shape checks, batches of 1; output specs."""

from __future__ import annotations

import inspect
import math
from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

# Keras has no public function that infers the output shapes of a function.
from keras.src.backend import compute_output_spec

from attention_zoo.layers.scores.base import built_widths
from attention_zoo.ops import (
    as_attention_bias,
    as_attention_mask,
    check_shape,
    combine_masks,
    match_batches,
    repeat_row,
    static_size,
    zero_masked,
)
from attention_zoo.typing import Shape, Tensor

NOT_SYMBOLIC = (
    "prepare and attend got a symbolic tensor (KerasTensor): a functional model would not track "
    "the layer's weights; call the layer itself, or call prepare and attend inside the call of a "
    "layer or model"
)


MASKS = ("query_mask", "value_mask", "key_mask", "attention_mask", "attention_bias")
"""Mask arguments of `Attention.call`, in the order of the masks of `match_batches`."""


def expand_list_arguments(
    query: Any, args: tuple[Any, ...], mask: Any, options: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments of `Attention.call` for lists of inputs and masks, as Keras takes them.

    Args:
        query: the query, or `[query, value]`, or `[query, value, key]`.
        args: the other positional arguments; after a list, the masks.
        mask: `[query_mask, value_mask]`, or also `key_mask`; None for none.
        options: the other keyword arguments.

    Raises:
        ValueError: a list of another length, an argument that is given twice.
    """
    inputs: tuple[Any, ...] = (query, *args)
    if isinstance(query, (list, tuple)):
        if args and mask is None:
            mask, *args = args  # type: ignore[assignment]
        inputs = unpack_input_list(query, *args, options.get("value"), options.get("key"))
    if mask is None:
        return inputs, options
    if not isinstance(mask, (list, tuple)) or len(mask) not in (2, 3):
        raise ValueError(
            "mask must be a list [query_mask, value_mask] or [query_mask, value_mask, key_mask], "
            f"got {type(mask).__name__}; or pass query_mask and value_mask"
        )
    names = ("query_mask", "value_mask", "key_mask")
    masks = {name: x for name, x in zip(names, mask, strict=False) if x is not None}
    repeated = [name for name in masks if options.get(name) is not None]
    if repeated:
        raise ValueError(f"mask contains {repeated[0]}, which was passed too; pass it only once")
    return inputs, {**options, **masks}


def unpack_input_list(inputs: Sequence[Any], *others: Any) -> tuple[Any, ...]:
    """Return a list of query and value, or of query, value and key, or of their shapes.

    Args:
        inputs: the list.
        *others: value and key passed in addition to the list; must be None.
    """
    if len(inputs) not in (2, 3):
        raise ValueError(
            "query must be a tensor, [query, value] or [query, value, key], got a list of "
            f"{len(inputs)}"
        )
    if any(x is not None for x in others):
        raise ValueError("value and key are in the list of inputs; pass them only once")
    return tuple(inputs)


def unpack_shapes(
    query: Any, value: Shape | None, key: Shape | None = None
) -> tuple[Shape, Shape, Shape]:
    """Return the shapes of query, value and key, given one by one or in a list of two or three."""
    if isinstance(query[0], (list, tuple)):
        query, value, key = (*unpack_input_list(query, value, key), None)[:3]
    if value is None:
        raise ValueError("the shape of value is missing; pass the shapes of query and value")
    return tuple(query), tuple(value), tuple(key or value)


def compute_output_specs(layer: Any, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """Return the symbolic outputs of an attention layer, for the arguments of its call."""
    arguments = inspect.signature(layer.call).bind(*inputs, **options).arguments
    query, value, key = arguments["query"], arguments["value"], arguments.get("key")
    masks = tuple(arguments.get(name) for name in MASKS)
    query, value, key = match_batches((query, value, key), masks)
    shape = layer.compute_output_shape(query.shape, value.shape, None if key is None else key.shape)
    outputs: list[Any] = [layer.make_symbolic_output(shape, arguments.get("query_mask"))]
    batch, steps = shape[:2]
    rows = (batch, layer.heads) if layer.heads else (batch,)
    sources = value.shape[1:-1]  # two axes if the memory is a grid
    if arguments.get("return_attention_scores"):
        outputs.append(layer.make_symbolic_output((*rows, steps, *sources)))
    if arguments.get("return_state"):
        num_sources = None if None in sources else math.prod(sources)
        like = keras.KerasTensor((*rows, num_sources), dtype="float32")
        outputs.append(compute_output_spec(layer._initial_state, like))
    return outputs[0] if len(outputs) == 1 else tuple(outputs)


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
    return tuple(x if x is None or x.shape[0] != 1 else repeat_row(x, size) for x in tensors)


def standardize_mask_and_bias(
    layer: Any, mask: Tensor | None, bias: Tensor | None, inputs: Sequence[Tensor]
) -> tuple[Tensor | None, Tensor | None]:
    """Return the attention mask and the attention bias with all axes.

    The mask is also False where the bias is -inf.

    Args:
        layer: the attention layer.
        mask, bias: as in `Attention`.
        inputs: query, value and key.
    """
    batch = broadcast_batch(*(x.shape[0] for x in inputs))
    shape = (batch, static_size(inputs[0].shape[1]), static_size(inputs[1].shape[1]))
    if mask is not None:
        mask = as_attention_mask(mask, shape, layer.heads)
    if bias is None:
        return mask, None
    if not layer.alignment.uses_scores:
        raise ValueError(
            f"{type(layer).__name__} computes no scores, so attention_bias has no effect; omit it"
        )
    bias = as_attention_bias(bias, shape, layer.heads)
    return combine_masks(mask, ops.not_equal(bias, float("-inf"))), bias


def zero_unattended(mask: Tensor, *tensors: Tensor | None) -> tuple[Tensor | None, ...]:
    """Return value and key with 0 at the positions that the attention mask masks for all queries.

    NaN at these positions then reaches no output. They are not merged into the memory mask, because
    local attention counts them in its windows.

    Args:
        mask: `(B|1, [H|1], T, S)` booleans.
        *tensors: `(B|1, S, D)` or None. With a batch of 1, the queries of all examples count.
    """
    attended = ops.any(mask, axis=tuple(range(1, len(mask.shape) - 1)))  # (B|1, S)
    shared = ops.any(attended, axis=0, keepdims=True)
    return tuple(
        None if x is None else zero_masked(x, shared if x.shape[0] == 1 else attended)
        for x in tensors
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
