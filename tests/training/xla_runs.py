"""Short trainings with and without XLA, on batches of three shapes.

Each recipe of `training/` runs with small sizes, on a small generated corpus of its task. Recipes
that are then identical build the same graph and are one case.

    python -m tests.training.xla_runs NUMBER

prints the losses of the cases of a group as JSON lines. TensorFlow frees what it compiled for XLA
only when the process ends.
"""

from __future__ import annotations

import itertools
import json
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
import yaml

from attention_zoo.models import BERT
from attention_zoo.models.presets import merge, preset_class, preset_config
from attention_zoo.tasks.building import split_head_options
from attention_zoo.training.devices import distribute_batches, make_strategy
from attention_zoo.training.fitting import prepare
from attention_zoo.training.recipe import read_recipe
from attention_zoo.training.run_folder import RunState
from attention_zoo.training.step import APPLIED
from tests.training.test_recipes import AROUND_BERT, RECIPES

CORPORA: dict[str, dict[str, Any]] = {
    "translation": {"corpus": "dates"},
    "summarization": {"corpus": "reports"},
    "captioning": {"corpus": "scenes", "image_size": 32},
    "retrieval": {"corpus": "scenes", "image_size": 32},
    "tagging": {"corpus": "orders"},
    "language_modeling": {"corpus": "date_lines", "max_length": 128},
    "masked_language_modeling": {"corpus": "date_lines", "max_length": 128},
    "glimpses": {"corpus": "digits"},
    "classification": {
        "corpus": "reviews",
        "min_review_sentences": 3,
        "max_review_sentences": 9,
        "max_length": 512,
        "size": 200,  # with every class
    },
    "matching": {"corpus": "claims", "max_first_length": 64, "max_second_length": 64},
}
KEPT_DATA_OPTIONS = {
    "glimpses": ("image_size", "scattered"),
    "matching": ("target",),
    "classification": ("multi_label",),
}
"""Options of the data that determine the model or the loss, by task."""
SIZES = {
    **dict.fromkeys(("embedding_dim", "attention_units", "readout_units", "source_dim"), 8),
    **dict.fromkeys(("filters", "copies", "glimpse_units"), 8),
    "units": 16,
    "num_layers": 1,
    "num_heads": 2,
    "glimpses": 3,
    "from_step": 10,
}
"""Maximum sizes of models, in all nested options. Coverage begins half way."""
NOT_IN_THE_GRAPH = (
    *("steps", "batch_size", "evaluate_every", "monitor", "monitor_size"),
    *("learning_rate", "warmup_steps", "clip_norm"),
)
"""Training options that are replaced."""
SHORT = {"steps": 20, "warmup_steps": 4}
MAX_LEARNING_RATE = 0.001
"""At a higher rate the retriever, whose loss takes the hardest negative, amplifies rounding errors:
weights that differ by 1e-6 give losses that differ by some percent after 20 steps.
"""


def shrink(name: str, value: Any) -> Any:
    """Return a model's option with small sizes, and one rate for all kinds of dropout."""
    if isinstance(value, dict):
        return {key: shrink(key, item) for key, item in value.items() if key != "weights"}
    if isinstance(value, list | tuple):
        return [shrink(name, item) for item in value]
    if "dropout" in name and value:
        return 0.2
    return min(value, SIZES[name]) if value and name in SIZES else value


def make_small_recipe(path: Path) -> dict[str, Any]:
    """Return the content of a recipe with small sizes, on a generated corpus."""
    recipe = yaml.safe_load(path.read_text(encoding="utf-8"))
    options = dict(recipe["model"])
    preset = options.pop("preset", None)
    head: dict[str, Any] = {}
    if preset is None:  # fine-tuning of a public BERT
        preset = "bert_tiny"
        options, head = split_head_options(options, AROUND_BERT[recipe["task"]][0])
    elif preset_class(preset) is BERT and "head" in options:
        head = {"head": options.pop("head")}  # of a tagger, not an option of BERT
    config = merge(preset_class(preset), preset_config(preset), options)
    if (config.get("encoder") or {}).get("kind") == "efficientnet_lite":
        config["encoder"] = {**config["encoder"], "width_coefficient": 0.1}
    data, training = recipe["data"], recipe["training"]
    names = KEPT_DATA_OPTIONS.get(recipe["task"], ())
    kept = {name: data[name] for name in names if name in data}
    rate = min(training["learning_rate"], MAX_LEARNING_RATE)
    training = {name: x for name, x in training.items() if name not in NOT_IN_THE_GRAPH}
    return {
        "task": recipe["task"],
        "data": {"size": 60, "validation_size": 8, **CORPORA[recipe["task"]], **kept},
        "tokenizer": {
            "kind": "whitespace",
            "vocabulary_size": 100,  # some words are unknown, and can be copied
            "shared": recipe.get("tokenizer", {}).get("shared", False),
        },
        "model": {"preset": preset, **shrink("", config), **head},
        "training": {**training, **SHORT, "learning_rate": rate},
    }


SMALL_RECIPES = {json.dumps(make_small_recipe(path)): path.stem for path in reversed(RECIPES)}
"""Small recipes, with the name of one of the recipes that they stand for."""
OPTIMIZED = {json.loads(recipe)["task"]: recipe for recipe in SMALL_RECIPES}
"""One recipe of each task, which runs with TensorFlow's graph rewrites, as users' runs do."""
GROUPS = [list(SMALL_RECIPES)[first : first + 5] for first in range(0, len(SMALL_RECIPES), 5)]
"""Small recipes that run in one process; each takes about 300 MB."""


def make_batches(batches: Any) -> list[Any]:
    """Return three batches of different sizes and, if examples have lengths, different lengths."""

    def get_shapes(*rows: int) -> list[Any]:
        return [x.shape for x in keras.tree.flatten(batches.make_batch(np.array(rows)))]

    order = sorted(range(len(batches)), key=get_shapes)
    middle = len(order) // 2
    rows = order[:8], order[middle : middle + 6], order[-5:]
    assert len({str(get_shapes(*some)) for some in rows}) == 3
    return [batches.make_batch(np.array(some)) for some in rows]


def train(content: str, folder: Path, jit: bool) -> list[float]:
    """Return the losses of 20 steps on batches of three shapes, and of an evaluation."""
    path = folder / "recipe.yaml"
    path.write_text(content, encoding="utf-8")
    recipe = read_recipe(path, [f"training.jit={jit}"])
    job = prepare(recipe, folder / f"jit={jit}", RunState(), make_strategy(1))
    batches = make_batches(job.train)
    dataset = tf.data.Dataset.from_generator(
        lambda: itertools.cycle(batches), output_signature=job.train.dataset().element_spec
    )
    iterator = iter(distribute_batches(job.steps.strategy, dataset))
    outcomes = [job.steps.train(iterator) for _ in range(recipe.training.steps)]
    assert all(outcome.code == APPLIED for outcome in outcomes)
    outcomes.append(job.steps.test(iterator))
    return [outcome.loss / outcome.count for outcome in outcomes]


def main(number: int) -> None:
    """Print the losses of each case of a group with and without XLA, or its error."""
    for recipe in GROUPS[number]:
        graph_options = {"disable_meta_optimizer": recipe not in OPTIMIZED.values()}
        tf.config.optimizer.set_experimental_options(graph_options)
        with tempfile.TemporaryDirectory() as folder:
            losses: Any
            try:
                losses = [train(recipe, Path(folder), jit) for jit in (True, False)]
            except Exception:
                losses = traceback.format_exc()
            print(json.dumps([SMALL_RECIPES[recipe], losses]), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]))
