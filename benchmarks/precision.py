"""Decoding speed of a Transformer of the base size in several precisions, and of other libraries.

    python benchmarks/precision.py --ctranslate2-python PYTHON --transformers-python PYTHON

All run in turn on the same processor. bfloat16 needs a processor with AMX or AVX512-BF16 to be
faster than float32.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from pathlib import Path

from decoding import run
from side_by_side import describe_device, write_section

sys.path.insert(0, str(Path(__file__).parent / "peers"))
import common

SIZES = ["6", "8", "512", "2048", "8000"]
Command = tuple[str, str, list[str]]


def list_commands(ctranslate2: str, transformers: str) -> dict[str, Command]:
    """Return interpreter, script and options of each row of the table."""
    commands: dict[str, Command] = {}
    for dtype in ("float32", "mixed_bfloat16"):
        for name, words in (("", ["--no-jit"]), (", XLA", [])):
            options = ["--dtype", dtype, *words]
            commands[f"attention_zoo, {dtype}{name}"] = (
                sys.executable,
                "zoo_transformer.py",
                options,
            )
    for kind in ("float32", "int8"):
        script, options = "peers/ctranslate2_decoding.py", ["--compute-type", kind]
        commands[f"ctranslate2, {kind}"] = ctranslate2, script, options
    for dtype in ("float32", "bfloat16"):
        script, options = "peers/transformers_decoding.py", ["--dtype", dtype]
        commands[f"transformers (PyTorch), {dtype}"] = transformers, script, options
    return commands


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ctranslate2-python", required=True)
    parser.add_argument("--transformers-python", required=True)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--dry-run", action="store_true", help="do not write results.md")
    options = parser.parse_args()
    commands = list_commands(options.ctranslate2_python, options.transformers_python)
    rates: dict[str, list[list[float]]] = {name: [] for name in commands}
    for number in range(options.rounds):
        for name, (python, script, words) in commands.items():
            lines = run(python, script, *SIZES, *words)
            rates[name].append([line["sentences_per_second"] * common.LENGTH for line in lines])
            print(f"round {number + 1}: {name}: {rates[name][-1]}", flush=True)
    rows = []
    for name, rounds in rates.items():
        greedy, beam = map(statistics.median, zip(*rounds, strict=True))
        rows.append(f"| {name} | {greedy:,.0f} | {beam:,.0f} |")
    lines = ["| | beam 1, tokens/s | beam 5, tokens/s |", "|---|---|---|", *rows, ""]
    lines.append(
        f"6 + 6 layers of 512, {common.SEARCH_BATCH} sentences of {common.LENGTH} tokens, median of"
        f" {options.rounds} rounds. {describe_device()}."
    )
    write_section("Decoding by precision", lines, options.dry_run)


if __name__ == "__main__":
    main()
