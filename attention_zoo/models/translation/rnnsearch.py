"""RNNsearch: the first translation model with attention (Bahdanau, Cho, Bengio 2014)."""

from __future__ import annotations

from typing import Any

import keras
from keras import layers, ops

from attention_zoo.layers import (
    AdditiveAttention,
    AttentionCell,
    Maxout,
    RecurrentDecoder,
    RecurrentEncoder,
)
from attention_zoo.layers.transformer.dropout import Dropout
from attention_zoo.models.encoder_decoder import Encoded, EncoderDecoder
from attention_zoo.models.presets import Config, add_presets, collect_arguments, register_model
from attention_zoo.typing import Tensor


@register_model
@keras.saving.register_keras_serializable("attention_zoo")
class RNNSearch(EncoderDecoder):
    """Bidirectional GRU encoder, GRU decoder that attends before each step, maxout readout.

    `c_i = attend(s_{i-1})`, `s_i = GRU(s_{i-1}, [y_{i-1}; c_i])`,
    `logits_i = maxout([s_{i-1}; y_{i-1}; c_i]) W`

    Args:
        source_vocabulary_size: source tokens, including the 4 special ones.
        target_vocabulary_size: V, target tokens, including the 4 special ones.
        embedding_dim: m, width of both embeddings.
        units: n, of each direction of the encoder and of the decoder.
        attention_units: n', hidden units of the score.
        readout_units: l, maxout units (pool 2) before the vocabulary.
        dropout: dropout rate on embeddings and readout.

    Call arguments:
        inputs: `{"source": (B, S), "target": (B, T)}`, integers; the target begins with 2.
        training: enables dropout.

    Returns:
        Logits `(B, T, V)`.

    Masking:
        Padding (0) in source or target does not affect other positions.

    Reference:
        Bahdanau et al. 2014, arXiv 1409.0473, section 3 and appendix A; the letters m, n, n', l
        are the paper's. The readout uses s_{i-1}, as in appendix A.2.2.
    """

    # layers

    def __init__(
        self,
        source_vocabulary_size: int,
        target_vocabulary_size: int,
        embedding_dim: int = 620,
        units: int = 1000,
        attention_units: int = 1000,
        readout_units: int = 500,
        dropout: float = 0.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        settings = collect_arguments(locals())
        common = {"dtype": self.dtype_policy}
        self.source_embedding = layers.Embedding(source_vocabulary_size, embedding_dim, **common)
        self.target_embedding = layers.Embedding(target_vocabulary_size, embedding_dim, **common)
        self.encoder = RecurrentEncoder("gru", 2 * units, bidirectional=True, **common)
        cell = AttentionCell(
            layers.GRUCell(units, **common),
            AdditiveAttention(attention_units, **common),
            order="attend_then_step",
            **common,
        )
        self.decoder = RecurrentDecoder(cell, bridge=True, **common)
        self.maxout = Maxout(readout_units, **common)
        self.vocabulary = layers.Dense(target_vocabulary_size, use_bias=False, **common)
        self.drop = Dropout(dropout, **common)
        self.set_up(settings)

    def build_layers(self) -> None:
        width, units = self.settings["embedding_dim"], self.settings["units"]
        self.source_embedding.build((None, None))
        self.target_embedding.build((None, None))
        self.encoder.build((None, None, width))
        self.decoder.build((None, None, width), (None, None, 2 * units), (None, units))
        self.maxout.build((None, None, units + width + 2 * units))
        self.vocabulary.build((None, None, self.settings["readout_units"]))

    # computation

    readout_fields = ("query", "context")

    def encode(self, source: Tensor, training: bool) -> Encoded:
        mask = ops.not_equal(source, 0)
        embedded = self.drop(self.source_embedding(source), training=training)
        memory, (state,) = self.encoder(embedded, mask=mask, training=training)
        backward = state[:, self.settings["units"] :]
        return Encoded(memory, mask, backward)

    def readout(
        self, record: dict[str, Tensor], embedded: Tensor, encoded: Encoded, training: bool
    ) -> Tensor:
        maxout_inputs = ops.concatenate([record["query"], embedded, record["context"]], axis=-1)
        return self.drop(self.maxout(maxout_inputs), training=training)


# config

add_presets(
    RNNSearch,
    # The paper's sizes (appendix A.2.3): m 620, n and n' 1000, l 500; vocabulary 30,000.
    rnnsearch_base=Config(embedding_dim=620, units=1000, attention_units=1000, readout_units=500),
    # Sizes for small data and a CPU; not the paper's.
    rnnsearch_small=Config(
        embedding_dim=256, units=512, attention_units=512, readout_units=256, dropout=0.4
    ),
)
