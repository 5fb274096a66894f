"""Compare runs: the recipe keys that differ, parameters, best metric, steps and time.

The best value is that of the metric that selects checkpoints (training.monitor) on the validation
split. Metrics of `attention-zoo evaluate` are those of the first evaluation in results.json.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from attention_zoo.cli.arguments import add_imports

if TYPE_CHECKING:
    from attention_zoo.training.comparison import RunSummary

MISSING = "-"
MAX_WIDTH, CONTEXT = 40, 8  # of a cell, and the characters shown before a difference
ELLIPSIS = "..."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the runs and the output format."""
    parser.add_argument(
        "runs", metavar="RUN", nargs="+", help="a run folder or a zoo entry; at least two"
    )
    add_imports(parser)
    parser.add_argument(
        "--json",
        action="store_true",
        help="print a list of objects, one for each run; `recipe` has the keys that differ",
    )


def run(arguments: argparse.Namespace) -> None:
    """Print a table with one column for each run, or all rows as JSON."""
    from attention_zoo.training.comparison import compare_runs

    summaries = compare_runs(arguments.runs)
    if arguments.json:
        print(json.dumps([asdict(summary) for summary in summaries], indent=1, ensure_ascii=False))
    else:
        print(format_table(summaries))


def format_table(summaries: Sequence[RunSummary]) -> str:
    """Return the table: a row for each property and recipe key, a column for each run."""
    rows = [(name, *shorten_cells(cells)) for name, cells in make_rows(summaries)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)


def make_rows(summaries: Sequence[RunSummary]) -> Iterator[tuple[str, list[str]]]:
    """Yield the name and the cells of each row; empty rows are left out."""
    from attention_zoo.training.progress import format_seconds

    yield "", [summary.run for summary in summaries]
    properties = {
        "parameters": [_format(summary.parameters, "{:,}") for summary in summaries],
        "best": [_format_best(summary) for summary in summaries],
        "steps": [_format(summary.step, "{:,}") for summary in summaries],
        "training time": [
            MISSING if summary.seconds is None else format_seconds(summary.seconds)
            for summary in summaries
        ],
    }
    properties |= _format_evaluations(summaries)
    for name, cells in properties.items():
        if any(cell != MISSING for cell in cells):
            yield name, cells
    keys = dict.fromkeys(key for summary in summaries for key in summary.recipe)
    for key in keys:
        yield key, [_format_value(summary.recipe, key) for summary in summaries]


def _format_best(summary: RunSummary) -> str:
    if summary.best is None:
        return MISSING
    return f"{summary.monitor} {summary.best:.4f} at step {summary.best_step:,}"


def _format_evaluations(summaries: Sequence[RunSummary]) -> dict[str, list[str]]:
    """Return a row for each metric in results.json, with its split."""
    found = [
        {f"{summary.evaluation['split']} {name}": value for name, value in metrics.items()}
        if summary.evaluation and (metrics := summary.evaluation["metrics"])
        else {}
        for summary in summaries
    ]
    names = dict.fromkeys(name for values in found for name in values)
    return {name: [_format(values.get(name), "{:.4f}") for values in found] for name in names}


def _format(value: float | None, spec: str) -> str:
    return MISSING if value is None else spec.format(value)


def _format_value(recipe: dict[str, Any], key: str) -> str:
    """Return a recipe value as in a `key=value` override."""
    if key not in recipe:
        return MISSING
    value = recipe[key]
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return " ".join(text.split())


def shorten_cells(cells: Sequence[str]) -> list[str]:
    """Shorten the cells of a row to `MAX_WIDTH`, so that their first difference remains visible."""
    if max(map(len, cells)) <= MAX_WIDTH:
        return list(cells)
    columns = enumerate(zip(*cells, strict=False))
    first = next((n for n, letters in columns if len(set(letters)) > 1), min(map(len, cells)))
    start = first - CONTEXT if first > CONTEXT + len(ELLIPSIS) else 0
    texts = [ELLIPSIS + cell[start:] if start else cell for cell in cells]
    limit = MAX_WIDTH - len(ELLIPSIS)
    return [text if len(text) <= MAX_WIDTH else text[:limit] + ELLIPSIS for text in texts]
