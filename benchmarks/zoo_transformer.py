"""attention_zoo: greedy and beam search of a Transformer with random weights."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import keras
import numpy as np

from attention_zoo.models import Transformer

sys.path.insert(0, str(Path(__file__).parent / "peers"))
import common


def transformer(
    depth: int, heads: int, width: int, inner: int, vocabulary: int, dtype: str = "float32"
) -> Transformer:
    """Return a pre-norm Transformer of `depth` encoder and decoder layers, as in the peers."""
    return Transformer(
        vocabulary,
        vocabulary,
        embedding_dim=width,
        units=inner,
        num_heads=heads,
        num_layers=depth,
        tie="none",
        dtype=dtype,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sizes", type=int, nargs=5, metavar="N", help="depth heads width ffn vocab")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--widths", type=int, nargs="+", default=[1, 5])
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--no-jit", action="store_true", help="do not use XLA")
    options = parser.parse_args()
    keras.utils.set_random_seed(1)
    model, jit = transformer(*options.sizes, options.dtype), not options.no_jit
    source = np.random.default_rng(0).integers(4, options.sizes[-1], (common.SEARCH_BATCH, 20))
    length = {"max_length": options.steps, "min_length": options.steps}
    for width in options.widths:
        seconds = common.median_seconds(
            lambda width=width: model.compiled_search(source, jit=jit, beam_width=width, **length),
            8,
        )
        rate = common.SEARCH_BATCH / seconds
        work = f"beam {width}{' XLA' if jit else ''}"
        common.report("attention_zoo", work, seconds, sentences_per_second=rate)


if __name__ == "__main__":
    main()
