"""Word vectors by a convolution over characters."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from attention_zoo import ops as zoo_ops
from attention_zoo.layers.text.character_encoder import PAD, CharacterEncoder
from attention_zoo.typing import Shape, Tensor


@keras.saving.register_keras_serializable("attention_zoo")
class CharacterCNN(CharacterEncoder):
    """Character CNN: word vectors by a convolution over characters and max pooling.

    `y_t = max_i [x_{i-1}; x_i; x_{i+1}] W + b`, `x_i = drop(E[character_i])`,
    with x = 0 outside the word

    Args:
        vocabulary_size: V, number of character ids; 0 is padding.
        embedding_dim: E, width of the character embeddings.
        units: U, number of filters.
        width: kernel size in characters, 3 in the formula.
        dropout: dropout rate of the embeddings.
        seed: seed of the dropout, an integer or None.

    Call arguments:
        inputs: character ids of each word, `(B, T, C)`, integers.
        training: enables dropout.

    Returns:
        `(B, T, U)`.

    Weights:
        embedding: `(V, E)`. filters: W, `(width E, U)`, and b, `(U,)`.

    Masking:
        Padding before or after the characters has no effect and is excluded from the maximum. A
        word without characters gives 0.

    Cost:
        O(B T C width E U) time, O(B T C (width E + U)) memory.

    Example:
        >>> import numpy as np
        >>> from attention_zoo.layers import CharacterCNN
        >>> words = np.array([[[4, 5, 6], [7, 0, 0]]])
        >>> tuple(CharacterCNN(vocabulary_size=9, units=8)(words).shape)
        (1, 2, 8)

    Reference:
        Ma and Hovy 2016, arXiv 1603.01354, section 2.1.
    """

    def __init__(
        self,
        vocabulary_size: int,
        embedding_dim: int = 30,
        units: int = 30,
        width: int = 3,
        dropout: float = 0.0,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(vocabulary_size, embedding_dim, units, dropout, seed, **kwargs)
        self.width = zoo_ops.whole_number("width", width)
        self.filters = keras.layers.Dense(units, **self.part_arguments)

    def build(self, inputs_shape: Shape) -> None:
        super().build(inputs_shape)
        self.filters.build((None, None, self.width * self.embedding_dim))

    def encode(self, tokens: Tensor, training: bool | None) -> Tensor:
        mask = ops.not_equal(tokens, PAD)
        x = zoo_ops.zero_masked(self.embed(tokens, training), mask)
        features = self.filters(zoo_ops.sliding_windows(x, self.width))
        features = zoo_ops.mask_scores(features, mask[..., None], axis=1)
        best = zoo_ops.max_or_nan(features, 1)
        return zoo_ops.zero_masked(best, ops.any(mask, axis=1))
