"""Look on from where the last look stopped."""

from __future__ import annotations

import math
from typing import Any

import keras
from keras import ops

from attention_zoo.layers.alignments.base import ALIGNMENTS, Alignment, State, Tensor
from attention_zoo.ops import at_least_float32, linear_recurrence, number

FORMS = ("parallel", "recursive")


@ALIGNMENTS.register("monotonic")
@keras.saving.register_keras_serializable("attention_zoo")
class MonotonicAlignment(Alignment):
    """Where a reader stops that walks on from its last place and never goes back.

    In training, in expectation: `p_j = sigmoid(score_j + r + noise_j)`,
    `q_j = (1 - p_{j-1}) q_{j-1} + previous_j`, `weights_j = p_j q_j`; at inference all weight is on
    the first place j from the last one on with `score_j + r > 0`

    q_j is the probability of coming by place j. What never stops is lost: the weights sum to one
    or less. A reader that stops nowhere at inference has weights 0 in that look, and the next
    look starts where the last successful one stopped.

    Args:
        score_bias_init: where r starts; below 0 makes the reader walk further at first.
        sigmoid_noise: standard deviation of the noise of training, which teaches the scores to
            keep away from 0, so that training and inference agree.
        form: how q is computed, "parallel" in log2(S) steps where S is known, or "recursive", one
            place after the other; the results are the same.
        hard_at_inference: False takes the expectation at inference too.
        seed: of the noise, an integer or None.

    Call arguments:
        scores: `(..., S)`.
        mask: booleans that broadcast against `scores`, or None; a hidden place is walked by.
        state: `(previous,)`, the last weights `(..., S)`; at first all weight is on place 0.
        noise: what `draw` drew, `(..., S)`.
        training: whether to take the expectation.

    Returns:
        Weights `(..., S)`, float32 at least, and the next state.

    Weights:
        score_bias: r, `()`.

    Masking:
        Hidden positions weigh exactly 0. A row with nothing to attend is all 0 and leaves the
        state as it was.

    Cost:
        O(S log S) a row in the parallel form, O(S) in the recursive one and at inference.

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
        place where look i stopped. The paper's closed form divides by products that vanish in
        long memories; the recurrence itself, which both forms here compute, divides by nothing.
        TensorFlow Addons' hard mode differs after a look that stopped nowhere: there all looks
        after it are 0, while algorithm 1 sets only the context of that one to 0.
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
        if not math.isfinite(number(score_bias_init)):
            raise ValueError(f"score_bias_init must be a finite number, got {score_bias_init!r}")
        if not 0 <= number(sigmoid_noise) < math.inf:
            raise ValueError(f"sigmoid_noise must be at least 0 and finite, got {sigmoid_noise!r}")
        if form not in FORMS:
            raise ValueError(f"form must be one of {', '.join(FORMS)}, got {form!r}")
        self.score_bias_init, self.sigmoid_noise = score_bias_init, sigmoid_noise
        self.form, self.hard_at_inference, self.seed = form, hard_at_inference, seed
        self.seed_generator = keras.random.SeedGenerator(seed)

    def build(self, scores_shape: tuple[Any, ...]) -> None:
        start = keras.initializers.Constant(self.score_bias_init)
        self.score_bias = self.add_weight(shape=(), initializer=start, name="score_bias")
        self.built = True

    def initial_state(self, like: Tensor) -> State:
        first = ops.cast(ops.arange(ops.shape(like)[-1]) == 0, at_least_float32(like).dtype)
        return (ops.broadcast_to(first, ops.shape(like)),)

    def draw(self, shape: tuple[Any, ...], dtype: str) -> Tensor | None:
        if not self.sigmoid_noise:
            return None
        return keras.random.normal(shape, 0, self.sigmoid_noise, dtype, self.seed_generator)

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
        """`p_j q_j`, with `1 - p` as the sigmoid of the other sign: exact where p is near 1."""
        if mask is not None:
            scores = ops.where(mask, scores, ops.zeros((), scores.dtype))
        stop, pass_by = ops.sigmoid(scores), ops.sigmoid(-scores)
        if mask is not None:
            stop = ops.where(mask, stop, ops.zeros((), stop.dtype))
            pass_by = ops.where(mask, pass_by, ops.ones((), stop.dtype))
        decay = ops.roll(pass_by, 1, axis=-1)  # the first place has none before it
        return stop * linear_recurrence(decay, previous, self.form == "parallel")

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "score_bias_init": self.score_bias_init,
            "sigmoid_noise": self.sigmoid_noise,
            "form": self.form,
            "hard_at_inference": self.hard_at_inference,
            "seed": self.seed,
        }


def _first_stop(scores: Tensor, mask: Tensor | None, previous: Tensor) -> tuple[Tensor, State]:
    """All weight on the first place, from the last one on, that scores above 0; else none."""
    stops = ops.logical_and(scores > 0, ops.cumsum(previous, axis=-1) > 0.5)
    if mask is not None:
        stops = ops.logical_and(mask, stops)
    first = ops.logical_and(stops, ops.cumsum(ops.cast(stops, "int32"), axis=-1) == 1)
    weights = ops.cast(first, scores.dtype)
    return weights, (ops.where(ops.any(stops, axis=-1, keepdims=True), weights, previous),)
