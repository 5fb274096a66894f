"""Evaluate a run's best checkpoint, or an entry of the zoo, on a split.

The metrics of a run are written to RUN/results.json.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from attention_zoo.cli.arguments import add_imports, add_overrides, check_picture


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the run and its overrides."""
    parser.add_argument("run", metavar="RUN", help="a run folder or a zoo entry")
    add_imports(parser)
    parser.add_argument(
        "--confusion",
        metavar="PNG",
        help="write the confusion matrix of a classifier to this file",
    )
    add_overrides(parser, "data.* and search.* keys: data.split=validation search.beam_width=5")


def run(arguments: argparse.Namespace) -> None:
    """Evaluate the run and print one metric per line before writing results.json."""
    from attention_zoo import training
    from attention_zoo.data.progress import show_progress

    if arguments.confusion:
        check_picture(Path(arguments.confusion))
    task_names: list[str] = []

    def report(task: Any, entry: dict[str, Any]) -> None:
        task_names.append(task.name)
        _print_metrics(task, entry)

    with show_progress(sys.stderr):
        entry = training.evaluate(arguments.run, arguments.overrides, report=report)
    if arguments.confusion:
        _plot_confusion(entry, task_names[0], arguments.confusion)


def _plot_confusion(entry: dict[str, Any], task_name: str, path: str) -> None:
    """Plot the confusion matrix of an evaluation; raise ValueError if it has none."""
    from attention_zoo import inspection

    rows = entry["metrics"].get("confusion")
    if rows is None:
        raise ValueError(
            f"--confusion needs a task with one class per example, got {task_name}. Remove the"
            " option."
        )
    matrix = [list(row["predicted"].values()) for row in rows]
    title = f"{entry['split']}: {entry['data']}"
    inspection.plot_confusion_matrix(matrix, [row["reference"] for row in rows], path, title)


def _print_metrics(task: Any, entry: dict[str, Any]) -> None:
    print(f"{entry['split']}: {entry['data']}")
    metrics = entry["metrics"]
    width = max(14, *(len(name) + 2 for name in metrics))
    for name, value in metrics.items():
        if not isinstance(value, list):
            unit = task.metric_units.get(name, "")
            print(f"{name:{width}}{_format_value(value)} {unit}".rstrip())
    for groups in (value for value in metrics.values() if isinstance(value, list)):
        for group in groups:
            print("  " + "  ".join(f"{key} {_format_value(value)}" for key, value in group.items()))
    sys.stdout.flush()


def _format_value(value: object) -> str:
    return f"{value:.4f}" if isinstance(value, float) else str(value)
