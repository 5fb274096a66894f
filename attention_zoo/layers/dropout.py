"""Dropout whose numbers are counted, not drawn one after the other."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from attention_zoo.ops.random import kept

Tensor = Any


class Dropout(keras.layers.Dropout):
    """Keras's dropout with draws by counters, which XLA never keeps in memory.

    `y = x keep / (1 - rate)`, each `keep` 0 with a chance of `rate`, else 1

    Args:
        rate, noise_shape, seed: as in `keras.layers.Dropout`.

    Call arguments:
        inputs: any shape.
        training: nothing is dropped without.

    Returns:
        The inputs' shape and dtype. The same seed drops the same on every backend.

    Masking:
        Passed on; what is hidden is dropped like anything else.

    Cost:
        O(n) for n numbers; nothing of that size is made under XLA but the output.

    Reference:
        Srivastava et al. 2014, "Dropout: a simple way to prevent neural networks from overfitting",
        section 4.
    """

    def call(self, inputs: Tensor, training: bool | None = False) -> Tensor:
        if not (training and self.rate):
            return inputs
        sizes = ops.shape(inputs)
        noise = self.noise_shape or (None,) * len(sizes)
        shape = [size if own is None else own for size, own in zip(sizes, noise, strict=True)]
        keep = kept(self.seed_generator.next(), self.rate, shape)
        scale = 1 / (1 - self.rate) if self.rate < 1 else 0.0
        return ops.where(keep, inputs * scale, ops.zeros((), inputs.dtype))
