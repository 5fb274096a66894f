"""KerasHub: greedy and beam search (beam width 5) of a BART with random weights, with XLA."""

from __future__ import annotations

import argparse

import common
import keras_hub
import numpy as np


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sizes", type=int, nargs=5, metavar="N", help="depth heads width ffn vocab")
    options = parser.parse_args()
    depth, heads, width, inner, vocabulary = options.sizes
    backbone = keras_hub.models.BartBackbone(
        vocabulary_size=vocabulary,
        num_layers=depth,
        num_heads=heads,
        hidden_dim=width,
        intermediate_dim=inner,
        max_sequence_length=64,
    )
    model = keras_hub.models.BartSeq2SeqLM(backbone=backbone, preprocessor=None)
    source = np.random.default_rng(0).integers(4, vocabulary, (common.SEARCH_BATCH, common.LENGTH))
    target = np.zeros((common.SEARCH_BATCH, common.LENGTH + 1), "int32")
    target[:, 0] = common.START
    inputs = {
        "encoder_token_ids": source.astype("int32"),
        "encoder_padding_mask": np.ones_like(source, bool),
        "decoder_token_ids": target,
        "decoder_padding_mask": target > 0,
    }
    for beam, sampler in ((1, "greedy"), (5, keras_hub.samplers.BeamSampler(num_beams=5))):
        model.compile(sampler=sampler, jit_compile=True)
        seconds = common.median_seconds(lambda: model.generate(inputs, stop_token_ids=None), 4)
        rate = common.SEARCH_BATCH / seconds
        common.report("kerashub", f"beam {beam} XLA", seconds, sentences_per_second=rate)


if __name__ == "__main__":
    main()
