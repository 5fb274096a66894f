"""Dropout with counter-based random numbers."""

from __future__ import annotations

import keras
from keras import ops

from attention_zoo.ops.compact_gradients import where_or_zero
from attention_zoo.ops.random import sample_keep_mask, sample_keep_mask_like
from attention_zoo.typing import Tensor


class Dropout(keras.layers.Dropout):
    """Keras's dropout with counter-based random numbers, which XLA never stores in memory.

    `y = x keep / (1 - rate)`, each `keep` 0 with probability `rate`, else 1

    Args:
        rate, noise_shape, seed: as in `keras.layers.Dropout`.

    Call arguments:
        inputs: any shape.
        training: enables dropout.

    Returns:
        The inputs' shape and dtype. The same seed gives the same dropout mask on every backend.

    Masking:
        The mask is passed on. Masked positions are dropped like all others.

    Cost:
        O(n) for n elements; under XLA the output is the only tensor of that size in memory.

    Reference:
        Srivastava et al. 2014, "Dropout: a simple way to prevent neural networks from overfitting",
        section 4.
    """

    def call(self, inputs: Tensor, training: bool | None = False) -> Tensor:
        if not (training and self.rate):
            return inputs
        seed = self.seed_generator.next()
        if self.noise_shape:
            pairs = zip(ops.shape(inputs), self.noise_shape, strict=True)
            shape = tuple(size if fixed is None else fixed for size, fixed in pairs)
            keep = sample_keep_mask(seed, self.rate, shape)
        else:
            keep = sample_keep_mask_like(seed, self.rate, inputs)
        scale = 1 / (1 - self.rate) if self.rate < 1 else 0.0
        return where_or_zero(keep, inputs * scale)
