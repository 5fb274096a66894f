"""Write the index of the zoo, attention_zoo/index.json: presets, recipes and entries.

    python benchmarks/make_index.py

`attention-zoo list` prints it. The number of parameters of a preset is that of the model with
vocabularies of 8,000 tokens and 100 characters, nine kinds of spans, or ten classes. Parameters
and metrics of an entry come from its results.json.
"""

from __future__ import annotations

import inspect
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import keras

import attention_zoo as az
from attention_zoo.zoo import Listing

ROOT = Path(__file__).parent.parent
INDEX = ROOT / "attention_zoo" / "index.json"
SIZES = {
    "vocabulary_size": 8000,
    "source_vocabulary_size": 8000,
    "target_vocabulary_size": 8000,
    "tags": ["O", *(f"{mark}-{number}" for number in range(9) for mark in "BI")],
    "image_shape": (28, 28, 1),
    "classes": 10,
}
TASKS = {
    "BERT": "masked_language_modeling",
    "GPT": "language_modeling",
    "CaptionTransformer": "captioning",
    "ShowAttendTell": "captioning",
    "CrossAttentionRetriever": "retrieval",
    "RecurrentAttentionModel": "glimpses",
}
"""Task of the models in `models/language/` and `models/vision/`; other folders are named so."""


def main() -> None:
    rows = [*list_presets(), *list_recipes(), *list_entries()]
    INDEX.write_text(format_index(rows), encoding="utf-8")


def format_index(rows: list[Listing]) -> str:
    """Return the index as JSON, with a row in each line."""
    rows = sorted(rows, key=lambda row: (row.task, row.kind, row.name))
    lines = ",\n".join(json.dumps(asdict(row)) for row in rows)
    return f"[\n{lines}\n]\n"


def list_presets() -> list[Listing]:
    """Return the presets with the number of their parameters."""
    return [
        Listing(name, "preset", get_task(az.models.preset_class(name)), count_parameters(name))
        for name in az.list_presets()
    ]


def get_task(model: type) -> str:
    """Return the name of the task that trains models of a class."""
    return TASKS.get(model.__name__, model.__module__.split(".")[-2])


def count_parameters(preset: str) -> int:
    """Return the number of parameters of a preset without allocating its weights."""
    cls, config = az.models.preset_class(preset), az.models.preset_config(preset)
    arguments = {name: SIZES[name] for name in inspect.signature(cls).parameters if name in SIZES}
    if get_task(cls) in ("classification", "matching"):
        arguments["classes"] = [str(number) for number in range(10)]
    if config.get("characters"):
        arguments["characters"] = {**config["characters"], "vocabulary_size": 100}
    if config.get("encoder"):  # without downloads
        arguments["encoder"] = {**config["encoder"], "weights": None}
    with keras.StatelessScope(initialize_variables=False):
        return int(cls(**{**config, **arguments}).count_params())


def list_recipes() -> list[Listing]:
    """Return the recipes in training/, without the launch files of clusters."""
    paths = sorted((ROOT / "training").glob("*/*.*.yaml"))
    return [Listing(path.stem, "recipe", path.parent.name) for path in paths]


def list_entries() -> list[Listing]:
    """Return the entries in models/ with the headline metric of their task."""
    return [read_entry(path) for path in sorted((ROOT / "models").glob("*/*/results.json"))]


def read_entry(path: Path) -> Listing:
    """Return the row of an entry from its results.json."""
    results: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    metric, value = get_headline(results)
    weights = (path.parent / "task.json").is_file()
    return Listing(
        path.parent.name, "entry", results["task"], results["parameters"], metric, value, weights
    )


def get_headline(results: dict[str, Any]) -> tuple[str, float]:
    """Return the first score on the card of an entry, and its value in the first evaluation."""
    metrics = results["evaluations"][0]["metrics"]
    columns = az.tasks.TASKS.get(results["task"]).card_metrics
    names = [name for column in columns for name in column.split(" / ")]
    name = next(name for name in names if isinstance(metrics.get(name), float))
    return name, round(metrics[name], 2)


if __name__ == "__main__":
    main()
