"""Hardmax, top-k mask, sparsemax and entmax: weights of which most are exactly 0.

Sparsemax and entmax are one formula with one unknown, the greatest weight of a row:

    weight_j = greatest (1 + a below_j / greatest^a)_+^(1/a),  a = alpha - 1,
    below_j = score_j - max_i score_i

The unknown is chosen so that a row sums to one; the two differ in how it is computed. (The papers'
threshold, for scores with maximum 0, is `tau = -greatest^a`. Solving for the greatest weight
instead of tau loses no precision in long rows of small weights, nor for alpha close to 1, where the
formula becomes softmax.)
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from keras import backend, ops

from attention_zoo.ops.masking import at_least_float32, mask_scores, propagate_nan
from attention_zoo.typing import Tensor

BISECTIONS = 30


def hardmax(scores: Tensor, mask: Tensor | None = None) -> Tensor:
    """Return 1 at the greatest unmasked score (the first one on a tie), else 0; no gradient.

    Args:
        scores: `(..., S)`.
        mask: boolean, broadcasts against `scores`, or None.
    """
    scores = at_least_float32(scores)
    masked_scores, mask = _mask_scores(scores, mask)
    first = ops.argmax(_pad(masked_scores, 1), axis=-1)
    best = ops.one_hot(first, ops.shape(scores)[-1], dtype=scores.dtype)
    return ops.where(mask, propagate_nan(best, masked_scores), 0)


def top_k_mask(scores: Tensor, mask: Tensor | None, count: int) -> Tensor:
    """Return booleans `(..., S)`, True at the `count` greatest unmasked scores.

    On ties the first ones are kept. Rows with fewer unmasked positions keep all of them. NaN is
    always kept.

    Args:
        scores: `(..., S)`.
        mask: boolean, broadcasts against `scores`, or None.
        count: at least 1.
    """
    scores, mask = _mask_scores(ops.stop_gradient(at_least_float32(scores)), mask)
    threshold = ops.top_k(_pad(scores, count), count)[0][..., -1:]
    above = ops.logical_and(mask, scores > threshold)
    tied = ops.logical_and(mask, ops.equal(scores, threshold))
    num_tied = count - ops.sum(ops.cast(above, "int32"), axis=-1, keepdims=True)
    first = ops.cumsum(ops.cast(tied, "int32"), axis=-1) <= num_tied
    kept = ops.logical_or(above, ops.logical_and(tied, first))
    return ops.logical_or(kept, ops.isnan(scores))


def sparsemax(scores: Tensor, mask: Tensor | None = None) -> Tensor:
    """Compute sparsemax over the unmasked entries of the last axis, in at least float32.

    It is the Euclidean projection of a row onto the probability simplex, computed exactly.

    Args:
        scores: `(..., S)`.
        mask: boolean, broadcasts against `scores`, or None.
    """
    return entmax(scores, mask, 2.0)


def entmax(scores: Tensor, mask: Tensor | None = None, alpha: Tensor = 1.5) -> Tensor:
    """Compute alpha-entmax over the unmasked entries of the last axis, in at least float32.

    Masked positions have weight exactly 0, whatever their scores. A fully masked row, or one of
    length 0, is all zeros and passes no gradient. As in softmax, a row is NaN if an unmasked score
    is NaN or inf, or all are -inf. The first derivatives by the scores and by alpha
    are exact.

    Args:
        scores: `(..., S)`.
        mask: boolean, broadcasts against `scores`, or None.
        alpha: above 1 and at most 2; 1.5 and 2 as Python numbers are solved by sorting, other
            numbers and tensors by bisection.
    """
    scores = at_least_float32(scores)
    if scores.shape[-1] == 0:
        return scores
    a = ops.cast(alpha - 1, scores.dtype)
    maximum = _unmasked_max(scores, mask)
    below = _subtract_max(scores, mask, maximum, -2 / a)
    by_sorting = isinstance(alpha, (int, float)) and float(alpha) in _BY_SORTING
    solve = _BY_SORTING[float(alpha)] if by_sorting else _by_bisection
    greatest = ops.stop_gradient(solve(ops.stop_gradient(below), ops.stop_gradient(a)))
    weights, _ = _deformed_exp(below, _newton_step(below, greatest, a), a)
    # As in softmax, a row with a score of inf, or only -inf, is NaN: inf - inf is NaN.
    weights = propagate_nan(weights, scores - maximum, mask)
    return weights if mask is None else ops.where(mask, weights, 0)


def _mask_scores(scores: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
    """Return the scores with `mask_scores`, and the mask, both `(..., S)`."""
    full_mask = ops.ones_like(scores, dtype="bool")
    if mask is None:
        return scores, full_mask
    full_mask = ops.logical_and(mask, full_mask)
    return mask_scores(scores, full_mask), full_mask


def _pad(scores: Tensor, count: int) -> Tensor:
    """Append `count` entries of -inf to each row, so that no row is too short."""
    widths = [[0, 0]] * (len(scores.shape) - 1) + [[0, count]]
    return ops.pad(scores, widths, constant_values=float("-inf"))


def _unmasked_max(scores: Tensor, mask: Tensor | None) -> Tensor:
    """Return the maximum of each row's unmasked scores, -inf if there are none; no gradient."""
    scores = scores if mask is None else ops.where(mask, scores, float("-inf"))
    return ops.stop_gradient(ops.max(scores, axis=-1, keepdims=True, initial=float("-inf")))


def _subtract_max(scores: Tensor, mask: Tensor | None, maximum: Tensor, floor: Tensor) -> Tensor:
    """Compute `score_j - max_i score_i`, clipped to a floor below which all weights are 0.

    Masked scores become the floor. Clipping bounds all later values, without changing the weights.
    """
    lowest = ops.cast(np.finfo(backend.standardize_dtype(scores.dtype)).min, scores.dtype)
    floor = ops.stop_gradient(floor)
    scores = scores if mask is None else ops.where(mask, scores, lowest)
    below = ops.maximum(scores - ops.maximum(maximum, lowest), floor)
    return below if mask is None else ops.where(mask, below, floor)


def _deformed_exp(below: Tensor, greatest: Tensor, a: Tensor) -> tuple[Tensor, Tensor]:
    """Return the weights, and their derivatives by `log(greatest)`.

    Outside of the support `step` is set to 0, so that no infinite slope is multiplied by 0.
    """
    step = a * below / greatest**a
    inside = step > -1
    step = ops.where(inside, step, 0)
    weights = ops.where(inside, greatest * ops.exp(ops.log1p(step) / a), 0)
    return weights, weights / (1 + step)


def _newton_step(below: Tensor, greatest: Tensor, a: Tensor) -> Tensor:
    """Apply one Newton step to the greatest weight, which makes it differentiable.

    `greatest` is already accurate. It and the slope are constants for the gradient. What remains to
    be differentiated, the row's excess over 1 divided by the slope, gives the derivative of the
    implicit function.
    """
    weights, gains = _deformed_exp(below, greatest, a)
    slope = ops.stop_gradient(ops.sum(gains, axis=-1, keepdims=True))
    slope = ops.where(slope > 0, slope, 1)
    return greatest * (1 - (ops.sum(weights, axis=-1, keepdims=True) - 1) / slope)


def _sparsemax_by_sorting(below: Tensor, a: Tensor) -> Tensor:
    """Return the greatest weight of sparsemax.

    The support is the k greatest entries, k maximal with `1 + k z_(k) > sum_{j<=k} z_(j)`.
    """
    ordered, count = _sort_descending(below)
    total = ops.cumsum(ordered, axis=-1)
    total, size = _last_of_support(total, 1 + count * ordered > total, count)
    return (1 - total) / size


def _entmax_15_by_sorting(below: Tensor, a: Tensor) -> Tensor:
    """Return the greatest weight of 1.5-entmax.

    With x = z / 2, the support is the k greatest entries, k maximal with `tau_k <= x_(k)`, where
    `tau_k = mean_k - sqrt((1 - k variance_k) / k)` over the k greatest.
    """
    ordered, count = _sort_descending(below / 2)
    mean = ops.cumsum(ordered, axis=-1) / count
    spread = ops.cumsum(ordered * ordered, axis=-1) - count * mean * mean
    tau = mean - ops.sqrt(ops.maximum(1 - spread, 0) / count)
    return ops.square(_last_of_support(tau, tau <= ordered, count)[0])


_BY_SORTING: dict[float, Callable[[Tensor, Tensor], Tensor]] = {
    1.5: _entmax_15_by_sorting,
    2.0: _sparsemax_by_sorting,
}


def _by_bisection(below: Tensor, a: Tensor) -> Tensor:
    """Return the greatest weight, by bisection of its logarithm.

    It is between -log S (S equal weights) and 0 (a single weight).
    """
    width = ops.log(ops.cast(ops.maximum(ops.shape(below)[-1], 1), below.dtype))
    low = ops.zeros_like(below[..., :1]) - width

    def halve(step: Tensor, low: Tensor) -> Tensor:
        middle = low + width * 0.5 ** (ops.cast(step, below.dtype) + 1)
        total = ops.sum(_deformed_exp(below, ops.exp(middle), a)[0], axis=-1, keepdims=True)
        return ops.where(total <= 1, middle, low)

    return ops.exp(ops.fori_loop(0, BISECTIONS, halve, low))


def _sort_descending(x: Tensor) -> tuple[Tensor, Tensor]:
    """Return `x` in descending order, and the numbers 1 .. S in its dtype."""
    count = ops.arange(1, ops.shape(x)[-1] + 1, dtype="int32")
    return -ops.sort(-x, axis=-1), ops.cast(count, x.dtype)


def _last_of_support(x: Tensor, support: Tensor, count: Tensor) -> tuple[Tensor, Tensor]:
    """Return the entry of `x` at the last position of the support, and the support's size."""
    size = ops.maximum(ops.sum(ops.cast(support, count.dtype), axis=-1, keepdims=True), 1)
    last = ops.where(ops.equal(count, size), x, 0)
    return ops.sum(last, axis=-1, keepdims=True), size
