"""TensorFlow Addons 0.23: loss with gradient, and Viterbi decoding, of a linear-chain CRF."""

from __future__ import annotations

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import common
import tensorflow as tf
import tensorflow_addons as tfa

PEER = f"tensorflow-addons {tfa.__version__}"


def main() -> None:
    options = common.arguments(__doc__, ["loss", "viterbi"])
    emissions, tags, lengths, transitions = map(tf.constant, common.make_crf_inputs())

    def train() -> tf.Tensor:
        with tf.GradientTape() as tape:
            tape.watch([emissions, transitions])
            likelihood, _ = tfa.text.crf_log_likelihood(emissions, tags, lengths, transitions)
            cost = -tf.reduce_mean(likelihood)
        return cost, tape.gradient(cost, [emissions, transitions])

    def search() -> tf.Tensor:
        return tfa.text.crf_decode(emissions, transitions, lengths)

    functions = {"loss": train, "viterbi": search}
    for work in options.work:
        for jit in (False, True):
            compiled = tf.function(functions[work], jit_compile=jit)
            try:
                seconds = common.median_seconds(
                    lambda run=compiled: run()[0].numpy(), options.steps
                )
            except tf.errors.InvalidArgumentError as error:
                if not jit:
                    raise
                print(f"not with XLA: {str(error).splitlines()[0]}", flush=True)
                continue
            rate = common.CHAINS / seconds
            name = f"{work} XLA" if jit else work
            common.report(PEER, name, seconds, sentences_per_second=rate)


if __name__ == "__main__":
    main()
