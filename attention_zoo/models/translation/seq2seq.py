"""Sequence-to-sequence models without attention: the source is encoded as a fixed-size vector."""

from __future__ import annotations

from typing import Any

import keras
from keras import layers, ops

from attention_zoo.layers import Maxout, RecurrentDecoder, RecurrentEncoder
from attention_zoo.layers.recurrent.recurrent_encoder import RECURRENT
from attention_zoo.layers.transformer.dropout import Dropout
from attention_zoo.models.encoder_decoder import Encoded, EncoderDecoder, repeat_over_steps
from attention_zoo.models.presets import Config, add_presets, collect_arguments, register_model
from attention_zoo.registry import check_choice
from attention_zoo.typing import Tensor

CELLS = {"lstm": layers.LSTMCell, "gru": layers.GRUCell, "simple_rnn": layers.SimpleRNNCell}
CONTEXTS = ("initial_state", "every_step")


@register_model
@keras.saving.register_keras_serializable("attention_zoo")
class Seq2Seq(EncoderDecoder):
    """Recurrent encoder and decoder, connected by the encoder's final state only.

    `initial_state` (Sutskever): `s_0 = v`, `logits_t = s_t W`;
    `every_step` (Cho): `s_0 = tanh(c W')`, `s_t = RNN([y_{t-1}; c])`,
    `logits_t = maxout([s_t; y_{t-1}; c]) W`

    v are the final states of all encoder layers. c is the final h of the top encoder layer.

    Args:
        source_vocabulary_size: number of source tokens, including the 4 special tokens.
        target_vocabulary_size: V, number of target tokens, including the 4 special tokens.
        context: how the decoder takes the source vector: as its "initial_state" only, or as an
            input at "every_step" too.
        cell: "lstm", "gru" or "simple_rnn".
        embedding_dim: width of both embeddings.
        units: hidden units of every layer.
        num_layers: number of layers of the encoder, and of the decoder.
        reverse_source: encode the source backwards.
        bidirectional: encode the source in both directions, with half the units each; not in the
            papers.
        dropout: dropout rate on embeddings, between encoder layers and before the output
            projection.

    Call arguments:
        inputs: `{"source": (B, S), "target": (B, T)}`, integers; the target begins with the start
            token, 2.
        training: enables dropout.

    Returns:
        Logits `(B, T, V)`.

    Masking:
        Padding (0) in source or target does not affect other positions.

    Reference:
        Sutskever et al. 2014, arXiv 1409.3215, section 2 (v is the last state of every layer);
        Cho et al. 2014, arXiv 1406.1078, section 2.2 and appendix A (there c is tanh(V h_T), here
        h_T: the kernels that are applied to c replace V, and only s_0 has a tanh).
    """

    # layers

    def __init__(
        self,
        source_vocabulary_size: int,
        target_vocabulary_size: int,
        context: str = "initial_state",
        cell: str = "lstm",
        embedding_dim: int = 1000,
        units: int = 1000,
        num_layers: int = 1,
        reverse_source: bool = False,
        bidirectional: bool = False,
        dropout: float = 0.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        settings = collect_arguments(locals())
        common = {"dtype": self.dtype_policy}
        check_choice("context", context, CONTEXTS)
        check_choice("cell", cell, RECURRENT)
        self.every_step = context == "every_step"
        self.source_embedding = layers.Embedding(source_vocabulary_size, embedding_dim, **common)
        self.target_embedding = layers.Embedding(target_vocabulary_size, embedding_dim, **common)
        self.encoder = RecurrentEncoder(
            cell, units, num_layers, bidirectional, reverse_source, dropout, **common
        )
        stack = [CELLS[cell](units, **common) for _ in range(num_layers)]
        self.decoder = RecurrentDecoder(stack, bridge=self.every_step, **common)
        self.maxout = Maxout(max(1, units // 2), **common) if self.every_step else None
        self.vocabulary = layers.Dense(target_vocabulary_size, use_bias=False, **common)
        self.drop = Dropout(dropout, **common)
        self.set_up(settings)

    def build_layers(self) -> None:
        width, units = self.settings["embedding_dim"], self.settings["units"]
        self.source_embedding.build((None, None))
        self.target_embedding.build((None, None))
        self.encoder.build((None, None, width))
        if self.maxout is None:
            self.decoder.build((None, None, width))
            self.vocabulary.build((None, None, units))
        else:
            self.decoder.build((None, None, width + units), None, (None, units))
            self.maxout.build((None, None, units + width + units))
            self.vocabulary.build((None, None, self.maxout.units))

    # computation

    def encode(self, source: Tensor, training: bool) -> Encoded:
        mask = ops.not_equal(source, 0)
        embedded = self.drop(self.source_embedding(source), training=training)
        _, states = self.encoder(embedded, mask=mask, training=training)
        if not self.every_step:
            return Encoded(None, mask, states)
        vector = states[-2 if self.settings["cell"] == "lstm" else -1]
        return Encoded(None, mask, vector, vector)

    def decoder_inputs(self, embedded: Tensor, encoded: Encoded) -> Tensor:
        if encoded.vector is None:
            return embedded
        return ops.concatenate([embedded, repeat_over_steps(encoded.vector, embedded)], axis=-1)

    def readout(
        self, record: dict[str, Tensor], embedded: Tensor, encoded: Encoded, training: bool
    ) -> Tensor:
        output = record["output"]
        if self.maxout is not None:
            vector = repeat_over_steps(encoded.vector, embedded)
            output = self.maxout(ops.concatenate([output, embedded, vector], axis=-1))
        return self.drop(output, training=training)


# config

SMALL = Config(embedding_dim=256, units=512, reverse_source=True, dropout=0.4)
"""Sizes for small data and a CPU; not the paper's."""

add_presets(
    Seq2Seq,
    # The sizes of Sutskever et al. (section 3.4); their target vocabulary is 80,000.
    seq2seq_base=Config(
        cell="lstm", embedding_dim=1000, units=1000, num_layers=4, reverse_source=True
    ),
    seq2seq_initial_small=Config(context="initial_state", cell="lstm", **SMALL),
    seq2seq_every_step_small=Config(context="every_step", cell="gru", **SMALL),
)
