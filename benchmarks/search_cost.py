"""What a search costs: by the width of the beam, and when answers end long before the limit."""

from __future__ import annotations

import argparse
from typing import Any

import keras
import side_by_side
import zoo_recurrent
import zoo_transformer
from zoo_recurrent import common

WIDTHS = (1, 2, 4, 8, 16)
NEEDED, SHORT, LONG = 5, 10, 200  # tokens of the answers, and two limits
MODELS = {
    "recurrent translator": lambda: zoo_recurrent.Translator("bahdanau"),
    "Transformer 4+4 of 128": lambda: zoo_transformer.transformer(4, 4, 128, 256, 8000),
}


def seconds(model: Any, rounds: int, **options: object) -> float:
    """Median time of a search of all sources, compiled by XLA."""
    source = zoo_recurrent.random_ids(common.SEARCHED, common.LENGTH)
    return common.median_seconds(lambda: model.compiled_search(source, jit=True, **options), rounds)


def table(model: Any, rounds: int) -> list[str]:
    """What a hypothesis costs by the width of the beam, and what a limit costs that is not met."""
    lines = ["| beam | ms | a hypothesis, of width 1 |", "|---|---|---|"]
    whole = {"min_length": common.LENGTH, "max_length": common.LENGTH}
    first = 0.0
    for width in WIDTHS:
        time = seconds(model, rounds, beam_width=width, **whole)
        first = first or time
        lines.append(f"| {width} | {1000 * time:.0f} | {time / width / first:.2f} |")
    ended = {"min_length": NEEDED, "forced_tokens": {NEEDED - 1: common.END}, "beam_width": 5}
    short, long = (seconds(model, rounds, max_length=limit, **ended) for limit in (SHORT, LONG))
    return [
        *lines,
        "",
        f"Answers of {NEEDED} tokens: {1000 * short:.0f} ms under a limit of {SHORT}, "
        f"{1000 * long:.0f} ms under one of {LONG}: **{long / short:.2f}** times.",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=8)
    rounds = parser.parse_args().rounds
    for name, make in MODELS.items():
        keras.utils.set_random_seed(1)
        side_by_side.write_section(f"Cost of a search, {name}", table(make(), rounds))


if __name__ == "__main__":
    main()
