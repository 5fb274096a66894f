"""Monotonic local alignment (Luong local-m)."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from attention_zoo.layers.alignments.base import ALIGNMENTS, Alignment
from attention_zoo.layers.alignments.local import refuse_sequential, unmasked_span
from attention_zoo.ops import Window, masked_softmax, whole_number
from attention_zoo.typing import State, Tensor


@ALIGNMENTS.register("local_monotonic")
@keras.saving.register_keras_serializable("attention_zoo")
class LocalMonotonicAlignment(Alignment):
    """Softmax within a window that moves by one position per step (local-m).

    `p_t = t`, `weights_s = exp(score_s) / sum_i exp(score_i)` over s, i in `[p_t - D, p_t + D]`

    Steps and source positions both count from 0, starting at the first one that is not padding: the
    window of the t-th unmasked query is centred t positions after the first unmasked source. Only
    the window is scored.

    Use it for long sources whose alignment with the target is near the diagonal.

    Args:
        window: D, number of positions on each side of the centre.

    Call arguments:
        scores: `(..., W)`, scores of the positions in a window, W = 2 D + 1.
        mask: boolean, broadcasts against `scores`, or None.
        state: `(step,)`, the number of previous steps, int32 `(..., 1)`.
        aux: the `Window` returned by `precompute`.
        training: unused.

    Returns:
        Weights `(..., W)`, at least float32, and the next state.

    Masking:
        Masked positions of a window have weight exactly 0. A fully masked window, such as one past
        the end of the memory, is all 0. A masked query does not count as a step.

    Cost:
        O(T D) scores and O(T D Dv) for the weighted sum. No tensor of size T S is created unless
        the weights are returned.

    Example:
        >>> import numpy as np
        >>> from attention_zoo.layers import Attention, LocalMonotonicAlignment
        >>> layer = Attention(score="dot", alignment=LocalMonotonicAlignment(window=1))
        >>> states = np.zeros((1, 4, 2), "float32")
        >>> _, weights = layer(states, states, return_attention_scores=True)
        >>> [float(w) for w in weights[0, 0]]
        [0.5, 0.5, 0.0, 0.0]

    Reference:
        Luong et al. 2015, arXiv 1508.04025, section 3.2 (local-m): p_t is the centre, D the
        window, a_t the weights.
    """

    def __init__(self, window: int = 10, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.window = whole_number("window", window, low=0)

    def width(self, sources: Tensor) -> Tensor:
        return 2 * self.window + 1

    def initial_state(self, like: Tensor) -> State:
        return (ops.zeros((*ops.shape(like)[:-1], 1), "int32"),)

    def compute_previous_states(self, like: Tensor, query_mask: Tensor) -> State:
        count = ops.cast(query_mask, "int32")
        return ((ops.cumsum(count, axis=-1) - count)[..., None],)

    def compute_final_state(self, states: State, query_mask: Tensor) -> State:
        return (ops.sum(ops.cast(query_mask, "int32"), axis=-1, keepdims=True),)

    def precompute(self, query: Tensor, memory: Any, state: State | None) -> Window:
        refuse_sequential(state)
        first, _ = unmasked_span(memory)
        (step,) = state or ()
        centre = first + step
        inside = ops.ones((self.width(None),), "bool")
        return Window(centre - self.window, inside, ops.cast(centre, "float32"))

    def call(
        self,
        scores: Tensor,
        mask: Tensor | None = None,
        state: State = (),
        training: bool = False,
        aux: Window | None = None,
    ) -> tuple[Tensor, State]:
        return masked_softmax(scores, mask), (state[0] + 1,)
