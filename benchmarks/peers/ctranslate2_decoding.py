"""CTranslate2: greedy and beam search (beam width 5) of a random pre-norm Transformer.

Small models are faster on one thread than on two, so the faster of both is reported.
"""

from __future__ import annotations

import argparse
import tempfile
from typing import Any

import common
import ctranslate2
import numpy as np
from ctranslate2.specs import TransformerSpec

RNG = np.random.default_rng(0)


def weights(*shape: int) -> np.ndarray:
    return (0.05 * RNG.normal(size=shape)).astype("float32")


def dense(spec: Any, units: int, inputs: int) -> None:
    spec.weight, spec.bias = weights(units, inputs), weights(units)


def norm(spec: Any, width: int) -> None:
    spec.gamma, spec.beta = np.ones(width, "float32"), weights(width)


def set_attention(spec: Any, width: int, own: bool) -> None:
    norm(spec.layer_norm, width)
    for part, units in zip(spec.linear, (3, 1) if own else (1, 2, 1), strict=True):
        dense(part, units * width, width)


def block(spec: Any, width: int, inner: int) -> None:
    set_attention(spec.self_attention, width, own=True)
    if hasattr(spec, "attention"):
        set_attention(spec.attention, width, own=False)
    norm(spec.ffn.layer_norm, width)
    dense(spec.ffn.linear_0, inner, width)
    dense(spec.ffn.linear_1, width, inner)


def model(depth: int, heads: int, width: int, inner: int, vocabulary: int) -> str:
    """Save a model with random weights to a temporary folder; return the folder."""
    spec = TransformerSpec.from_config((depth, depth), heads, pre_norm=True)
    positions = weights(64, width)
    spec.encoder.embeddings[0].weight = weights(vocabulary, width)
    spec.decoder.embeddings.weight = weights(vocabulary, width)
    for side in (spec.encoder, spec.decoder):
        side.position_encodings.encodings = positions
        norm(side.layer_norm, width)
        for layer in side.layer:
            block(layer, width, inner)
    dense(spec.decoder.projection, vocabulary, width)
    tokens = ["<unk>", "<s>", "</s>", *(f"t{i}" for i in range(vocabulary - 3))]
    spec.register_source_vocabulary(tokens)
    spec.register_target_vocabulary(tokens)
    spec.config.add_source_bos = False
    spec.validate()
    spec.optimize(quantization=None)
    folder = tempfile.mkdtemp()
    spec.save(folder)
    return folder


def seconds_of(translator: ctranslate2.Translator, source: list[list[str]], beam: int) -> float:
    return common.median_seconds(
        lambda: translator.translate_batch(
            source,
            beam_size=beam,
            max_decoding_length=common.LENGTH,
            min_decoding_length=common.LENGTH,
            max_batch_size=common.SEARCH_BATCH,
        ),
        4,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sizes", type=int, nargs=5, metavar="N", help="depth heads width ffn vocab")
    parser.add_argument("--compute-type", default="float32")
    options = parser.parse_args()
    compute_type = options.compute_type
    folder = model(*options.sizes)
    translators = [
        ctranslate2.Translator(folder, "cpu", intra_threads=threads, compute_type=compute_type)
        for threads in (1, 2)
    ]
    ids = RNG.integers(0, options.sizes[-1] - 3, (common.SEARCH_BATCH, common.LENGTH))
    source = [[f"t{i}" for i in row] for row in ids]
    for beam in (1, 5):
        seconds = min(seconds_of(one, source, beam) for one in translators)
        rate = common.SEARCH_BATCH / seconds
        common.report("ctranslate2", f"beam {beam}", seconds, sentences_per_second=rate)


if __name__ == "__main__":
    main()
