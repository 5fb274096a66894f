"""Pointer-generator distributions: generate from a vocabulary or copy from the source."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import keras
from keras import ops

from attention_zoo.ops.masking import at_least_float32, zero_masked
from attention_zoo.ops.projected_cross_entropy import Projection, log_sum, projected_cross_entropy
from attention_zoo.typing import Tensor

UNKNOWN = 1
MIN_PROBABILITY = 1e-30
"""Probability of impossible tokens: finite in log space, negligible in sums."""
MAX_GATE = 1e4
"""Bound of the gate's logit; beyond it p_gen is 0 or 1."""
LOG_ZERO = -1e9
"""Log probability of a component (generate or copy) that cannot produce the token."""


class CopyProjection(NamedTuple):
    """Lazily computed log probabilities `(B, T, V + C)`: the arguments of `copied_log_probs`.

    projection: yields the logits `(B, T, V)`. gate: `(B, T)`. weights: `(B, T, S)`. source:
    `(B, S)`, ids below V + C.
    """

    projection: Projection
    gate: Tensor
    weights: Tensor
    source: Tensor

    def log_probs(self, copies: int = 0) -> Tensor:
        """Compute the log probabilities; `copies` is C."""
        logits = self.projection.logits()
        return copied_log_probs(logits, self.gate, self.weights, self.source, copies)


def copied_log_probs(
    logits: Tensor, gate: Tensor, weights: Tensor, source: Tensor, copies: int = 0
) -> Tensor:
    """Compute `log P(w)`, `P(w) = p_gen softmax(logits)_w + (1 - p_gen) sum_{i: w_i = w} a_i`.

    `p_gen = sigmoid(gate)`, but 1 where all weights are 0. Tokens that can be neither generated nor
    copied have probability 1e-30, so that the result is finite. It is in at least float32.

    Args:
        logits: `(B, ..., V)`.
        gate: `(B, ...)`.
        weights: a, `(B, ..., S)`, 0 at masked positions.
        source: w, `(B, S)` integers below V + C; others count as the unknown token, 1.
        copies: C, number of ids beyond the vocabulary.

    Returns:
        `(B, ..., V + C)`.
    """
    logits = at_least_float32(logits)
    size = logits.shape[-1] + copies
    log_generate, log_copy = _compute_log_gates(gate, weights)
    generated = ops.log_softmax(logits, axis=-1)
    if copies:
        padding = ((0, 0),) * (len(logits.shape) - 1) + ((0, copies),)
        generated = ops.pad(generated, padding, constant_values=math.log(MIN_PROBABILITY))
    copied = _sum_by_token(_cast_to_float32(weights), source, size)
    copied = ops.log(ops.maximum(copied, MIN_PROBABILITY))
    log_generate, log_copy, copied = (
        ops.cast(x, generated.dtype) for x in (log_generate[..., None], log_copy[..., None], copied)
    )
    return log_sum(log_generate + generated, log_copy + copied)


def copied_share(
    logits: Tensor, gate: Tensor, weights: Tensor, source: Tensor, tokens: Tensor
) -> Tensor:
    """Compute the probability that each token was copied, `(B, T)`, in at least float32.

    `(1 - p_gen) sum_{i: w_i = w} a_i / P(w)`

    Args:
        logits: `(B, T, V)`. gate: `(B, T)`. weights: `(B, T, S)`. source: `(B, S)`. See
            `copied_log_probs`.
        tokens: w, `(B, T)` integers.
    """
    tokens = ops.cast(tokens, "int32")
    in_vocabulary = tokens < logits.shape[-1]
    index = ops.where(in_vocabulary, tokens, 0)[..., None]
    generated = ops.log_softmax(at_least_float32(logits), axis=-1)
    generated = ops.take_along_axis(generated, index, axis=-1)[..., 0]
    log_generate, log_copy = _compute_log_gates(gate, weights)
    log_generate = log_generate + ops.where(in_vocabulary, generated, math.log(MIN_PROBABILITY))
    log_copy = log_copy + ops.cast(_compute_log_mass(weights, source, tokens), log_copy.dtype)
    return ops.exp(log_copy - log_sum(log_generate, log_copy))


def copied_cross_entropy(
    copy_projection: CopyProjection, labels: Tensor, rows: int | None = None
) -> Tensor:
    """Compute `sum_bt -log P(y_bt)`, a float32 scalar, without the distribution over all tokens.

    Only the label's probability is computed, and never all logits at once: see
    `projected_cross_entropy`, called here with a mixture of generating and copying the label.

    Args:
        copy_projection: arguments of P, see `copied_log_probs`.
        labels: y, `(B, T)` integers, also ids beyond the vocabulary. Positions with label 0 are
            ignored, whatever their other values. A negative label makes the loss NaN.
        rows: tokens per chunk; if None, about as many as fit the CPU caches.
    """
    labels = ops.cast(labels, "int32")
    is_labelled = ops.not_equal(labels, 0)
    projection, gate, weights, source = copy_projection
    gate, weights = ops.where(is_labelled, gate, 0), zero_masked(weights, is_labelled)
    log_generate, log_copy = _compute_log_gates(gate, weights)
    log_copy = log_copy + ops.cast(_compute_log_mass(weights, source, labels), log_copy.dtype)
    in_vocabulary = labels < projection.kernel.shape[1]
    unknown = log_sum(log_generate + math.log(MIN_PROBABILITY), log_copy)
    log_copy = ops.where(in_vocabulary, log_copy, unknown)
    log_generate = ops.where(in_vocabulary, log_generate, LOG_ZERO)
    labels = ops.where(in_vocabulary, labels, 0)
    labels, is_labelled, log_generate, log_copy = (
        ops.reshape(x, (-1,)) for x in (labels, is_labelled, log_generate, log_copy)
    )
    mixture = ops.cast(log_generate, "float32"), ops.cast(log_copy, "float32")
    hidden = ops.reshape(projection.hidden, (-1, projection.hidden.shape[-1]))
    projection = projection._replace(hidden=hidden)
    return projected_cross_entropy(projection, labels, is_labelled, rows=rows, mixture=mixture)


def _compute_log_gates(gate: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """Return `log p_gen` and `log (1 - p_gen)`; p_gen is 1 where all weights are 0, NaN for NaN."""
    gate = ops.clip(at_least_float32(gate), -MAX_GATE, MAX_GATE)
    gate = ops.where(ops.any(weights != 0, axis=-1), gate, ops.cast(MAX_GATE, gate.dtype))
    gate = ops.where(ops.any(ops.isnan(weights), axis=-1), float("nan"), gate)
    return ops.log_sigmoid(gate), ops.log_sigmoid(-gate)


def _compute_log_mass(weights: Tensor, source: Tensor, tokens: Tensor) -> Tensor:
    """Compute `log sum_{i: w_i = w} a_i`, `(B, T)`, for the token ids w in `tokens`, `(B, T)`."""
    is_match = ops.equal(ops.cast(source, "int32")[:, None, :], tokens[..., None])
    weights = _cast_to_float32(weights)
    mass = ops.sum(ops.where(is_match, weights, 0), axis=-1)
    return ops.log(ops.maximum(mass, MIN_PROBABILITY))


def _sum_by_token(weights: Tensor, source: Tensor, size: int) -> Tensor:
    """Sum the weights `(B, ..., S)` of each token id, `(B, ..., size)`."""
    shape = ops.shape(weights)
    rows = math.prod(shape[:-1])
    tokens = ops.cast(source, "int32")
    tokens = ops.where(ops.logical_and(tokens >= 0, tokens < size), tokens, UNKNOWN)
    tokens = ops.reshape(tokens, (shape[0], *(1,) * (len(shape) - 2), shape[-1]))
    tokens = ops.reshape(ops.broadcast_to(tokens, shape), (rows, shape[-1]))
    index = tokens + size * ops.arange(rows, dtype="int32")[:, None]
    flat = ops.reshape(weights, (rows * shape[-1],)), ops.reshape(index, (rows * shape[-1],))
    sums = ops.segment_sum(*flat, rows * size)
    return ops.reshape(sums, (*shape[:-1], size))


def _cast_to_float32(weights: Tensor) -> Tensor:
    """Cast the weights to at least float32.

    For float16 weights, the gradient (of the order of 1 / weight) is clipped to float16's range.
    """
    if keras.backend.standardize_dtype(weights.dtype) != "float16":
        return at_least_float32(weights)

    def run(weights: Tensor) -> tuple[Tensor, Any]:
        def gradient(*args: Tensor, upstream: Tensor | None = None) -> Tensor:
            upstream = args[0] if upstream is None else upstream
            return ops.cast(ops.clip(upstream, -6e4, 6e4), "float16")

        return ops.cast(weights, "float32"), gradient

    cast_weights: Tensor = ops.custom_gradient(run)(weights)
    return cast_weights
