"""`init`: a captioner with the weights and the tokenizer of a public ViT and GPT-2."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import attention_zoo as az
from attention_zoo import training
from attention_zoo.training import read_recipe
from attention_zoo.training.preparation import make_task
from tests.layers.running import array
from tests.models.public.checkpoints import GOLDEN, expected
from tests.training.small import write_recipe

FOLDER = GOLDEN / "vit_gpt2"
COUNT = 20


def write_fine_tuning_recipe(folder: Path) -> Path:
    """Write a recipe that fine-tunes the golden captioner on its own captions."""
    tokenizer = az.load(FOLDER).tokenizer
    (_, case, *_) = json.loads((FOLDER / "expected.json").read_text())["cases"]
    lines = []
    for row, image in enumerate(expected(FOLDER)["images"][:COUNT]):
        Image.fromarray(image).save(folder / f"{row}.png")
        text = tokenizer.decode(map(tokenizer.from_checkpoint_id, case["ids"][row]))
        lines.append(json.dumps({"image": f"{row}.png", "captions": [text]}))
    path = folder / "captions.jsonl"
    path.write_text("\n".join(lines) + "\n")
    return write_recipe(
        folder,
        f"task: captioning\ninit: {FOLDER}\n"
        f"data: {{corpus: captions, train: {path}, validation: {path}, image_size: 16,"
        " max_target_length: 24}\n"
        "training: {steps: 2, evaluate_every: 2, batch_size: 8, learning_rate: 0.001}\n"
        "search: {beam_width: 2}\n",
    )


def test_the_task_has_the_weights_and_tokenizer_of_the_checkpoint(tmp_path: Path) -> None:
    recipe = read_recipe(write_fine_tuning_recipe(tmp_path), ["model.dropout=0.3"])
    task: Any = make_task(recipe, recipe.data.read("train"), None)
    checkpoint = az.load(FOLDER)
    assert (task.image_size, task.search.beam_width) == (16, 2)
    assert task.model.settings["dropout"] == 0.3
    for weight, want in zip(task.model.weights, checkpoint.model.weights, strict=True):
        np.testing.assert_array_equal(array(weight), array(want))


@pytest.mark.full
def test_training_changes_the_weights_and_the_run_loads(tmp_path: Path) -> None:
    training.fit(write_fine_tuning_recipe(tmp_path), [f"run={tmp_path / 'run'}"])
    task, before = az.load(tmp_path / "run"), az.load(FOLDER).model.weights
    changes = [
        np.abs(array(weight) - array(want)).max()
        for weight, want in zip(task.model.weights, before, strict=True)
    ]
    assert max(changes) > 1e-4
    examples = read_recipe(tmp_path / "small.yaml").data.read("validation")
    assert task.evaluate(examples)["exact_match"] > 50
