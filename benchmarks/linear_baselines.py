"""Linear baselines of a recipe of classification or matching, on the recipe's splits.

    python benchmarks/linear_baselines.py training/matching/esim_small.claims.yaml \
        --scikit-learn-python .venv-scikit_learn/bin/python [KEY=VALUE ...] [--out FILE.json]

scikit-learn trains the models on the split `train` (`peers/scikit_learn_linear.py`):

- texts: linear SVM on TF-IDF of words, and of words and bigrams; one SVM per class for texts with
  any number of classes
- pairs with a class: linear SVM on the first text, the second text and both, and logistic
  regression on the words that the texts share and those of one text only
- pairs with a number, and rankings: ridge and logistic regression on these words

Texts are not truncated. The metrics are those of `attention-zoo evaluate`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from side_by_side import HERE, write_section

import attention_zoo as az
from attention_zoo.training.evaluation import get_commit

METRICS = {
    "classification": ("accuracy", "macro_f1"),
    "multi_label": ("exact_match", "macro_f1", "micro_f1"),
    "regression": ("pearson", "spearman"),
    "ranking": ("mean_average_precision", "mean_reciprocal_rank"),
}


def read_splits(data: Any) -> dict[str, Any]:
    """Return the examples of `train` and of the other splits that a corpus has."""
    names = [name for name in data.splits if getattr(data, name, name)]
    return {name: data.read(name) for name in names}


def list_inputs(examples: Any) -> list[Any]:
    """Return the texts, or the pairs of texts, of examples."""
    if isinstance(examples, az.data.LabelledTexts):
        return list(examples.texts)
    return [*zip(examples.firsts, examples.seconds, strict=True)]


def list_labels(examples: Any, target: str) -> list[Any]:
    """Return the class, the classes or the number of each example."""
    if target == "multi_label" or examples.labels is None:
        return list(examples.scores if examples.labels is None else examples.labels)
    is_text = isinstance(examples, az.data.LabelledTexts)
    return [label for (label,) in examples.labels] if is_text else list(examples.labels)


def score(predictions: list[Any], examples: Any, target: str) -> dict[str, float]:
    """Return the metrics of a target by name."""
    labels = list_labels(examples, target)
    if target == "regression":
        correlations = az.metrics.pearson_correlation, az.metrics.spearman_correlation
        values = [correlation(predictions, labels) for correlation in correlations]
        return dict(zip(METRICS[target], values, strict=True))
    if target == "ranking":
        scores: Any = az.metrics.ranking_scores(predictions, labels, examples.groups)
    elif target == "multi_label":
        classes = sorted({name for row in [*labels, *predictions] for name in row})
        scores = az.metrics.multi_label_scores(predictions, labels, classes)
    else:
        classes = sorted({*labels, *predictions})
        scores = az.metrics.class_scores(predictions, labels, classes)
    return {name: getattr(scores, name) for name in METRICS[target]}


def predict(python: str, splits: dict[str, Any], target: str) -> list[dict[str, Any]]:
    """Return the predictions of each model of scikit-learn by split."""
    train = splits["train"]
    others = {name: list_inputs(examples) for name, examples in splits.items() if name != "train"}
    content = {
        "target": target,
        "train": {"inputs": list_inputs(train), "labels": list_labels(train, target)},
        "inputs": others,
    }
    with tempfile.TemporaryDirectory() as folder:
        source, result = Path(folder) / "input.json", Path(folder) / "output.json"
        source.write_text(json.dumps(content), "utf-8")
        script = HERE / "peers" / "scikit_learn_linear.py"
        # The vectors are small: several threads are slower than one on a busy machine.
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        command = [python, str(script), str(source), str(result)]
        if subprocess.run(command, env=environment, check=False).returncode:
            sys.exit(f"{script} failed; its error is above.")
        return list(json.loads(result.read_text("utf-8")))


def compute_rows(python: str, recipe: Any) -> list[dict[str, Any]]:
    """Return model, split, number of examples and metrics of each result."""
    target = getattr(recipe.data, "target", "classification")
    if getattr(recipe.data, "multi_label", False):
        target = "multi_label"
    splits = read_splits(recipe.data)
    return [
        {
            "model": result["model"],
            "split": split,
            "examples": len(splits[split]),
            "metrics": score(predictions, splits[split], target),
        }
        for result in predict(python, splits, target)
        for split, predictions in result["predictions"].items()
    ]


def format_table(rows: list[dict[str, Any]]) -> list[str]:
    """Return the lines of a table; metrics are in percent, or 0 to 1 with three decimals."""
    names = list(rows[0]["metrics"])
    is_percent = "macro_f1" in names
    head = " | ".join(name.replace("_", " ") + " (%)" * is_percent for name in names)
    lines = [f"| model | split | examples | {head} |", "|---|---|---|" + "---|" * len(names)]
    for row in rows:
        values = row["metrics"].values()
        cells = " | ".join(f"{value:.1f}" if is_percent else f"{value:.3f}" for value in values)
        lines.append(f"| {row['model']} | {row['split']} | {row['examples']:,} | {cells} |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("recipe", help="a recipe of the task classification or matching")
    parser.add_argument("overrides", nargs="*", metavar="KEY=VALUE")
    parser.add_argument("--scikit-learn-python", required=True, help="a Python with scikit-learn")
    parser.add_argument("--out", type=Path, help="JSON file to write")
    parser.add_argument("--dry-run", action="store_true", help="do not write results.md")
    options = parser.parse_intermixed_args()
    recipe = az.training.read_recipe(options.recipe, options.overrides)
    if recipe.task not in ("classification", "matching"):
        sys.exit(f"{options.recipe}: task must be classification or matching, got {recipe.task}.")
    rows = compute_rows(options.scikit_learn_python, recipe)
    name = " ".join([Path(options.recipe).stem, *options.overrides])
    commit = get_commit()
    if options.out:
        content = {"recipe": name, "commit": commit, "results": rows}
        options.out.write_text(json.dumps(content, indent=2) + "\n", "utf-8")
    title, lines = f"Linear baselines of {name}", [*format_table(rows), "", f"Commit {commit}."]
    write_section(title, lines, options.dry_run)


if __name__ == "__main__":
    main()
