"""Runs of classification and matching: training, exact resume, evaluation, fine-tuning."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from attention_zoo import tasks, training
from attention_zoo.training import read_recipe
from tests.refusals import refuses
from tests.training.small import assert_same_run

TINY: dict[str, Any] = {"embedding_dim": 8, "units": 8}
RECIPES = {
    "texts": ("classification", "reviews", "recurrent_classifier_small", ""),
    "documents": ("classification", "reviews", "han_small", ""),
    "several classes": ("classification", "reviews", "han_small", "multi_label: true, size: 300"),
    "pairs": ("matching", "claims", "esim_small", ""),
    "ranking": ("matching", "claims", "esim_small", "target: ranking"),
}

PAGE = """\
task: {task}
data: {{corpus: {corpus}, validation_size: 12, test_size: 12, {data}}}
tokenizer: {{kind: word, vocabulary_size: 300}}
model: {{preset: {preset}, embedding_dim: 8, units: 8, dropout: 0.2}}
training: {{steps: 3, batch_size: 8, evaluate_every: 1}}
"""


def write_recipe(folder: Path, name: str) -> Path:
    task, corpus, preset, data = RECIPES[name]
    size = "" if "size" in data else "size: 40"
    short = "min_review_sentences: 3, max_review_sentences: 4" if corpus == "reviews" else ""
    options = ", ".join(one for one in (data, size, short) if one)
    path = folder / "recipe.yaml"
    path.write_text(PAGE.format(task=task, corpus=corpus, preset=preset, data=options))
    return path


@pytest.mark.slow
@pytest.mark.parametrize("name", RECIPES)
def test_run_resumes_exactly(tmp_path: Path, name: str) -> None:
    recipe = write_recipe(tmp_path, name)
    uninterrupted, resumed = tmp_path / "uninterrupted", tmp_path / "resumed"
    training.fit(recipe, [f"run={uninterrupted}"])
    for steps in (1, 3):
        options = [f"run={resumed}", f"training.steps={steps}"]
        training.fit(recipe, options, allow=["training.steps"])
    assert_same_run(uninterrupted, resumed)
    entry = training.evaluate(uninterrupted, ["data.split=validation"])
    task = tasks.load(uninterrupted)
    assert {*task.metric_names} <= {*entry["metrics"]}


@pytest.mark.parametrize("name", ["texts", "pairs"])
def test_recipes_are_read(tmp_path: Path, name: str) -> None:
    path = write_recipe(tmp_path, name)
    recipe = read_recipe(path)
    assert type(recipe.data).__name__ == {"texts": "Reviews", "pairs": "Claims"}[name]
    task = tasks.TASKS.get(recipe.task).from_recipe(recipe, recipe.data.read("train"))
    assert (
        task.classes
        == {
            "texts": ("mixed", "negative", "positive"),
            "pairs": ("contradiction", "entailment", "neutral"),
        }[name]
    )
    batches = task.make_batches(recipe.data.read("validation"), 4, 1)
    assert len(batches) == 12


def test_class_weights_of_a_recipe(tmp_path: Path) -> None:
    path = write_recipe(tmp_path, "texts")

    def make_task(*overrides: str) -> Any:
        recipe = read_recipe(path, overrides)
        return tasks.TASKS.get("classification").from_recipe(recipe, recipe.data.read("train"))

    task = make_task("data.class_weights=balanced")
    counts = task.class_counts
    expected = [sum(counts.values()) / 3 / counts[name] for name in task.classes]
    assert task.make_loss().class_weights == pytest.approx(expected)
    task = make_task("data.class_weights={mixed: 2}")
    assert task.make_loss().class_weights == [2.0, 1.0, 1.0]
    assert refuses(
        ["class_weights: unknown class 'mixd'"], make_task, "data.class_weights={mixd: 2}"
    )


def test_one_class_is_an_error(tmp_path: Path) -> None:
    path, table = write_recipe(tmp_path, "texts"), tmp_path / "table.csv"
    table.write_text("text,label\nA text,yes\nAnother,yes\n")
    overrides = ["data.corpus=csv", f"data.train={table}"]
    recipe = read_recipe(path, overrides)
    words = ["table.csv", "needs at least two classes, got 'yes'"]
    make = tasks.TASKS.get("classification").from_recipe
    assert refuses(words, make, recipe, recipe.data.read("train"))
