"""attention_zoo: greedy and beam search of a Transformer with random weights, with XLA."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import keras
import numpy as np

from attention_zoo.models import Transformer

sys.path.insert(0, str(Path(__file__).parent / "peers"))
import common


def transformer(depth: int, heads: int, width: int, inner: int, vocabulary: int) -> Transformer:
    """Return a pre-norm Transformer of `depth` encoder and decoder layers, as in the peers."""
    return Transformer(
        vocabulary,
        vocabulary,
        embedding_dim=width,
        units=inner,
        num_heads=heads,
        num_layers=depth,
        tie="none",
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sizes", type=int, nargs=5, metavar="N", help="depth heads width ffn vocab")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--widths", type=int, nargs="+", default=[1, 5])
    options = parser.parse_args()
    keras.utils.set_random_seed(1)
    model = transformer(*options.sizes)
    source = np.random.default_rng(0).integers(4, options.sizes[-1], (common.SEARCH_BATCH, 20))
    length = {"max_length": options.steps, "min_length": options.steps}
    for width in options.widths:
        seconds = common.median_seconds(
            lambda width=width: model.compiled_search(source, jit=True, beam_width=width, **length),
            8,
        )
        rate = common.SEARCH_BATCH / seconds
        common.report("attention_zoo", f"beam {width} XLA", seconds, sentences_per_second=rate)


if __name__ == "__main__":
    main()
