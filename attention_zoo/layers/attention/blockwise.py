"""Blockwise attention over long sequences, if the weights are not returned."""

from __future__ import annotations

from typing import Any

from keras import backend, ops

from attention_zoo import ops as zoo_ops
from attention_zoo.layers.attention.attention_shapes import repeat_batch
from attention_zoo.layers.attention.steps import SCALES, AttentionMasks, AttentionResult, Memory
from attention_zoo.typing import Tensor


def attend_blockwise(
    attention: Any, query: Tensor, memory: Memory, masks: AttentionMasks, training: bool
) -> AttentionResult:
    """Compute the contexts of T queries block by block, without storing the weights.

    Returns:
        Contexts `(B, [H], T, V)` in the compute dtype and the row mask `(B, [H], T, 1)`, without
        weights.
    """
    tensors: tuple[Any, ...] = (query, memory.keys, memory.values)
    query, keys, values = tensors if attention.heads else (x[:, None] for x in tensors)
    query, keys, values = repeat_batch(query, keys, values, like=(query, keys, values))
    num_queries, num_sources = ops.shape(query)[2], ops.shape(keys)[2]

    def add_axes(x: Tensor | None) -> Tensor | None:
        """Return a mask or bias as `(B or 1, H or 1, T, S)`."""
        if x is None:
            return None
        x = x if attention.heads else x[:, None]
        batch = 1 if x.shape[0] == 1 else ops.shape(query)[0]
        return ops.broadcast_to(x, (batch, x.shape[1], num_queries, num_sources))

    dropout = attention.dropout if training else 0.0
    context, log_sum_exp = zoo_ops.blockwise_attention(
        query,
        keys,
        values,
        scale=SCALES[type(attention.score)](query.shape[-1]),
        mask=masks.memory,
        attention_mask=add_axes(masks.attention),
        pattern=masks.pattern,
        distance_bias=_position_bias(attention, query, num_queries, num_sources),
        attention_bias=add_axes(masks.bias),
        dropout=dropout,
        seed=attention.seed_generator.next() if dropout else None,
    )
    row_mask = ops.not_equal(log_sum_exp, float("-inf"))[..., None]
    if masks.query is not None:
        row_mask = ops.logical_and(row_mask, masks.query[:, None, :, None])
    context = ops.where(row_mask, context, ops.zeros((), context.dtype))
    context = ops.cast(context, attention.compute_dtype)
    if not attention.heads:
        context, row_mask = context[:, 0], row_mask[:, 0]
    return AttentionResult(context, row_mask)


def _position_bias(
    attention: Any, query: Tensor, num_queries: Tensor, num_sources: Tensor
) -> Tensor | None:
    """Return the relative position bias `(H, T + S + 1)` of the distances -T .. S, or None."""
    positions = getattr(attention, "positions", None)
    if positions is None or not positions.has_bias:
        return None
    dtype = backend.standardize_dtype(zoo_ops.at_least_float32(query[:0]).dtype)
    distances = ops.arange(num_queries + num_sources + 1, dtype="int32") - num_queries
    return positions.distance_bias(distances, query.shape[1], dtype)
