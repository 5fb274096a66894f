"""Table of trained models, with mean and standard error over seeds.

    attention-zoo evaluate runs/A1  # and the other runs, of classification or matching
    python benchmarks/compare_seeds.py "Pairs of SICK" runs/A1 runs/A2 runs/B1 runs/B2 \
        [--baselines LINEAR.json] [--out FILE.json] [--metric accuracy]

Runs of the same model, `model` of the recipe, are one row, which shows the preset (or `init`) and
the options that differ between rows of this preset. If a preset has two rows, the difference of
their means is reported with its standard error. `linear_baselines.py --out` writes the baselines.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from pathlib import Path
from typing import Any, NamedTuple

from cross_validation import METRICS
from side_by_side import write_section


class Row(NamedTuple):
    """Metrics of one model, a list over seeds for each split."""

    name: str
    seeds: list[int]
    values: dict[str, list[float]]

    def mean(self, split: str) -> float:
        return statistics.fmean(self.values[split])

    def standard_error(self, split: str) -> float:
        """Return the standard error of the mean; NaN for one seed."""
        values = self.values[split]
        return statistics.stdev(values) / len(values) ** 0.5 if len(values) > 1 else float("nan")


def group_runs(results: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Return the results of each model by its name; ValueError for equal seeds of a model."""
    options: dict[str, set[str]] = {}
    for result in results:
        options.setdefault(result["preset"], set()).update(result["model"])
    models = [result["model"] for result in results]
    groups: dict[str, list[dict[str, Any]]] = {}
    for result in results:
        same_preset = [m for m in models if m.get("preset") == result["preset"]]
        shown = [
            f"{option}={json.dumps(result['model'][option])}"
            for option in sorted(options[result["preset"]] - {"preset"})
            if option in result["model"]
            if any(m.get(option) != result["model"][option] for m in same_preset)
        ]
        name = ", ".join([result["preset"] or result["init"], *shown])
        group = groups.setdefault(name, [])
        if any(other["seed"] == result["seed"] for other in group):
            raise ValueError(f"{name}: two runs have the seed {result['seed']}")
        group.append(result)
    return groups


def read_metrics(result: dict[str, Any], metric: str) -> dict[str, float]:
    """Return the metric by split, of the evaluations that have it."""
    return {
        evaluation["split"]: evaluation["metrics"][metric]
        for evaluation in result["evaluations"]
        if metric in evaluation["metrics"]
    }


def make_rows(results: list[dict[str, Any]], metric: str) -> list[Row]:
    """Return a row for each model, with the splits that all runs were evaluated on.

    Raises:
        ValueError: there is no such split with the metric, or a split has different data.
    """
    metrics = [read_metrics(result, metric) for result in results]
    splits = sorted(set.intersection(*map(set, metrics)))
    if not splits:
        raise ValueError(f"no split has {metric} in all runs; evaluate all on the same splits")
    data = {
        (evaluation["split"], evaluation["data"])
        for result in results
        for evaluation in result["evaluations"]
        if evaluation["split"] in splits
    }
    if len(data) > len(splits):
        raise ValueError(f"a split must have the same data in all runs, got {sorted(data)}")
    rows = []
    for name, group in group_runs(results).items():
        values = {
            split: [read_metrics(result, metric)[split] for result in group] for split in splits
        }
        rows.append(Row(name, [result["seed"] for result in group], values))
    return rows


def make_baselines(content: dict[str, Any], metric: str, splits: list[str]) -> list[Row]:
    """Return a row for each linear model of `linear_baselines.py`; it needs no seed."""
    values: dict[str, dict[str, list[float]]] = {}
    for result in content["results"]:
        values.setdefault(result["model"], {})[result["split"]] = [result["metrics"][metric]]
    return [Row(name, [], {split: row[split] for split in splits}) for name, row in values.items()]


def compare_pairs(rows: list[Row]) -> list[str]:
    """Return the difference of the two rows of each preset that has two, by split."""
    presets: dict[str, list[Row]] = {}
    for row in (row for row in rows if row.seeds):  # no baseline
        presets.setdefault(row.name.split(",")[0], []).append(row)
    lines = []
    for pair in presets.values():
        if len(pair) == 2:
            first, second = pair
            for split in first.values:
                difference = first.mean(split) - second.mean(split)
                error = (
                    first.standard_error(split) ** 2 + second.standard_error(split) ** 2
                ) ** 0.5
                lines.append(
                    f"{first.name} above {second.name} on {split}: {difference:+.2f},"
                    f" standard error {error:.2f}."
                )
    return lines


def format_lines(rows: list[Row], metric: str) -> list[str]:
    """Return the lines of a section of results.md."""
    splits = [*rows[-1].values]
    head = " | ".join(f"{split} | values" for split in splits)
    lines = [f"| model | seeds | {head} |", "|---|---|" + "---|---|" * len(splits)]
    for row in rows:
        cells = [row.name, ", ".join(map(str, row.seeds)) or "-"]
        for split in splits:
            values = row.values[split]
            error = f" ± {row.standard_error(split):.2g}" if len(values) > 1 else ""
            cells += [f"{row.mean(split):.4g}{error}", ", ".join(f"{v:.4g}" for v in values)]
        lines.append(f"| {' | '.join(cells)} |")
    name = metric.replace("_", " ")
    return [*lines, "", f"{name}, mean and standard error over the seeds.", *compare_pairs(rows)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("title", help="title of the section of results.md")
    parser.add_argument("runs", type=Path, nargs="+", help="folders of evaluated runs")
    parser.add_argument("--baselines", type=Path, help="output of linear_baselines.py")
    parser.add_argument("--metric", help="by default, the main metric of the target")
    parser.add_argument("--out", type=Path, help="JSON file to write")
    parser.add_argument("--dry-run", action="store_true", help="do not write results.md")
    options = parser.parse_args()
    try:
        results = [json.loads((run / "results.json").read_text("utf-8")) for run in options.runs]
        names = results[0]["evaluations"][0]["metrics"]
        metric = options.metric or next(name for name in METRICS if name in names)
        rows = make_rows(results, metric)
        if options.baselines:
            content = json.loads(options.baselines.read_text("utf-8"))
            rows = [*make_baselines(content, metric, [*rows[0].values]), *rows]
    except (ValueError, OSError) as error:
        sys.exit(str(error))
    if options.out:
        content = {"metric": metric, "rows": [row._asdict() for row in rows]}
        options.out.write_text(json.dumps(content, indent=2) + "\n", "utf-8")
    commits = ", ".join(sorted({result["commit"][:8] for result in results}))
    lines = [*format_lines(rows, metric), f"Commits of the runs: {commits}."]
    write_section(options.title, lines, options.dry_run)


if __name__ == "__main__":
    main()
