"""Export a run to a folder that can be served without this library."""

from __future__ import annotations

import argparse
import textwrap

from attention_zoo.cli.arguments import add_dtype, add_imports, apply_overrides, split_overrides


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
    folder = export(task, folders[0], arguments.format)
    print(f"{folder}; call it without attention_zoo:")
    print(textwrap.indent(format_call(folder), "  "))
