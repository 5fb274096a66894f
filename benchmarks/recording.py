"""Cost of recording attention weights, against the same calls without recording, in turn.

    python benchmarks/recording.py [--rounds 7]

Each model is one attention layer over 256 positions, called with a batch of 8 in a compiled
`tf.function`, and a whole BERT of 4 layers. "Fused" layers do not compute their weights: the
recorder computes them beside. Recorded weights stay in memory until the end of a round.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from side_by_side import write_section

import attention_zoo as az

BATCH, LENGTH, WIDTH, CALLS = 8, 256, 256, 10


def make_models() -> dict[str, tuple[Any, Any, str]]:
    """Return layers and their inputs by name, and the kind of their path."""
    x = tf.constant(np.random.default_rng(0).normal(size=(BATCH, LENGTH, WIDTH)), "float32")
    tokens = tf.constant(np.random.default_rng(0).integers(5, 999, (BATCH, LENGTH)), "int32")
    bert = az.models.BERT(1000, embedding_dim=WIDTH, num_heads=4, num_layers=4, units=4 * WIDTH)
    return {
        "attention_zoo MultiHeadAttention": (
            az.layers.MultiHeadAttention(4, WIDTH // 4),
            (x, x),
            "weights computed",
        ),
        "attention_zoo AdditiveAttention": (
            az.layers.AdditiveAttention(64),
            (x, x),
            "weights computed",
        ),
        "keras AdditiveAttention": (
            keras.layers.AdditiveAttention(),
            ([x, x],),
            "weights computed",
        ),
        "keras MultiHeadAttention": (
            keras.layers.MultiHeadAttention(4, WIDTH // 4),
            (x, x),
            "fused",
        ),
        "attention_zoo BERT, 4 layers": (bert, ({"tokens": tokens},), "weights computed"),
    }


def measure(function: Callable[..., Any], arguments: tuple[Any, ...]) -> float:
    """Return the milliseconds of a call, the mean of several."""
    start = time.perf_counter()
    for _ in range(CALLS):
        function(*arguments)
    return 1000 * (time.perf_counter() - start) / CALLS


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    rounds = parser.parse_args().rounds
    lines = ["| layer | kind | ms | ms, recorded | ratio |", "|---|---|---|---|---|"]
    for name, (layer, arguments, kind) in make_models().items():
        layer(*arguments)
        plain = tf.function(lambda *inputs, layer=layer: layer(*inputs))
        plain(*arguments)
        times: dict[str, list[float]] = {"plain": [], "recorded": []}
        for _ in range(rounds):
            times["plain"].append(measure(plain, arguments))
            with az.inspection.record(layer, max_bytes=2**33):
                recorded = tf.function(lambda *inputs, layer=layer: layer(*inputs))
                recorded(*arguments)
                times["recorded"].append(measure(recorded, arguments))
        before, after = (statistics.median(values) for values in times.values())
        lines.append(f"| {name} | {kind} | {before:.1f} | {after:.1f} | {after / before:.2f} |")
        print(lines[-1], flush=True)
    lines += ["", f"Batch {BATCH}, {LENGTH} positions, width {WIDTH}, 4 heads; {rounds} rounds."]
    write_section("Recording attention weights", lines)


if __name__ == "__main__":
    main()
