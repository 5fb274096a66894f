"""Write the average of a run's newest checkpoints to a folder that can be used as a run."""

from __future__ import annotations

import argparse

from attention_zoo.cli.arguments import add_imports, format_evaluate_command


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the run, the number of checkpoints and the output folder."""
    parser.add_argument("run", metavar="RUN", help="a run folder")
    add_imports(parser)
    parser.add_argument(
        "--last", metavar="N", type=int, help="average the newest N, at least 2 (default: all)"
    )
    parser.add_argument(
        "-o", "--out", metavar="FOLDER", required=True, help="the folder to write; must not exist"
    )


def run(arguments: argparse.Namespace) -> None:
    """Write the folder completely or not at all, then print how to evaluate it."""
    from attention_zoo import training

    folder = training.write_average(arguments.run, arguments.out, arguments.last)
    print(f"{folder}; evaluate it with")
    print(f"  {format_evaluate_command(folder)}")
