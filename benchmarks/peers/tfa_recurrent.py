"""TensorFlow Addons 0.23: training and beam search of a recurrent translator, random token ids.

Both run as graphs without XLA, which is fastest. With XLA (`jit_compile=True`), training needs
`maximum_iterations` and is seven times slower, and search fails: `addons_gather_tree` has no
XLA kernel.
"""

from __future__ import annotations

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import common
import tensorflow as tf
import tensorflow_addons as tfa

MECHANISMS = {"bahdanau": tfa.seq2seq.BahdanauAttention, "luong": tfa.seq2seq.LuongAttention}
PEER = f"tensorflow-addons {tfa.__version__}"


class Translator(tf.keras.Model):
    """Bidirectional GRU encoder, LSTM decoder with attention and input feeding."""

    def __init__(self, attention: str) -> None:
        super().__init__()
        layers, units = tf.keras.layers, common.UNITS
        self.source = layers.Embedding(common.VOCABULARY, common.EMBEDDING)
        self.target = layers.Embedding(common.VOCABULARY, common.EMBEDDING)
        self.encoder = layers.Bidirectional(
            layers.GRU(units, return_sequences=True, return_state=True)
        )
        self.bridges = [layers.Dense(units, activation="tanh") for _ in range(2)]
        self.attention = MECHANISMS[attention](units)
        self.cell = tfa.seq2seq.AttentionWrapper(
            layers.LSTMCell(units), self.attention, attention_layer_size=units
        )
        self.vocabulary = layers.Dense(common.VOCABULARY)
        self.decoder = tfa.seq2seq.BasicDecoder(
            self.cell, tfa.seq2seq.TrainingSampler(), self.vocabulary
        )

    def encode(self, source: tf.Tensor, lengths: tf.Tensor) -> tuple[tf.Tensor, list[tf.Tensor]]:
        mask = tf.sequence_mask(lengths, common.LENGTH)
        memory, forward, backward = self.encoder(self.source(source), mask=mask)
        summary = tf.concat([forward, backward], -1)
        return memory, [bridge(summary) for bridge in self.bridges]

    def start(self, state: list[tf.Tensor], rows: int) -> tfa.seq2seq.AttentionWrapperState:
        zero = self.cell.get_initial_state(batch_size=rows, dtype=tf.float32)
        return zero.clone(cell_state=state)

    def loss(self, source: tf.Tensor, target: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
        memory, state = self.encode(source, lengths)
        self.attention.setup_memory(memory, lengths)
        output, _, _ = self.decoder(
            self.target(target[:, :-1]),
            initial_state=self.start(state, common.BATCH),
            sequence_length=lengths,
        )
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(target[:, 1:], output.rnn_output)
        return tf.reduce_mean(losses)

    def search(self, source: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
        memory, state = self.encode(source, lengths)
        memory, lengths, state = tfa.seq2seq.tile_batch((memory, lengths, state), common.BEAM)
        self.attention.setup_memory(memory, lengths)
        decoder = tfa.seq2seq.BeamSearchDecoder(
            self.cell,
            beam_width=common.BEAM,
            output_layer=self.vocabulary,
            maximum_iterations=common.LENGTH,
        )
        output, _, _ = decoder(
            self.target.embeddings,
            start_tokens=tf.fill([common.SEARCH_BATCH], common.START),
            end_token=common.END,
            initial_state=self.start(state, common.SEARCH_BATCH * common.BEAM),
        )
        return output.predicted_ids


def time_training(model: Translator, attention: str, steps: int) -> None:
    optimizer = tf.keras.optimizers.Adam(1e-3)
    source = random_ids(common.BATCH, common.LENGTH)
    target = random_ids(common.BATCH, common.LENGTH + 1)
    lengths = tf.fill([common.BATCH], common.LENGTH)

    @tf.function
    def train() -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = model.loss(source, target, lengths)
        variables = model.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        return loss

    seconds = common.median_seconds(lambda: train().numpy(), steps)
    rate = common.BATCH * common.LENGTH / seconds
    common.report(PEER, f"train {attention}", seconds, tokens_per_second=rate)


def time_search(model: Translator, attention: str, steps: int) -> None:
    source = random_ids(common.SEARCH_BATCH, common.LENGTH)
    lengths = tf.fill([common.SEARCH_BATCH], common.LENGTH)
    model.target.build(None)

    @tf.function
    def search() -> tf.Tensor:
        return model.search(source, lengths)

    seconds = common.median_seconds(lambda: search().numpy(), steps)
    work = f"beam {common.BEAM} {attention}"
    common.report(PEER, work, seconds, sentences_per_second=common.SEARCH_BATCH / seconds)


def random_ids(*shape: int) -> tf.Tensor:
    return tf.random.uniform(shape, common.FIRST_WORD, common.VOCABULARY, tf.int32)


WORKS = {"train": time_training, "beam": time_search}


def main() -> None:
    options = common.arguments(__doc__, list(WORKS))
    tf.random.set_seed(1)
    model = Translator(options.attention)
    for work in options.work:
        WORKS[work](model, options.attention, options.steps)


if __name__ == "__main__":
    main()
