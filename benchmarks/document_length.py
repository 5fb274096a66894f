"""Plot accuracy by number of sentences for several runs, on the splits `test` and `long`.

    python benchmarks/document_length.py models/classification/A models/classification/B \
        --out models/classification/A/length

Folders are runs of the corpus `reviews` or zoo entries. The reviews are those of the first one's
recipe. The script writes length.png and length.json (the plotted values).
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import attention_zoo as az
from attention_zoo import zoo

WIDTH = 5  # sentences per point
SPLITS = ("test", "long")


def count_sentences(texts: list[str]) -> list[int]:
    return [len(az.data.split_sentences(text)) for text in texts]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", type=Path, nargs="+")
    parser.add_argument("--out", type=Path, required=True, help="output path without suffix")
    parser.add_argument("--size", type=int, default=1000, help="reviews per split")
    options = parser.parse_args()
    recipe = az.training.read_recipe(zoo.find_recipe_of(options.runs[0]))
    if recipe.data.corpus != "reviews" or recipe.data.multi_label:
        sys.exit(f"{options.runs[0]}: the corpus must be reviews with one class each.")
    longest = max(count_sentences(recipe.data.read("train").texts))
    recipe.data.test_size = options.size
    parts = [recipe.data.read(split) for split in SPLITS]
    texts = [text for part in parts for text in part.texts]
    labels = [label for part in parts for (label,) in part.labels]
    lengths = count_sentences(texts)
    edges = range(WIDTH, max(lengths), WIDTH)
    curves = {}
    for run in options.runs:
        predicted = [result.text for result in az.load(run).predict(texts)]
        # With one class per text, accuracy is exact match of the names.
        scores = az.metrics.by_length(az.metrics.exact_match, predicted, labels, lengths, edges)
        curves[run.name] = {max(s.first + WIDTH // 2, min(lengths)): s.value for s in scores}
    az.inspection.plot_length_curve(
        curves,
        options.out.with_suffix(".png"),
        "accuracy (%)",
        xlabel="number of sentences",
        longest_trained=longest,
    )
    result = {"accuracy": curves, "longest_trained": longest, "reviews": len(texts)}
    options.out.with_suffix(".json").write_text(json.dumps(result, indent=2) + "\n", "utf-8")


if __name__ == "__main__":
    main()
