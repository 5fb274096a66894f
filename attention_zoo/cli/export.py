"""Export a run to a folder that can be served without this library.

If the recipe generates its corpus, the folder has examples of the test split for the demo page.
"""

from __future__ import annotations

import argparse
import textwrap
from typing import Any

from attention_zoo.cli.arguments import add_dtype, add_imports, apply_overrides, split_overrides

NUM_EXAMPLES = 3


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the run, the output folder and the search options to export."""
    parser.add_argument("run", metavar="RUN", help="a run folder, a zoo entry or hf://owner/name")
    add_imports(parser)
    add_dtype(parser)
    parser.add_argument(
        "words",
        metavar="OUT | key=value",
        nargs="*",
        help="the folder to write, which must not exist, and options: search.beam_width=5",
    )
    parser.add_argument(
        "--format", default="saved_model", help="export format (default: saved_model)"
    )


def run(arguments: argparse.Namespace) -> None:
    """Write the folder completely or not at all, then print how to call the exported model."""
    overrides, folders = split_overrides(arguments.words)
    if len(folders) != 1:
        raise ValueError(
            f"export expects one output folder, got {len(folders)}; usage: attention-zoo export"
            " RUN OUT"
        )
    from attention_zoo import tasks
    from attention_zoo.export import export, format_call

    task = tasks.load(arguments.run, arguments.dtype)
    apply_overrides(task, overrides, "export")
    examples = read_examples(task, arguments.run)
    folder = export(task, folders[0], arguments.format, examples=examples)
    print(f"{folder}; call it without attention_zoo:")
    print(textwrap.indent(format_call(folder), "  "))


def read_examples(task: Any, run: str) -> list[dict[str, Any]]:
    """Return examples of the split that `evaluate` uses, if the run's recipe generates its corpus.

    An export needs no examples: there are none if a package that generates them is not installed.
    """
    from attention_zoo import zoo
    from attention_zoo.hub import resolve_folder
    from attention_zoo.training.recipe import read_recipe

    path = zoo.find_recipe_of(resolve_folder(run))
    if not path.is_file():
        return []
    try:
        data = read_recipe(path).data
        if not data.generated:
            return []
        examples = data.read(data.split)
    except (ImportError, ValueError):
        return []
    few = examples.take(range(min(len(examples), NUM_EXAMPLES)))
    served: list[dict[str, Any]] = task.make_served_examples(few)
    return served
