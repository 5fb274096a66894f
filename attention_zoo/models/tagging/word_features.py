"""Input features of taggers, without context."""

from __future__ import annotations

from typing import Any

import keras
from keras import layers, ops

from attention_zoo import ops as zoo_ops
from attention_zoo.layers import CharacterCNN, CharacterLSTM, WordDropout
from attention_zoo.layers.transformer.dropout import Dropout
from attention_zoo.models.presets import Config, check_kind_options, check_options
from attention_zoo.registry import Registry
from attention_zoo.typing import Tensor

CHARACTERS = Registry("character encoder")
CHARACTERS.register("cnn")(CharacterCNN)
CHARACTERS.register("lstm")(CharacterLSTM)


class WordFeatures(layers.Layer):
    """Concatenated token embeddings, character features and mark embeddings.

    `x_t = drop([E[token_t]; characters_t; G[mark_t]])`

    Args:
        settings: settings of the tagger: "vocabulary_size", "embedding_dim" (width of E and of G),
            "characters", "marks" and "word_dropout".
        dropout: dropout rate on x, and on the character embeddings.
        scale: factor of the token embeddings.
        norm: expected norm of the initial token embeddings.

    Call arguments:
        inputs: `{"tokens": (B, T)}`, and "characters" and "marks" if the model uses them.
        training: enables both kinds of dropout.

    Returns:
        `(B, T, width)`; padding is not masked.

    Reference:
        Ma and Hovy 2016, arXiv 1603.01354, section 3.1: initialization of the token embeddings.
    """

    def __init__(
        self,
        settings: Config,
        dropout: float = 0.0,
        scale: float = 1.0,
        norm: float = 1.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        common: Config = {"dtype": self.dtype_policy}
        size, width = settings["vocabulary_size"], settings["embedding_dim"]
        initializer = keras.initializers.VarianceScaling(norm**2, "fan_out", "uniform")
        self.word_dropout = WordDropout(settings["word_dropout"], **common)
        self.token_embedding = layers.Embedding(size, width, initializer, **common)
        self.scale, self.width = scale, width
        self.characters = self.mark_embedding = None
        if settings["characters"] is not None:
            options = dict(settings["characters"])
            character_encoder = CHARACTERS.get(options.pop("kind"))
            self.characters = character_encoder(**options, dropout=dropout, **common)
            self.width += options["units"]
        if settings["marks"]:
            self.mark_embedding = layers.Embedding(2, width, **common)
            self.width += width
        self.drop = Dropout(dropout, **common)

    def build(self, inputs_shape: Any = None) -> None:
        self.token_embedding.build((None, None))
        if self.characters is not None:
            self.characters.build((None, None, None))
        if self.mark_embedding is not None:
            self.mark_embedding.build((None, None))
        self.built = True

    def call(self, inputs: dict[str, Tensor], training: bool | None = None) -> Tensor:
        tokens = self.word_dropout(inputs["tokens"], training=training)
        words = self.token_embedding(tokens)
        features = [words if self.scale == 1 else words * self.scale]
        if self.characters is not None:
            features.append(self.characters(inputs["characters"], training=training))
        if self.mark_embedding is not None:
            features.append(self.mark_embedding(inputs["marks"]))
        return self.drop(ops.concatenate(features, axis=-1), training=training)


def complete_character_options(value: Config | None) -> Config | None:
    """Return kind and arguments with defaults filled in; raise ValueError for unknown ones."""
    if value is None:
        return None
    if "vocabulary_size" not in check_options("characters", value):
        raise ValueError("characters needs a vocabulary_size, the number of character ids")
    zoo_ops.whole_number("characters' vocabulary_size", value["vocabulary_size"])
    reserved = ("dropout", "seed")
    options, defaults = check_kind_options("characters", value, "cnn", CHARACTERS.get, reserved)
    return {**defaults, **options}
