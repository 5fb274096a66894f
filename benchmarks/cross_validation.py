"""Cross-validation of a recipe of classification or matching with a TSV, CSV or JSON Lines corpus.

    python benchmarks/cross_validation.py RECIPE [KEY=VALUE ...] --folds 5 --seeds 1 2 --out A.json
    python benchmarks/cross_validation.py --compare A.json B.json

The rows of `data.train` are split into folds: the n-th distinct text, pair of texts or group of a
ranking belongs to fold n modulo the number of folds. Pairs in either order are the same pair; a
single text of a pair may occur in several folds. Fold i is the test split of run i, and the other
folds are its training split. Nothing selects a checkpoint: each run takes all steps of the recipe,
and the weights of the last step are evaluated. Each run has a process of its own.

With `--scikit-learn-python PYTHON`, a linear baseline is evaluated in place of the recipe's model:
the last one of `linear_baselines.py`, for texts an SVM on TF-IDF of words and bigrams. It does not
depend on a seed, and `--seeds` is ignored.

`--compare` prints the mean difference between two results on the same folds, with its 95 %
confidence interval.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import statistics
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from itertools import pairwise
from pathlib import Path
from typing import Any

import linear_baselines
from side_by_side import write_section

import attention_zoo as az
from attention_zoo.data.reading import read_raw_lines
from attention_zoo.training.evaluation import get_commit

CORPORA = ("tsv", "csv", "jsonl")
PROTOCOL = "trained on all other folds, last step"
"""Stored in results; those of different protocols are not compared."""
METRICS = ("accuracy", "exact_match", "pearson", "mean_average_precision")
"""Main metrics of the targets; the first one that a task reports is compared."""

# Quantiles 0.975 of Student's t-distribution with 1, 2, ... degrees of freedom.
QUANTILES = [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228]
QUANTILES += [2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086]


def list_keys(examples: Any) -> list[Any]:
    """Return the key of each example; examples with equal keys belong to the same fold."""
    if isinstance(examples, az.data.LabelledTexts):
        return list(examples.texts)
    if examples.groups:
        return list(examples.groups)
    pairs = zip(examples.firsts, examples.seconds, strict=True)
    return [tuple(sorted(pair)) for pair in pairs]


def assign_folds(keys: Sequence[Any], folds: int) -> list[int]:
    """Return the fold of each row, which is the number of its distinct key modulo `folds`."""
    numbers: dict[Any, int] = {}
    return [numbers.setdefault(key, len(numbers)) % folds for key in keys]


def read_rows(file: str, lines: Sequence[int], has_header: bool) -> tuple[bytes, list[bytes]]:
    """Return the header of a file, and the bytes of the rows that begin at these line numbers.

    Skipped rows, which are not in `lines`, are part of the row before them.
    """
    content = [raw if raw.endswith(b"\n") else raw + b"\n" for _, raw in read_raw_lines(file)]
    bounds = pairwise([int(has_header), *(line - 1 for line in lines[1:]), len(content)])
    rows = [b"".join(content[start:end]) for start, end in bounds]
    return content[0] if has_header else b"", rows


def write_folds(data: Any, folds: int, folder: Path) -> tuple[list[list[str]], str]:
    """Write the folds of the split `train`.

    Args:
        data: the corpus of a recipe.
        folds: number of folds.
        folder: the folder of the files, which have the format of the corpus, uncompressed.

    Returns:
        The files of each fold, and a hash of the assignment of the texts to the folds.
    """
    examples = data.read("train")
    keys = list_keys(examples)
    fold_of = assign_folds(keys, folds)
    rows_of: dict[str, list[int]] = {}
    for row in range(len(examples)):
        rows_of.setdefault(examples.get_file(row), []).append(row)
    paths: list[list[str]] = [[] for _ in range(folds)]
    for number, (file, rows) in enumerate(rows_of.items()):
        has_header = data.corpus != "jsonl" and data.header
        header, content = read_rows(file, [examples.lines[row] for row in rows], has_header)
        for fold in range(folds):
            part = [raw for row, raw in zip(rows, content, strict=True) if fold_of[row] == fold]
            if part:
                path = folder / f"fold{fold + 1}_{number}.{data.corpus}"
                path.write_bytes(header + b"".join(part))
                paths[fold].append(str(path))
    assignment = json.dumps([*zip(keys, fold_of, strict=True)])
    return paths, hashlib.sha256(assignment.encode()).hexdigest()


def run_fold(recipe: str, overrides: list[str]) -> dict[str, float]:
    """Train a recipe, and return the metrics of the split `test` that are single numbers."""
    folder = az.training.fit(recipe, overrides).folder
    metrics = az.training.evaluate(folder, ["data.split=test"])["metrics"]
    return {name: value for name, value in metrics.items() if isinstance(value, int | float)}


def list_splits(paths: list[list[str]]) -> Iterator[tuple[int, list[str]]]:
    """Yield the number of each fold, from 1, and the overrides that make it the test split."""
    for fold, test in enumerate(paths):
        train = [path for i, files in enumerate(paths) if i != fold for path in files]
        # training needs a validation split; its only evaluation is that of the last step
        splits = {"train": train, "validation": test, "test": test}
        yield fold + 1, [f"data.{split}={json.dumps(files)}" for split, files in splits.items()]


def run_linear_baseline(options: argparse.Namespace, paths: list[list[str]]) -> Iterator[Any]:
    """Yield fold and metrics of the last linear baseline, which has no seed."""
    for fold, splits in list_splits(paths):
        recipe = az.training.read_recipe(options.recipe, [*options.overrides, *splits])
        row = linear_baselines.compute_rows(options.scikit_learn_python, recipe)[-1]
        print(f"{row['model']}, fold {fold}: {row['metrics']}", flush=True)
        yield {"model": row["model"], "seed": None, "fold": fold, "metrics": row["metrics"]}


def run_folds(
    options: argparse.Namespace, paths: list[list[str]], folder: Path, steps: int
) -> Iterator[Any]:
    """Yield seed, fold and metrics of each run, which takes this number of steps."""
    for seed in options.seeds:
        for fold, splits in list_splits(paths):
            overrides = [
                *options.overrides,
                f"seed={seed}",
                f"training.evaluate_every={steps}",
                f"run={folder / f'run{fold}_seed{seed}'}",
                *splits,
            ]
            with ProcessPoolExecutor(1, max_tasks_per_child=1) as pool:
                metrics = pool.submit(run_fold, options.recipe, overrides).result()
            print(f"seed {seed}, fold {fold}: {metrics}", flush=True)
            yield {"seed": seed, "fold": fold, "metrics": metrics}


def summarize(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Return mean, standard deviation, mean of each seed and all values, by metric."""
    summary = {}
    for name in runs[0]["metrics"]:
        values = [run["metrics"][name] for run in runs]
        by_seed: dict[int, list[float]] = {}
        for run, value in zip(runs, values, strict=True):
            if run["seed"] is not None:  # a linear baseline has none
                by_seed.setdefault(run["seed"], []).append(value)
        summary[name] = {
            "mean": statistics.fmean(values),
            "standard_deviation": statistics.stdev(values),
            "mean_by_seed": {str(seed): statistics.fmean(part) for seed, part in by_seed.items()},
            "values": values,
        }
    return summary


def paired_interval(a: Sequence[float], b: Sequence[float]) -> tuple[float, float, float]:
    """Return the mean of `b - a`, and the limits of its 95 % confidence interval.

    The interval is that of Student's t for the differences of pairs. The training splits of folds
    overlap, so the interval of a cross-validation is approximate, and rather too narrow.

    Raises:
        ValueError: the lists differ in length, or have fewer than two values.
    """
    if len(a) != len(b) or len(a) < 2:
        raise ValueError(f"expected two or more pairs of values, got {len(a)} and {len(b)} values")
    differences = [second - first for first, second in zip(a, b, strict=True)]
    mean = statistics.fmean(differences)
    quantile = QUANTILES[min(len(a) - 1, len(QUANTILES)) - 1]
    half = quantile * statistics.stdev(differences) / len(a) ** 0.5
    return mean, mean - half, mean + half


def average_seeds(result: dict[str, Any], metric: str) -> list[float]:
    """Return the mean over the seeds of each fold, since the runs of a fold are not independent."""
    values: dict[int, list[float]] = {}
    for run in result["runs"]:
        values.setdefault(run["fold"], []).append(run["metrics"][metric])
    return [statistics.fmean(values[fold]) for fold in sorted(values)]


def compare(first: Path, second: Path, metric: str | None) -> str:
    """Return the difference between two result files, in words."""
    a, b = (json.loads(path.read_text("utf-8")) for path in (first, second))
    if not a.get("protocol") == b.get("protocol") == PROTOCOL:
        raise ValueError(
            f"{first} and {second} must both be results of the protocol {PROTOCOL!r}; repeat the"
            " older one"
        )
    if a["folds_sha256"] != b["folds_sha256"]:
        raise ValueError(
            f"{first} and {second} have different folds; use the same data and --folds"
        )
    if a["seeds"] and b["seeds"] and a["seeds"] != b["seeds"]:
        raise ValueError(f"{first} and {second} have different seeds; use the same --seeds")
    metric = metric or find_metric(b["summary"])
    shared = [name for name in a["summary"] if name in b["summary"]]
    if metric not in shared:
        raise ValueError(f"unknown metric {metric!r}; known: {', '.join(shared)}")
    mean, low, high = paired_interval(average_seeds(a, metric), average_seeds(b, metric))
    names = f"{b['recipe']} - {a['recipe']}"
    return f"{names}: {metric} {mean:+.3f}, 95 % interval {low:+.3f} to {high:+.3f}"


def find_metric(names: Any) -> str:
    """Return the name of the main metric."""
    return next(name for name in METRICS if name in names)


def format_lines(result: dict[str, Any]) -> list[str]:
    """Return the lines of a section of results.md: the main metric, and macro F1 or Spearman."""
    summary = result["summary"]
    lines = ["| metric | mean | standard deviation | values |", "|---|---|---|---|"]
    for name in (*METRICS, "macro_f1", "spearman", "mean_reciprocal_rank"):
        if name in summary:
            values = ", ".join(f"{value:.4g}" for value in summary[name]["values"])
            mean, deviation = summary[name]["mean"], summary[name]["standard_deviation"]
            lines.append(f"| {name.replace('_', ' ')} | {mean:.4g} | {deviation:.2g} | {values} |")
    means = summary[find_metric(summary)]["mean_by_seed"]
    seeds = ", ".join(f"{seed}: {mean:.4g}" for seed, mean in means.items())
    by_seed = f"; mean of each seed: {seeds}" if result["seeds"] else ""
    return [*lines, "", f"{result['folds']} folds{by_seed}. Commit {result['commit']}."]


def cross_validate(options: argparse.Namespace) -> dict[str, Any]:
    """Train and evaluate all folds with all seeds, or a linear baseline; return the result."""
    recipe = az.training.read_recipe(options.recipe, options.overrides)
    if recipe.task not in ("classification", "matching") or recipe.data.corpus not in CORPORA:
        raise ValueError(
            f"{options.recipe}: expected task classification or matching, and corpus"
            f" {', '.join(CORPORA)}, got {recipe.task} and {recipe.data.corpus}"
        )
    if options.folds < 2:
        raise ValueError(f"--folds must be at least 2, got {options.folds}")
    if options.folder:
        options.folder.mkdir(parents=True, exist_ok=True)
    with nullcontext(options.folder) if options.folder else tempfile.TemporaryDirectory() as folder:
        paths, digest = write_folds(recipe.data, options.folds, Path(folder))
        if not all(paths):
            raise ValueError(f"--folds={options.folds}: a fold has no rows; use fewer folds")
        is_linear = bool(options.scikit_learn_python)
        if is_linear:
            runs = list(run_linear_baseline(options, paths))
        else:
            runs = list(run_folds(options, paths, Path(folder), recipe.training.steps))
    name = " ".join([Path(options.recipe).stem, *options.overrides])
    return {
        "recipe": f"{runs[0]['model']}, data of {name}" if is_linear else name,
        "commit": get_commit(),
        "protocol": PROTOCOL,
        "folds": options.folds,
        "folds_sha256": digest,
        "seeds": [] if is_linear else options.seeds,
        "summary": summarize(runs),
        "runs": runs,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("recipe", nargs="?", help="a recipe of the task classification or matching")
    parser.add_argument("overrides", nargs="*", metavar="KEY=VALUE")
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument(
        "--scikit-learn-python",
        help="evaluate a linear baseline with this Python, which has scikit-learn",
    )
    parser.add_argument("--out", type=Path, help="JSON file to write")
    parser.add_argument("--folder", type=Path, help="folder of folds and runs, to resume from")
    parser.add_argument("--dry-run", action="store_true", help="do not write results.md")
    parser.add_argument("--compare", type=Path, nargs=2, metavar="FILE.json")
    parser.add_argument("--metric", help="metric to compare; by default, the main metric")
    options = parser.parse_intermixed_args()
    if not (options.compare or options.recipe):
        parser.error("name a recipe, or two results with --compare")
    try:
        if options.compare:
            first, second = options.compare
            print(compare(first, second, options.metric))
            return
        result = cross_validate(options)
    except (ValueError, OSError) as error:
        sys.exit(str(error))
    if options.out:
        options.out.write_text(json.dumps(result, indent=2) + "\n", "utf-8")
    title, lines = f"Cross-validation of {result['recipe']}", format_lines(result)
    write_section(title, lines, options.dry_run)


if __name__ == "__main__":
    main()
