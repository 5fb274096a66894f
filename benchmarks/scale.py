"""CPU time and peak memory of large corpora, of long sequences in training, and of predictions.

    python benchmarks/scale.py [--size 0.1] [CASE ...]

Each case runs in its own process, on generated text. CPU time counts all cores. Memory is the peak
above the resident memory after the import of TensorFlow and attention_zoo. The second start of a
training reads the cache that the first one has written; it is measured up to the first batch,
without a training step. `--size` scales the numbers of examples; the targets are those of size 1. A
run of all cases at size 1 is written to results.md.
"""

from __future__ import annotations

import argparse
import functools
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import accumulate, islice
from pathlib import Path
from typing import Any

from long_attention import resident
from side_by_side import describe_device, write_section

WORDS, TAGS = 30_000, ("O", "B-A", "I-A", "B-B")


@functools.cache
def vocabulary() -> tuple[list[str], list[float]]:
    """Return made-up words and their cumulative weights by Zipf's law."""
    draw = random.Random(0)
    letters = "abcdefghijklmnopqrstuvwxyz"
    words = ["".join(draw.choices(letters, k=draw.randint(2, 9))) for _ in range(WORDS)]
    return words, list(accumulate(1 / (rank + 1) for rank in range(WORDS)))


def sample_words(draw: random.Random, count: int) -> list[str]:
    words, weights = vocabulary()
    return draw.choices(words, cum_weights=weights, k=count)


def make_pair(draw: random.Random, length: int) -> str:
    """Return a line of a table of sentence pairs."""
    return f"{' '.join(sample_words(draw, length))}\t{' '.join(sample_words(draw, length))}\n"


def make_tagged_sentence(draw: random.Random, length: int) -> str:
    """Return a sentence in the CoNLL format."""
    words = sample_words(draw, length)
    return "".join(f"{word}\t{draw.choice(TAGS)}\n" for word in words) + "\n"


def make_article(draw: random.Random, length: int) -> str:
    """Return an article with its summary as a line of JSON."""
    words = sample_words(draw, length)
    return json.dumps({"text": " ".join(words), "summary": " ".join(words[:40])}) + "\n"


@dataclass(frozen=True)
class Training:
    """The start of a training, with all preparation, and a few steps.

    Args:
        make: returns an example with a number of words, as a line of the corpus.
        lengths: range of this number.
        examples: number of training examples.
        task, preset: see the recipe.
        data: its section `data` without the files.
        batch_size, steps: see the recipe.
        seconds, mebibytes: targets of the first start, None where there is none.
        again: target of the CPU seconds of the second start; None if it is not measured.
        scales: whether `--size` scales the number of examples.
    """

    make: Callable[[random.Random, int], str]
    lengths: tuple[int, int]
    examples: int
    task: str
    preset: str
    data: dict[str, Any]
    batch_size: int = 64
    steps: int = 1
    seconds: int | None = None
    mebibytes: int | None = None
    again: int | None = None
    scales: bool = True

    def prepare(self, folder: Path, size: float) -> None:
        """Write the corpus and the recipe."""
        examples = max(
            self.batch_size, round(self.examples * size if self.scales else self.examples)
        )
        for split, count in (("train", examples), ("validation", 2)):
            with (folder / split).open("w", encoding="utf-8") as file:
                file.write("en\txx\n" * (self.data["corpus"] == "tsv"))
                file.writelines(islice(self.generate(split), count))
        files = {split: str(folder / split) for split in ("train", "validation")}
        recipe = {
            "task": self.task,
            "data": {**self.data, **files, "cache": str(folder / "cache")},
            "model": {"preset": self.preset},
            "training": {
                "steps": self.steps,
                "batch_size": self.batch_size,
                "evaluate_every": self.steps,
                "jit": False,
            },
            "run": str(folder / "run"),
        }
        (folder / "recipe.yaml").write_text(json.dumps(recipe), "utf-8")

    def generate(self, seed: str) -> Iterator[str]:
        """Yield examples; the first has the greatest length."""
        draw = random.Random(seed)
        yield self.make(draw, self.lengths[1])
        while True:
            yield self.make(draw, draw.randint(*self.lengths))

    def run(self, folder: Path) -> None:
        from attention_zoo import training

        training.fit(folder / "recipe.yaml")

    def run_again(self, folder: Path) -> None:
        """Prepare the data, the tokenizers and the model of another run on the same data."""
        from attention_zoo import tasks, training
        from attention_zoo.training.changes import SplitReader

        recipe = training.read_recipe(folder / "recipe.yaml")
        reader = SplitReader(recipe.data)
        examples, _ = reader.read("train")
        reader.read("validation")
        task = tasks.TASKS.get(recipe.task).from_recipe(recipe, examples)
        task.make_batches(examples, self.batch_size, recipe.seed).get_batch(0)


@dataclass(frozen=True)
class Prediction:
    """Predictions of an entry of the zoo for many sentences, one by one.

    Args:
        entry: name of the entry.
        examples: number of sentences.
        seconds, mebibytes: targets, None where there is none.
        again: None, as there is no second start.
    """

    entry: str
    examples: int
    seconds: int | None = None
    mebibytes: int | None = None
    again: int | None = None

    def prepare(self, folder: Path, size: float) -> None:
        """Write the sentences."""
        draw = random.Random(1)
        with (folder / "sentences").open("w", encoding="utf-8") as file:
            for _ in range(round(self.examples * size)):
                file.write(" ".join(sample_words(draw, draw.randint(5, 30))) + "\n")

    def run(self, folder: Path) -> None:
        import attention_zoo as az

        task = az.load(self.entry)
        with (folder / "sentences").open(encoding="utf-8") as file:
            for _ in task.predict_iter(line.split() for line in file):
                pass


TSV = {"corpus": "tsv", "source": "en", "target": "xx"}
LONG_TSV = {**TSV, "max_source_length": None, "max_target_length": None}
JSONL = {"corpus": "jsonl", "source": "text", "target": "summary", "truncate_source": True}
CASES: dict[str, Training | Prediction] = {
    "pairs": Training(
        make_pair,
        (4, 18),
        2_000_000,
        "translation",
        "transformer_tiny",
        TSV,
        seconds=75,
        mebibytes=400,
        again=3,
    ),
    "10M pairs": Training(
        make_pair,
        (4, 18),
        10_000_000,
        "translation",
        "transformer_tiny",
        TSV,
        steps=100,
        mebibytes=1500,
        again=15,
    ),
    "tagged": Training(
        make_tagged_sentence,
        (5, 30),
        100_000,
        "tagging",
        "bilstm_cnn_crf",
        {"corpus": "conll"},
        seconds=15,
        mebibytes=300,
        again=3,
    ),
    "articles": Training(
        make_article,
        (800, 800),
        20_000,
        "summarization",
        "pointer_generator_small",
        {**JSONL, "max_source_length": 400},
        seconds=25,
        again=3,
    ),
    "recurrent 512": Training(
        make_pair,
        (500, 511),
        16,
        "translation",
        "rnnsearch_small",
        LONG_TSV,
        8,
        2,
        mebibytes=1500,
        scales=False,
    ),
    "recurrent 1024": Training(
        make_pair,
        (1000, 1023),
        16,
        "translation",
        "rnnsearch_small",
        LONG_TSV,
        8,
        2,
        mebibytes=3000,
        scales=False,
    ),
    "articles 2048": Training(
        make_article,
        (2000, 2048),
        8,
        "summarization",
        "copy_transformer_small",
        {**JSONL, "max_source_length": 2048},
        4,
        2,
        mebibytes=2500,
        scales=False,
    ),
    "predictions": Prediction("bilstm_cnn_crf_constrained.orders", 50_000, mebibytes=150),
}


def measure(case: Training | Prediction, size: float, name: str) -> list[dict[str, float]]:
    """Run a case in new processes; return CPU seconds and MiB of each start."""
    with tempfile.TemporaryDirectory() as folder:
        case.prepare(Path(folder), size)
        results = [run_process(name, "--run", folder)]
        if case.again is not None:
            results.append(run_process(name, "--again", "--run", folder))
    return results


def run_process(name: str, *options: str) -> dict[str, float]:
    command = [sys.executable, __file__, *options, name]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{name} failed:\n{done.stderr[-2000:]}")
    result: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return result


def run(function: Callable[[Path], None], folder: Path) -> dict[str, float]:
    """Run a case in this process."""
    import attention_zoo.training  # noqa: F401 (imports TensorFlow too)

    idle, start = resident("VmRSS"), time.process_time()
    function(folder)
    return {"seconds": time.process_time() - start, "MiB": resident("VmHWM") - idle}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cases", nargs="*", metavar="CASE", help=", ".join(CASES))
    parser.add_argument("--size", type=float, default=1.0)
    parser.add_argument("--run", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--again", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if unknown := {*options.cases} - {*CASES}:
        parser.error(f"unknown case {min(unknown)!r}; known: {', '.join(CASES)}")
    if options.run:
        chosen: Any = CASES[options.cases[0]]
        print(json.dumps(run(chosen.run_again if options.again else chosen.run, options.run)))
        return
    lines = [
        "| case | CPU seconds | target | MiB above the import | target |",
        "|---|---|---|---|---|",
    ]
    for name in options.cases or CASES:
        case = CASES[name]
        results = measure(case, options.size, name)
        targets = [(case.seconds, case.mebibytes), (case.again, None)]
        for start, result, goals in zip(("", ", second start"), results, targets, strict=False):
            pairs = zip((result["seconds"], result["MiB"]), goals, strict=True)
            cells = " | ".join(f"{value:.0f} | {goal or ''}" for value, goal in pairs)
            lines.append(f"| {name}{start} | {cells} |")
            print(lines[-1], flush=True)
    lines += ["", f"Size {options.size:g} ({describe_device()})."]
    if options.size == 1 and not options.cases:
        write_section("Large corpora and long sequences", lines)


if __name__ == "__main__":
    main()
