"""Training steps per second with and without XLA, one recipe per family, measured alternately.

    python benchmarks/xla.py

It times the training loop's step on the first batches of the recipe, which have several shapes.
Warm-up steps trace every shape, and compile it with XLA; the table has their seconds too.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tensorflow as tf
from side_by_side import describe_device, write_section

from attention_zoo.training.devices import distribute_batches, make_strategy
from attention_zoo.training.fitting import prepare
from attention_zoo.training.recipe import read_recipe
from attention_zoo.training.run_folder import RunState
from attention_zoo.training.step import APPLIED

RECIPES = Path(__file__).parents[1] / "training"
FAMILIES = {
    "translation": "rnnsearch_small.dates_en_fr",
    "summarization": "pointer_generator_small.reports",
    "captioning": "show_attend_tell_small.scenes",
    "tagging": "bilstm_cnn_crf_constrained.orders",
    "language_modeling": "gpt_tiny.dates_en",
    "masked_language_modeling": "bert_tiny.dates_en",
    "retrieval": "cross_attention_retriever_small.scenes",
    "glimpses": "ram_mnist.digits",
}
SMALL = ("data.size=2000", "data.validation_size=100")


def make_trainer(family: str, jit: bool, batches: int, folder: Path) -> Callable[[], None]:
    """Return a function that trains on the first batches of the family's recipe, once each."""
    path = RECIPES / family / f"{FAMILIES[family]}.yaml"
    recipe = read_recipe(path, [*SMALL, f"training.jit={jit}"])
    job = prepare(recipe, folder / f"{family} {jit}", RunState(), make_strategy(1))
    arrays = [job.train.get_batch(number) for number in range(batches)]
    dataset = tf.data.Dataset.from_generator(
        lambda: itertools.cycle(arrays), output_signature=job.train.dataset().element_spec
    )
    iterator = iter(distribute_batches(job.steps.strategy, dataset))

    def train() -> None:
        for outcome in [job.steps.train(iterator) for _ in range(batches)]:
            if outcome.code != APPLIED:
                sys.exit(f"{FAMILIES[family]}: the loss is {outcome.loss}")

    return train


def measure(run: Callable[[], Any]) -> float:
    """Return the seconds that a call takes."""
    begin = time.perf_counter()
    run()
    return time.perf_counter() - begin


def make_row(family: str, options: argparse.Namespace, folder: Path) -> str:
    """Return a row of the table; runs over the batches with and without XLA alternate."""
    trainers = {jit: make_trainer(family, jit, options.batches, folder) for jit in (False, True)}
    warm_up = {jit: measure(train) for jit, train in trainers.items()}
    best = dict.fromkeys(trainers, float("inf"))
    for _, (jit, train) in itertools.product(range(options.rounds), trainers.items()):
        best[jit] = min(best[jit], measure(train))
    rates = [f"{options.batches / best[jit]:.2f}" for jit in (False, True)]
    seconds = [f"{warm_up[jit]:.0f}" for jit in (False, True)]
    ratio = f"{best[False] / best[True]:.2f}"
    return f"| {' | '.join([family, FAMILIES[family], *rates, ratio, *seconds])} |"


def make_table(options: argparse.Namespace) -> list[str]:
    """Return a table of steps per second and their ratio, and of the seconds of the warm-up."""
    lines = [
        "| family | recipe | without XLA, steps/s | with XLA, steps/s | ratio"
        " | warm-up without XLA, s | warm-up with XLA, s |",
        "|---|---|---|---|---|---|---|",
    ]
    with tempfile.TemporaryDirectory() as folder:
        for family in options.families:
            lines.append(make_row(family, options, Path(folder)))
            print(lines[-1], flush=True)
    return [
        *lines,
        "",
        f"First {options.batches} batches of each recipe, float32; fastest of {options.rounds}"
        " alternating runs. The warm-up includes tracing and, with XLA, the compilation of every"
        f" shape. {describe_device()}.",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--families", nargs="+", choices=FAMILIES, default=list(FAMILIES))
    parser.add_argument("--batches", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--dry-run", action="store_true", help="do not write results.md")
    options = parser.parse_args()
    lines = make_table(options)
    if not options.dry_run:
        write_section("Training with and without XLA", lines)


if __name__ == "__main__":
    main()
