"""Rotary position embedding (RoPE)."""

from __future__ import annotations

from typing import Any

import keras
from keras import backend, ops

from attention_zoo import ops as zoo_ops
from attention_zoo.layers.positions.base import POSITIONS, RelativePositions
from attention_zoo.typing import Shape, Tensor


@POSITIONS.register("rotary")
@keras.saving.register_keras_serializable("attention_zoo")
class RotaryPositions(RelativePositions):
    """Rotary position embedding (RoPE): rotates queries and keys by their position.

    `score(q_t, k_s) = (R_t q_t) . (R_s k_s) / sqrt(D) = q_t . (R_{s-t} k_s) / sqrt(D)`; R_t rotates
    the features 2 i and 2 i + 1 by the angle `t w^(-2 i / D)`

    Dot products depend on positions only through the distance s - t. With another score (additive,
    concat, ...), scores depend on both positions, not only on their distance.

    Use it in encoders and decoders up to the lengths of training. Perplexity rises on longer texts
    (Press et al. 2021, arXiv 2108.12409, figure 1); for these use ALiBi.

    Args:
        max_wavelength: w; the slowest pair has a period of about 2 pi w positions.

    Call arguments:
        query: `(B, H, T, D)`, D even.
        key: `(B, H, S, D)`.

    Returns:
        Scores `(B, H, T, S)`, at least float32.

    Weights:
        None.

    Masking:
        None here: the attention layer masks the scores. Left padding has no effect.

    Cost:
        O(B H (T + S) D) in addition; no tensor of size T S.

    Example:
        >>> import numpy as np
        >>> from attention_zoo.layers import MultiHeadAttention
        >>> layer = MultiHeadAttention(num_heads=2, key_dim=4, positions="rotary")
        >>> x = np.ones((2, 3, 8), "float32")
        >>> tuple(layer(x, x).shape)
        (2, 3, 8)

    Reference:
        Su et al. 2021, arXiv 2104.09864, section 3.2.2, equations 14 to 16 and 34: theta_i is
        `w^(-2 i / D)` (its i counts from 1), m and n are t and s. Adjacent features form a pair, as
        in the paper; some published models pair the two halves instead.
    """

    def __init__(self, max_wavelength: float = 10000.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.max_wavelength = zoo_ops.finite_number("max_wavelength", max_wavelength, above=1)

    def build(self, query_shape: Shape, key_shape: Shape) -> None:
        if query_shape[-1] % 2:
            raise ValueError(
                f"key_dim must be even, got {query_shape[-1]}, because rotary positions rotate "
                "pairs of features"
            )

    def transform(self, x: Tensor, positions: Tensor | None = None) -> Tensor:
        exact = zoo_ops.at_least_float32(x)
        dtype = backend.standardize_dtype(exact.dtype)
        if positions is None:
            positions = ops.arange(ops.shape(x)[-2], dtype="int32")
        angles = zoo_ops.angles(positions, x.shape[-1], self.max_wavelength, dtype)
        return ops.cast(zoo_ops.rotate(exact, angles), x.dtype)
