"""Time and peak memory on one device: training, attention over long sequences, search and export.

    python benchmarks/gpu.py [--size base] [--dry-run]

It uses the first GPU that TensorFlow sees, or else the CPU, and appends a table to results.md.
"""

from __future__ import annotations

import argparse
import datetime
import gc
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from side_by_side import RESULTS, append_section, describe_device

import attention_zoo as az
from attention_zoo.training.step import FAULT, CompiledSteps

sys.path.insert(0, str(Path(__file__).parent / "peers"))
import common

ROOT = Path(__file__).parents[1]
ENTRY = ROOT / "models/translation/rnnsearch_small.dates_en_fr"
SENTENCE = "they arrive on Monday, March 3, 2031; dinner is at 5:04 PM."
MODELS = ("rnnsearch", "transformer")
MIXED = ("mixed_float16", "mixed_bfloat16")
SEARCHES = {"greedy": 1, f"beam ({common.BEAM})": common.BEAM}  # beam widths
ATTENTION = {"blockwise": False, "with all weights": True}  # are the weights returned?
HEADS, WIDTH = 8, 64  # of this attention

Step = Callable[[], Any]


@dataclass(frozen=True)
class Sizes:
    """Sizes of the measurements; the models are presets with overrides."""

    preset: str
    overrides: dict[str, dict[str, int]] = field(default_factory=dict)
    batch: int = common.BATCH
    search_batch: int = common.SEARCH_BATCH
    length: int = common.LENGTH
    attention_length: int = 8192


RECURRENT_SMOKE = dict.fromkeys(("embedding_dim", "units", "attention_units", "readout_units"), 4)
TRANSFORMER_SMOKE = {"embedding_dim": 8, "units": 8, "num_heads": 2, "num_layers": 1}
SIZES = {
    "smoke": Sizes(
        "small",
        {"rnnsearch": RECURRENT_SMOKE, "transformer": TRANSFORMER_SMOKE},
        batch=2,
        search_batch=2,
        length=3,
        attention_length=2048,
    ),
    "small": Sizes("small"),
    "base": Sizes("base"),
}


@dataclass(frozen=True)
class Case:
    """A row of the table: a step, made under a dtype policy, that processes `count` items."""

    name: str
    precision: str
    jit: bool
    count: int
    unit: str
    make_step: Callable[[], Step]


@dataclass(frozen=True)
class Timing:
    """Seconds of the first call, median seconds of later calls, and peak memory if it is known."""

    first: float
    median: float
    peak_bytes: int | None


def make_cases(sizes: Sizes, mixed: str) -> list[Case]:
    """Return the rows of the table; `mixed` is the dtype policy of mixed precision."""
    both, length = (False, True), sizes.attention_length
    cases = [
        Case(
            f"training step, {name}_{sizes.preset}",
            *(precision, jit, sizes.batch * sizes.length, "tokens"),
            partial(make_training_step, name, sizes, jit),
        )
        for name, precision, jit in product(MODELS, ("float32", mixed), both)
    ]
    cases += [
        Case(
            f"attention over {length:,} positions, {kind}",
            *("float32", jit, length, "positions"),
            partial(make_attention_step, length, returns_weights, jit),
        )
        for (kind, returns_weights), jit in product(ATTENTION.items(), both)
    ]
    cases += [
        Case(
            f"{kind} search, {name}_{sizes.preset}",
            *("float32", jit, sizes.search_batch, "sentences"),
            partial(make_search_step, name, sizes, width, jit),
        )
        for name, (kind, width), jit in product(MODELS, SEARCHES.items(), both)
    ]
    exported = partial(make_export_step, sizes)
    name = f"SavedModel of {ENTRY.name}"
    return [*cases, Case(name, "float32", False, sizes.search_batch, "sentences", exported)]


def make_model(name: str, sizes: Sizes) -> Any:
    vocabulary = dict.fromkeys(
        ("source_vocabulary_size", "target_vocabulary_size"), common.VOCABULARY
    )
    overrides = sizes.overrides.get(name, {})
    return az.models.from_preset(f"{name}_{sizes.preset}", **vocabulary, **overrides)


def make_ids(*shape: int) -> np.ndarray:
    ids = np.random.default_rng(0).integers(common.FIRST_WORD, common.VOCABULARY, shape)
    return ids.astype("int32")


def make_training_step(name: str, sizes: Sizes, jit: bool) -> Step:
    """Return an update of the training loop, on one batch of random token ids."""
    model = make_model(name, sizes)
    model.compile(keras.optimizers.Adam(1e-3), az.losses.SequenceCrossEntropy())
    model.optimizer.build(model.trainable_variables)
    steps = CompiledSteps(model, tf.distribute.get_strategy(), jit=jit)
    target = make_ids(sizes.batch, sizes.length + 1)
    inputs = {"source": make_ids(sizes.batch, sizes.length), "target": target[:, :-1]}
    batch = (inputs, target[:, 1:], True)  # True: the shard is not empty
    batches = iter(tf.data.Dataset.from_tensors(batch).repeat())

    def train() -> None:
        outcome = steps.train(batches)
        if outcome.code == FAULT:
            sys.exit(
                f"training step of {name}: loss {outcome.loss}, or its gradient, is not finite"
            )

    return train


def make_attention_step(length: int, returns_weights: bool, jit: bool) -> Step:
    """Return forward and backward pass of self-attention, by blocks or with all weights."""
    layer = az.layers.MultiHeadAttention(HEADS, WIDTH)
    x = tf.random.stateless_normal((1, length, HEADS * WIDTH), (0, 0))
    layer(x[:, :1], x[:, :1])  # creates the kernels

    @tf.function(jit_compile=jit, autograph=False)
    def run(x: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            output = layer(x, x, return_attention_scores=returns_weights)
            context = output[0] if returns_weights else output
            loss = tf.reduce_sum(tf.square(context))
        return tape.gradient(loss, [x, *layer.trainable_variables])

    return partial(run, x)


def make_search_step(name: str, sizes: Sizes, beam_width: int, jit: bool) -> Step:
    """Return a search of a model with random weights for outputs of a fixed length."""
    model, source = make_model(name, sizes), make_ids(sizes.search_batch, sizes.length)
    options = {"beam_width": beam_width, "min_length": sizes.length, "max_length": sizes.length}
    return partial(model.compiled_search, source, jit=jit, **options)


def make_export_step(sizes: Sizes) -> Step:
    """Return a call of an exported translator with raw texts."""
    with tempfile.TemporaryDirectory() as folder:
        served = tf.saved_model.load(az.export.export(az.load(ENTRY), Path(folder) / "served"))
    texts = tf.constant([SENTENCE] * sizes.search_batch)
    return lambda: served.serve(texts)  # `served.serve` alone does not keep the variables


def measure(case: Case, rounds: int) -> Timing:
    """Time the first call and later calls of a step.

    The peak memory is that of the later calls, with weights and optimizer.
    """
    gc.collect()
    gpus = tf.config.list_logical_devices("GPU")
    memory = tf.config.experimental.get_memory_info
    before = memory("GPU:0")["current"] if gpus else 0
    step = case.make_step()

    def run() -> None:
        step()
        tf.test.experimental.sync_devices()

    start = time.perf_counter()
    run()
    first = time.perf_counter() - start
    if gpus:
        tf.config.experimental.reset_memory_stats("GPU:0")
    median = common.median_seconds(run, rounds)
    return Timing(first, median, memory("GPU:0")["peak"] - before if gpus else None)


def measure_row(case: Case, rounds: int) -> str:
    """Return a row of the table; a step that TensorFlow cannot run has no times."""
    keras.config.set_dtype_policy(case.precision)
    try:
        return format_row(case, measure(case, rounds))
    except tf.errors.ResourceExhaustedError:
        return format_row(case, "out of memory")
    except tf.errors.OpError as error:
        print(f"{case.name}: {error}", file=sys.stderr)
        return format_row(case, f"failed: {type(error).__name__}")
    finally:
        keras.config.set_dtype_policy("float32")


def format_row(case: Case, result: Timing | str) -> str:
    """Return a row of the table of times, or of the reason why there are none."""
    cells = [case.name, case.precision, "yes" if case.jit else "no"]
    if isinstance(result, str):
        cells += [result, "", "", ""]
    else:
        rate = case.count / result.median
        cells += [f"{result.first:.1f}", f"{1e3 * result.median:.1f}", f"{rate:,.0f} {case.unit}"]
        cells.append("" if result.peak_bytes is None else f"{result.peak_bytes / 2**20:,.0f}")
    return f"| {' | '.join(cells)} |"


def describe_run(sizes: Sizes, rounds: int) -> list[str]:
    """Return the lines below the table: what was measured, and with which versions."""
    gpus = tf.config.list_physical_devices("GPU")
    versions = {"attention_zoo": az.__version__, "Keras": keras.__version__}
    versions |= {"TensorFlow": tf.__version__, "Python": platform.python_version()}
    if gpus:
        build = tf.sysconfig.get_build_info()
        versions |= {"CUDA": build.get("cuda_version"), "cuDNN": build.get("cudnn_version")}
    command = ["git", "describe", "--always", "--dirty", "--exclude=*"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    tf32 = tf.config.experimental.tensor_float_32_execution_enabled()
    memory = "Peak memory is that of the calls after the first, with weights and optimizer"
    return [
        f"Training: batches of {sizes.batch} pairs of {sizes.length} random tokens. Attention:"
        f" {HEADS} heads of {WIDTH}, one sequence, forward and backward. Search and SavedModel:"
        f" {sizes.search_batch} sentences. Medians of {rounds} calls.",
        f"{memory}; TF32 is {'on' if tf32 else 'off'}."
        if gpus
        else "Memory: not measured on a CPU.",
        "",
        f"{describe_device()}; {', '.join(f'{name} {value}' for name, value in versions.items())};"
        f" commit {done.stdout.strip() or 'unknown'}; {datetime.date.today()}.",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", choices=SIZES, default="small", help="presets; smoke: a test")
    parser.add_argument("--mixed", choices=MIXED, default=MIXED[0], help="mixed precision")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--results", type=Path, default=RESULTS, help="file to append to")
    parser.add_argument("--dry-run", action="store_true", help="append nothing")
    options = parser.parse_args()
    if not tf.config.list_physical_devices("GPU"):
        print("TensorFlow sees no GPU; measuring on the CPU", file=sys.stderr)
    lines = [
        "| measurement | precision | XLA | first call, s | median, ms | per second | peak, MiB |",
        "|---|---|---|---|---|---|---|",
    ]
    print(*lines, sep="\n", flush=True)
    cases = make_cases(SIZES[options.size], options.mixed)
    if options.size == "smoke":
        cases = cases[2::3]  # every part, with and without XLA
    for case in cases:
        lines.append(measure_row(case, options.rounds))
        print(lines[-1], flush=True)
    lines += ["", *describe_run(SIZES[options.size], options.rounds)]
    if not options.dry_run:
        append_section(f"On one device: {describe_device()}", lines, options.results)


if __name__ == "__main__":
    main()
