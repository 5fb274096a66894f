"""`init`: a translator with the weights and the tokenizers of a public Marian checkpoint."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import attention_zoo as az
from attention_zoo import models, training
from attention_zoo.training import read_recipe
from attention_zoo.training.preparation import make_task
from tests.layers.running import array
from tests.models.public.checkpoints import GOLDEN
from tests.training.small import write_recipe

FOLDER = GOLDEN / "marian_translator"


def write_fine_tuning_recipe(folder: Path) -> Path:
    """Write a recipe that fine-tunes the golden translator on its own greedy translations."""
    golden = json.loads((FOLDER / "expected.json").read_text("utf-8"))
    pairs = zip(golden["sources"], golden["cases"][0]["texts"], strict=True)
    lines = ["a\tb", *(f"{source}\t{target}" for source, target in pairs)]
    path = folder / "pairs.tsv"
    path.write_text("\n".join(lines) + "\n", "utf-8")
    return write_recipe(
        folder,
        f"task: translation\ninit: {FOLDER}\n"
        f"data: {{corpus: tsv, source: a, target: b, train: {path}, validation: {path}}}\n"
        "training: {steps: 2, evaluate_every: 2, batch_size: 32, learning_rate: 0.001}\n"
        "search: {early_stopping: false, beam_width: 2}\n",
    )


def build(path: Path, *overrides: str) -> Any:
    recipe = read_recipe(path, overrides)
    return make_task(recipe, recipe.data.read("train"), None)


def test_the_task_has_the_weights_and_tokenizers_of_the_checkpoint(tmp_path: Path) -> None:
    task = build(
        write_fine_tuning_recipe(tmp_path), "model.dropout=0.3", "data.max_source_length=9"
    )
    assert (task.add_source_end, task.split_long_texts) == (True, True)
    assert (task.max_source_length, task.model.settings["dropout"]) == (9, 0.3)
    assert (task.search.early_stopping, task.search.beam_width) == (False, 2)
    checkpoint = models.from_public(FOLDER)
    for weight, want in zip(task.model.weights, checkpoint.weights, strict=True):
        np.testing.assert_array_equal(array(weight), array(want))
    sources, targets = task.encode_pairs(read_recipe(tmp_path / "small.yaml").data.read("train"))
    assert {row[-1] for row in sources.to_rows()} == {task.source_tokenizer.end}
    assert task.target_tokenizer.end not in targets.to_rows()[0]


@pytest.mark.parametrize("value", ["never", "false", "true"])
def test_early_stopping_is_a_string_or_a_boolean(value: str, tmp_path: Path) -> None:
    recipe = read_recipe(write_fine_tuning_recipe(tmp_path), [f"search.early_stopping={value}"])
    assert recipe.search.early_stopping == {"never": "never", "false": False, "true": True}[value]


@pytest.mark.full
def test_training_changes_the_weights_and_the_run_loads(tmp_path: Path) -> None:
    training.fit(write_fine_tuning_recipe(tmp_path), [f"run={tmp_path / 'run'}"])
    task = az.load(tmp_path / "run")
    before = models.from_public(FOLDER).weights
    changes = [
        np.abs(array(weight) - array(want)).max()
        for weight, want in zip(task.model.weights, before, strict=True)
    ]
    assert max(changes) > 1e-4
    examples = read_recipe(tmp_path / "small.yaml").data.read("validation").take(range(20))
    assert task.evaluate(examples)["bleu"] > 20
    assert task.source_tokenizer.content_hash == az.load(FOLDER).source_tokenizer.content_hash
