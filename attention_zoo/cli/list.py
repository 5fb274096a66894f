"""List the presets, recipes and trained entries of the zoo, by task."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict

from attention_zoo.registry import check_known
from attention_zoo.zoo import Listing, read_index

HEADINGS = ("name", "kind", "parameters", "metric", "weights")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the task and the output format."""
    parser.add_argument("task", metavar="TASK", nargs="?", help="list this task only")
    parser.add_argument(
        "--json", action="store_true", help="print a list of objects, one for each name and kind"
    )


def run(arguments: argparse.Namespace) -> None:
    """Print a table for each task, or all rows as JSON."""
    rows = read_index()
    if arguments.task is not None:
        check_known("unknown task", [arguments.task], sorted({row.task for row in rows}))
        rows = tuple(row for row in rows if row.task == arguments.task)
    if arguments.json:
        print(json.dumps([asdict(row) for row in rows], indent=1))
        return
    print("\n\n".join(format_task(task, rows) for task in sorted({row.task for row in rows})))
    print(
        "\nAn entry is a trained model; `attention-zoo predict NAME` loads one with weights. The"
        "\nrecipe of the same name trains it: `attention-zoo train NAME`. The metric is that of"
        "\nthe first evaluation on the entry's card, which names the split: 0 to 100, except"
        "\nperplexity. Parameters of presets are for vocabularies of 8,000 tokens."
    )


def format_task(task: str, rows: Sequence[Listing]) -> str:
    """Return the table of a task: entries, recipes without an entry, and presets."""
    entries = {row.name for row in rows if row.kind == "entry"}
    shown = [
        row
        for kind in ("entry", "recipe", "preset")
        for row in rows
        if (row.task, row.kind) == (task, kind) and not (kind == "recipe" and row.name in entries)
    ]
    cells = [HEADINGS, *(tuple(format_cells(row)) for row in shown)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = ("  ".join(map(str.ljust, line, widths)).rstrip() for line in cells)
    return "\n".join([task, *(f"  {line}" for line in lines)])


def format_cells(row: Listing) -> Iterator[str]:
    """Yield the cells of a row, in the order of HEADINGS."""
    yield row.name
    yield row.kind
    yield "" if row.parameters is None else f"{row.parameters:,}"
    yield "" if row.metric is None else f"{row.metric} {row.value:.2f}"
    yield ("yes" if row.weights else "no") if row.kind == "entry" else ""
