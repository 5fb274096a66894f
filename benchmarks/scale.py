"""CPU time and peak memory of large corpora, of long sequences in training, and of predictions.

    python benchmarks/scale.py [--size 0.1] [CASE ...]

Each case runs in its own process, on generated text. CPU time counts all cores. Memory is the peak
above the resident memory after the import of TensorFlow and attention_zoo. The second start of a
training reads the cache that the first one has written; it is measured up to the first batch,
without a training step. Two processes that prepare the same data at the same time, as two hosts do,
are measured up to the first batch too; their targets are fractions of what one process needs alone.
A plain pipeline, which encodes the same pairs without any checks, shows how fast the machine is.
`--size` scales the numbers of examples; the targets are those of size 1. A run of all cases at size
1 is written to results.md.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import accumulate, islice
from pathlib import Path
from typing import Any, NamedTuple

import tokenizers
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


class Row(NamedTuple):
    """A row of the table.

    Attributes:
        name: text after the name of the case.
        seconds, mebibytes: CPU time and memory.
        target_seconds, target_mebibytes: their targets, None where there is none.
    """

    name: str
    seconds: float
    mebibytes: float
    target_seconds: float | None = None
    target_mebibytes: float | None = None


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
        tokenizer: kind of tokenizer; that of the task when None.
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
    tokenizer: str | None = None

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
            "tokenizer": {} if self.tokenizer is None else {"kind": self.tokenizer},
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

    def measure(self, name: str, folder: Path, size: float) -> Iterator[Row]:
        self.prepare(folder, size)
        first = start_process(name, "run", folder)
        yield Row("", *first(), self.seconds, self.mebibytes)
        if self.again is not None:
            again = start_process(name, "prepare_data", folder)
            yield Row(", second start", *again(), self.again)

    def run(self, folder: Path) -> None:
        from attention_zoo import training

        training.fit(folder / "recipe.yaml")

    def prepare_data(self, folder: Path) -> None:
        """Prepare the data, the tokenizers and the model."""
        from attention_zoo import training

        training.prepare_data(folder / "recipe.yaml")


@dataclass(frozen=True)
class SharedPreparation:
    """The preparation of a training by two processes at the same time.

    Args:
        training: the training.
        fraction: target of the CPU time and the memory of each process, as a fraction of those of
            one process alone.
    """

    training: Training
    fraction: float

    def measure(self, name: str, folder: Path, size: float) -> Iterator[Row]:
        self.training.prepare(folder, size)
        alone = start_process(name, "run", folder)()
        yield Row(", one process", *alone)
        shutil.rmtree(folder / "cache")
        addresses = {"worker": ["localhost:1", "localhost:2"]}
        hosts = [
            json.dumps({"cluster": addresses, "task": {"type": "worker", "index": index}})
            for index in range(2)
        ]
        both = [start_process(name, "run", folder, TF_CONFIG=host) for host in hosts]
        for number, wait in enumerate(both, 1):
            targets = [self.fraction * value for value in alone]
            yield Row(f", process {number} of 2", *wait(), *targets)

    def run(self, folder: Path) -> None:
        self.training.prepare_data(folder)


@dataclass(frozen=True)
class PlainPipeline:
    """Encoding of the pairs of a training with `tokenizers` alone, as a reference.

    Two vocabularies are learned from a sample of the texts. Then all texts are split at white space
    and encoded, and their ids are appended to two files.

    Args:
        training: the training.
        sample: number of texts that each vocabulary is learned from.
    """

    training: Training
    sample: int = 1_000_000

    def measure(self, name: str, folder: Path, size: float) -> Iterator[Row]:
        self.training.prepare(folder, size)
        yield Row("", *start_process(name, "run", folder)())

    def run(self, folder: Path) -> None:
        for column in range(2):
            tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(unk_token="<unk>"))
            tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
            trainer = tokenizers.trainers.BpeTrainer(
                vocab_size=8000, special_tokens=["<pad>", "<unk>"], show_progress=False
            )
            texts = islice(self.read_texts(folder, column), self.sample)
            tokenizer.train_from_iterator(texts, trainer)
            texts = self.read_texts(folder, column)
            with (folder / f"ids{column}").open("wb") as file:
                while batch := [*islice(texts, 1024)]:
                    for encoding in tokenizer.encode_batch_fast(batch):
                        file.write(array("H", encoding.ids).tobytes())

    def read_texts(self, folder: Path, column: int) -> Iterator[str]:
        with (folder / "train").open(encoding="utf-8") as file:
            next(file)  # the header
            for line in file:
                yield line.rstrip("\n").split("\t")[column]


@dataclass(frozen=True)
class Prediction:
    """Predictions of an entry of the zoo for many sentences, one by one.

    Args:
        entry: name of the entry.
        examples: number of sentences.
        mebibytes: target.
    """

    entry: str
    examples: int
    mebibytes: int

    def measure(self, name: str, folder: Path, size: float) -> Iterator[Row]:
        """Write the sentences, and predict."""
        draw = random.Random(1)
        with (folder / "sentences").open("w", encoding="utf-8") as file:
            for _ in range(round(self.examples * size)):
                file.write(" ".join(sample_words(draw, draw.randint(5, 30))) + "\n")
        predictions = start_process(name, "run", folder)
        yield Row("", *predictions(), None, self.mebibytes)

    def run(self, folder: Path) -> None:
        import attention_zoo as az

        task = az.load(self.entry)
        with (folder / "sentences").open(encoding="utf-8") as file:
            for _ in task.predict_iter(line.split() for line in file):
                pass


TSV = {"corpus": "tsv", "source": "en", "target": "xx"}
LONG_TSV = {**TSV, "max_source_length": 1024, "max_target_length": 1025}
JSONL = {"corpus": "jsonl", "source": "text", "target": "summary", "truncate_source": True}
PAIRS = Training(
    make_pair,
    (4, 18),
    2_000_000,
    "translation",
    "transformer_tiny",
    TSV,
    seconds=75,
    mebibytes=400,
    again=3,
)
CASES: dict[str, Training | SharedPreparation | PlainPipeline | Prediction] = {
    "pairs": PAIRS,
    "pairs, plain pipeline": PlainPipeline(PAIRS),
    "pairs, shared": SharedPreparation(PAIRS, 0.6),
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
        tokenizer="whitespace",  # a token per word
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
        tokenizer="whitespace",  # a token per word
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


def start_process(
    name: str, method: str, folder: Path, **environment: str
) -> Callable[[], tuple[float, float]]:
    """Start a method of a case in a new process.

    Returns:
        A function that waits for its end and returns the CPU seconds and the MiB.
    """
    command = [sys.executable, __file__, "--call", method, str(folder), name]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
    )

    def wait() -> tuple[float, float]:
        output, errors = process.communicate()
        if process.returncode:
            sys.exit(f"{name} failed:\n{errors[-2000:]}")
        seconds, mebibytes = json.loads(output.splitlines()[-1])
        return seconds, mebibytes

    return wait


def call(function: Callable[[Path], None], folder: Path) -> tuple[float, float]:
    """Call a method of a case in this process; return its CPU seconds and MiB."""
    import attention_zoo.training  # noqa: F401 (imports TensorFlow too)

    idle, start = resident("VmRSS"), time.process_time()
    function(folder)
    return time.process_time() - start, resident("VmHWM") - idle


def format_target(target: float | None) -> str:
    return "" if target is None else f"{target:.0f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cases", nargs="*", metavar="CASE", help=", ".join(CASES))
    parser.add_argument("--size", type=float, default=1.0)
    parser.add_argument("--call", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if unknown := {*options.cases} - {*CASES}:
        parser.error(f"unknown case {min(unknown)!r}; known: {', '.join(CASES)}")
    if options.call:
        method, folder = options.call
        print(json.dumps(call(getattr(CASES[options.cases[0]], method), Path(folder))))
        return
    lines = [
        "| case | CPU seconds | target | MiB above the import | target |",
        "|---|---|---|---|---|",
    ]
    for name in options.cases or CASES:
        with tempfile.TemporaryDirectory() as folder:
            for row in CASES[name].measure(name, Path(folder), options.size):
                cells = f"{row.seconds:.0f} | {format_target(row.target_seconds)}"
                cells += f" | {row.mebibytes:.0f} | {format_target(row.target_mebibytes)}"
                lines.append(f"| {name}{row.name} | {cells} |")
                print(lines[-1], flush=True)
    lines += ["", f"Size {options.size:g} ({describe_device()})."]
    if options.size == 1 and not options.cases:
        write_section("Large corpora and long sequences", lines)


if __name__ == "__main__":
    main()
