"""What a search costs: by the width of the beam, and when answers end long before the limit."""

from __future__ import annotations

import argparse

import keras
import side_by_side
import zoo_recurrent
from zoo_recurrent import common

WIDTHS = (1, 2, 4, 8, 16)
NEEDED, SHORT, LONG = 5, 10, 200  # tokens of the answers, and two limits


def seconds(model: zoo_recurrent.Translator, steps: int, **options: object) -> float:
    """Median time of a search of all sources, compiled by XLA."""
    source = zoo_recurrent.random_ids(common.SEARCHED, common.LENGTH)
    return common.median_seconds(lambda: model.compiled_search(source, jit=True, **options), steps)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=8)
    steps = parser.parse_args().steps
    keras.utils.set_random_seed(1)
    model = zoo_recurrent.Translator("bahdanau")
    whole = {"min_length": common.LENGTH, "max_length": common.LENGTH}
    lines = ["| beam | ms | a hypothesis, of width 1 |", "|---|---|---|"]
    first = 0.0
    for width in WIDTHS:
        time = seconds(model, steps, beam_width=width, **whole)
        first = first or time
        lines.append(f"| {width} | {1000 * time:.0f} | {time / width / first:.2f} |")
    ended = {"min_length": NEEDED, "forced_tokens": {NEEDED - 1: common.END}, "beam_width": 5}
    short, long = (seconds(model, steps, max_length=limit, **ended) for limit in (SHORT, LONG))
    lines += [
        "",
        f"Answers of {NEEDED} tokens: {1000 * short:.0f} ms under a limit of {SHORT}, "
        f"{1000 * long:.0f} ms under one of {LONG}: **{long / short:.2f}** times.",
    ]
    title = "Cost of a search, recurrent translator"
    side_by_side.write_section(title, lines)


if __name__ == "__main__":
    main()
