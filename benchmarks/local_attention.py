"""Time and memory of local attention against global attention with the same score.

Time: forward and backward of T queries on a memory of S positions, both kinds in turn.
Memory: the peak of one run above inputs and weights, for increasing S.

    python benchmarks/local_attention.py
    python benchmarks/local_attention.py --kind monotonic --mode graph --rounds 31
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

MIB = 2**20


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--steps", type=int, default=256, help="T, queries")
    parser.add_argument("--sources", type=int, default=8192, help="S, positions, for timing")
    parser.add_argument("--width", type=int, default=128, help="of queries and memory")
    parser.add_argument("--window", type=int, default=10, help="D; windows of 2 D + 1 positions")
    parser.add_argument("--score", default="general")
    parser.add_argument("--kind", choices=["predictive", "monotonic"], default="predictive")
    parser.add_argument("--mode", choices=["xla", "graph"], default="xla", help="compilation")
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--memory", type=int, nargs="*", default=[2048, 8192, 32768], metavar="S")
    parser.add_argument("--one", nargs=2, metavar=("WHICH", "GRADIENTS"), help=argparse.SUPPRESS)
    return parser.parse_args()


def attention(which: str, options: argparse.Namespace) -> Any:
    from attention_zoo.layers import Attention, LocalAttention

    if which == "local":
        return LocalAttention(options.score, options.window, options.kind)
    return Attention(options.score)


def tensors(options: argparse.Namespace, sources: int) -> tuple[Any, Any]:
    """Return random query and memory."""
    import tensorflow as tf

    random = tf.random.Generator.from_seed(0)
    shapes = ((options.steps, options.width), (sources, options.width))
    query, value = (random.normal((options.batch, *shape)) for shape in shapes)
    return query, value


def step(layer: Any, options: argparse.Namespace, of_memory: bool) -> Callable[..., Any]:
    """Return a `tf.function` for gradients of weights, queries and, if `of_memory`, memory."""
    import tensorflow as tf

    def run(query: Any, value: Any) -> Any:
        wanted = [query, *([value] if of_memory else [])]
        wanted += [v.value for v in layer.trainable_variables]
        with tf.GradientTape() as tape:
            tape.watch(wanted)
            loss = tf.reduce_sum(layer(query, value) ** 2)
        return tape.gradient(loss, wanted, unconnected_gradients=tf.UnconnectedGradients.ZERO)

    return tf.function(run, jit_compile=options.mode == "xla", autograph=False)


def timed(run: Callable[..., Any], *inputs: Any) -> float:
    started = time.perf_counter()
    for gradient in run(*inputs):
        float(gradient[(0,) * len(gradient.shape)])
    return time.perf_counter() - started


def compare(options: argparse.Namespace) -> None:
    """Print median times and their ratio."""
    inputs = tensors(options, options.sources)
    runs = {}
    for which in ("local", "global"):
        layer = attention(which, options)
        layer(*inputs)
        runs[which] = step(layer, options, of_memory=True)
        timed(runs[which], *inputs)
    seconds: dict[str, list[float]] = {which: [] for which in runs}
    for _ in range(options.rounds):
        for which, run in runs.items():
            seconds[which].append(timed(run, *inputs))
    median = {which: statistics.median(times) for which, times in seconds.items()}
    print(f"T = {options.steps} queries on S = {options.sources} positions, D = {options.window}, ")
    print(f"batch {options.batch}, width {options.width}, score {options.score}, {options.mode}, ")
    print(f"forward and backward, median of {options.rounds} alternating rounds")
    print()
    print("| | milliseconds |")
    print("|---|---|")
    print(f"| local ({options.kind}) | {1000 * median['local']:.1f} |")
    print(f"| global | {1000 * median['global']:.1f} |")
    print()
    print(f"Ratio: **{median['local'] / median['global']:.3f}**")


def resident(field: str) -> int:
    """Return the resident memory of this process in bytes: `VmRSS` now, `VmHWM` the peak."""
    with open("/proc/self/status", encoding="ascii") as status:
        line = next(line for line in status if line.startswith(field))
    return 1024 * int(line.split()[1])


def peak(which: str, of_memory: bool, options: argparse.Namespace) -> int:
    """Return the peak memory of one run above inputs and weights, in bytes."""
    inputs = tensors(options, options.sources)
    layer = attention(which, options)
    layer(inputs[0][:, :1], inputs[1][:, :1])
    run = step(layer, options, of_memory)
    run(*inputs)  # traces and compiles
    before = resident("VmRSS")
    with open("/proc/self/clear_refs", "w", encoding="ascii") as refs:
        refs.write("5")  # resets the peak
    results = run(*inputs)
    del results
    return resident("VmHWM") - before


def measure(sources: int, which: str, of_memory: bool) -> float:
    """Return the peak in MiB, measured in its own process, which returns freed memory at once."""
    command = [sys.executable, __file__, *sys.argv[1:], "--sources", str(sources)]
    command += ["--one", which, "all" if of_memory else "few"]
    plain = {"TF_ENABLE_ONEDNN_OPTS": "0", "MALLOC_MMAP_THRESHOLD_": "65536"}
    done = subprocess.run(
        command, env=os.environ | plain, capture_output=True, text=True, check=True
    )
    return int(done.stdout.splitlines()[-1]) / MIB


def grow(options: argparse.Namespace) -> None:
    """Print the peaks for each S."""
    print()
    print("Peak memory above inputs and weights, MiB:")
    print()
    print("| S | memory tensor | local | local, with gradient of the memory | global |")
    print("|---|---|---|---|---|")
    for sources in options.memory:
        itself = 4 * options.batch * sources * options.width / MIB
        cases = (("local", False), ("local", True), ("global", False))
        found = [measure(sources, which, of_memory) for which, of_memory in cases]
        print(f"| {sources} | {itself:.0f} | " + " | ".join(f"{x:.0f}" for x in found) + " |")


def main() -> None:
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    options = arguments()
    if options.one:
        print(peak(options.one[0], options.one[1] == "all", options))
        return
    compare(options)
    grow(options)


if __name__ == "__main__":
    main()
