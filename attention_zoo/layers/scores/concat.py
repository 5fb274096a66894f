"""One matrix over query and key side by side."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from attention_zoo.layers.scores.base import SCORES, Score, Shape, Tensor, check_units
from attention_zoo.ops import at_least_float32


@SCORES.register("concat")
@keras.saving.register_keras_serializable("attention_zoo")
class ConcatScore(Score):
    """A hidden layer over query and key side by side.

    `score(q, k) = v . tanh([q; k] W)`

    The product is computed as `q W_q + k W_k`, W's upper and lower rows, so that the keys are
    projected once; the additive score differs in its initialisation (one fan of Dq + Dk).

    Args:
        units: A, width of the hidden layer; the query's width when None.

    Call arguments:
        query: `(..., T, Dq)`.
        key: `(..., S, Dk)`.

    Returns:
        Scores `(..., T, S)`, float32 at least.

    Weights:
        kernel: W, `(Dq + Dk, A)`. v: `(A,)`.

    Masking:
        None here: the attention masks scores and clears hidden keys.

    Cost:
        O(S Dk A) once for the keys, then O(T (Dq + S) A) time and O(T S A) memory.

    Example:
        >>> import numpy as np
        >>> from attention_zoo.layers import Attention
        >>> layer = Attention(score="concat", units=8)
        >>> tuple(layer(np.ones((2, 3, 4), "float32"), np.ones((2, 5, 6), "float32")).shape)
        (2, 3, 6)

    Reference:
        Luong et al. 2015, arXiv 1508.04025, section 3.1, the score "concat": W_a is W, v_a
        is v (one version of the paper prints the score without it), h_t the query, h_s the key.
    """

    def __init__(self, units: int | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.units = check_units(units)

    def build(self, query_shape: Shape, key_shape: Shape) -> None:
        self.query_width = query_shape[-1]
        units = self.units or self.query_width
        self.kernel = self.weight("kernel", (self.query_width + key_shape[-1], units))
        self.v = self.weight("v", (units,))
        self.built = True

    def project(self, key: Tensor) -> Tensor:
        return ops.matmul(key, ops.cast(self.kernel, key.dtype)[self.query_width :])

    def compute_scores(self, query: Tensor, keys: Tensor) -> Tensor:
        kernel = ops.cast(self.kernel, query.dtype)[: self.query_width]
        projected = ops.matmul(query, kernel)
        hidden = ops.tanh(projected[..., :, None, :] + keys[..., None, :, :])
        v = at_least_float32(ops.convert_to_tensor(self.v))
        return ops.squeeze(ops.matmul(at_least_float32(hidden), v[:, None]), axis=-1)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "units": self.units}
