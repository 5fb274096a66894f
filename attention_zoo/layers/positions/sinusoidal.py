"""Sinusoidal positional encoding."""

from __future__ import annotations

from typing import Any

import keras
from keras import backend, ops

from attention_zoo import ops as zoo_ops
from attention_zoo.layers.base import BaseLayer
from attention_zoo.layers.positions.absolute import absolute_positions, check_embeddings
from attention_zoo.typing import Shape, Tensor


@keras.saving.register_keras_serializable("attention_zoo")
class SinusoidalPositions(BaseLayer):
    """Sinusoidal positional encoding, added to the inputs; any length, no weights.

    `y_t = x_t + p_t`, `p_{t, 2 i} = sin(t w^(-2 i / D))`, `p_{t, 2 i + 1} = cos(t w^(-2 i / D))`

    If D is odd, the last sine has no cosine. Without `interleaved`, the sines come first, then the
    cosines.

    Use it for absolute positions of any length, without weights.

    Args:
        max_wavelength: w; the slowest sine has a period of about 2 pi w positions.
        interleaved: whether sines and cosines alternate, as in the paper.

    Call arguments:
        inputs: `(B, T, D)`, embeddings.
        start: position of the first embedding: an integer, for step-by-step decoding, or `(B,)`
            integers, one per row.

    Returns:
        `(B, T, D)`.

    Weights:
        None.

    Masking:
        The mask is passed on. Positions are counted from the first one, masked or not: left padding
        shifts the tokens, unless `start` is minus the number of padding tokens of each row.

    Cost:
        O(T D), and O(B T D) for the addition.

    Example:
        >>> import numpy as np
        >>> from attention_zoo.layers import SinusoidalPositions
        >>> y = SinusoidalPositions()(np.zeros((1, 2, 4), "float32"))
        >>> [round(float(v), 3) for v in y[0, 1]]
        [0.841, 0.54, 0.01, 1.0]

    Reference:
        Vaswani et al. 2017, arXiv 1706.03762, section 3.5: pos is t, d_model is D, PE is p.
    """

    def __init__(
        self, max_wavelength: float = 10000.0, interleaved: bool = True, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.max_wavelength = zoo_ops.finite_number("max_wavelength", max_wavelength, above=1)
        self.interleaved = bool(interleaved)
        self.supports_masking = True

    def build(self, inputs_shape: Shape) -> None:
        check_embeddings(inputs_shape)

    def call(self, inputs: Tensor, start: Any = 0) -> Tensor:
        dtype = backend.standardize_dtype(zoo_ops.at_least_float32(inputs).dtype)
        positions = absolute_positions(inputs, start)
        angles = zoo_ops.angles(positions, inputs.shape[-1], self.max_wavelength, dtype)
        sinusoids = zoo_ops.sinusoids(angles, inputs.shape[-1], self.interleaved)
        return inputs + ops.cast(sinusoids, inputs.dtype)
