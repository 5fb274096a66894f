"""Build alignments, and check that custom ones return weight 0 at masked positions."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
from keras import ops

from attention_zoo.layers.alignments import Alignment
from attention_zoo.layers.alignments.base import unpack_result
from attention_zoo.layers.attention.steps import AttentionMasks, Memory
from attention_zoo.layers.base import is_custom_layer
from attention_zoo.layers.scores import Score
from attention_zoo.ops import Window
from attention_zoo.typing import Shape, Tensor

MASKED_SCORES = np.array([0, 3, -3, 0], "float32")
"""Scores of the masked positions in each row of the check; the last row is fully masked."""


def build_alignment(
    alignment: Alignment, score: Score, query_shape: Shape, key_shape: Shape, value_width: int
) -> None:
    """Build an alignment for shapes `(B, [H], T, Dq)` and `(B, [H], S, Dk)`; check a custom one.

    The check calls the alignment, which also builds the sublayers of a class without `build`.

    Raises:
        ValueError: a custom alignment whose result is not a pair of weights `(..., S)` and state,
            or whose weights are not 0 at masked positions.
    """
    if not alignment.built:
        alignment.build_projections(query_shape, key_shape)
        alignment.build((*query_shape[:-1], key_shape[-2]))
    if not is_custom_layer(alignment):
        return
    align = partial(_align_masked_rows, alignment, score, query_shape, key_shape, value_width)
    align()  # creates variables, so it runs in the scopes of the caller
    with ThreadPoolExecutor(1) as pool:  # another thread is eager, even if this one traces a graph
        weights, mask = map(ops.convert_to_numpy, pool.submit(align).result())
    name = f"{type(alignment).__name__}.call"
    if weights.shape != mask.shape:
        raise ValueError(
            f"{name} must return weights with the shape of the scores, {mask.shape}, got "
            f"{weights.shape}; normalize over the last axis without reducing it"
        )
    masked_weights = weights[~mask]
    if masked_weights.any():
        value = masked_weights[masked_weights != 0][0]
        raise ValueError(
            f"{name} must return weight 0 at masked positions and in fully masked rows, got "
            f"{value:.3g}; use `mask`, for example in ops.masked_softmax"
        )


def _align_masked_rows(
    alignment: Alignment, score: Score, query_shape: Shape, key_shape: Shape, value_width: int
) -> tuple[Tensor, Tensor]:
    """Return weights and mask of rows with masked positions, `(1, [H], 4, S or W)`."""
    heads, sources = query_shape[1:-2], key_shape[-2] or 4
    rows = (1, *heads, len(MASKED_SCORES))
    attention_mask = np.zeros((*rows, sources), "bool")
    attention_mask[..., :-1, 1::2] = True
    like = ops.zeros((*rows, sources))
    state = alignment.initial_state(like)
    masks, options = AttentionMasks(attention=ops.convert_to_tensor(attention_mask)), {}
    mask = masks.attention
    if alignment.has_precompute:
        query = ops.zeros((*rows, query_shape[-1]), alignment.compute_dtype)
        keys = ops.zeros((1, *heads, sources, key_shape[-1]), alignment.compute_dtype)
        values = ops.zeros((1, *heads, sources, value_width), alignment.compute_dtype)
        extra = alignment.prepare(keys)
        memory = Memory(values, score.project(keys), ops.ones((1, sources), "bool"), extra)
        options["aux"] = alignment.precompute(query, memory, state)
        if isinstance(options["aux"], Window):
            mask = masks.window_mask(options["aux"], sources)
    scores = ops.where(mask, 0.0, MASKED_SCORES[:, None])
    weights, _ = unpack_result(alignment, alignment(scores, mask=mask, state=state, **options))
    return weights, mask
