"""Time and peak memory of self-attention over long sequences, forward and backward.

    python benchmarks/long_attention.py [--rounds 3] [--longest 32768]

It uses 8 heads of 64 and one sequence, as a graph on the CPU. Each case runs in its own process.
Memory is the peak above the resident memory after a short sequence.
"""

from __future__ import annotations

import argparse
import inspect
import json
import platform
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from side_by_side import write_section

HEADS, WIDTH, WINDOW, SHORT, LONG = 8, 64, 128, 16, 8192


def layer_of(name: str) -> Any:
    """Return a layer; attention_zoo is imported only in processes that measure it."""
    if name == "keras":
        import keras

        return keras.layers.MultiHeadAttention(HEADS, WIDTH)
    import attention_zoo as az

    if name == "windowed":
        return az.layers.WindowedAttention(HEADS, WIDTH, WINDOW)
    return az.layers.MultiHeadAttention(HEADS, WIDTH)


def step(layer: Any, causal: bool) -> Callable[[Any], Any]:
    """Return a `tf.function` for the gradients of the sequence and all weights."""
    import tensorflow as tf

    two = "value" in inspect.signature(layer.call).parameters

    def run(x: Any) -> Any:
        others = {"value": x} if two else {}
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = tf.reduce_sum(tf.square(layer(x, **others, use_causal_mask=causal)))
        return tape.gradient(loss, [x, *layer.trainable_variables])

    return tf.function(run, autograph=False)


def resident(field: str) -> int:
    """Return the resident memory of this process in MiB: `VmRSS` now, `VmHWM` the peak (Linux)."""
    status = Path("/proc/self/status").read_text("utf-8")
    return int(re.search(rf"{field}:\s+(\d+)", status).group(1)) // 1024


def measured(name: str, causal: bool, length: int, rounds: int) -> dict[str, float]:
    """Measure a run in this process: seconds, CPU seconds of all cores, and MiB."""
    import tensorflow as tf

    layer = layer_of(name)
    short, x = (tf.random.normal((1, n, HEADS * WIDTH)) for n in (SHORT, length))
    step(layer, causal)(short)
    idle = resident("VmRSS")
    run = step(layer, causal)
    seconds: list[float] = []
    cores: list[float] = []
    for _ in range(rounds + (rounds > 1)):
        start, used = time.perf_counter(), time.process_time()
        results = run(x)
        float(results[0][0, 0, 0])
        seconds.append(time.perf_counter() - start)
        cores.append(time.process_time() - used)
    return {
        "seconds": statistics.median(seconds[-rounds:]),
        "cores": statistics.median(cores[-rounds:]),
        "MiB": resident("VmHWM") - idle,
    }


def in_its_own_process(*case: Any) -> dict[str, float]:
    command = [sys.executable, __file__, "--one", json.dumps(case)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{case} failed:\n{done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def ratios(ours: dict[str, float], theirs: dict[str, float]) -> str:
    names = {"seconds": "time", "cores": "CPU time", "MiB": "memory"}
    return ", ".join(f"{name} {ours[key] / theirs[key]:.2f}" for key, name in names.items())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--longest", type=int, default=32768)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measured(*json.loads(options.one))))
        return
    cases = {
        f"Keras, T = {LONG}": ("keras", False, LONG, options.rounds),
        f"attention_zoo, T = {LONG}": ("ours", False, LONG, options.rounds),
        f"Keras, causal, T = {LONG}": ("keras", True, LONG, options.rounds),
        f"attention_zoo, causal, T = {LONG}": ("ours", True, LONG, options.rounds),
        f"attention_zoo, T = {options.longest}": ("ours", False, options.longest, 1),
        f"attention_zoo, window {WINDOW}, T = {LONG}": ("windowed", False, LONG, options.rounds),
        f"attention_zoo, window {WINDOW}, T = {options.longest}": (
            "windowed",
            False,
            options.longest,
            options.rounds,
        ),
    }
    lines = ["| | seconds | CPU seconds | MiB above idle |", "|---|---|---|---|"]
    found: list[dict[str, float]] = []
    for row, case in cases.items():
        found.append(in_its_own_process(*case))
        seconds, cores, memory = found[-1].values()
        lines.append(f"| {row} | {seconds:.2f} | {cores:.2f} | {memory:.0f} |")
        print(lines[-1], flush=True)
    cpu = platform.processor() or platform.machine()
    lines += [
        "",
        f"Ratios to Keras at T = {LONG}: {ratios(*found[1::-1])}; "
        f"causal: {ratios(*found[3:1:-1])}; "
        f"window {WINDOW}, T = {options.longest} to T = {LONG}: {ratios(*found[6:4:-1])} "
        f"(medians of {options.rounds} rounds, {cpu}).",
    ]
    write_section("Long attention", lines)


if __name__ == "__main__":
    main()
