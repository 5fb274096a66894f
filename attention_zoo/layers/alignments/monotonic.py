"""Look on from where the last look stopped."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from attention_zoo.layers.alignments.base import ALIGNMENTS, Alignment, State, Tensor
from attention_zoo.ops import at_least_float32, scan


@ALIGNMENTS.register("monotonic")
@keras.saving.register_keras_serializable("attention_zoo")
class MonotonicAlignment(Alignment):
    """The expected place of a reader that walks on from its last place and stops by chance.

    `p_j = sigmoid(score_j + r)`, `q_j = (1 - p_{j-1}) q_{j-1} + previous_j`, `weights_j = p_j q_j`

    q_j is the probability of coming by place j. What never stops is lost: the weights sum to one
    or less.

    Args:
        score_bias_init: where r starts; below 0 makes the reader walk further at first.

    Call arguments:
        scores: `(..., S)`.
        mask: booleans that broadcast against `scores`, or None; a hidden place is walked by.
        state: `(previous,)`, the last weights `(..., S)`; at first all weight is on place 0.
        training: changes nothing.

    Returns:
        Weights `(..., S)`, float32 at least, and the next state.

    Weights:
        score_bias: r, `()`.

    Masking:
        Hidden positions weigh exactly 0. A row with nothing to attend is all 0 and leaves the
        state as it was.

    Cost:
        O(S) a row, one place after the other.

    Example:
        >>> import numpy as np
        >>> from attention_zoo.layers import MonotonicAlignment
        >>> align, scores = MonotonicAlignment(), np.zeros((1, 3), "float32")
        >>> align.build(scores.shape)
        >>> weights, _ = align(scores, state=align.initial_state(scores))
        >>> [float(w) for w in weights[0]]
        [0.5, 0.25, 0.125]

    Reference:
        Raffel et al. 2017, arXiv 1704.00784, equations 8 to 11, in the recursive form (no
        division, so nothing vanishes in long memories): alpha_ij are the weights, e_ij + r the
        scores, p_ij is p, q_ij is q.
    """

    def __init__(self, score_bias_init: float = 0.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.score_bias_init = score_bias_init

    def build(self, scores_shape: tuple[Any, ...]) -> None:
        start = keras.initializers.Constant(self.score_bias_init)
        self.score_bias = self.add_weight(shape=(), initializer=start, name="score_bias")
        self.built = True

    def initial_state(self, like: Tensor) -> State:
        first = ops.cast(ops.arange(ops.shape(like)[-1]) == 0, at_least_float32(like).dtype)
        return (ops.broadcast_to(first, ops.shape(like)),)

    def call(
        self, scores: Tensor, mask: Tensor | None = None, state: State = (), training: bool = False
    ) -> tuple[Tensor, State]:
        scores = at_least_float32(scores)
        previous = ops.cast(state[0], scores.dtype)
        if mask is not None:
            scores = ops.where(mask, scores, ops.zeros((), scores.dtype))
        stop = ops.sigmoid(scores + ops.cast(self.score_bias, scores.dtype))
        if mask is None:
            weights = _walk(stop, previous)
            return weights, (weights,)
        weights = _walk(ops.where(mask, stop, ops.zeros((), stop.dtype)), previous)
        return weights, (ops.where(ops.any(mask, axis=-1, keepdims=True), weights, previous),)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "score_bias_init": self.score_bias_init}


def _walk(stop: Tensor, previous: Tensor) -> Tensor:
    """Weights `(..., S)` of a reader that stops at j with probability `stop_j` if it comes by."""

    def place(passing: Tensor, now: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        stop, previous = now
        coming = passing + previous
        return (1 - stop) * coming, stop * coming

    places = (ops.moveaxis(stop, -1, 0), ops.moveaxis(previous, -1, 0))
    nowhere = ops.zeros_like(ops.sum(previous, axis=-1))
    _, weights = scan(place, nowhere, places, like=nowhere)
    return ops.moveaxis(weights, 0, -1)
