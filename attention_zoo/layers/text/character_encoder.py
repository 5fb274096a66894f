"""Base class of layers that compute word vectors from characters."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from attention_zoo import ops as zoo_ops
from attention_zoo.layers.kernels import KernelLayer
from attention_zoo.layers.transformer.dropout import Dropout
from attention_zoo.typing import Shape, Tensor

PAD = 0


class CharacterEncoder(KernelLayer):
    """Base class of layers that map the characters of words to word vectors.

    A subclass defines `encode`, and builds the layers of `encode` in `build`. The call takes
    character ids `(B, T, C)`.

    Args:
        vocabulary_size, embedding_dim, units, dropout, seed: see the subclasses.

    Returns:
        `(B, T, U)`.

    Masking:
        Padding (0) has no effect at any position. A word without characters gives 0.

    Reference:
        See the subclasses.
    """

    def __init__(
        self,
        vocabulary_size: int,
        embedding_dim: int,
        units: int,
        dropout: float,
        seed: int | None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.vocabulary_size = zoo_ops.whole_number("vocabulary_size", vocabulary_size)
        self.embedding_dim = zoo_ops.whole_number("embedding_dim", embedding_dim)
        self.units = zoo_ops.whole_number("units", units)
        self.dropout, self.seed = dropout, seed
        initializer = keras.initializers.VarianceScaling(1.0, "fan_out", "uniform")
        self.embedding = keras.layers.Embedding(
            vocabulary_size, embedding_dim, initializer, dtype=self.dtype_policy
        )
        self.drop = Dropout(dropout, seed=seed, dtype=self.dtype_policy)

    def build(self, inputs_shape: Shape) -> None:
        zoo_ops.check_shape("inputs", inputs_shape, ("batch", "words", "characters"))
        self.embedding.build((None, None))

    def call(self, inputs: Tensor, training: bool | None = None) -> Tensor:
        zoo_ops.check_shape("inputs", inputs.shape, ("batch", "words", "characters"))
        batch, words, characters = ops.shape(inputs)
        vectors = self.encode(ops.reshape(inputs, (batch * words, characters)), training)
        return ops.reshape(vectors, (batch, words, self.units))

    def encode(self, tokens: Tensor, training: bool | None) -> Tensor:
        """Compute word vectors `(N, U)` from characters `(N, C)`; 0 for words without any."""
        raise TypeError(f"{type(self).__name__} must define `encode`.")

    def embed(self, tokens: Tensor, training: bool | None) -> Tensor:
        """Embed the characters with dropout, `(N, C, E)`; values at padding are arbitrary."""
        return self.drop(self.embedding(tokens), training=training)

    def compute_output_shape(self, inputs_shape: Shape) -> Shape:
        return (*inputs_shape[:-1], self.units)
