"""Monotonic alignment (Raffel et al.)."""

from __future__ import annotations

import math
from typing import Any

import keras
from keras import ops

from attention_zoo.layers.alignments.base import ALIGNMENTS, Alignment
from attention_zoo.ops import (
    at_least_float32,
    finite_number,
    linear_recurrence,
    number,
    propagate_nan,
    shift,
)
from attention_zoo.ops.random import sample_normal
from attention_zoo.registry import check_choice
from attention_zoo.typing import State, Tensor

FORMS = ("parallel", "recursive")
READER_ARGUMENTS = ("score_bias_init", "sigmoid_noise", "form", "hard_at_inference")
"""Arguments of the scan that mocha and the attention layers have too."""


@ALIGNMENTS.register("monotonic")
@keras.saving.register_keras_serializable("attention_zoo")
class MonotonicAlignment(Alignment):
    """Monotonic alignment: each step scans forward from the stop position of the previous step.

    In training, expected weights: `p_j = sigmoid(score_j + r + noise_j)`,
    `q_j = (1 - p_{j-1}) q_{j-1} + previous_j`, `weights_j = p_j q_j`; at inference all weight is on
    the first position j with `score_j + r > 0`, starting at the previous position

    q_j is the probability that the scan reaches position j. The weights sum to one or less, because
    the scan may stop nowhere. If it stops nowhere at inference, the weights of that step are 0, and
    the next step starts where the last successful step stopped.

    Use it for streaming: tokens are generated before the source is complete.

    Args:
        score_bias_init: initial value of r; a negative value makes the first scans longer.
        sigmoid_noise: standard deviation of the noise in training, which drives the scores away
            from 0, so that training and inference agree.
        form: how q is computed: "parallel", in log2(S) steps if S is static, or "recursive",
            position by position; the results are the same.
        hard_at_inference: False uses the expected weights at inference too.
        seed: seed of the noise, an integer or None.

    Call arguments:
        scores: `(..., S)`.
        mask: boolean, broadcasts against `scores`, or None; the scan skips masked positions.
        state: `(previous,)`, the previous weights `(..., S)`; initially 1 at position 0.
        noise: `(..., S)`, from `sample_noise`.
        training: whether to compute the expected weights.

    Returns:
        Weights `(..., S)`, at least float32, and the next state.

    Weights:
        score_bias: r, `()`.

    Masking:
        Masked positions have weight exactly 0. A fully masked row is all 0 and leaves the state
        unchanged.

    Cost:
        O(S log S) per row in the parallel form, O(S) in the recursive one and for hard weights.

    Example:
        >>> import numpy as np
        >>> from attention_zoo.layers import MonotonicAlignment
        >>> align, scores = MonotonicAlignment(), np.array([[-1.0, 0.5, 2.0]], "float32")
        >>> align.build(scores.shape)
        >>> [float(w) for w in align(scores, state=align.initial_state(scores))[0][0]]
        [0.0, 1.0, 0.0]
        >>> weights, _ = align(0 * scores, state=align.initial_state(scores), training=True)
        >>> [float(w) for w in weights[0]]
        [0.5, 0.25, 0.125]

    Reference:
        Raffel et al. 2017, arXiv 1704.00784, equations 11 to 14 (expectation) and algorithm
        1 (inference): alpha_ij are the weights, e_ij + r the scores, p_ij is p, q_ij is q, t_i the
        position where step i stopped. The paper's closed form divides by products that vanish in
        long memories; both forms here compute the recurrence itself, without a division.
        TensorFlow Addons' hard mode differs after a step that stopped nowhere: there the weights of
        all later steps are 0, while algorithm 1 sets only the context of that step to 0.
    """

    def __init__(
        self,
        score_bias_init: float = 0.0,
        sigmoid_noise: float = 0.0,
        form: str = "parallel",
        hard_at_inference: bool = True,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.score_bias_init = finite_number("score_bias_init", score_bias_init)
        if not 0 <= number(sigmoid_noise) < math.inf:
            raise ValueError(f"sigmoid_noise must be at least 0 and finite, got {sigmoid_noise!r}")
        check_choice("form", form, FORMS)
        self.sigmoid_noise, self.form = sigmoid_noise, form
        self.hard_at_inference, self.seed = hard_at_inference, seed
        self.seed_generator = keras.random.SeedGenerator(seed)

    def build(self, scores_shape: tuple[Any, ...]) -> None:
        start = keras.initializers.Constant(self.score_bias_init)
        self.score_bias = self.add_weight(shape=(), initializer=start, name="score_bias")

    def initial_state(self, like: Tensor) -> State:
        first = ops.cast(ops.arange(ops.shape(like)[-1]) == 0, at_least_float32(like).dtype)
        return (ops.broadcast_to(first, ops.shape(like)),)

    def sample_noise(self, shape: tuple[Any, ...], dtype: str) -> Tensor | None:
        if not self.sigmoid_noise:
            return None
        noise = sample_normal(self.seed_generator.next(), shape)
        return ops.cast(self.sigmoid_noise * noise, dtype)

    def call(
        self,
        scores: Tensor,
        mask: Tensor | None = None,
        state: State = (),
        training: bool = False,
        noise: Tensor | None = None,
    ) -> tuple[Tensor, State]:
        scores = at_least_float32(scores)
        previous = ops.cast(state[0], scores.dtype)
        scores = scores + ops.cast(self.score_bias, scores.dtype)
        if noise is not None:
            scores = scores + ops.cast(noise, scores.dtype)
        if self.hard_at_inference and not training:
            return _first_stop(scores, mask, previous)
        weights = self._expected_stop(scores, mask, previous)
        if mask is None:
            return weights, (weights,)
        return weights, (ops.where(ops.any(mask, axis=-1, keepdims=True), weights, previous),)

    def _expected_stop(self, scores: Tensor, mask: Tensor | None, previous: Tensor) -> Tensor:
        """Compute `p_j q_j`; `1 - p` is computed as `sigmoid(-score)`, exact where p is near 1."""
        if mask is not None:
            scores = ops.where(mask, scores, ops.zeros((), scores.dtype))
        stop, move_on = ops.sigmoid(scores), ops.sigmoid(-scores)
        if mask is not None:
            stop = ops.where(mask, stop, ops.zeros((), stop.dtype))
            move_on = ops.where(mask, move_on, ops.ones((), stop.dtype))
        decay = shift(move_on)  # entry 0 is ignored
        return stop * linear_recurrence(decay, previous, self.form == "parallel")


def _first_stop(scores: Tensor, mask: Tensor | None, previous: Tensor) -> tuple[Tensor, State]:
    """Put all weight on the first score above 0, from the previous position on; else no weight."""
    stops = ops.logical_and(scores > 0, ops.cumsum(previous, axis=-1) > 0.5)
    if mask is not None:
        stops = ops.logical_and(mask, stops)
    first = ops.logical_and(stops, ops.cumsum(ops.cast(stops, "int32"), axis=-1) == 1)
    weights = propagate_nan(ops.cast(first, scores.dtype), scores + previous, mask)
    if mask is not None:
        weights = ops.where(mask, weights, ops.zeros((), weights.dtype))
    return weights, (ops.where(ops.any(stops, axis=-1, keepdims=True), weights, previous),)
