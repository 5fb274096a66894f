"""Blockwise attention over long sequences, if the weights are not returned."""

from __future__ import annotations

import math
from typing import Any

from keras import backend, ops

from attention_zoo import ops as zoo_ops
from attention_zoo.layers.alignments import SoftmaxAlignment
from attention_zoo.layers.attention.steps import AttentionMasks, Memory
from attention_zoo.layers.scores import DotScore, ScaledDotScore
from attention_zoo.typing import Tensor

LONG = 2**22
"""Number of scores per head (2048 queries times 2048 sources) from which attention is blockwise.
Below it, blocks would save little memory and no time."""
SCALES = {DotScore: lambda width: 1.0, ScaledDotScore: lambda width: 1 / math.sqrt(width)}
"""Scale of each inner-product score. Exact classes only: a subclass may compute something else."""


def use_blockwise(attention: Any, steps: Tensor, sources: Tensor) -> bool:
    """Return whether attention of `steps` queries over `sources` sources is blockwise.

    Dynamic lengths count as short, except with a window: without blocks its cost is O(T S).
    """
    known = isinstance(steps, int) and isinstance(sources, int)
    many = steps * sources >= LONG if known else attention.reach.window is not None
    return many and _can(attention)


def _can(attention: Any) -> bool:
    """Return whether weights are a softmax of inner products plus at most a bias by distance."""
    # Overrides in other packages may compute something else.
    house = (
        getattr(type(attention), name).__module__ for name in ("compute_scores", "weighted_sum")
    )
    if not all(module.startswith("attention_zoo.layers.") for module in house):
        return False
    if type(attention.score) not in SCALES or type(attention.alignment) is not SoftmaxAlignment:
        return False
    positions = getattr(attention, "positions", None)
    return positions is None or (
        not positions.has_offset and (not positions.has_bias or positions.has_distance_bias)
    )


def attend_blockwise(
    attention: Any, query: Tensor, memory: Memory, allowed: AttentionMasks, training: bool
) -> tuple[Tensor, Tensor]:
    """Compute the contexts of T queries block by block, without returning the weights.

    Returns:
        Contexts `(B, [H], T, V)` in float32 at least, and booleans `(B, [H], T, 1)`, False for
        fully masked rows.
    """
    given: tuple[Any, ...] = (query, memory.keys, memory.values)
    query, keys, values = given if attention.heads else (x[:, None] for x in given)
    query, keys, values = _of_one_batch(query, keys, values)
    steps, sources = ops.shape(query)[2], ops.shape(keys)[2]
    pairs = allowed.pairs
    if pairs is not None:
        pairs = ops.broadcast_to(pairs, (ops.shape(pairs)[0], steps, sources))
    dropout = attention.dropout if training else 0.0
    context, total = zoo_ops.blockwise_attention(
        query,
        keys,
        values,
        scale=SCALES[type(attention.score)](query.shape[-1]),
        mask=allowed.memory,
        attention_mask=pairs,
        reach=allowed.reach,
        bias=_bias(attention, query, steps, sources),
        dropout=dropout,
        seed=attention.seed_generator.next() if dropout else None,
    )
    row_mask = ops.not_equal(total, float("-inf"))[..., None]
    if allowed.query is not None:
        row_mask = ops.logical_and(row_mask, allowed.query[:, None, :, None])
    context = ops.where(row_mask, context, ops.zeros((), context.dtype))
    return (context, row_mask) if attention.heads else (context[:, 0], row_mask[:, 0])


def _of_one_batch(query: Tensor, *memory: Tensor) -> tuple[Tensor, ...]:
    """Repeat a batch of 1 to the batch size of the other tensors."""
    rows, others = query.shape[0], memory[0].shape[0]
    if rows == others or 1 not in (rows, others):
        return query, *memory
    if rows == 1:
        return ops.repeat(query, ops.shape(memory[0])[0], axis=0), *memory
    return query, *(ops.repeat(x, ops.shape(query)[0], axis=0) for x in memory)


def _bias(attention: Any, query: Tensor, steps: Tensor, sources: Tensor) -> Tensor | None:
    """Return the relative position bias `(H, T + S + 1)` of the distances -T .. S, or None."""
    positions = getattr(attention, "positions", None)
    if positions is None or not positions.has_bias:
        return None
    dtype = backend.standardize_dtype(zoo_ops.at_least_float32(query[:0]).dtype)
    every = ops.arange(steps + sources + 1, dtype="int32") - steps
    return positions.distance_bias(every, query.shape[1], dtype)
