"""Overhead of the training loop: checkpoints, memory, and throughput against the compiled step.

    python benchmarks/training_loop.py

Measurements use only `training.fit` and a Keras callback that runs after those of the loop, so they
do not depend on the loop's implementation. Each measurement runs in its own process.
"""

from __future__ import annotations

import argparse
import json
import platform
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import keras
import side_by_side
import tensorflow as tf

from attention_zoo import training
from attention_zoo.tasks import TASKS

WORDS, LENGTH, PAIRS, BATCH = 8000, 20, 8000, 64  # of the corpus of random words
WIDTH = 300  # of embeddings and states, for 10 M parameters
WARM_UP = 10  # steps that are not timed: tracing and memory allocation

PAGE = """\
data: {{corpus: tsv, source: source, target: target, train: {tsv}, validation: {short}}}
tokenizer: {{kind: word, vocabulary_size: 9000}}
model: {{preset: rnnsearch_small, embedding_dim: {width}, units: {width}}}
training: {{batch_size: {batch}}}
"""


def recipe_page(folder: Path, width: int, words: int) -> Path:
    """Write a corpus of `words` random words and its recipe; return the recipe's path."""
    rng = random.Random(1)
    every = [f"w{letters(number)}" for number in range(words)]
    lines = [" ".join(rng.choices(every, k=LENGTH)) for _ in range(PAIRS)]
    rows = [f"{one}\t{other}" for one, other in zip(lines, reversed(lines), strict=True)]
    for name, some in (("train", rows), ("validation", rows[:BATCH])):
        (folder / f"{name}.tsv").write_text("\n".join(["source\ttarget", *some]) + "\n")
    files = {"tsv": folder / "train.tsv", "short": folder / "validation.tsv"}
    (folder / "page.yaml").write_text(PAGE.format(**files, width=width, batch=BATCH))
    return folder / "page.yaml"


def letters(number: int) -> str:
    """Return a number in letters: the tokenizer would split digits."""
    text = ""
    while number or not text:
        number, digit = divmod(number, 26)
        text += chr(ord("a") + digit)
    return text


class Watch(keras.callbacks.Callback):
    """Callback that records start and end of each update, with the loop's callbacks, and memory."""

    def __init__(self) -> None:
        super().__init__()
        self.parameters = 0
        self.began: list[float] = []
        self.ended: list[float] = []
        self.resident: list[float] = []

    def on_train_begin(self, logs: Any = None) -> None:
        self.parameters = self.model.count_params()

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        self.began.append(time.perf_counter())

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.ended.append(time.perf_counter())
        self.resident.append(read_resident_megabytes())


def read_resident_megabytes() -> float:
    """Return the resident memory of this process in MB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 1e6


def trained(folder: Path, width: int, words: int, *options: str) -> Watch:
    watch = Watch()
    training.fit(recipe_page(folder, width, words), [f"run={folder / 'run'}", *options], [watch])
    return watch


def checkpointing(steps: int, folder: Path) -> dict[str, float]:
    """Measure the share of training time that a checkpoint every 100 steps takes (10 M weights)."""
    every = max(steps // 4, WARM_UP + 1)
    options = (f"steps={steps + 1}", f"evaluate_every={steps + 1}", f"checkpoint_every={every}")
    watch = trained(folder, WIDTH, WORDS, *(f"training.{option}" for option in options))
    spans = [end - begin for begin, end in zip(watch.began, watch.ended, strict=True)]
    saves = [span for step, span in enumerate(spans, 1) if step % every == 0]
    others = [span for step, span in enumerate(spans, 1) if step % every and step > WARM_UP]
    step = statistics.median(others)
    save = statistics.median(saves) - step
    return {
        "parameters": watch.parameters,
        "milliseconds_a_step": 1000 * step,
        "milliseconds_a_checkpoint": 1000 * save,
        "percent": 100 * save / (100 * step),
    }


def memory(steps: int, folder: Path) -> dict[str, float]:
    """Measure the growth of memory per thousand steps, with checkpoints and evaluations."""
    options = (f"steps={steps}", f"evaluate_every={steps // 10}", "checkpoint_every=100")
    watch = trained(folder, 16, 200, *(f"training.{option}" for option in options))
    counted = watch.resident[steps // 5 :]  # the allocator has filled its pools
    fitted = statistics.linear_regression(range(len(counted)), counted)
    return {
        "megabytes_at_first": counted[0],
        "megabytes_at_last": counted[-1],
        "megabytes_a_thousand_steps": 1000 * fitted.slope,
    }


def loop(steps: int, folder: Path) -> dict[str, float]:
    """Measure the seconds that `steps` steps of the loop take."""
    total = steps + WARM_UP
    options = (f"training.steps={total}", f"training.evaluate_every={total}")
    watch = trained(folder, WIDTH, WORDS, *options)
    # The end of the last update excludes the evaluation, which runs after the callbacks.
    return {"seconds": watch.ended[-1] - watch.ended[WARM_UP - 1]}


def bare(steps: int, folder: Path) -> dict[str, float]:
    """Measure the seconds of the same steps without the loop: batches in memory, one function."""
    recipe = training.read_recipe(recipe_page(folder, WIDTH, WORDS))
    examples = recipe.data.read("train")
    keras.utils.set_random_seed(recipe.seed)
    task = TASKS.get(recipe.task).from_recipe(recipe, examples)
    model, loss = task.model, task.make_loss(0.0)
    optimizer = keras.optimizers.Adam(1e-3, global_clipnorm=1.0)
    optimizer.build(model.trainable_variables)
    batches = task.make_batches(examples, BATCH, recipe.seed)
    matrix = tf.TensorSpec((None, None), "int32")

    @tf.function(input_signature=[{"source": matrix, "target": matrix}, matrix])
    def step(inputs: Any, labels: Any) -> Any:
        with tf.GradientTape() as tape:
            total = loss.total(labels, model(inputs, training=True, project=False))
            value = total / loss.count(labels)
        variables = model.trainable_variables
        optimizer.apply(tape.gradient(value, variables), variables)
        return value

    arrays = [batches.make_batch(batches.get_rows(number)) for number in range(steps + WARM_UP)]
    began = 0.0
    for number, batch in enumerate(tf.nest.map_structure(tf.constant, arrays)):
        began = time.perf_counter() if number == WARM_UP else began
        float(step(*batch))
    return {"seconds": time.perf_counter() - began}


WORKS = {work.__name__: work for work in (checkpointing, memory, loop, bare)}


def in_a_process(work: str, steps: int) -> dict[str, float]:
    command = [sys.executable, __file__, "--work", work, "--steps", str(steps)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{work} failed:\n{done.stderr[-2000:]}")
    result = json.loads(done.stdout.splitlines()[-1])
    print(work, result, flush=True)
    return result


def lines_of(arguments: argparse.Namespace) -> list[str]:
    """Run all measurements; return the lines of the section of results.md."""
    ratios = []
    for _ in range(arguments.rounds):
        seconds = {
            work: in_a_process(work, arguments.steps)["seconds"] for work in ("bare", "loop")
        }
        ratios.append(100 * seconds["bare"] / seconds["loop"])
    saving = in_a_process("checkpointing", 4 * arguments.checkpoint_every)
    growth = in_a_process("memory", arguments.memory_steps)
    cpu = platform.processor() or platform.machine()
    return [
        f"RNNSearch, {saving['parameters'] / 1e6:.1f} M parameters, batches of {BATCH} pairs of"
        f" {LENGTH} words, float32, {cpu}.",
        "",
        "| | measured | target |",
        "|---|---|---|",
        f"| throughput, relative to the bare compiled step | {statistics.median(ratios):.1f} %"
        " | at least 95 % |",
        f"| time of a checkpoint every 100 steps, of the training time | {saving['percent']:.2f} %"
        " | under 2 % |",
        "| memory growth per 1,000 steps (small model) |"
        f" {growth['megabytes_a_thousand_steps']:+.2f} MB | under 1 MB |",
        "",
        f"A step takes {saving['milliseconds_a_step']:.0f} ms and a checkpoint"
        f" {saving['milliseconds_a_checkpoint']:.0f} ms more (median of 4,"
        f" {arguments.checkpoint_every} steps apart); the ratio is the median of"
        f" {arguments.rounds} rounds of {arguments.steps} steps; memory over"
        f" {arguments.memory_steps:,} steps with an evaluation every"
        f" {arguments.memory_steps // 10} and a checkpoint every 100,"
        f" {growth['megabytes_at_last']:.0f} MB at the end.",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--work", choices=WORKS, help="one measurement, as a JSON line")
    parser.add_argument("--steps", type=int, default=60, help="of loop and bare step, per round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--checkpoint-every", type=int, default=100)
    parser.add_argument("--memory-steps", type=int, default=5000)
    arguments = parser.parse_args()
    if arguments.work is None:
        side_by_side.write_section("The training loop", lines_of(arguments))
        return
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(WORKS[arguments.work](arguments.steps, Path(folder))))


if __name__ == "__main__":
    main()
