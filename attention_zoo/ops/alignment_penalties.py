"""Attention regularizers: penalties on attention weights, registered by name.

Each penalty takes weights `(B, [H], T, S)` and returns one value per example (and head),
`(B, [H])`, in at least float32. Use it with the layer `AttentionRegularizer`, or with
`mean_penalty` in a custom loss. Masked queries, and steps whose weights are all 0 (nothing to
attend), are excluded.
"""

from __future__ import annotations

from collections.abc import Callable

from keras import ops

from attention_zoo.ops.masking import as_boolean_mask, at_least_float32
from attention_zoo.registry import Registry
from attention_zoo.typing import Tensor

Penalty = Callable[..., Tensor]
Mask = Tensor | None

PENALTIES = Registry("penalty")


@PENALTIES.register("doubly_stochastic")
def doubly_stochastic(weights: Tensor, query_mask: Mask = None, memory_mask: Mask = None) -> Tensor:
    """Compute `sum_s (1 - sum_t a_ts)^2`: each source's weights should sum to one over the steps.

    Pass the memory's mask; without it, a masked source counts as a source that was not attended.
    Xu et al. 2015, arXiv 1502.03044, equation 14 (alpha_ti is a_ts, L is S, C is T).
    """
    weights, is_valid = _mask_weights(weights, query_mask, memory_mask)
    squared_error = ops.square(1 - ops.sum(weights, axis=-2))
    if memory_mask is not None:
        mask = _check_memory_mask(memory_mask, weights)
        squared_error = ops.where(_expand_heads(mask, squared_error), squared_error, 0)
    has_valid_step = ops.cast(ops.any(is_valid, axis=-1), squared_error.dtype)
    return ops.sum(squared_error, axis=-1) * has_valid_step


@PENALTIES.register("coverage")
def coverage(weights: Tensor, query_mask: Mask = None, memory_mask: Mask = None) -> Tensor:
    """Compute the mean over t of `sum_s min(a_ts, c_ts)`, with `c_t = sum_{u < t} a_u`.

    It penalizes attending to the same source repeatedly. See et al. 2017, arXiv 1704.04368,
    equation 12, averaged over the steps as in its equation 7.
    """
    weights, is_valid = _mask_weights(weights, query_mask, memory_mask)
    coverage_so_far = ops.cumsum(weights, axis=-2) - weights
    return _mean_over_steps(ops.sum(ops.minimum(weights, coverage_so_far), axis=-1), is_valid)


@PENALTIES.register("diversity")
def diversity(weights: Tensor, query_mask: Mask = None, memory_mask: Mask = None) -> Tensor:
    """Compute `||A A^T - I||_F^2`: each step should attend to one position of its own.

    Lin et al. 2017, arXiv 1703.03130, equation 8, with a row and a column for each step.
    """
    weights, is_valid = _mask_weights(weights, query_mask, memory_mask)
    products = ops.matmul(weights, ops.swapaxes(weights, -1, -2))
    step = ops.arange(ops.shape(weights)[-2], dtype="int32")
    identity = ops.logical_and(step[:, None] == step, is_valid[..., None])
    squared_error = ops.square(products - ops.cast(identity, products.dtype))
    return ops.sum(squared_error, axis=(-1, -2))


@PENALTIES.register("entropy")
def entropy(weights: Tensor, query_mask: Mask = None, memory_mask: Mask = None) -> Tensor:
    """Compute the mean over t of `sum_s -a_ts log a_ts`.

    It favors sharp weights, or broad ones with a negative rate. The entropy H of Xu et al. 2015,
    arXiv 1502.03044, section 4.1, applied to the weights of any alignment.
    """
    weights, is_valid = _mask_weights(weights, query_mask, memory_mask)
    log = ops.log(ops.where(ops.equal(weights, 0), 1, weights))
    return _mean_over_steps(-ops.sum(weights * log, axis=-1), is_valid)


def mean_penalty(
    penalty: Penalty, weights: Tensor, query_mask: Mask = None, memory_mask: Mask = None
) -> Tensor:
    """Average a penalty over the examples (and heads) with at least one valid step; 0 if none."""
    values = penalty(weights, query_mask, memory_mask)
    _, is_valid = _mask_weights(weights, query_mask, memory_mask)
    count = ops.sum(ops.cast(ops.any(is_valid, axis=-1), values.dtype))
    return ops.sum(values) / ops.maximum(count, 1)


def _mask_weights(weights: Tensor, query_mask: Mask, memory_mask: Mask) -> tuple[Tensor, Tensor]:
    """Return the weights, 0 where masked, and which steps are valid, `(B, [H], T)`."""
    if len(weights.shape) not in (3, 4):
        raise ValueError(
            "weights must be (batch, queries, sources), or (batch, heads, queries, sources), "
            f"got shape {tuple(weights.shape)}"
        )
    weights = at_least_float32(ops.convert_to_tensor(weights))
    if query_mask is not None:
        shape = (weights.shape[0], weights.shape[-2])
        mask = as_boolean_mask(query_mask, "query_mask", shape)[..., None]
        weights = ops.where(_expand_heads(mask, weights), weights, 0)
    if memory_mask is not None:
        mask = _check_memory_mask(memory_mask, weights)[:, None]
        weights = ops.where(_expand_heads(mask, weights), weights, 0)
    return weights, ops.any(ops.not_equal(weights, 0), axis=-1)


def _check_memory_mask(mask: Tensor, weights: Tensor) -> Tensor:
    return as_boolean_mask(mask, "memory_mask", (weights.shape[0], weights.shape[-1]))


def _expand_heads(mask: Tensor, like: Tensor) -> Tensor:
    """Add an axis for the heads to the mask if `like` has one."""
    return mask if len(mask.shape) == len(like.shape) else mask[:, None]


def _mean_over_steps(values: Tensor, is_valid: Tensor) -> Tensor:
    """Average the values over the valid steps `(B, [H], T)`."""
    is_valid = ops.cast(is_valid, values.dtype)
    return ops.sum(values * is_valid, axis=-1) / ops.maximum(ops.sum(is_valid, axis=-1), 1)
