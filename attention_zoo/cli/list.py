"""List the presets that a recipe's `model.preset` can name, or the tasks with their corpora."""

from __future__ import annotations

import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the argument `what`."""
    parser.add_argument(
        "what", nargs="?", choices=("presets", "tasks"), default="presets", help="default: presets"
    )


def run(arguments: argparse.Namespace) -> None:
    """Print one preset per line, or one task with the names of its corpora."""
    from attention_zoo import models, tasks

    if arguments.what == "presets":
        print("\n".join(models.list_presets()))
        return
    for name in tasks.TASKS.names():
        print(f"{name}\t{', '.join(tasks.TASKS.get(name).corpora.names())}")
