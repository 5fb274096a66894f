"""Graves's window."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
from keras import ops

from attention_zoo.layers.alignments import Alignment
from attention_zoo.layers.attention import Attention
from attention_zoo.layers.scores import Score
from attention_zoo.ops import at_least_float32, whole_number

Tensor = Any
Shape = tuple[Any, ...]
State = tuple[Tensor, ...]

GREATEST = 20.0
"""Where exponents are cut: e^20 is wider, narrower or farther than any memory asks for, and its
squares and products stay far below what float32 holds."""


@keras.saving.register_keras_serializable("attention_zoo")
class MixtureWindowAttention(Attention):
    """A window of several bells that slides along the memory and never back.

    `weights_tu = sum_k a_tk exp(-b_tk (kappa_tk - u)^2)`, `kappa_t = kappa_{t-1} + exp(s_t)`,
    `a_t = exp(x_t)`, `b_t = exp(y_t)`, `[x_t; y_t; s_t] = q_t W + c`

    The query alone says how far the bells move on, how wide and how high they are; keys are not
    read, and nothing is compared. Places are counted from 1, kappa starts at 0. The weights do
    not sum to one.

    W starts at 0, so that at first every look moves on by one place whatever the query. Bell k (of
    1 to K) starts with `b = 1 / k^2` and an area of `1 / K`: each has a width of its own, and a
    window inside the memory weighs about 1 in all.

    Args:
        num_components: K, how many bells.
        dropout: rate of dropped weights in training. seed: its seed.

    Call arguments:
        query: `(B, T, Dq)`. value: `(B, S, Dv)`. key: `(B, S, Dk)`, not read.
        Masks and switches as in `Attention`.

    Returns:
        Context `(B, T, Dv)`, and on request the weights `(B, T, S)` and the state, whose second
        part holds kappa `(B, K)` after the last look.

    Weights:
        kernel: W, `(Dq, 3 K)`, and bias: c, `(3 K,)`: heights first, then narrowness, then steps.

    Masking:
        As in `Attention`. The first place that the memory's own mask shows is place 1, so padding
        on the left cannot be seen either. A hidden query, or one with nothing to attend, moves
        nothing on.

    Cost:
        O(T (Dq K + S K + S Dv)) time, O(T S) memory (and O(S K) for each look, T times in
        training), one look after the other.

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

    def __init__(
        self,
        num_components: int = 10,
        dropout: float = 0.0,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        dtype = kwargs.get("dtype")
        window = _MixtureWindow(num_components, dtype=dtype)
        super().__init__(_NoScore(dtype=dtype), window, dropout=dropout, seed=seed, **kwargs)
        self.num_components = window.num_components

    def get_config(self) -> dict[str, Any]:
        config = super().get_config()
        del config["score"], config["alignment"]
        return {**config, "num_components": self.num_components}


class _NoScore(Score):
    """Nothing is compared: all scores are 0."""

    def compute_scores(self, query: Tensor, keys: Tensor) -> Tensor:
        rows = ops.zeros_like(at_least_float32(query[..., :1]))
        return rows + ops.zeros_like(keys[..., 0], dtype=rows.dtype)[..., None, :]


class _MixtureWindow(Alignment):
    """Weights by the places that the bells have come to; the scores are not read.

    Evidence is what the query says, `(..., T, 3 K)`, and the number of each place,
    `(..., T, S)`; the state is `(kappa,)`, `(..., K)`.
    """

    def __init__(self, num_components: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.num_components = whole_number("num_components", num_components)

    def build_readers(self, query_shape: Shape, key_shape: Shape) -> None:
        width = 3 * self.num_components
        self.kernel = self.add_weight(
            shape=(query_shape[-1], width), initializer="zeros", name="kernel"
        )
        self.bias = self.add_weight(shape=(width,), initializer=self._first_bias, name="bias")

    def _first_bias(self, shape: Shape, dtype: Any = None) -> Tensor:
        """Bells of areas `1 / K` and widths that grow evenly, all moving on by one place."""
        narrowness = -2 * np.log(np.arange(1, self.num_components + 1))
        heights = (narrowness - np.log(np.pi)) / 2 - np.log(self.num_components)
        steps = np.zeros(self.num_components)
        return ops.convert_to_tensor(np.concatenate([heights, narrowness, steps]), dtype)

    def initial_state(self, like: Tensor) -> State:
        shape = (*ops.shape(like)[:-1], self.num_components)
        return (ops.zeros(shape, at_least_float32(like).dtype),)

    def precompute(self, query: Tensor, memory: Any, state: State | None) -> tuple[Tensor, Tensor]:
        query = at_least_float32(query)
        said = ops.matmul(query, ops.cast(self.kernel, query.dtype))
        said = said + ops.cast(self.bias, query.dtype)
        places = ops.arange(1, ops.shape(memory.values)[-2] + 1, dtype="int32")
        if memory.mask is not None:
            seen = ops.cumsum(ops.cast(memory.mask, "int32"), axis=-1)
            before = ops.sum(ops.cast(seen == 0, "int32"), axis=-1, keepdims=True)
            places = (places - before)[..., None, :]
        shape = (*ops.shape(query)[:-1], ops.shape(memory.values)[-2])
        return said, ops.broadcast_to(ops.cast(places, query.dtype), shape)

    def call(
        self,
        scores: Tensor,
        mask: Tensor | None = None,
        state: State = (),
        training: bool = False,
        aux: Any = None,
    ) -> tuple[Tensor, State]:
        said, places = aux
        height, narrowness, step = ops.split(ops.exp(ops.minimum(said, GREATEST)), 3, axis=-1)
        kappa = state[0] + step
        apart = kappa[..., None, :] - places[..., :, None]
        bells = ops.exp(-narrowness[..., None, :] * ops.square(apart))
        weights = ops.sum(height[..., None, :] * bells, axis=-1)
        if mask is not None:
            weights = ops.where(mask, weights, ops.zeros((), weights.dtype))
        return weights, (kappa,)
