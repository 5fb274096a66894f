"""Rate of writing checkpoints, and of writing the same number of bytes to one file.

    python benchmarks/checkpoints.py [--parameters 200e6] [--rounds 3]

A checkpoint has the weights and Adam's two moments, with checksums, and is flushed to the disk.
Raw writing and checkpoints take turns in one process.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from side_by_side import describe_device, write_section

from attention_zoo import training
from attention_zoo.checkpoints.folder import CheckpointFolder

PARAMETERS = 200e6
WIDTH, BLOCK = 1024, 2**24
TARGET = 0.5
"""Fraction of the raw rate."""


def write_corpus(folder: Path) -> None:
    for split in ("train", "validation"):
        (folder / split).write_text("a b c\n" * 8)


def write_raw(path: Path, size: int) -> float:
    """Write a number of bytes to a file and flush it; return the seconds."""
    block = np.random.default_rng(0).integers(0, 256, BLOCK, np.uint8).tobytes()
    start = time.perf_counter()
    with path.open("wb", buffering=0) as file:
        for begin in range(0, size, BLOCK):
            file.write(block[: size - begin])
        os.fsync(file.fileno())
    seconds = time.perf_counter() - start
    path.unlink()
    return seconds


def count_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def measure(parameters: float, rounds: int) -> dict[str, list[float]]:
    """Return the rates of each round, in MB/s."""
    rates: dict[str, list[float]] = {"raw": [], "checkpoint": []}
    save = CheckpointFolder.save

    def save_timed(self: CheckpointFolder, step: int, write: Any) -> Path:
        start = time.perf_counter()
        path = save(self, step, write)
        seconds, size = time.perf_counter() - start, count_bytes(path)
        rates["checkpoint"].append(size / seconds / 1e6)
        rates["raw"].append(size / write_raw(self.folder / "raw", size) / 1e6)
        print({name: round(values[-1]) for name, values in rates.items()}, flush=True)
        return path

    # The folder of temporary files may be in memory.
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as name:
        folder = Path(name)
        write_corpus(folder)
        recipe = write_recipe(folder, parameters, rounds)
        with patch.object(CheckpointFolder, "save", save_timed):
            training.fit(recipe)
    return rates


def write_recipe(folder: Path, parameters: float, rounds: int) -> Path:
    """Write the recipe of a GPT with about this number of parameters; return its path."""
    layers = max(1, round(parameters / (12 * WIDTH**2)))
    recipe = f"""
task: language_modeling
data: {{corpus: text, train: {folder}/train, validation: {folder}/validation}}
tokenizer: {{kind: word}}
model:
  preset: gpt_tiny
  num_layers: {layers}
  embedding_dim: {WIDTH}
  units: {4 * WIDTH}
  num_heads: 16
training: {{steps: {rounds}, evaluate_every: 1, batch_size: 4, keep_checkpoints: 1}}
run: {folder}/run
"""
    (folder / "recipe.yaml").write_text(recipe)
    return folder / "recipe.yaml"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--parameters", type=float, default=PARAMETERS)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    rates = measure(options.parameters, options.rounds)
    medians = {name: statistics.median(values) for name, values in rates.items()}
    lines = [
        "| | MB per second |",
        "|---|---|",
        *(f"| {name} | {rate:,.0f} |" for name, rate in medians.items()),
        "",
        f"Ratio: **{medians['checkpoint'] / medians['raw']:.2f}**, target {TARGET}"
        f" ({options.parameters / 1e6:g}M parameters, median of {options.rounds} rounds,"
        f" {describe_device()}).",
    ]
    if options.parameters == PARAMETERS:
        write_section("Checkpoints", lines)
    else:
        print("\n".join(lines))


if __name__ == "__main__":
    main()
