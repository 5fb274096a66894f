"""Prepare the data of a recipe in its cache, with several processes, before training."""

from __future__ import annotations

import argparse
import os

from attention_zoo.cli.arguments import add_imports, add_overrides, add_recipe

MAX_PROCESSES = 8
"""Default maximum number of processes, each of which imports TensorFlow."""


def count_cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the recipe, its overrides and the number of processes."""
    add_recipe(parser)
    add_overrides(parser, "any key of the recipe: data.cache=FOLDER data.train=FILE")
    add_imports(parser)
    parser.add_argument(
        "--processes",
        metavar="N",
        type=int,
        default=min(count_cores(), MAX_PROCESSES),
        help="maximum number of processes that share the work (default: the number of cores, at"
        f" most {MAX_PROCESSES})",
    )
    parser.add_argument("--helper", action="store_true", help=argparse.SUPPRESS)


def run(arguments: argparse.Namespace) -> None:
    """Prepare the data, and print the number of examples."""
    os.environ["CUDA_VISIBLE_DEVICES"] = "-1"  # TensorFlow would reserve the memory of all GPUs
    from attention_zoo import training
    from attention_zoo.training.preparation import stop_with_parent

    if arguments.helper:
        stop_with_parent()
    counts = training.prepare_data(
        arguments.recipe,
        arguments.overrides,
        arguments.imports,
        1 if arguments.helper else arguments.processes,
    )
    print(", ".join(f"{count:,} {split} examples" for split, count in counts.items()), "prepared")
