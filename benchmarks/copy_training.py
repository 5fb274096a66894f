"""What copying costs in training: models that can, against the same ones that cannot, in turn.

    python benchmarks/copy_training.py

The step is that of the training loop, on random articles: a tenth of their words is none of the
vocabulary, and of the summaries' words half stand in the article.
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
from attention_zoo.training.step import APPLIED, Steps

COPIES = 100
UNKNOWN, START, FIRST_WORD = 1, 2, 4
WARM_UP = 3  # steps that are not counted: tracing, first touch of memory


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
    """The same batch again and again, as training steps take it."""
    rng, size = np.random.default_rng(1), options.vocabulary
    source = rng.integers(FIRST_WORD, size, (options.batch, options.source))
    rare = rng.random(source.shape) < 0.1
    source = np.where(rare, size + rng.integers(COPIES, size=source.shape), source)
    shape = options.batch, options.target + 1
    places = rng.integers(options.source, size=shape)
    copied = np.take_along_axis(source, places, axis=1)
    target = np.where(rng.random(shape) < 0.5, copied, rng.integers(FIRST_WORD, size, shape))
    target[:, 0] = START
    if not copies:
        source, target = (np.where(ids < size, ids, UNKNOWN) for ids in (source, target))
    source, target = (tf.constant(ids, "int32") for ids in (source, target))
    batch = {"source": source, "target": target[:, :-1]}, target[:, 1:], tf.constant(True)
    return iter(tf.data.Dataset.from_tensors(batch).repeat())


def trainer(name: str, copies: int, jit: bool, options: argparse.Namespace) -> Callable[[], Any]:
    """One training step, compiled at its first call."""
    keras.utils.set_random_seed(1)
    model, batches = MODELS[name](copies, options), articles(copies, options)
    model(next(batches)[0])
    optimizer = keras.optimizers.Adam(1e-3)
    model.compile(optimizer=optimizer, loss=model.make_loss(), auto_scale_loss=False)
    optimizer.build(model.trainable_variables)
    steps = Steps(model, tf.distribute.get_strategy(), clip_norm=2.0, jit=jit)
    return lambda: steps.train(batches)


def seconds(name: str, jit: bool, options: argparse.Namespace) -> dict[int, float]:
    """Median time of a step with and without copies; steps are done in turn."""
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
    """Summary tokens a second with copies and without, and how much slower the former are."""
    tokens = options.batch * options.target
    lines = ["| | with copies | without | throughput lost |", "|---|---|---|---|"]
    for name, jit in itertools.product(options.models, (False, True)):
        times = seconds(name, jit, options)
        rates = (f"{tokens / times[copies]:,.0f}" for copies in (COPIES, 0))
        lost = 100 * (1 - times[0] / times[COPIES])
        lines.append(f"| {name}{' (XLA)' if jit else ''} | {' | '.join(rates)} | {lost:.1f} % |")
        print(lines[-1], flush=True)
    return [
        *lines,
        "",
        f"Summary tokens a second, batches of {options.batch} articles of {options.source} words"
        f" and summaries of {options.target}, {options.vocabulary:,} words and {COPIES} copies,"
        f" {options.units} units, float32; median of {options.steps} steps in turn,"
        f" {platform.processor() or platform.machine()}.",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    sizes = {"vocabulary": 8000, "source": 200, "target": 50, "batch": 16, "units": 256}
    for name, size in {**sizes, "steps": 15}.items():
        parser.add_argument(f"--{name}", type=int, default=size)
    parser.add_argument("--dry-run", action="store_true", help="print, and leave results.md")
    options = parser.parse_args()
    lines = table(options)
    if not options.dry_run:
        write_section("Training with copies", lines)


if __name__ == "__main__":
    main()
