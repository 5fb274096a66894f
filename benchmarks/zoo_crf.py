"""attention_zoo: loss with gradient, and Viterbi decoding, of a linear-chain CRF."""

from __future__ import annotations

import os
import sys
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
sys.path.insert(0, str(Path(__file__).parent / "peers"))

import common
import tensorflow as tf

import attention_zoo as az


def main() -> None:
    options = common.arguments(__doc__, ["loss", "viterbi"])
    emissions, tags, lengths, transitions = common.make_crf_inputs()
    emissions = tf.constant(emissions)
    mask = tf.sequence_mask(lengths, common.TOKENS)
    crf, loss = az.layers.CRF(common.TAGS), az.losses.CRFLoss()
    crf(emissions)
    crf.transitions.assign(transitions)

    def train() -> tf.Tensor:
        weights = [weight.value for weight in crf.trainable_variables]
        with tf.GradientTape() as tape:
            tape.watch(emissions)
            cost = loss(tags, crf(emissions, mask=mask))
        return cost, tape.gradient(cost, [emissions, *weights])

    def search() -> tf.Tensor:
        return crf.decode(crf(emissions, mask=mask))

    functions = {"loss": train, "viterbi": search}
    for work in options.work:
        for jit in (False, True):
            compiled = tf.function(functions[work], jit_compile=jit, autograph=False)
            seconds = common.median_seconds(lambda run=compiled: run()[0].numpy(), options.steps)
            rate = common.CHAINS / seconds
            name = f"{work} XLA" if jit else work
            common.report("attention_zoo", name, seconds, sentences_per_second=rate)


if __name__ == "__main__":
    main()
