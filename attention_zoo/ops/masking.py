"""Masks (boolean, `True` = may be attended, combined by AND), projections, shapes and softmax."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from keras import KerasTensor, backend, ops

# Keras stores masks in a tensor attribute, or in a table for tensors without attributes (JAX). It
# exports no accessor.
from keras.src.backend import get_keras_mask, set_keras_mask

from attention_zoo.ops.arguments import is_symbolic, static_size
from attention_zoo.ops.compact_gradients import where_or_zero, with_softmax_gradient
from attention_zoo.typing import Tensor

MIN_PAIR_ENTRIES = 2**22
"""Number of entries of all pairs from which they are not stored (16 MB in float32)."""


def as_boolean_mask(mask: Tensor, name: str, shape: tuple[int | None, ...]) -> Tensor:
    """Return a mask as booleans, after checking dtype and shape.

    Args:
        mask: booleans, or integers, where zero means masked.
        name: the argument's name, for the message.
        shape: expected shape, None for any size; an axis of size 1 in the mask broadcasts.

    Raises:
        ValueError: a float mask (additive masks are not supported), a wrong rank or size.
    """
    mask = ops.convert_to_tensor(mask)
    refuse_float_mask(name, mask)
    pairs = zip(mask.shape, shape, strict=False)
    sizes_fit = all(want is None or got in (None, 1, want) for got, want in pairs)
    if len(mask.shape) != len(shape) or not sizes_fit:
        hint = " (add the batch axis: `mask[None]`)" if len(mask.shape) + 1 == len(shape) else ""
        raise ValueError(f"{name} has shape {tuple(mask.shape)}, but {shape} is expected{hint}")
    return mask if backend.standardize_dtype(mask.dtype) == "bool" else ops.not_equal(mask, 0)


def as_attention_mask(
    mask: Tensor, shape: tuple[int | None, int | None, int | None], heads: int | None = None
) -> Tensor:
    """Return an attention mask as booleans with all axes, after checking dtype and shape.

    Args:
        mask: `(T, S)`, `(B|1, T, S)` or `(B|1, H|1, T, S)`, booleans or integers.
        shape: B, T and S, None where dynamic.
        heads: H, or None for attention without heads, where the axis of the heads has size 1.

    Returns:
        `(B|1, T, S)`, or `(B|1, H|1, T, S)` with heads.

    Raises:
        ValueError: a float mask, a wrong rank or size.
    """
    mask = ops.convert_to_tensor(mask)
    refuse_float_mask("attention_mask", mask)
    if backend.standardize_dtype(mask.dtype) != "bool":
        mask = ops.not_equal(mask, 0)
    return _add_attention_axes("attention_mask", mask, shape, heads)


def as_attention_bias(
    bias: Tensor, shape: tuple[int | None, int | None, int | None], heads: int | None = None
) -> Tensor:
    """Return an attention bias with all axes, after checking dtype and shape.

    Args:
        bias: floats of one of the shapes of `as_attention_mask`.
        shape, heads: see `as_attention_mask`.

    Raises:
        ValueError: a bias that is not floating-point, a wrong rank or size.
    """
    bias = ops.convert_to_tensor(bias)
    dtype = backend.standardize_dtype(bias.dtype)
    if "float" not in dtype:
        raise ValueError(
            f"attention_bias has dtype {dtype}, but it is added to the scores and must be "
            "floating-point; pass a boolean mask as attention_mask"
        )
    return _add_attention_axes("attention_bias", bias, shape, heads)


def _add_attention_axes(
    name: str, x: Tensor, shape: tuple[int | None, int | None, int | None], heads: int | None
) -> Tensor:
    """Check the shape and add the axes that are missing."""
    expected = (shape[0], heads or 1, *shape[1:])
    rank = len(x.shape)
    full = {2: (1, 1, *x.shape), 3: (x.shape[0], 1, *x.shape[1:]), 4: x.shape}.get(rank)
    if full is None or not all(
        want is None or got in (None, 1, want) for got, want in zip(full, expected, strict=True)
    ):
        batch, num_heads, steps, sources = expected
        raise ValueError(
            f"{name} has shape {tuple(x.shape)}, but (T, S), (B, T, S) or (B, H, T, S) "
            f"is expected with B={batch}, H={num_heads}, T={steps}, S={sources}; axes of size 1 "
            "broadcast"
        )
    if rank == 2:
        x = x[None]
    if heads:
        return x if rank == 4 else x[:, None]
    return x[:, 0] if rank == 4 else x


def refuse_float_mask(name: str, mask: Tensor) -> None:
    """Raise ValueError for a float mask, which could be a 0/1 mask or an additive one."""
    dtype = backend.standardize_dtype(mask.dtype)
    if "float" in dtype:
        hint = " or attention_bias" if name == "attention_mask" else ""
        raise ValueError(
            f"{name} has dtype {dtype}, but masks are boolean, True where attention is allowed; "
            f"for a mask of 0 and 1 pass `{name} > 0`, for an additive one `{name} >= 0`{hint}"
        )


def combine_masks(*masks: Tensor | None) -> Tensor | None:
    """Combine the masks that are not None by AND; None if there are none."""
    combined = None
    for mask in masks:
        if mask is not None:
            combined = mask if combined is None else ops.logical_and(combined, mask)
    return combined


def implicit_mask(x: Tensor) -> Tensor | None:
    """Return the Keras mask of a tensor, if any; the tensor is not changed."""
    return None if x is None else get_keras_mask(x)


def merge_masks(name: str, explicit: Tensor | None, x: Tensor | None) -> Tensor | None:
    """Combine the explicit mask of `x` `(..., D)` and its Keras mask by AND, to a mask `(...)`.

    Args:
        name: name of the explicit mask, for messages.
        explicit: mask, broadcast to the shape `(...)` here; or None.
        x: a tensor that may carry a Keras mask, or None.

    Raises:
        ValueError: as in `as_boolean_mask`; an explicit mask if `x` is None.
    """
    if x is None:
        if explicit is not None:
            raise ValueError(
                f"{name} was given, but the tensor that it masks was not; pass both or neither"
            )
        return None
    implicit = get_keras_mask(x)
    if explicit is None or explicit is implicit:
        return implicit
    explicit = as_boolean_mask(explicit, name, tuple(x.shape[:-1]))
    return combine_masks(broadcast_mask(explicit, x), implicit)


def repeat_to_mask_batch(x: Tensor, *masks: Tensor | None) -> Tensor:
    """Repeat a tensor with batch size 1 to the batch size of its masks `(B, ...)`, if larger."""
    if x is None or x.shape[0] != 1:
        return x
    masks_given = [ops.convert_to_tensor(mask) for mask in masks if mask is not None]
    larger_masks = [mask for mask in masks_given if len(mask.shape) > 1 and mask.shape[0] != 1]
    if not larger_masks:
        return x
    return repeat_row(x, ops.shape(larger_masks[0])[0])


def repeat_row(x: Tensor, batch_size: Any) -> Tensor:
    """Return a tensor with batch size 1, and its Keras mask, repeated to a batch size."""
    mask = get_keras_mask(x)
    if mask is not None:
        mask = ops.broadcast_to(mask, (batch_size, *ops.shape(mask)[1:]))
    return attach_mask(ops.broadcast_to(x, (batch_size, *ops.shape(x)[1:])), mask)


def match_batches(tensors: Sequence[Tensor], masks: Sequence[Tensor | None]) -> list[Tensor]:
    """Return query, value and key, repeated from batch size 1 to the batch size of their masks.

    Args:
        tensors: query, value and key, which may be None.
        masks: query mask, value mask, key mask, attention mask and attention bias. The query
            is also repeated to the batch size of the last two, if their rank is above 2.
    """
    query, value, key = tensors
    query_mask, value_mask, key_mask, *pairs = masks
    pairs = [x for x in pairs if x is not None and np.ndim(x) > 2]
    query = repeat_to_mask_batch(query, query_mask, *pairs)
    return [query, *(repeat_to_mask_batch(x, value_mask, key_mask) for x in (value, key))]


def broadcast_mask(mask: Tensor, x: Tensor) -> Tensor:
    """Broadcast a mask to the positions of `x` `(..., D)`, to the shape `(...)`."""
    if 1 not in mask.shape or tuple(mask.shape) == tuple(x.shape[:-1]):
        return mask
    return ops.logical_and(mask, ops.ones_like(x[..., 0], dtype="bool"))


def attach_mask(x: Tensor, mask: Tensor | None) -> Tensor:
    """Attach `mask` to `x` for the next layer, and return `x`."""
    if mask is not None:
        set_keras_mask(x, mask)
    return x


def causal_mask(length: int | Tensor, source_length: int | Tensor) -> Tensor:
    """Return the causal mask, `(1, T, S)` booleans: position t attends to the sources 0 .. t."""
    rows = ops.arange(length, dtype="int32")[None, :, None]
    return ops.arange(source_length, dtype="int32")[None, None, :] <= rows


def to_front(mask: Tensor) -> Tensor:
    """Return indices that gather unmasked positions at the front, `(B, T)` int32.

    Args:
        mask: `(B, T)`, True at unmasked positions. Both masked and unmasked ones keep their order.
    """
    return to_end(ops.logical_not(mask))


def to_end(mask: Tensor) -> Tensor:
    """Return indices that gather unmasked positions at the end; see `to_front`."""
    length = ops.shape(mask)[1]
    positions = ops.arange(length, dtype="int32")
    order = ops.argsort(ops.where(mask, positions + length, positions), axis=1)
    return ops.cast(order, "int32")


def unmask_empty_rows(mask: Tensor) -> Tensor:
    """Unmask the first position of fully masked rows of a mask `(B, T)`, as cuDNN needs one."""
    first = ops.arange(ops.shape(mask)[1], dtype="int32") == 0
    is_empty = ops.logical_not(ops.any(mask, axis=1, keepdims=True))
    return ops.logical_or(mask, ops.logical_and(first, is_empty))


def zero_masked(x: Tensor, mask: Tensor | None) -> Tensor:
    """Set the masked positions of `x` to 0, whatever their values (NaN and Inf too).

    Args:
        x: `(..., L, D)`.
        mask: `(..., L)` booleans, or None for no change.
    """
    return x if mask is None else where_or_zero(ops.expand_dims(mask, -1), x)


def propagate_nan(x: Tensor, scores: Tensor, mask: Tensor | None = None) -> Tensor:
    """Fill each row of `x` that has an unmasked NaN score with NaN, which comparisons would hide.

    Args:
        x: `(..., S)`.
        scores: `(..., S)`.
        mask: boolean, broadcasts against `scores`, or None.
    """
    is_nan = ops.isnan(scores) if mask is None else ops.logical_and(mask, ops.isnan(scores))
    return ops.where(ops.any(is_nan, axis=-1, keepdims=True), float("nan"), x)


def at_least_float32(x: Tensor) -> Tensor:
    """Cast `x` to float32, unless it is float64."""
    dtype = backend.standardize_dtype(x.dtype)
    return x if dtype in ("float32", "float64") else ops.cast(x, "float32")


def project(x: Tensor, kernel: Tensor) -> Tensor:
    """Project the last axis of `x`, `(..., D)` to `(..., U)`, with a kernel `(D, U)`.

    The kernel is cast to the dtype of `x`. Leading axes are flattened, because `keras.ops.matmul`
    calls `tf.tensordot`, whose gradient XLA cannot compile in a loop with dynamic shapes.
    """
    kernel = ops.cast(kernel, x.dtype)
    if len(x.shape) <= 2:
        return ops.matmul(x, kernel)
    flat = ops.matmul(ops.reshape(x, (-1, x.shape[-1])), kernel)
    return reshape_like(flat, x, len(x.shape) - 1, ops.shape(kernel)[-1])


def axis_size(x: Tensor, axis: int) -> Any:
    """Return the size of an axis: an integer, or a scalar tensor (symbolic on JAX) if dynamic.

    Unlike `ops.shape(x)[axis]`, it adds no graph operations for the other dynamic axes.
    """
    if x.shape[axis] is not None:
        return x.shape[axis]
    if not _is_tensorflow(x):
        return ops.shape(x)[axis]
    import tensorflow as tf

    return tf.shape(x)[axis]


def reshape_like(x: Tensor, like: Tensor, count: int, *sizes: Any) -> Tensor:
    """Reshape `x` to `(..., *sizes)`, where `...` are the first axes of `like`.

    On TensorFlow, dynamic sizes are read as one tensor, which takes fewer graph operations.

    Args:
        x: a tensor with as many entries as the result.
        like: a tensor with the sizes of the first axes.
        count: number of these axes.
        sizes: sizes of the last axes.
    """
    lead = tuple(like.shape[:count])
    if None not in lead or not _is_tensorflow(like):
        return ops.reshape(x, (*ops.shape(like)[:count], *sizes))
    import tensorflow as tf

    x = tf.reshape(x, tf.concat([tf.shape(like)[:count], sizes], axis=0))
    x.set_shape((*lead, *map(static_size, sizes)))
    return x


def _is_tensorflow(x: Tensor) -> bool:
    return backend.backend() == "tensorflow" and not isinstance(x, KerasTensor)


def has_few_pairs(query: Tensor, keys: Tensor) -> bool:
    """Return whether vectors of all pairs of positions, `(..., T, S, A)`, are known to be few.

    They are then stored for the gradient, otherwise recomputed (`ops/pairwise.py`). A single query
    is one step of a loop, whose number of steps is assumed to be S.

    Args:
        query: `(..., T, A)`.
        keys: `(..., S, A)`.
    """
    sizes = (*query.shape[:-1], *keys.shape)
    if {*map(type, sizes)} != {int}:
        return any(map(is_symbolic, sizes))
    num_sources, width = keys.shape[-2:]
    num_steps = query.shape[-2] if query.shape[-2] != 1 else num_sources
    rows = math.prod(np.broadcast_shapes(query.shape[:-2], keys.shape[:-2]))
    return rows * num_steps * num_sources * width < MIN_PAIR_ENTRIES


def mask_scores(scores: Tensor, mask: Tensor, axis: int = -1) -> Tensor:
    """Set masked scores to -inf, and fully masked rows to 0.

    Converters to ONNX turn `where` into products. 0 * -inf is NaN, so -inf is added instead.

    Args:
        scores: a float tensor.
        mask: boolean, broadcasts against `scores`.
        axis: the axis of a row.
    """
    is_kept = ops.logical_or(mask, ops.logical_not(ops.any(mask, axis=axis, keepdims=True)))
    return ops.where(mask, scores, 0) + ops.log(ops.cast(is_kept, scores.dtype))


def masked_softmax(scores: Tensor, mask: Tensor | None = None) -> Tensor:
    """Compute the softmax over the unmasked entries of the last axis, in at least float32.

    Masked positions have weight exactly 0, whatever their scores. A fully masked row, or one of
    length 0, is all zeros and passes no gradient.

    Args:
        scores: `(..., S)`.
        mask: boolean, broadcasts against `scores`, or None.
    """
    scores = at_least_float32(scores)
    if mask is not None:
        return with_softmax_gradient(_masked_softmax, scores, mask)
    # `ops.softmax` warns about an axis of size 1, which is valid here.
    return ops.ones_like(scores) if scores.shape[-1] == 1 else ops.softmax(scores, axis=-1)


def _masked_softmax(scores: Tensor, mask: Tensor) -> Tensor:
    return ops.where(mask, masked_softmax(mask_scores(scores, mask)), 0)
