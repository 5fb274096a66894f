"""Mixture window attention (Graves)."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
from keras import ops

from attention_zoo.layers.alignments import Alignment
from attention_zoo.layers.attention.attention import Attention
from attention_zoo.layers.kernels import select_part_arguments
from attention_zoo.layers.scores import Score
from attention_zoo.ops import at_least_float32, project, whole_number
from attention_zoo.typing import Shape, State, Tensor

MAX_EXPONENT = 20.0
"""Upper limit of the exponents. No memory needs a height, precision or step above e^20. Squares
and products of such numbers stay far below the float32 maximum."""


@keras.saving.register_keras_serializable("attention_zoo")
class MixtureWindowAttention(Attention):
    """Gaussian mixture window that moves only forward along the memory.

    `weights_tu = sum_k a_tk exp(-b_tk (kappa_tk - u)^2)`, `kappa_t = kappa_{t-1} + exp(s_t)`,
    `a_t = exp(x_t)`, `b_t = exp(y_t)`, `[x_t; y_t; s_t] = q_t W + c`

    The query alone determines how far each component moves, its width and its height. Keys are not
    used, and no scores are computed. Positions count from 1, and kappa starts at 0. The weights do
    not sum to one.

    W is initialized to 0, so at first every step moves the window by one position, whatever the
    query. Component k (1 to K) starts with `b = 1 / k^2` and an area of `1 / K`: all widths
    differ, and the weights of a window inside the memory sum to about 1.

    Use it to synthesize handwriting or speech: the window only moves forward.

    Args:
        num_components: K, number of mixture components.
        dropout: dropout rate on the weights, in training. seed: its random seed.

    Call arguments:
        query: `(B, T, Dq)`. value: `(B, S, Dv)`. key: `(B, S, Dk)`, not used.
        The other arguments are those of `Attention`.

    Returns:
        Context `(B, T, Dv)` and, on request, the weights `(B, T, S)` and the state, whose second
        part holds kappa `(B, K)` after the last step.

    Weights:
        kernel: W, `(Dq, 3 K)`, and bias: c, `(3 K,)`: log heights x, then log precisions y, then
        log steps s.

    Masking:
        As in `Attention`. Position 1 is the first one that the memory's own mask leaves unmasked,
        so padding on the left does not change the output. A masked query, or one with nothing to
        attend to, does not move the window.

    Cost:
        O(T (Dq K + S K + S Dv)) time, O(T S) memory (plus O(S K) per step, T times that in
        training). The T steps are sequential.

    Example:
        >>> import numpy as np
        >>> from attention_zoo.layers import MixtureWindowAttention
        >>> layer = MixtureWindowAttention(num_components=1)
        >>> query, value = np.ones((1, 3, 4), "float32"), np.ones((1, 5, 6), "float32")
        >>> _, weights = layer(query, value, return_attention_scores=True)
        >>> np.argmax(weights, axis=-1).tolist()
        [[0, 1, 2]]

    Reference:
        Graves 2013, arXiv 1308.0850, section 5.1, equations 46 to 51: phi(t, u) are the weights,
        c_u the values, w_t the context, h_t^1 the query, W_{h1 p} is W, b_p is c; alpha, beta and
        kappa are a, b and kappa, with a hat x, y and s.
    """

    config_excludes = ("score", "alignment")

    def __init__(
        self, num_components: int = 10, dropout: float = 0.0, seed: int | None = None, **kwargs: Any
    ) -> None:
        parts = select_part_arguments(kwargs)
        window = _MixtureWindow(num_components, **parts)
        super().__init__(_NoScore(**parts), window, dropout=dropout, seed=seed, **kwargs)
        self.num_components = window.num_components


class _NoScore(Score):
    """Score that is 0 for every query and key."""

    def compute_scores(self, query: Tensor, keys: Tensor) -> Tensor:
        rows = ops.zeros_like(at_least_float32(query[..., :1]))
        return rows + ops.zeros_like(keys[..., 0], dtype=rows.dtype)[..., None, :]


class _MixtureWindow(Alignment):
    """Alignment of the mixture window; it ignores the scores.

    `aux` holds the projected query, `(..., T, 3 K)`, and the number of each position,
    `(..., T, S)`. The state is `(kappa,)`, `(..., K)`.
    """

    uses_scores = False

    def __init__(self, num_components: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.num_components = whole_number("num_components", num_components)

    def build_projections(self, query_shape: Shape, key_shape: Shape) -> None:
        width = 3 * self.num_components
        self.kernel = self.add_kernel("kernel", (query_shape[-1], width), "zeros")
        self.bias = self.add_bias("bias", (width,), self._initialize_bias)

    def _initialize_bias(self, shape: Shape, dtype: Any = None) -> Tensor:
        """Initialize components of area `1 / K`, increasing width and a step of one position."""
        narrowness = -2 * np.log(np.arange(1, self.num_components + 1))
        heights = (narrowness - np.log(np.pi)) / 2 - np.log(self.num_components)
        steps = np.zeros(self.num_components)
        return ops.convert_to_tensor(np.concatenate([heights, narrowness, steps]), dtype)

    def initial_state(self, like: Tensor) -> State:
        shape = (*ops.shape(like)[:-1], self.num_components)
        return (ops.zeros(shape, at_least_float32(like).dtype),)

    def precompute(self, query: Tensor, memory: Any, state: State | None) -> tuple[Tensor, Tensor]:
        query = at_least_float32(query)
        parameters = project(query, self.kernel)
        parameters = parameters + ops.cast(self.bias, query.dtype)
        positions = ops.arange(1, ops.shape(memory.values)[-2] + 1, dtype="int32")
        if memory.mask is not None:
            num_unmasked = ops.cumsum(ops.cast(memory.mask, "int32"), axis=-1)
            num_leading = ops.sum(ops.cast(num_unmasked == 0, "int32"), axis=-1, keepdims=True)
            positions = (positions - num_leading)[..., None, :]
        shape = (*ops.shape(query)[:-1], ops.shape(memory.values)[-2])
        return parameters, ops.broadcast_to(ops.cast(positions, query.dtype), shape)

    def call(
        self,
        scores: Tensor,
        mask: Tensor | None = None,
        state: State = (),
        training: bool = False,
        aux: Any = None,
    ) -> tuple[Tensor, State]:
        parameters, positions = aux
        parameters = ops.exp(ops.minimum(parameters, MAX_EXPONENT))
        height, narrowness, step = ops.split(parameters, 3, axis=-1)
        kappa = state[0] + step
        differences = kappa[..., None, :] - positions[..., :, None]
        gaussians = ops.exp(-narrowness[..., None, :] * ops.square(differences))
        weights = ops.sum(height[..., None, :] * gaussians, axis=-1)
        if mask is not None:
            weights = ops.where(mask, weights, ops.zeros((), weights.dtype))
        return weights, (kappa,)
