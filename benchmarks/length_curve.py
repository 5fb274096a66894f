"""Plot exact match by source length for several runs, on the splits `test` and `long` of dates.

    python benchmarks/length_curve.py models/translation/A models/translation/B \
        --out models/translation/A/length

Folders are runs or zoo entries. The corpus is that of the first one's recipe. The script writes
length.png and length.json (the plotted values).
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import attention_zoo as az

RECIPES = Path(__file__).parent.parent / "training" / "translation"
WIDTH = 10  # source tokens per point


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", type=Path, nargs="+")
    parser.add_argument("--out", type=Path, required=True, help="output path without suffix")
    parser.add_argument("--size", type=int, default=500, help="sentences per split")
    options = parser.parse_args()
    recipe = az.training.read_recipe(RECIPES / f"{options.runs[0].name}.yaml")
    recipe.data.test_size = options.size
    pairs = [recipe.data.read(split) for split in ("test", "long")]
    sources = [text for part in pairs for text in part.sources]
    targets = [text for part in pairs for text in part.targets]
    curves = {}
    for run in options.runs:
        task = az.load(run)
        lengths = [len(ids) for ids in task.source_tokenizer.encode(sources)]
        answers = [answer.text for answer in task.predict(sources)]
        edges = range(WIDTH, max(lengths), WIDTH)
        scores = az.metrics.by_length(az.metrics.exact_match, answers, targets, lengths, edges)
        curves[run.name.partition(".")[0]] = {s.first + WIDTH // 2: s.value for s in scores}
    trained = max(
        len(ids) for ids in task.source_tokenizer.encode(recipe.data.read("train").sources)
    )
    picture = options.out.with_suffix(".png")
    az.inspection.plot_length_curve(curves, picture, longest_trained=trained)
    result = {"exact_match": curves, "longest_trained": trained, "sentences": len(sources)}
    options.out.with_suffix(".json").write_text(json.dumps(result, indent=2) + "\n", "utf-8")


if __name__ == "__main__":
    main()
