"""Write the average of a run's newest checkpoints, as a folder that stands for a run."""

from __future__ import annotations

import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The run, how many of its checkpoints, and the folder."""
    parser.add_argument("run", metavar="RUN", help="a run folder")
    parser.add_argument(
        "--last", metavar="N", type=int, help="the newest N, 2 at least; all there are without"
    )
    parser.add_argument(
        "-o", "--out", metavar="FOLDER", required=True, help="the folder to write; must not exist"
    )


def run(arguments: argparse.Namespace) -> None:
    """Write it whole or not at all, then say how to measure it."""
    from attention_zoo import training

    folder = training.write_average(arguments.run, arguments.out, arguments.last)
    print(f"{folder}; evaluate it with")
    print(f"  attention-zoo evaluate {folder}")
