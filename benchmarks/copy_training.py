"""Training throughput with and without copying, for the same models, measured in turn.

    python benchmarks/copy_training.py

It times the step of the training loop on random articles. A tenth of the source words are not in
the vocabulary, and half of the summary words are copied from the source.
"""

from __future__ import annotations

import argparse
import itertools
import platform
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from side_by_side import write_section

import attention_zoo as az
from attention_zoo.training.step import APPLIED, CompiledSteps

COPIES = 100
UNKNOWN, START, FIRST_WORD = 1, 2, 4
WARM_UP = 3  # steps that are not timed: tracing and memory allocation


def pointer_generator(copies: int, options: argparse.Namespace) -> keras.Model:
    return az.models.PointerGenerator(
        options.vocabulary, embedding_dim=options.units // 2, units=options.units, copies=copies
    )


def copy_transformer(copies: int, options: argparse.Namespace) -> keras.Model:
    return az.models.CopyTransformer(
        options.vocabulary,
        embedding_dim=options.units,
        units=4 * options.units,
        num_heads=4,
        num_layers=3,
        copies=copies,
    )


MODELS: dict[str, Callable[..., keras.Model]] = {
    "PointerGenerator": pointer_generator,
    "CopyTransformer": copy_transformer,
}


def articles(copies: int, options: argparse.Namespace) -> Iterator[Any]:
    """Return an iterator that repeats one batch, in the format of `CompiledSteps.train`."""
    rng, size = np.random.default_rng(1), options.vocabulary
    source = rng.integers(FIRST_WORD, size, (options.batch, options.source))
    rare = rng.random(source.shape) < 0.1
    source = np.where(rare, size + rng.integers(COPIES, size=source.shape), source)
    shape = options.batch, options.target + 1
    positions = rng.integers(options.source, size=shape)
    copied = np.take_along_axis(source, positions, axis=1)
    target = np.where(rng.random(shape) < 0.5, copied, rng.integers(FIRST_WORD, size, shape))
    target[:, 0] = START
    if not copies:
        source, target = (np.where(ids < size, ids, UNKNOWN) for ids in (source, target))
    source, target = (tf.constant(ids, "int32") for ids in (source, target))
    batch = {"source": source, "target": target[:, :-1]}, target[:, 1:], tf.constant(True)
    return iter(tf.data.Dataset.from_tensors(batch).repeat())


def trainer(name: str, copies: int, jit: bool, options: argparse.Namespace) -> Callable[[], Any]:
    """Return a function that performs one training step; its first call compiles."""
    keras.utils.set_random_seed(1)
    model, batches = MODELS[name](copies, options), articles(copies, options)
    model(next(batches)[0])
    optimizer = keras.optimizers.Adam(1e-3)
    model.compile(optimizer=optimizer, loss=model.make_loss(), auto_scale_loss=False)
    optimizer.build(model.trainable_variables)
    steps = CompiledSteps(model, tf.distribute.get_strategy(), clip_norm=2.0, jit=jit)
    return lambda: steps.train(batches)


def seconds(name: str, jit: bool, options: argparse.Namespace) -> dict[int, float]:
    """Return the median step time by number of copies; the steps of both alternate."""
    both = {copies: trainer(name, copies, jit, options) for copies in (COPIES, 0)}
    times: dict[int, list[float]] = {copies: [] for copies in both}
    for number, (copies, step) in itertools.product(range(WARM_UP + options.steps), both.items()):
        begin = time.perf_counter()
        outcome = step()
        if number >= WARM_UP:
            times[copies].append(time.perf_counter() - begin)
        if outcome.code != APPLIED:
            sys.exit(f"{name}: the loss is {outcome.loss}")
    return {copies: statistics.median(values) for copies, values in times.items()}


def table(options: argparse.Namespace) -> list[str]:
    """Return a table of summary tokens per second, and the throughput that copying costs."""
    tokens = options.batch * options.target
    lines = ["| | with copying | without copying | throughput lost |", "|---|---|---|---|"]
    for name, jit in itertools.product(options.models, (False, True)):
        times = seconds(name, jit, options)
        rates = (f"{tokens / times[copies]:,.0f}" for copies in (COPIES, 0))
        lost = 100 * (1 - times[0] / times[COPIES])
        lines.append(f"| {name}{' (XLA)' if jit else ''} | {' | '.join(rates)} | {lost:.1f} % |")
        print(lines[-1], flush=True)
    return [
        *lines,
        "",
        f"Summary tokens per second, batches of {options.batch} articles of {options.source} words"
        f" and summaries of {options.target}, vocabulary {options.vocabulary:,}, copies={COPIES},"
        f" {options.units} units, float32; median of {options.steps} alternating steps,"
        f" {platform.processor() or platform.machine()}.",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    sizes = {"vocabulary": 8000, "source": 200, "target": 50, "batch": 16, "units": 256}
    for name, size in {**sizes, "steps": 15}.items():
        parser.add_argument(f"--{name}", type=int, default=size)
    parser.add_argument("--dry-run", action="store_true", help="do not write results.md")
    options = parser.parse_args()
    lines = table(options)
    if not options.dry_run:
        write_section("Training with copies", lines)


if __name__ == "__main__":
    main()
