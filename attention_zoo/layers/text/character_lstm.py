"""Word vectors by a bidirectional LSTM over characters."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from attention_zoo import ops as zoo_ops
from attention_zoo.layers.recurrent.recurrent_encoder import RecurrentEncoder
from attention_zoo.layers.text.character_encoder import PAD, CharacterEncoder
from attention_zoo.typing import Shape, Tensor


@keras.saving.register_keras_serializable("attention_zoo")
class CharacterLSTM(CharacterEncoder):
    """Character LSTM: word vectors by the last states of a bidirectional LSTM.

    `y_t = [h_C; h'_1]`, `h_i = LSTM(x_i, h_{i-1})`, `h'_i = LSTM'(x_i, h'_{i+1})`,
    `x_i = drop(E[character_i])`

    Args:
        vocabulary_size: V, number of character ids; 0 is padding.
        embedding_dim: E, width of the character embeddings.
        units: U, width of the word vector, half of it for each direction.
        dropout: dropout rate of the embeddings.
        seed: seed of the dropout, an integer or None.

    Call arguments:
        inputs: character ids of each word, `(B, T, C)`, integers.
        training: enables dropout.

    Returns:
        `(B, T, U)`.

    Weights:
        embedding: `(V, E)`. The weights of a Keras LSTM for each direction.

    Masking:
        Padding has no effect at any position. A word without characters gives 0.

    Cost:
        C sequential steps, O(B T (E + U) U) each.

    Example:
        >>> import numpy as np
        >>> from attention_zoo.layers import CharacterLSTM
        >>> words = np.array([[[4, 5, 6], [7, 0, 0]]])
        >>> tuple(CharacterLSTM(vocabulary_size=9, units=8)(words).shape)
        (1, 2, 8)

    Reference:
        Lample et al. 2016, arXiv 1603.01360, section 4.1.
    """

    def __init__(
        self,
        vocabulary_size: int,
        embedding_dim: int = 30,
        units: int = 30,
        dropout: float = 0.0,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(vocabulary_size, embedding_dim, units, dropout, seed, **kwargs)
        self.encoder = RecurrentEncoder("lstm", units, bidirectional=True, **self.part_arguments)

    def build(self, inputs_shape: Shape) -> None:
        super().build(inputs_shape)
        self.encoder.build((None, None, self.embedding_dim))

    def encode(self, tokens: Tensor, training: bool | None) -> Tensor:
        # Keras's LSTM needs at least one row and one step; cuDNN needs all padding at the end.
        tokens = ops.pad(tokens, ((0, 1), (0, 1)))
        tokens = ops.take_along_axis(tokens, zoo_ops.to_front(ops.not_equal(tokens, PAD)), axis=1)
        mask = ops.not_equal(tokens, PAD)
        x = self.embed(tokens, training)
        _, states = self.encoder(x, mask=zoo_ops.unmask_empty_rows(mask), training=training)
        return zoo_ops.zero_masked(states[0], ops.any(mask, axis=1))[:-1]
