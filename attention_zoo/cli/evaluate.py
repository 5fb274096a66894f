"""Evaluate a run's best checkpoint, or an entry of the zoo, on a split.

The metrics of a run are written to RUN/results.json.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

from attention_zoo.cli.arguments import add_imports, add_overrides


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the run and its overrides."""
    parser.add_argument("run", metavar="RUN", help="a run folder or a zoo entry")
    add_imports(parser)
    add_overrides(parser, "data.* and search.* keys: data.split=validation search.beam_width=5")


def run(arguments: argparse.Namespace) -> None:
    """Evaluate the run and print one metric per line before writing results.json."""
    from attention_zoo import training
    from attention_zoo.data.progress import show_progress

    with show_progress(sys.stderr):
        training.evaluate(arguments.run, arguments.overrides, report=_print_metrics)


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
