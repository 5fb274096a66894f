"""Run benchmark scripts in turn for several rounds, and write median rates and their ratio."""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import statistics
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
RESULTS = HERE / "results.md"


def arguments(description: str | None, peers: list[str]) -> argparse.Namespace:
    """Parse the command line: rounds, kind of attention, and a Python interpreter per peer."""
    parser = argparse.ArgumentParser(description=description)
    for peer in peers:
        parser.add_argument(f"--{peer}-python", required=True)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--attention", choices=["bahdanau", "luong"], default="bahdanau")
    return parser.parse_args()


def measure(
    scripts: dict[str, tuple[str, str]], work: str, attention: str, rounds: int, unit: str
) -> dict[str, float]:
    """Return the median rate over rounds of each script; XLA results are rows of their own.

    Args:
        scripts: by name, the Python interpreter and the script in benchmarks/.
        work: the measurement to run.
        attention: "bahdanau" or "luong".
        rounds: number of runs of each script.
        unit: key of the rate in the JSON lines that the scripts print.
    """
    rates: dict[str, list[float]] = {}
    for number in range(rounds):
        for name, (python, script) in scripts.items():
            command = [python, str(HERE / script), "--work", work, "--attention", attention]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
            if done.returncode or not lines:
                sys.exit(f"{name} failed:\n{done.stderr[-2000:]}")
            for line in map(json.loads, lines):
                row = f"{line['peer']}{' (XLA)' if 'XLA' in line['work'] else ''}"
                rates.setdefault(row, []).append(line[unit])
                print(f"round {number + 1}: {row}: {line[unit]} {unit}", flush=True)
    return {row: statistics.median(values) for row, values in rates.items()}


def report(title: str, rates: dict[str, float], unit: str, rounds: int) -> None:
    """Write a table and the ratio of attention_zoo to the best peer as a section of results.md."""
    ours = max(rate for row, rate in rates.items() if row.startswith("attention_zoo"))
    best = max(rate for row, rate in rates.items() if not row.startswith("attention_zoo"))
    lines = [f"| | {unit.replace('_', ' ')} |", "|---|---|"]
    lines += [f"| {row} | {rate:,.1f} |" for row, rate in rates.items()]
    cpu = platform.processor() or platform.machine()
    lines += [
        "",
        f"Ratio to the best peer: **{ours / best:.2f}** (median of {rounds} rounds, {cpu}).",
    ]
    write_section(title, lines)


def describe_device() -> str:
    """Return the name of the first GPU that TensorFlow sees, or else of the processor."""
    import tensorflow as tf  # peers may run without it

    for gpu in tf.config.list_physical_devices("GPU"):
        return str(tf.config.experimental.get_device_details(gpu).get("device_name", gpu.name))
    cpus = Path("/proc/cpuinfo")  # on Linux, platform.processor() is often empty
    names = re.findall(
        r"^model name\s*: (.+)", cpus.read_text("utf-8") if cpus.exists() else "", re.M
    )
    name = names[0] if names else platform.processor() or platform.machine()
    return f"{name}, {os.cpu_count()} CPU cores"


def format_section(title: str, lines: list[str]) -> str:
    return "\n".join([f"## {title}", "", *lines]) + "\n"


def write_section(title: str, lines: list[str], dry_run: bool = False) -> None:
    """Print a section and, unless `dry_run`, replace the section of this title in results.md."""
    section = format_section(title, lines)
    print(section)
    if dry_run:
        return
    old = RESULTS.read_text("utf-8") if RESULTS.exists() else "# Results\n"
    head, *sections = old.split("\n## ")
    other_sections = [s for s in sections if not s.startswith(title + "\n")]
    parts = [head.rstrip("\n") + "\n", *(f"## {s.rstrip()}\n" for s in other_sections), section]
    RESULTS.write_text("\n".join(parts), "utf-8")


def append_section(title: str, lines: list[str], path: Path = RESULTS) -> None:
    """Print a section, and append it to a file, which keeps other sections of this title."""
    section = format_section(title, lines)
    print(section)
    with path.open("a", encoding="utf-8") as file:
        if not file.tell():
            file.write("# Results\n")
        file.write(f"\n{section}")
