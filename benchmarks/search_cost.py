"""Cost of a search: by beam width, and by maximum length when hypotheses finish early."""

from __future__ import annotations

import argparse
from typing import Any

import keras
import side_by_side
import zoo_recurrent
import zoo_transformer
from zoo_recurrent import common

WIDTHS = (1, 2, 4, 8, 16)
NEEDED, SHORT, LONG = 5, 10, 200  # tokens of the outputs, and two values of max_length
MODELS = {
    "recurrent translator": lambda: zoo_recurrent.Translator("bahdanau"),
    "Transformer 4+4 of 128": lambda: zoo_transformer.transformer(4, 4, 128, 256, 8000),
}


def seconds(model: Any, rounds: int, **options: object) -> float:
    """Return the median time of a search of all sources, compiled with XLA."""
    source = zoo_recurrent.random_ids(common.SEARCH_BATCH, common.LENGTH)
    return common.median_seconds(lambda: model.compiled_search(source, jit=True, **options), rounds)


def table(model: Any, rounds: int) -> list[str]:
    """Return a table of costs by beam width, and the cost of a max_length that is not reached."""
    lines = ["| beam width | ms | time per hypothesis, relative to width 1 |", "|---|---|---|"]
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
        f"Outputs of {NEEDED} tokens: {1000 * short:.0f} ms with max_length={SHORT}, "
        f"{1000 * long:.0f} ms with max_length={LONG}, ratio **{long / short:.2f}**.",
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
