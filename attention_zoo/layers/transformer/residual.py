"""Residual connection around a sublayer, with normalization and dropout."""

from __future__ import annotations

from typing import Any

import keras

from attention_zoo import ops as zoo_ops
from attention_zoo.layers.transformer.dropout import Dropout
from attention_zoo.layers.transformer.layer_normalization import LayerNormalization
from attention_zoo.registry import Registry
from attention_zoo.typing import Shape, Tensor

NORMS = Registry("norm")
NORMS.register("layer")(LayerNormalization)


@NORMS.register("rms")
def make_rms_normalization(**arguments: Any) -> keras.layers.Layer:
    """Return Keras's `RMSNormalization`, which passes the mask on."""
    norm = keras.layers.RMSNormalization(**arguments)
    norm.supports_masking = True
    return norm


@keras.saving.register_keras_serializable("attention_zoo")
class Residual(keras.layers.Layer):
    """Residual connection around a sublayer f, in two halves.

    `prepare_input` returns the input of f, `add_output` adds its output:
    `y = x + drop(f(norm(x)))` with `norm_first`, else `y = norm(x + drop(f(x)))`

    Args:
        norm: a name in `NORMS`: "layer" or "rms".
        norm_first: whether to normalize the input of f (pre-norm) or the sum (post-norm).
        epsilon: epsilon of the normalization.
        dropout: dropout rate on the output of f, in training.
        stochastic_depth: probability of skipping f, per sequence, in training.
        seed: random seed of both, an integer or None.

    Reference:
        Vaswani et al. 2017, arXiv 1706.03762, section 5.4; pre-norm: Xiong et al. 2020, arXiv
        2002.04745, section 3; RMS: Zhang and Sennrich 2019, arXiv 1910.07467, equation 4;
        stochastic depth: Huang et al. 2016, arXiv 1603.09382, section 3, scaled in training.
    """

    def __init__(
        self,
        norm: str = "layer",
        norm_first: bool = True,
        epsilon: float = 1e-6,
        dropout: float = 0.0,
        stochastic_depth: float = 0.0,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        dtype = self.dtype_policy
        self.norm = NORMS.get(norm)(epsilon=epsilon, dtype=dtype)
        self.norm_first = norm_first
        self.drop = Dropout(zoo_ops.rate("dropout", dropout), seed=seed, dtype=dtype)
        rate = zoo_ops.rate("stochastic_depth", stochastic_depth)
        self.stochastic_depth = Dropout(rate, (None, 1, 1), seed, dtype=dtype)

    def build(self, inputs_shape: Shape) -> None:
        self.norm.build(tuple(inputs_shape))

    def prepare_input(self, x: Tensor) -> Tensor:
        """Return the input of the sublayer."""
        return self.norm(x) if self.norm_first else x

    def add_output(self, x: Tensor, y: Tensor, training: bool | None) -> Tensor:
        """Add the sublayer's output `y (B, T, D)`, after dropout, to the residual `x (B, T, D)`."""
        y = self.stochastic_depth(self.drop(y, training=training), training=training)
        y = zoo_ops.add_same_shape(x, y)
        return y if self.norm_first else self.norm(y)


def make_final_norm(
    norm: str = "layer", norm_first: bool = True, epsilon: float = 1e-6, **other: Any
) -> keras.layers.Layer:
    """Return the final normalization of a stack: a norm after pre-norm layers, else an Identity."""
    dtype = other.get("dtype")
    if not norm_first:
        return keras.layers.Identity(dtype=dtype)
    return NORMS.get(norm)(epsilon=epsilon, dtype=dtype)
