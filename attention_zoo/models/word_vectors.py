"""Pretrained word vectors as token embeddings."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
from keras import ops

from attention_zoo.data import read_word_vectors


class WordVectorsMixin:
    """Mixin for models whose token embeddings can be loaded from a word vector file.

    By default they are those of `features`, a `WordFeatures`; others override `token_embedding`.
    """

    features: Any

    @property
    def token_embedding(self) -> keras.layers.Embedding:
        """Embedding layer of the tokens."""
        return self.features.token_embedding

    def load_word_vectors(self, path: str | Path, vocabulary: Sequence[str]) -> int:
        """Load token embeddings from a word vector file; return the number of tokens found.

        Args:
            path: see `data.read_word_vectors`.
            vocabulary: the tokens in the order of their ids.

        Raises:
            ValueError: a vocabulary of another size, vectors of another width, a damaged file.
        """
        return load_word_vectors(self.token_embedding, path, vocabulary)


def load_word_vectors(
    embedding: keras.layers.Embedding, path: str | Path, vocabulary: Sequence[str]
) -> int:
    """Load embeddings of tokens; see `WordVectorsMixin.load_word_vectors`."""
    size, width = embedding.embeddings.shape
    if len(vocabulary) != size:
        raise ValueError(f"the vocabulary has {len(vocabulary)} tokens, the model {size}")
    vectors, found = read_word_vectors(path, vocabulary)
    if vectors.shape[1] != width:
        raise ValueError(
            f"{path}: vectors of width {vectors.shape[1]}, but the model has embedding_dim={width};"
            f" build it with embedding_dim={vectors.shape[1]}"
        )
    current = ops.convert_to_numpy(embedding.embeddings)
    embedding.embeddings.assign(np.where(found[:, None], vectors, current))
    return int(found.sum())
