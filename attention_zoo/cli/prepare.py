"""Prepare the data of a recipe in its cache, with several processes, before training."""

from __future__ import annotations

import argparse
import os

from attention_zoo.cli.arguments import add_imports, add_overrides

MAX_PROCESSES = 8
"""Default maximum number of processes, each of which imports TensorFlow."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the recipe, its overrides and the number of processes."""
    parser.add_argument(
        "recipe",
        metavar="RECIPE",
        help="a recipe's YAML file, or the name of a recipe of the zoo (see `attention-zoo list`)",
    )
    add_overrides(parser, "any key of the recipe: data.cache=FOLDER data.train=FILE")
    add_imports(parser)
    parser.add_argument(
        "--processes",
        metavar="N",
        type=int,
        default=min(os.cpu_count() or 1, MAX_PROCESSES),
        help="number of processes that share the work (default: the number of cores, at most"
        f" {MAX_PROCESSES})",
    )


def run(arguments: argparse.Namespace) -> None:
    """Prepare the data, and print the number of examples."""
    from attention_zoo import training

    if arguments.processes < 1:
        raise ValueError(f"--processes must be at least 1, got {arguments.processes}")
    counts = training.prepare_data(
        arguments.recipe, arguments.overrides, arguments.imports, arguments.processes
    )
    print(", ".join(f"{count:,} {split} examples" for split, count in counts.items()), "prepared")
