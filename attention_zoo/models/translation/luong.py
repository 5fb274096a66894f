"""Luong's translation model: attention with input feeding (Luong, Pham, Manning 2015)."""

from __future__ import annotations

from typing import Any

import keras
from keras import layers, ops

from attention_zoo.layers import Attention, AttentionCell, RecurrentDecoder, RecurrentEncoder
from attention_zoo.layers.transformer.dropout import Dropout
from attention_zoo.models.encoder_decoder import Encoded, EncoderDecoder
from attention_zoo.models.presets import Config, add_presets, collect_arguments, register_model
from attention_zoo.typing import Tensor


@register_model
@keras.saving.register_keras_serializable("attention_zoo")
class LuongTranslator(EncoderDecoder):
    """Stacked LSTMs with global attention after each step, fed back as input of the next step.

    `h_t = LSTM([y_{t-1}; a_{t-1}])`, `c_t = attend(h_t)`, `a_t = tanh([h_t; c_t] W_c)`,
    `logits_t = a_t W_s`

    Args:
        source_vocabulary_size: source tokens, including the 4 special ones.
        target_vocabulary_size: V, target tokens, including the 4 special ones.
        embedding_dim: width of both embeddings.
        units: width of every layer and of a_t.
        num_layers: number of layers of the encoder and of the decoder.
        score: "dot", "general" or "concat" (or any other score by name).
        input_feeding: feed a_{t-1} to the first layer.
        reverse_source: encode the source backwards; weights stay in its order.
        bidirectional: encode the source in both directions (half the units each); not the paper's.
        dropout: dropout rate on embeddings, between layers and on a_t.

    Call arguments:
        inputs: `{"source": (B, S), "target": (B, T)}`, integers; the target begins with 2.
        training: enables dropout.

    Returns:
        Logits `(B, T, V)`.

    Masking:
        Padding (0) in source or target does not affect other positions.

    Reference:
        Luong et al. 2015, arXiv 1508.04025, equations 5 and 6, sections 3.1 and 3.3: h~_t is a_t.
        The rows of W_c are in the order [h_t; c_t] here.
    """

    # layers

    def __init__(
        self,
        source_vocabulary_size: int,
        target_vocabulary_size: int,
        embedding_dim: int = 1000,
        units: int = 1000,
        num_layers: int = 4,
        score: str = "general",
        input_feeding: bool = True,
        reverse_source: bool = True,
        bidirectional: bool = False,
        dropout: float = 0.2,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        settings = collect_arguments(locals())
        common = {"dtype": self.dtype_policy}
        self.source_embedding = layers.Embedding(source_vocabulary_size, embedding_dim, **common)
        self.target_embedding = layers.Embedding(target_vocabulary_size, embedding_dim, **common)
        self.encoder = RecurrentEncoder(
            "lstm", units, num_layers, bidirectional, reverse_source, dropout, **common
        )
        cell = AttentionCell(
            [layers.LSTMCell(units, **common) for _ in range(num_layers)],
            Attention(score, **common),
            input_feeding=input_feeding,
            attention_layer_size=units,
            attention_activation="tanh",
            **common,
        )
        self.decoder = RecurrentDecoder(cell, **common)
        self.vocabulary = layers.Dense(target_vocabulary_size, use_bias=False, **common)
        self.drop = Dropout(dropout, **common)
        self.set_up(settings)

    def build_layers(self) -> None:
        width, units = self.settings["embedding_dim"], self.settings["units"]
        self.source_embedding.build((None, None))
        self.target_embedding.build((None, None))
        self.encoder.build((None, None, width))
        self.decoder.build((None, None, width), (None, None, units))
        self.vocabulary.build((None, None, units))

    # computation

    def encode(self, source: Tensor, training: bool) -> Encoded:
        mask = ops.not_equal(source, 0)
        embedded = self.drop(self.source_embedding(source), training=training)
        memory, states = self.encoder(embedded, mask=mask, training=training)
        return Encoded(memory, mask, states)

    def readout(
        self, record: dict[str, Tensor], embedded: Tensor, encoded: Encoded, training: bool
    ) -> Tensor:
        return self.drop(record["output"], training=training)


# config

add_presets(
    LuongTranslator,
    # The paper's sizes (section 4.1): 4 layers of 1000, dropout 0.2; vocabulary 50,000.
    luong_base=Config(embedding_dim=1000, units=1000, num_layers=4, dropout=0.2),
    # Sizes for small data and a CPU, with a bidirectional encoder; not the paper's. The score is
    # "dot". With "general", Adam (learning rate 0.003) on 29,000 sentences collapsed to one source
    # position: an update changes all 512 x 512 weights by about the same amount.
    luong_small=Config(
        embedding_dim=256,
        units=512,
        num_layers=1,
        score="dot",
        reverse_source=False,
        bidirectional=True,
        dropout=0.4,
    ),
)
