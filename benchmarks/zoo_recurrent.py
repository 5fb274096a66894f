"""attention_zoo: training and beam search of a recurrent translator, on random token ids.

The network is that of the peers: bidirectional GRU encoder, LSTM decoder with input feeding.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
sys.path.insert(0, str(Path(__file__).parent / "peers"))

import common
import keras
import tensorflow as tf
from keras import ops

import attention_zoo as az
from attention_zoo.models.encoder_decoder import Encoded, EncoderDecoder

ATTENTIONS = {"bahdanau": "additive", "luong": "general"}


class Translator(EncoderDecoder):
    """Bidirectional GRU encoder, LSTM decoder with attention and input feeding."""

    def __init__(self, attention: str) -> None:
        super().__init__()
        layers, units = keras.layers, common.UNITS
        self.source_embedding = layers.Embedding(common.VOCABULARY, common.EMBEDDING)
        self.target_embedding = layers.Embedding(common.VOCABULARY, common.EMBEDDING)
        self.encoder = az.layers.RecurrentEncoder("gru", 2 * units, bidirectional=True)
        cell = az.layers.AttentionCell(
            layers.LSTMCell(units),
            az.layers.Attention(ATTENTIONS[attention]),
            attention_layer_size=units,
        )
        self.decoder = az.layers.RecurrentDecoder(cell, bridge=True)
        self.vocabulary = layers.Dense(common.VOCABULARY)
        self.drop = layers.Dropout(0)
        self.set_up(dict.fromkeys(("source_vocabulary_size", "target_vocabulary_size"), 8000))

    def build(self, input_shape: object = None) -> None:
        units, width = common.UNITS, common.EMBEDDING
        self.source_embedding.build(None)
        self.target_embedding.build(None)
        self.encoder.build((None, None, width))
        self.decoder.build((None, None, width), (None, None, 2 * units), (None, 2 * units))
        self.vocabulary.build((None, None, units))
        self.built = True

    def encode(self, source: tf.Tensor, training: bool) -> Encoded:
        mask = ops.not_equal(source, 0)
        memory, (last,) = self.encoder(self.source_embedding(source), mask=mask)
        return Encoded(memory, mask, last)

    def readout(
        self, record: dict, embedded: tf.Tensor, encoded: Encoded, training: bool
    ) -> tf.Tensor:
        return self.vocabulary(record["output"])


def time_training(model: Translator, attention: str, steps: int, jit: bool) -> None:
    model.compile(
        optimizer=keras.optimizers.Adam(1e-3),
        loss=az.losses.SequenceCrossEntropy(),
        jit_compile=jit,
    )
    source = random_ids(common.BATCH, common.LENGTH)
    target = random_ids(common.BATCH, common.LENGTH + 1)
    inputs, labels = {"source": source, "target": target[:, :-1]}, target[:, 1:]
    seconds = common.median_seconds(lambda: model.train_on_batch(inputs, labels), steps)
    rate = common.BATCH * common.LENGTH / seconds
    work = f"train {attention}{' XLA' if jit else ''}"
    common.report("attention_zoo", work, seconds, tokens_per_second=rate)


def time_search(model: Translator, attention: str, steps: int, jit: bool) -> None:
    source = random_ids(common.SEARCH_BATCH, common.LENGTH)
    options = {"beam_width": common.BEAM, "n_best": common.BEAM, "max_length": common.LENGTH}
    seconds = common.median_seconds(
        lambda: model.compiled_search(source, jit=jit, **options), steps
    )
    work = f"beam {common.BEAM} {attention}{' XLA' if jit else ''}"
    common.report(
        "attention_zoo", work, seconds, sentences_per_second=common.SEARCH_BATCH / seconds
    )


def random_ids(*shape: int) -> tf.Tensor:
    return tf.random.uniform(shape, common.FIRST_WORD, common.VOCABULARY, tf.int32)


WORKS = {"train": time_training, "beam": time_search}


def main() -> None:
    options = common.arguments(__doc__, list(WORKS))
    keras.utils.set_random_seed(1)
    model = Translator(options.attention)
    for work in options.work:
        for jit in (False, True):
            WORKS[work](model, options.attention, options.steps, jit)


if __name__ == "__main__":
    main()
