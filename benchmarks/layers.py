"""Time and memory of attention layers against the corresponding Keras layers, in turn.

    python benchmarks/layers.py [--lengths 128 512 2048] [--rounds 7]
    python benchmarks/layers.py --baseline FOLDER

It measures forward, and forward and backward, as a graph on the CPU. Keras's AdditiveAttention
has no projections, so two Dense layers precede it. Memory is the increase of the peak resident
memory by one run, in a fresh process. It also compares windowed attention of static and of dynamic
lengths.

With --baseline, it compares this version with the one in FOLDER (another checkout of the
repository) instead of Keras, each round in a fresh process, in turn, and writes no results.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from side_by_side import write_section

import attention_zoo as az

LENGTHS = [128, 512, 2048]
WINDOW, WINDOWED_LENGTHS = 64, (512, 1024, 1500, 2047)
PHASES = ("forward", "forward and backward")


class KerasAdditive(keras.layers.Layer):
    """Keras's additive attention, with projections of query and key."""

    def __init__(self, units: int) -> None:
        super().__init__()
        self.query_dense = keras.layers.Dense(units, use_bias=False)
        self.key_dense = keras.layers.Dense(units, use_bias=False)
        self.attention = keras.layers.AdditiveAttention()

    def call(self, query: Any, value: Any, mask: Any = None) -> Any:
        return self.attention([self.query_dense(query), value, self.key_dense(value)], mask=mask)


CASES: dict[str, tuple[Callable[[], Any], Callable[[], Any], int, int]] = {
    "dot": (
        lambda: az.layers.DotProductAttention(),
        lambda: keras.layers.Attention(),
        8,
        64,
    ),
    "multi-head, 8 heads": (
        lambda: az.layers.MultiHeadAttention(8, 32),
        lambda: keras.layers.MultiHeadAttention(8, 32),
        4,
        256,
    ),
    "additive, 32 units": (
        lambda: az.layers.AdditiveAttention(32),
        lambda: KerasAdditive(32),
        1,
        64,
    ),
}
"""By name: layer of attention_zoo, Keras layer, batch size and width."""


def make_step(layer: Any, phase: str) -> Callable[..., Any]:
    """Return a `tf.function` of the layer: its output, or its gradients."""

    def forward(query: Any, value: Any) -> Any:
        if isinstance(layer, keras.layers.Attention):
            return layer([query, value])
        return layer(query, value)

    def both(query: Any, value: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch([query, value])
            loss = tf.reduce_sum(tf.square(forward(query, value)))
        return tape.gradient(loss, [query, value, *layer.trainable_variables])

    return tf.function(forward if phase == "forward" else both)


def make_inputs(name: str, length: int) -> list[Any]:
    _, _, batch, width = CASES[name]
    rng = np.random.default_rng(0)
    return [tf.constant(rng.normal(size=(batch, length, width)), tf.float32) for _ in range(2)]


def measure_times(name: str, length: int, phase: str, rounds: int) -> tuple[float, float]:
    """Return the median seconds of both layers, attention_zoo first, run in turn."""
    runs = [make_step(make(), phase) for make in CASES[name][:2]]
    return time_in_turn(runs, make_inputs(name, length), rounds)


def time_in_turn(
    runs: list[Callable[..., Any]], inputs: list[Any], rounds: int
) -> tuple[float, float]:
    """Return the median seconds of two functions, run in turn."""
    seconds: list[list[float]] = [[], []]
    for run in runs:
        run(*inputs)
    start = time.perf_counter()
    runs[1](*inputs)
    repeats = max(1, int(0.3 / (time.perf_counter() - start)))
    for number in range(rounds):
        for which in (0, 1) if number % 2 else (1, 0):
            start = time.perf_counter()
            for _ in range(repeats):
                result = runs[which](*inputs)
            tf.nest.flatten(result)[0].numpy()
            seconds[which].append((time.perf_counter() - start) / repeats)
    return statistics.median(seconds[0]), statistics.median(seconds[1])


def compare_windowed(rounds: int) -> list[str]:
    """Return a table of the times of windowed attention with static and dynamic lengths."""
    lines = [
        f"Windowed attention, window {WINDOW}, batch 2, 4 heads of width 32, forward:",
        "",
        "| T | static length, ms | dynamic length, ms | time ratio |",
        "|---|---|---|---|",
    ]
    for length in WINDOWED_LENGTHS:
        layer = az.layers.WindowedAttention(4, 32, WINDOW)
        x = tf.random.stateless_normal((2, length, 128), (0, 0))
        layer(x)
        runs = [
            tf.function(layer, input_signature=[tf.TensorSpec((None, steps, 128))])
            for steps in (length, None)
        ]
        static, dynamic = time_in_turn(runs, [x], rounds)
        cells = [str(length), f"{1e3 * static:.1f}", f"{1e3 * dynamic:.1f}"]
        lines.append(f"| {' | '.join([*cells, f'{static / dynamic:.2f}'])} |")
        print(lines[-1], flush=True)
    return lines


def read_peak_kib() -> int:
    """Return the peak resident memory of this process in KiB (Linux).

    `getrusage` is not used: it inherits the peak of the parent process.
    """
    status = Path("/proc/self/status").read_text("utf-8")
    return int(re.search(r"VmHWM:\s+(\d+)", status).group(1))


def measure_peak(name: str, which: int, length: int, phase: str) -> float:
    """Return the MiB by which one run increases the peak resident memory."""
    small = make_step(CASES[name][which](), phase)
    small(*make_inputs(name, 8))
    inputs = make_inputs(name, length)
    run = make_step(CASES[name][which](), phase)
    before = read_peak_kib()
    run(*inputs)
    return (read_peak_kib() - before) / 1024


def measure_peaks(name: str, length: int, phase: str) -> list[float]:
    """Return the peak of both layers, attention_zoo first, each in its own process."""
    increases = []
    for which in (0, 1):
        job = json.dumps([name, which, length, phase])
        done = subprocess.run(
            [sys.executable, __file__, "--peak", job], capture_output=True, text=True, check=True
        )
        increases.append(float(done.stdout.split()[-1]))
    return increases


def measure_layer(name: str, length: int, phase: str) -> float:
    """Return the best of 5 mean seconds of this version's layer."""
    run, inputs = make_step(CASES[name][0](), phase), make_inputs(name, length)
    run(*inputs)
    start = time.perf_counter()
    run(*inputs)
    repeats = max(1, int(0.1 / (time.perf_counter() - start)))
    seconds = []
    for _ in range(5):
        start = time.perf_counter()
        for _ in range(repeats):
            result = run(*inputs)
        tf.nest.flatten(result)[0].numpy()
        seconds.append((time.perf_counter() - start) / repeats)
    return min(seconds)


def compare_versions(baseline: str, lengths: list[int], rounds: int) -> None:
    """Print the seconds of this version and of the one in `baseline`, and their ratio."""
    folders = [str(Path(__file__).resolve().parents[1]), str(Path(baseline).resolve())]
    jobs = [(name, length, phase) for name in CASES for length in lengths for phase in PHASES]
    seconds: list[list[list[float]]] = [[], []]
    for number in range(rounds):
        for which in (0, 1) if number % 2 else (1, 0):
            done = subprocess.run(
                [sys.executable, __file__, "--time", json.dumps(jobs)],
                capture_output=True,
                text=True,
                check=True,
                env={**os.environ, "PYTHONPATH": folders[which]},
            )
            seconds[which].append(json.loads(done.stdout.splitlines()[-1]))
    print("| layer | T = S | pass | this version, ms | baseline, ms | time ratio |")
    print("|---|---|---|---|---|---|")
    ratios = []
    for job, new, old in zip(
        jobs, zip(*seconds[0], strict=True), zip(*seconds[1], strict=True), strict=True
    ):
        ours, theirs = statistics.median(new), statistics.median(old)
        ratios.append(ours / theirs)
        cells = [*job, f"{1e3 * ours:.2f}", f"{1e3 * theirs:.2f}", f"{ratios[-1]:.2f}"]
        print(f"| {' | '.join(map(str, cells))} |")
    print(f"Median time ratio: {statistics.median(ratios):.2f}.")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lengths", type=int, nargs="+", default=LENGTHS)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--baseline", help="folder of another version to compare with")
    parser.add_argument("--peak", help=argparse.SUPPRESS)
    parser.add_argument("--time", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.baseline and not Path(options.baseline, "attention_zoo", "__init__.py").is_file():
        parser.error(f"--baseline {options.baseline}: no folder that contains attention_zoo")
    if options.peak:
        print(measure_peak(*json.loads(options.peak)))
        return
    if options.time:
        print(json.dumps([measure_layer(*job) for job in json.loads(options.time)]))
        return
    if options.baseline:
        compare_versions(options.baseline, options.lengths, options.rounds)
        return
    lines = [
        "| layer | T = S | pass | attention_zoo, ms | Keras, ms | time ratio "
        "| attention_zoo, MiB | Keras, MiB |",
        "|---|---|---|---|---|---|---|---|",
    ]
    ratios: dict[str, list[float]] = {}
    for name in CASES:
        for length in options.lengths:
            for phase in PHASES:
                ours, theirs = measure_times(name, length, phase, options.rounds)
                memory = measure_peaks(name, length, phase)
                ratios.setdefault(name, []).append(ours / theirs)
                cells = [name, length, phase, f"{1e3 * ours:.2f}", f"{1e3 * theirs:.2f}"]
                cells += [f"{ours / theirs:.2f}", f"{memory[0]:.0f}", f"{memory[1]:.0f}"]
                lines.append(f"| {' | '.join(map(str, cells))} |")
                print(lines[-1], flush=True)
    medians = [f"{name} {statistics.median(values):.2f}" for name, values in ratios.items()]
    lines += ["", f"Median time ratio (below 1: faster than Keras): {', '.join(medians)}."]
    lines += ["", *compare_windowed(options.rounds)]
    write_section("Layers against Keras", lines)


if __name__ == "__main__":
    main()
