"""A word read from its characters, from both ends."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from attention_zoo import ops as zoo_ops
from attention_zoo.layers.dropout import Dropout
from attention_zoo.layers.recurrent_encoder import RecurrentEncoder

Tensor = Any
Shape = tuple[Any, ...]

PAD = 0


@keras.saving.register_keras_serializable("attention_zoo")
class CharacterLSTM(keras.layers.Layer):
    """A vector for each word: the last states of two LSTMs that read its characters.

    `y_t = [h_C; h'_1]`, `h_i = LSTM(x_i, h_{i-1})`, `h'_i = LSTM'(x_i, h'_{i+1})`,
    `x_i = drop(E[character_i])`

    Args:
        vocabulary_size: V, all characters; 0 is padding.
        embedding_dim: E, width of the characters' embeddings.
        units: U, width of the vector, half of it for each direction.
        dropout: rate on the embeddings, in training.
        seed: of the dropout, an integer or None.

    Call arguments:
        inputs: characters of each word, `(B, T, C)`, integers.
        training: switches dropout on.

    Returns:
        `(B, T, U)`.

    Weights:
        embedding: `(V, E)`. Those of Keras's LSTM, for each direction.

    Masking:
        Padding, wherever it stands, changes nothing. A word without characters gives 0.

    Cost:
        C steps one after the other, O(B T (E + U) U) each.

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
        super().__init__(**kwargs)
        self.vocabulary_size = zoo_ops.whole_number("vocabulary_size", vocabulary_size)
        self.embedding_dim = zoo_ops.whole_number("embedding_dim", embedding_dim)
        self.units = zoo_ops.whole_number("units", units)
        self.dropout, self.seed = dropout, seed
        own: dict[str, Any] = {"dtype": self.dtype_policy}
        begin = keras.initializers.VarianceScaling(1.0, "fan_out", "uniform")
        self.embedding = keras.layers.Embedding(vocabulary_size, embedding_dim, begin, **own)
        self.drop = Dropout(dropout, seed=seed, **own)
        self.reader = RecurrentEncoder("lstm", self.units, bidirectional=True, **own)

    def build(self, inputs_shape: Shape) -> None:
        zoo_ops.check_shape("inputs", inputs_shape, ("batch", "words", "characters"))
        self.embedding.build(None)
        self.reader.build((None, None, self.embedding_dim))
        self.built = True

    def call(self, inputs: Tensor, training: bool | None = None) -> Tensor:
        zoo_ops.check_shape("inputs", inputs.shape, ("batch", "words", "characters"))
        batch, words, characters = ops.shape(inputs)
        tokens = ops.reshape(inputs, (batch * words, characters))
        # Keras's LSTM takes neither no rows nor no steps, and cuDNN's no mask but pads at the end.
        tokens = ops.pad(tokens, ((0, 1), (0, 1)))
        tokens = ops.take_along_axis(tokens, zoo_ops.to_front(ops.not_equal(tokens, PAD)), axis=1)
        mask = ops.not_equal(tokens, PAD)
        x = self.drop(self.embedding(tokens), training=training)
        _, states = self.reader(x, mask=zoo_ops.show_one(mask), training=training)
        last = zoo_ops.clear(states[0], ops.any(mask, axis=1))
        return ops.reshape(last[:-1], (batch, words, self.units))

    def compute_output_shape(self, inputs_shape: Shape) -> Shape:
        return (*inputs_shape[:-1], self.units)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "vocabulary_size": self.vocabulary_size,
            "embedding_dim": self.embedding_dim,
            "units": self.units,
            "dropout": self.dropout,
            "seed": self.seed,
        }
