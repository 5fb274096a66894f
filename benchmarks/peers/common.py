"""What both peers share: the sizes, the median of timed steps, the line that is printed.

A peer runs in an environment of its own, so nothing of attention_zoo is imported here.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from typing import Any

BATCH = 128  # sentences a training step
SEARCHED = 32  # sentences a search
LENGTH = 20  # tokens, source and target
VOCABULARY = 8000  # each side
EMBEDDING = 256
UNITS = 256  # each direction of the encoder, and the decoder
BEAM = 5
START, END, FIRST_WORD = 2, 3, 4


def arguments(description: str | None, works: list[str]) -> argparse.Namespace:
    """The command line of a peer: which of its works, which attention, how many timed steps."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--work", choices=works, nargs="+", default=works)
    parser.add_argument("--attention", choices=["bahdanau", "luong"], default="bahdanau")
    parser.add_argument("--steps", type=int, default=8, help="timed steps, after two that are not")
    return parser.parse_args()


def median_seconds(step: Callable[[], Any], steps: int) -> float:
    """Median wall time of `steps` calls that wait for their result, after two that warm up."""
    seconds = []
    for _ in range(2 + steps):
        start = time.perf_counter()
        step()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds[2:])


def report(peer: str, work: str, seconds: float, **rate: float) -> None:
    """Prints one JSON line: who, what, seconds a step, and the rate under its unit."""
    figures = {name: round(value, 1) for name, value in rate.items()}
    print(json.dumps({"peer": peer, "work": work, "seconds": round(seconds, 4), **figures}))
