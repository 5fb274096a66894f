"""Position-wise feed-forward network."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from attention_zoo import ops as zoo_ops
from attention_zoo.layers.kernels import KernelLayer
from attention_zoo.layers.transformer.dropout import Dropout
from attention_zoo.typing import Shape, Tensor


@keras.saving.register_keras_serializable("attention_zoo")
def gelu_tanh(x: Tensor) -> Tensor:
    """Compute the tanh approximation of GELU, as in GPT; Keras's "gelu" is exact (erf).

    Reference: Hendrycks and Gimpel 2016, arXiv 1606.08415, section 2.
    """
    return keras.activations.gelu(x, approximate=True)


CUSTOM_ACTIVATIONS = {"gelu_tanh": gelu_tanh}
"""Activations that Keras does not know by name."""

GATED_ACTIVATIONS: dict[str, Any] = {
    "reglu": "relu",
    "geglu": "gelu",
    "geglu_tanh": gelu_tanh,
    "swiglu": "silu",
}
"""Gated activations by name, and the activation function of each."""


@keras.saving.register_keras_serializable("attention_zoo")
class FeedForward(KernelLayer):
    """Position-wise feed-forward network, with or without a gate.

    `y = act(x W_1 + b_1) W_2 + b_2`; with a gate `y = (act(x W_1 + b_1) (x W_3 + b_3)) W_2 + b_2`

    Args:
        units: F, the inner width.
        activation: act: a Keras activation name ("gelu" is exact), "gelu_tanh" or a function. With
            "reglu", "geglu", "geglu_tanh" or "swiglu" there is a gate, and act is "relu", "gelu",
            "gelu_tanh" or "silu".
        use_bias: whether the linear layers have biases.
        dropout: dropout rate of the inner units, 0 to 1.
        seed: seed of the dropout, an integer or None.

    Call arguments:
        inputs: `(..., D)`.
        training: enables dropout.

    Returns:
        `(..., D)`.

    Weights:
        first: W_1, b_1, `(D, F)` and `(F,)`. gate, if any: W_3, b_3 of the same shapes.
        second: W_2, b_2, `(F, D)` and `(D,)`.

    Masking:
        Positions are independent; the inputs' mask is passed on.

    Cost:
        O(D F) per position.

    Example:
        >>> import numpy as np
        >>> from attention_zoo.layers import FeedForward
        >>> tuple(FeedForward(16, "swiglu")(np.ones((2, 3, 4), "float32")).shape)
        (2, 3, 4)

    Reference:
        Vaswani et al. 2017, arXiv 1706.03762, equation 2; gates: Shazeer 2020, arXiv 2002.05202,
        equations 5 and 6, where V is W_3 and W is W_1; T5 1.1 has "geglu_tanh".
    """

    def __init__(
        self,
        units: int,
        activation: Any = "relu",
        use_bias: bool = True,
        dropout: float = 0.0,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.units = zoo_ops.whole_number("units", units)
        self.activation, self.use_bias = activation, use_bias
        self.dropout, self.seed = dropout, seed
        is_gated = isinstance(activation, str) and activation in GATED_ACTIVATIONS
        if isinstance(activation, str):
            activation = (GATED_ACTIVATIONS | CUSTOM_ACTIVATIONS).get(activation, activation)
        self.first = self._make_dense(self.units, activation)
        self.gate = self._make_dense(self.units) if is_gated else None
        self.drop = Dropout(dropout, seed=seed, dtype=self.dtype_policy)
        self.supports_masking = True

    def _make_dense(self, units: int, activation: Any = None) -> keras.layers.Dense:
        return keras.layers.Dense(units, activation, self.use_bias, **self.part_arguments)

    def build(self, inputs_shape: Shape) -> None:
        width = inputs_shape[-1]
        self.second = self._make_dense(width)
        self.first.build((None, width))
        if self.gate is not None:
            self.gate.build((None, width))
        self.second.build((None, self.units))

    def call(self, inputs: Tensor, training: bool | None = None) -> Tensor:
        width, num_axes = self.second.units, len(inputs.shape) - 1
        # For more than two axes, Dense calls `tf.tensordot`, which takes more graph operations. An
        # activation function may depend on the axes.
        rows = inputs if callable(self.activation) else ops.reshape(inputs, (-1, width))
        inner = self.first(rows)
        if self.gate is not None:
            inner = inner * self.gate(rows)
        if self.dropout and training:
            inner = zoo_ops.reshape_like(inner, inputs, num_axes, self.units)
            inner = self.drop(inner, training=True)
        outputs = self.second(ops.reshape(inner, (-1, self.units)))
        return zoo_ops.reshape_like(outputs, inputs, num_axes, width)

    def compute_output_shape(self, inputs_shape: Shape) -> Shape:
        return tuple(inputs_shape)
