"""Predictive local alignment (Luong local-p)."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from attention_zoo.layers.alignments.base import ALIGNMENTS, Alignment
from attention_zoo.layers.alignments.local import refuse_sequential, unmasked_span
from attention_zoo.layers.scores.base import check_units
from attention_zoo.ops import Window, at_least_float32, masked_softmax, project, whole_number
from attention_zoo.typing import Shape, State, Tensor


@ALIGNMENTS.register("local_predictive")
@keras.saving.register_keras_serializable("attention_zoo")
class LocalPredictiveAlignment(Alignment):
    """Softmax within a window whose centre is predicted from the query (local-p).

    `p_t = S sigmoid(v . tanh(q W))`,
    `weights_s = softmax(score)_s exp(-(s - p_t)^2 / (2 sigma^2))`, `sigma = D / 2`, with the
    softmax over s in `[p_t - D, p_t + D]`

    S is the number of positions from the first unmasked source to the last, and s counts from the
    first, at 0: padding on either side has no effect. Only the window is scored. W and v get their
    gradient through the Gaussian factor. Because of this factor the weights sum to one or less.

    Use it for long sources when each step attends to a window at a predicted position.

    Args:
        window: D, half-width of the window around the centre. With 0 the window is the position
            nearest to the centre, and the Gaussian is that of D = 1.
        units: A, number of hidden units; the query's width when None.

    Call arguments:
        scores: `(..., W)`, scores of the positions in a window, W = 2 D + 1.
        mask: boolean, broadcasts against `scores`, or None.
        state: `()`.
        aux: the `Window` returned by `precompute`.
        training: unused.

    Returns:
        Weights `(..., W)`, at least float32, and `()`.

    Weights:
        position_kernel: W, `(Dq, A)`. position_v: v, `(A,)`.

    Masking:
        Masked positions of a window have weight exactly 0; a fully masked window is all 0.

    Cost:
        O(T Dq A) for the centres and O(T D) scores. No tensor of size T S is created unless the
        weights are returned.

    Example:
        >>> import numpy as np
        >>> from attention_zoo.layers import Attention, LocalPredictiveAlignment
        >>> layer = Attention(score="dot", alignment=LocalPredictiveAlignment(window=1))
        >>> query, value = np.zeros((1, 1, 2), "float32"), np.zeros((1, 4, 2), "float32")
        >>> _, weights = layer(query, value, return_attention_scores=True)
        >>> [round(float(w), 3) for w in weights[0, 0]]
        [0.0, 0.045, 0.333, 0.045]

    Reference:
        Luong et al. 2015, arXiv 1508.04025, section 3.2 (local-p, "predictive alignment"): W_p
        is W, v_p is v, h_t the query, D the window. Positions count from 0 here, so p_t = S is one
        past the last position.
    """

    def __init__(self, window: int = 10, units: int | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.window = whole_number("window", window, low=0)
        self.units = check_units(units)

    def build_projections(self, query_shape: Shape, key_shape: Shape) -> None:
        units = self.units or query_shape[-1]
        shape = (query_shape[-1], units)
        self.position_kernel = self.add_kernel("position_kernel", shape)
        self.position_v = self.add_kernel("position_v", (units,))

    def width(self, sources: Tensor) -> Tensor:
        return 2 * self.window + 1

    @property
    def radius(self) -> float:
        """Greatest distance of a window position from the centre, which may be fractional."""
        return max(self.window, 0.5)

    @property
    def sigma(self) -> float:
        """Standard deviation of the Gaussian, in positions."""
        return max(self.window, 1) / 2

    def precompute(self, query: Tensor, memory: Any, state: State | None) -> Window:
        refuse_sequential(state)
        first, length = unmasked_span(memory)
        fraction = self._predict_centre(at_least_float32(query))
        centre = ops.cast(first, fraction.dtype) + ops.cast(length, fraction.dtype) * fraction
        # The window of a NaN centre starts at the first source, so that its weights are NaN there.
        window_centre = ops.where(ops.isnan(centre), ops.cast(first, centre.dtype), centre)
        # A centre of S - 1/2 or more would be nearest to S, which is past the last position.
        start = ops.cast(ops.ceil(window_centre - self.radius), "int32")
        start = ops.minimum(start, first + length - 1)
        positions = start + ops.arange(self.width(None), dtype="int32")
        inside = ops.cast(positions, centre.dtype) <= window_centre + self.radius
        return Window(start, inside, centre)

    def _predict_centre(self, query: Tensor) -> Tensor:
        """Predict the centre, `(..., T, 1)`, from 0 (start of the memory) to 1 (end)."""
        kernel, v = (ops.cast(x, query.dtype) for x in (self.position_kernel, self.position_v))
        return ops.sigmoid(project(ops.tanh(project(query, kernel)), v[:, None]))

    def call(
        self,
        scores: Tensor,
        mask: Tensor | None = None,
        state: State = (),
        training: bool = False,
        aux: Window | None = None,
    ) -> tuple[Tensor, State]:
        if aux is None:
            raise ValueError(
                "local_predictive needs aux, the window that `precompute` returns, got None"
            )
        weights = masked_softmax(scores, mask)
        window = Window(*aux)  # a reloaded functional model passes a plain tuple
        positions = ops.cast(window.positions, weights.dtype)
        distance = positions - ops.cast(window.centre, weights.dtype)
        weights = weights * ops.exp(-ops.square(distance / self.sigma) / 2)
        return weights if mask is None else ops.where(mask, weights, 0), state
