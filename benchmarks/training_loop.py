"""What the loop costs around the compiled step: callbacks, input and the shares of devices."""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path

import side_by_side
import tensorflow as tf

import attention_zoo as az
from attention_zoo.training.callbacks import Clock, Progress
from attention_zoo.training.devices import spread
from attention_zoo.training.intervals import Intervals
from attention_zoo.training.loop import Job, prepare
from attention_zoo.training.run_folder import RunState
from attention_zoo.training.stopping import StopRequest

RECIPE = "training/translation/rnnsearch_small.dates_en_fr.yaml"


def loop(job: Job, steps: int) -> float:
    """Seconds of so many steps in the loop, once its input has begun."""
    state = RunState()
    clock = Clock(state, StopRequest())
    options = az.training.recipe.TrainingOptions(steps=steps, evaluate_every=steps)
    callbacks = [clock, Progress(steps, clock)]
    intervals = Intervals(job.steps, job.train, job.validation_batches, options, state, callbacks)
    intervals.steps.model.stop_training = False
    batches = spread(job.steps.strategy, job.train.dataset(0))
    begin = time.perf_counter()
    intervals._train(batches)
    return time.perf_counter() - begin


def bare(job: Job, batches: tf.data.Dataset, steps: int) -> float:
    """Seconds of the compiled step alone on the same batches, which are in memory already."""
    stream = iter(batches)
    begin = time.perf_counter()
    for _ in range(steps):
        job.steps.train(stream)
    return time.perf_counter() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    recipe = az.training.read_recipe(RECIPE, ["data.size=6000"])
    strategy = tf.distribute.get_strategy()
    with tempfile.TemporaryDirectory() as folder:
        job = prepare(recipe, Path(folder) / "run", RunState(), strategy)
        data = job.train.dataset(0, arguments.steps).map(lambda x, y: (x, y, True))
        ready = data.cache().repeat()
        ratios = []
        for _ in range(arguments.rounds + 1):  # the first one warms up
            alone = bare(job, ready, arguments.steps)
            ratios.append(alone / loop(job, arguments.steps))
    ratio = statistics.median(ratios[1:])
    lines = [f"Throughput of the loop over that of the bare compiled step: **{ratio:.3f}**"]
    lines.append(f"(median of {arguments.rounds} rounds of {arguments.steps} steps in turn).")
    side_by_side.write_section("The training loop around its step", lines)


if __name__ == "__main__":
    main()
