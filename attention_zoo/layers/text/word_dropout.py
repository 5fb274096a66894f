"""Word dropout: random tokens become the unknown token, in training."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from attention_zoo import ops as zoo_ops
from attention_zoo.layers.base import BaseLayer
from attention_zoo.ops.random import sample_keep_mask
from attention_zoo.typing import Tensor

PAD, UNKNOWN = 0, 1


@keras.saving.register_keras_serializable("attention_zoo")
class WordDropout(BaseLayer):
    """Word dropout: replaces random tokens with the unknown token, in training.

    `y_t = x_t keep_t + 1 - keep_t`, each `keep` 0 with probability `rate`, else 1; 1 is `<unk>`

    Args:
        rate: probability of replacing a token, 0 to 1.
        seed: random seed, an integer or None.

    Call arguments:
        inputs: token ids, integers of any shape.
        training: unless True, the inputs are returned unchanged.

    Returns:
        Token ids of the inputs' shape and dtype. The same seed replaces the same tokens on every
        backend.

    Weights:
        None.

    Masking:
        Padding (token id 0) is never replaced; the mask is propagated.

    Cost:
        O(n) for n tokens.

    Example:
        >>> import numpy as np
        >>> from attention_zoo.layers import WordDropout
        >>> tokens = np.array([[7, 8, 0]])
        >>> [int(token) for token in WordDropout(1.0)(tokens, training=True)[0]]
        [1, 1, 0]

    Reference:
        Iyyer et al. 2015, ACL P15-1162, section 3.1: r_w is keep. The paper removes the words;
        here `<unk>` replaces them, because each word has a tag.
    """

    def __init__(self, rate: float, seed: int | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if not 0 <= zoo_ops.number(rate) <= 1:
            raise ValueError(f"rate must be in [0, 1], got {rate!r}")
        self.rate, self.seed = rate, seed
        self.seed_generator = keras.random.SeedGenerator(seed)
        self.supports_masking = True
        self.built = True  # without weights; models call it in training only

    def call(self, inputs: Tensor, training: bool | None = None) -> Tensor:
        if not (training and self.rate):
            return inputs
        keep = sample_keep_mask(self.seed_generator.next(), self.rate, ops.shape(inputs))
        is_kept = ops.logical_or(ops.equal(inputs, PAD), keep)
        return ops.where(is_kept, inputs, ops.cast(UNKNOWN, inputs.dtype))
