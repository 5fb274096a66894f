"""Every recipe in `training/` is valid, builds its model and documents how to run it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from attention_zoo import models
from attention_zoo.tasks.building import build_model
from attention_zoo.tasks.caption_corpora import Captions
from attention_zoo.tasks.glimpses.corpora import Labelled
from attention_zoo.tasks.tagging.building import build_tagger, takes_characters
from attention_zoo.tasks.tagging.corpora import Sentences
from attention_zoo.tasks.text_pair_corpora import Pairs
from attention_zoo.training import Recipe, read_recipe
from attention_zoo.training.optimizers import build_optimizer

ROOT = Path(__file__).resolve().parents[2]
RECURRENT = ("rnnsearch", "luong", "seq2seq")
RECIPES = sorted(p for p in (ROOT / "training").rglob("*.yaml") if p.parent.name != "cluster")
VOCABULARIES = {
    "translation": ("source_vocabulary_size", "target_vocabulary_size"),
    "language_modeling": ("vocabulary_size",),
    "masked_language_modeling": ("vocabulary_size",),
    "summarization": ("vocabulary_size",),
    "captioning": ("vocabulary_size",),
    "retrieval": ("vocabulary_size",),
}
TAGS = ["B-LOC", "I-LOC", "O"]


def language_suffix(recipe: Recipe) -> tuple[str, ...]:
    """Return the languages that the recipe's file name ends with."""
    data: Any = recipe.data
    if isinstance(data, Sentences | Captions | Labelled) or recipe.task == "summarization":
        return ()
    return (data.source, data.target) if isinstance(data, Pairs) else (data.language,)


def build_small_model(recipe: Recipe) -> Any:
    """Build the recipe's model with small sizes."""
    if recipe.task == "tagging":
        characters = 20 if takes_characters(recipe.model) else None
        small = {"units": 16, "embedding_dim": 8}
        return build_tagger({**recipe.model, **small}, TAGS, 20, characters)
    if recipe.task == "glimpses":
        size = recipe.data.image_size
        return build_model(recipe.model, image_shape=[size, size, 1], classes=10)
    sizes = dict.fromkeys(VOCABULARIES[recipe.task], 20)
    section = {**recipe.model, "units": 8, "embedding_dim": 8}
    if isinstance(encoder := section.get("encoder"), dict):
        section["encoder"] = {name: encoder[name] for name in encoder if name != "weights"}
        if initial_run := encoder.get("weights"):  # must be the run of another recipe
            stems = [path.stem for path in RECIPES]
            assert Path(initial_run).name in stems, f"no recipe of {initial_run}"
    return build_model(section, **sizes)


def test_there_are_recipes() -> None:
    assert len(RECIPES) >= 8


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_recipe(path: Path) -> None:
    recipe = read_recipe(path)
    preset, _, data = path.stem.partition(".")
    assert recipe.model["preset"] == preset
    assert preset in models.list_presets()
    assert data.endswith("_".join(("", *language_suffix(recipe))))
    assert build_small_model(recipe).count_params() > 0
    assert float(build_optimizer(recipe.training).learning_rate) > 0
    header = path.read_text(encoding="utf-8").split("\n\n")[0]  # the header comment
    for text in (f"attention-zoo train {path.relative_to(ROOT)}", "Machine:", "Time:", "Expected"):
        assert text in header


def test_baselines_on_dates_have_no_fewer_parameters_or_steps_than_rnnsearch() -> None:
    parameter_counts, other_options, steps_and_sizes = {}, [], {}
    for path in RECIPES:
        if path.stem.startswith(RECURRENT) and path.stem.endswith(".dates_en_fr"):
            recipe = read_recipe(path)
            sizes = {"source_vocabulary_size": 122, "target_vocabulary_size": 120}
            parameter_counts[path.stem] = build_model(recipe.model, **sizes).count_params()
            steps_and_sizes[path.stem] = (recipe.training.steps, recipe.data.size)
            training = replace(recipe.training, steps=1, evaluate_every=1)
            other_options.append((replace(recipe.data, size=1), recipe.tokenizer, training))
    assert len(parameter_counts) >= 4
    assert all(options == other_options[0] for options in other_options)
    min_steps, min_size = steps_and_sizes["rnnsearch_small.dates_en_fr"]
    for name, (steps, size) in steps_and_sizes.items():
        assert steps >= min_steps, name
        assert size >= min_size, name
    num_rnnsearch = parameter_counts["rnnsearch_small.dates_en_fr"]
    for name, count in parameter_counts.items():
        assert num_rnnsearch <= count <= 1.1 * num_rnnsearch, name  # at most 10 % more
