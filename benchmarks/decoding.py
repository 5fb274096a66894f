"""Decoding speed of a Transformer: attention_zoo, KerasHub and CTranslate2 in turn."""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path

import side_by_side

HERE = Path(__file__).parent
SIZES = {"4+4 of 128": "4 4 128 256 8000", "6+6 of 512": "6 8 512 2048 8000"}
Rates = dict[str, dict[str, list[float]]]


def run(python: str, script: str, *words: str) -> list[dict]:
    """Run a script and return the JSON lines that it prints."""
    done = subprocess.run(
        [python, str(HERE / script), *words], capture_output=True, text=True, check=False
    )
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode or not lines:
        sys.exit(f"{script} failed:\n{done.stderr[-2000:]}")
    return lines


def compare(peers: dict[str, tuple[str, str]], sizes: str, rounds: int) -> Rates:
    """Return the sentences per second of each round, by measurement and library."""
    rates: Rates = {}
    for number in range(rounds):
        for python, script in peers.values():
            for line in run(python, script, *sizes.split()):
                work, rate = line["work"].removesuffix(" XLA"), line["sentences_per_second"]
                rates.setdefault(work, {}).setdefault(line["peer"], []).append(rate)
                print(f"round {number + 1}: {line}", flush=True)
    return rates


def table(rates: Rates) -> list[str]:
    """Return a table of medians, with the ratio of attention_zoo to each library."""
    lines = ["| | sentences per second | speedup of attention_zoo |", "|---|---|---|"]
    for work, of_peer in rates.items():
        medians = {peer: statistics.median(values) for peer, values in of_peer.items()}
        ours = medians["attention_zoo"]
        lines += [
            f"| {work}: {peer} | {rate:,.1f} | {ours / rate:.2f} |"
            for peer, rate in medians.items()
        ]
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kerashub-python", required=True)
    parser.add_argument("--ctranslate2-python", required=True)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    peers = {
        "attention_zoo": (sys.executable, "zoo_transformer.py"),
        "kerashub": (options.kerashub_python, "peers/kerashub_decoding.py"),
        "ctranslate2": (options.ctranslate2_python, "peers/ctranslate2_decoding.py"),
    }
    for name, sizes in SIZES.items():
        lines = table(compare(peers, sizes, options.rounds))
        side_by_side.write_section(f"Decoding by a Transformer {name}", lines)


if __name__ == "__main__":
    main()
