"""Layer normalization whose gradient takes few graph operations."""

from __future__ import annotations

import keras

from attention_zoo import ops as zoo_ops
from attention_zoo.typing import Tensor


class LayerNormalization(keras.layers.LayerNormalization):
    """Keras's layer normalization of the last axis, with `ops.layer_normalization` of this package.

    `y = gamma (x - mean(x)) / sqrt(var(x) + epsilon) + beta`

    Args:
        epsilon, and the others but `axis`, `center` and `scale`: as in
            `keras.layers.LayerNormalization`.

    Call arguments:
        inputs: `(..., D)`.

    Returns:
        The inputs' shape, in the compute dtype.

    Weights:
        gamma: `(D,)`. beta: `(D,)`.

    Masking:
        The mask is passed on.

    Cost:
        O(n) for n elements.

    Reference:
        Ba et al. 2016, arXiv 1607.06450, section 3.
    """

    def call(self, inputs: Tensor) -> Tensor:
        return zoo_ops.layer_normalization(inputs, self.gamma, self.beta, self.epsilon)
