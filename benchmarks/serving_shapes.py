"""Cost of new shapes in an exported translator: time of new and known ones, and resident memory.

The targets: a call with a new shape takes at most 1.3 times as long as with a known one, and memory
grows by at most 20 MB over 300 new shapes. The time of a call does not depend on `max_length`, if
its outputs end before.

oneDNN is off by default here: it keeps what it compiles for each shape, up to a limit of its own,
which TF_ENABLE_ONEDNN_OPTS=1 includes in the memory.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")

import numpy as np
import tensorflow as tf

from attention_zoo import load
from attention_zoo.export import export

TASK = "rnnsearch_small.dates_en_fr"
SENTENCE = "5"


def measure(call: Any, batch: int, words: int, **options: Any) -> float:
    """Return the seconds of a call with `batch` sources of `words` words."""
    texts = tf.constant([" ".join([SENTENCE] * words)] * batch)
    start = time.perf_counter()
    call(texts, **options)
    return time.perf_counter() - start


def read_resident_megabytes() -> float:
    """Return the resident memory of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--task", default=TASK, help="a folder or an entry of the zoo")
    parser.add_argument("--shapes", type=int, default=300, help="number of new shapes")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        served = tf.saved_model.load(str(export(load(arguments.task), Path(folder) / "served")))
    shapes = [(batch, words) for words in range(1, 31) for batch in range(1, 21)]
    np.random.default_rng(0).shuffle(shapes)
    for _ in range(3):
        measure(served.serve, 1, 1)
    new, known, before = [], [], read_resident_megabytes()
    for shape in shapes[: arguments.shapes]:
        new.append(measure(served.serve, *shape))
        known.append(measure(served.serve, *shape))
    ratios = [first / second for first, second in zip(new, known, strict=True)]
    limits = {
        f"seconds, max_length {limit}": statistics.median(
            measure(served.serve, 16, 1, max_length=tf.constant(limit)) for _ in range(5)
        )
        for limit in (50, 20_000)
    }
    print(
        json.dumps(
            {
                "shapes": len(new),
                "new / known, median": statistics.median(ratios),
                "megabytes grown": read_resident_megabytes() - before,
                **limits,
            },
            indent=2,
        )
    )


if __name__ == "__main__":
    main()
