"""Maxout layer."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from attention_zoo.layers.kernels import KernelLayer
from attention_zoo.ops import max_or_nan, project
from attention_zoo.typing import Shape, Tensor


@keras.saving.register_keras_serializable("attention_zoo")
class Maxout(KernelLayer):
    """Maxout layer: each unit is the maximum of several linear units.

    `y_i = max_p (x W + b)_ip`

    Args:
        units: number of outputs.
        pool: number of linear units per output.

    Call arguments:
        inputs: `(..., D)`.

    Returns:
        `(..., units)`.

    Weights:
        kernel: W, `(D, units * pool)`. bias: b, `(units * pool,)`.

    Masking:
        Positions are independent; the inputs' mask is propagated.

    Cost:
        O(D units pool) per position.

    Example:
        >>> import numpy as np
        >>> from attention_zoo.layers import Maxout
        >>> tuple(Maxout(4)(np.ones((2, 3, 5), "float32")).shape)
        (2, 3, 4)

    Reference:
        Goodfellow et al. 2013, arXiv 1302.4389, section 3; as the deep output layer of Bahdanau
        et al. 2014, arXiv 1409.0473, appendix A.2.2, with pool 2.
    """

    def __init__(self, units: int, pool: int = 2, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if units < 1 or pool < 1:
            raise ValueError(f"units and pool must be at least 1, got {units} and {pool}")
        self.units, self.pool = units, pool
        self.supports_masking = True

    def build(self, input_shape: Shape) -> None:
        width = self.units * self.pool
        self.kernel = self.add_kernel("kernel", (input_shape[-1], width))
        self.bias = self.add_bias("bias", (width,))

    def call(self, inputs: Tensor) -> Tensor:
        linear = project(inputs, self.kernel) + self.bias
        pooled = ops.reshape(linear, (*ops.shape(linear)[:-1], self.units, self.pool))
        return max_or_nan(pooled, -1)

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        return (*input_shape[:-1], self.units)
