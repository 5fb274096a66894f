"""Words left out in training, so that a model learns what to make of unknown ones."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from attention_zoo import ops as zoo_ops
from attention_zoo.ops.random import kept

Tensor = Any

PAD, UNKNOWN = 0, 1


@keras.saving.register_keras_serializable("attention_zoo")
class WordDropout(keras.layers.Layer):
    """Tokens become the unknown one by chance, in training.

    `y_t = x_t keep_t + 1 - keep_t`, each `keep` 0 with a chance of `rate`, else 1; 1 is `<unk>`

    Args:
        rate: how likely a token is left out, 0 to 1.
        seed: an integer or None.

    Call arguments:
        inputs: tokens, integers of any shape.
        training: nothing is left out without.

    Returns:
        Tokens of the inputs' shape and dtype. The same seed leaves out the same on every backend.

    Weights:
        None.

    Masking:
        Padding (0) stays padding; the mask goes on.

    Cost:
        O(n) for n tokens.

    Example:
        >>> import numpy as np
        >>> from attention_zoo.layers import WordDropout
        >>> tokens = np.array([[7, 8, 0]])
        >>> [int(token) for token in WordDropout(1.0)(tokens, training=True)[0]]
        [1, 1, 0]

    Reference:
        Iyyer et al. 2015, ACL P15-1162, section 3.1: r_w is keep. There a word is taken out; here
        `<unk>` takes its place, since each word has a tag.
    """

    def __init__(self, rate: float, seed: int | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if not 0 <= zoo_ops.number(rate) <= 1:
            raise ValueError(f"rate must be in [0, 1], got {rate!r}")
        self.rate, self.seed = rate, seed
        self.seed_generator = keras.random.SeedGenerator(seed)
        self.supports_masking = True

    def call(self, inputs: Tensor, training: bool | None = None) -> Tensor:
        if not (training and self.rate):
            return inputs
        keep = kept(self.seed_generator.next(), self.rate, ops.shape(inputs))
        left = ops.logical_or(ops.equal(inputs, PAD), keep)
        return ops.where(left, inputs, ops.cast(UNKNOWN, inputs.dtype))

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "rate": self.rate, "seed": self.seed}
