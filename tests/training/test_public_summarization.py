"""`init`: a summarizer with the weights and the tokenizer of a public BART or T5 checkpoint."""

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

FAMILIES = ("bart", "t5_gated")


def write_fine_tuning_recipe(folder: Path, family: str) -> Path:
    """Write a recipe that fine-tunes a golden summarizer on its own greedy summaries."""
    golden = json.loads((GOLDEN / family / "expected.json").read_text("utf-8"))
    tokenizer = az.load(GOLDEN / family).tokenizer
    ids = [[*map(tokenizer.from_checkpoint_id, row)] for row in golden["cases"][0]["ids"]]
    pairs = zip(golden["sources"], map(tokenizer.decode, ids), strict=True)
    lines = ["a\tb", *(f"{source}\t{target}" for source, target in pairs)]
    path = folder / "pairs.tsv"
    path.write_text("\n".join(lines) + "\n", "utf-8")
    return write_recipe(
        folder,
        f"task: summarization\ninit: {GOLDEN / family}\n"
        f"data: {{corpus: tsv, source: a, target: b, train: {path}, validation: {path},"
        " max_source_length: 64, max_target_length: 64}\n"
        "training: {steps: 2, evaluate_every: 2, batch_size: 32, learning_rate: 0.001}\n"
        "search: {beam_width: 2}\n",
    )


@pytest.mark.parametrize("family", FAMILIES)
def test_the_task_has_the_weights_and_tokenizer_of_the_checkpoint(
    family: str, tmp_path: Path
) -> None:
    path = write_fine_tuning_recipe(tmp_path, family)
    recipe = read_recipe(path, ["model.dropout=0.3", "data.max_source_length=48"])
    task: Any = make_task(recipe, recipe.data.read("train"), None)
    checkpoint = az.load(GOLDEN / family)
    assert (task.add_source_end, task.source_prefix) == (True, checkpoint.source_prefix)
    assert (task.max_source_length, task.model.settings["dropout"]) == (48, 0.3)
    assert (task.search.forced_start, task.search.beam_width) == (None, 2)
    for weight, want in zip(task.model.weights, checkpoint.model.weights, strict=True):
        np.testing.assert_array_equal(array(weight), array(want))


@pytest.mark.full
@pytest.mark.parametrize("family", FAMILIES)
def test_training_changes_the_weights_and_the_run_loads(family: str, tmp_path: Path) -> None:
    path = write_fine_tuning_recipe(tmp_path, family)
    training.fit(path, [f"run={tmp_path / 'run'}"])
    task = az.load(tmp_path / "run")
    before = models.from_public(GOLDEN / family).weights
    changes = [
        np.abs(array(weight) - array(want)).max()
        for weight, want in zip(task.model.weights, before, strict=True)
    ]
    assert max(changes) > 1e-4
    examples = read_recipe(tmp_path / "small.yaml").data.read("validation").take(range(20))
    assert task.evaluate(examples)["rougeL"] > 50
    checkpoint = az.load(GOLDEN / family)
    assert task.tokenizer.content_hash == checkpoint.tokenizer.content_hash
