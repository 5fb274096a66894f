"""Layer normalization with a custom gradient."""

from __future__ import annotations

import keras
from keras import ops

from attention_zoo import ops as zoo_ops
from attention_zoo.typing import Tensor


@keras.saving.register_keras_serializable("attention_zoo")
class LayerNormalization(keras.layers.LayerNormalization):
    """Keras's layer normalization over the last axis, with a custom gradient in training.

    `y = gamma (x - mean(x)) / sqrt(var(x) + epsilon) + beta`

    Args:
        **kwargs: as in `keras.layers.LayerNormalization`. Only the defaults of `axis`, `center` and
            `scale` have the custom gradient.

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
        if self.axis not in (-1, [-1]) or self.gamma is None or self.beta is None:
            return super().call(inputs)
        outputs = zoo_ops.layer_normalization(inputs, self.gamma, self.beta, self.epsilon)
        return ops.cast(outputs, self.compute_dtype)
