"""Time and peak memory of loading a public checkpoint, here and in `transformers`.

    python benchmarks/public_loading.py --transformers-python PYTHON [--rounds 5]

The checkpoint is a BERT-base with random weights. Both libraries load it in turn, each
time in a new process; imports are not measured, and every weight is read once.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from long_attention import resident
from side_by_side import describe_device, write_section

PEER = Path(__file__).parent / "peers" / "transformers_loading.py"
TARGET_TIME, TARGET_MEMORY = 1.5, 2.2
"""Time relative to `transformers`, and peak memory relative to the file size."""


def load(folder: str) -> None:
    """Load the checkpoint and read its weights; print seconds, MiB and the sum of the weights."""
    from attention_zoo.models import from_public

    idle = resident("VmRSS")
    start = time.perf_counter()
    model = from_public(folder)
    total = sum(float(weight.numpy().sum()) for weight in model.trainable_variables)
    seconds = time.perf_counter() - start
    print(json.dumps([seconds, resident("VmHWM") - idle, total]))


def run(command: list[str]) -> list[float]:
    """Return the numbers that a process prints last."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{done.stderr[-2000:]}")
    numbers: list[float] = json.loads(done.stdout.splitlines()[-1])
    return numbers


def measure(peer: list[str], rounds: int) -> tuple[dict[str, list[float]], float]:
    """Return the median seconds and MiB of each library, and the MiB of the file."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([*peer, "write", folder], check=True, capture_output=True)
        commands = {
            "attention_zoo": [sys.executable, __file__, "--load", folder],
            "transformers": [*peer, "load", folder],
        }
        results: dict[str, list[list[float]]] = {name: [] for name in commands}
        for _ in range(rounds):
            for name, command in commands.items():
                results[name].append(run(command))
        size = (Path(folder) / "model.safetensors").stat().st_size / 2**20
    totals = [result[0][2] for result in results.values()]
    assert abs(totals[0] - totals[1]) < 1e-3 * abs(totals[1]) + 1, totals
    medians = {
        name: [statistics.median(values) for values in list(zip(*result, strict=True))[:2]]
        for name, result in results.items()
    }
    return medians, size


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--transformers-python", default=sys.executable)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--dry-run", action="store_true", help="do not write results.md")
    parser.add_argument("--load", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.load:
        load(options.load)
        return
    medians, size = measure([options.transformers_python, str(PEER)], options.rounds)
    lines = [
        "| | seconds | peak memory, MiB | memory / file size |",
        "|---|---|---|---|",
        *(
            f"| {name} | {seconds:.2f} | {mebibytes:,.0f} | {mebibytes / size:.2f} |"
            for name, (seconds, mebibytes) in medians.items()
        ),
        "",
        f"Ratio of the times: **{medians['attention_zoo'][0] / medians['transformers'][0]:.2f}**,"
        f" target {TARGET_TIME}; target of the memory: {TARGET_MEMORY} x the file ({size:.0f} MiB,"
        f" median of {options.rounds} rounds, {describe_device()}).",
    ]
    write_section("Loading a BERT-base checkpoint", lines, options.dry_run)


if __name__ == "__main__":
    main()
