"""Every recipe of the repository can be read, and has a description."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from attention_zoo import models
from attention_zoo.tasks.building import build_around_bert, build_model
from attention_zoo.tasks.caption_corpora import CaptionCorpus
from attention_zoo.tasks.classification.corpora import LabelledTextCorpus
from attention_zoo.tasks.glimpses.corpora import LabelledImageCorpus
from attention_zoo.tasks.matching.corpora import LabelledPairCorpus
from attention_zoo.tasks.tagging.building import build_tagger, takes_characters
from attention_zoo.tasks.tagging.corpora import SentenceCorpus
from attention_zoo.tasks.text_pair_corpora import NamedPairCorpus
from attention_zoo.training import Recipe, read_recipe
from attention_zoo.training.fine_tuning import freeze
from attention_zoo.training.optimizers import build_optimizer

ROOT = Path(__file__).resolve().parents[2]
RECURRENT = ("rnnsearch", "luong", "seq2seq")
RECIPES = sorted(p for p in (ROOT / "training").rglob("*.yaml") if p.parent.name != "cluster")
WITHOUT_LANGUAGE = (
    SentenceCorpus,
    CaptionCorpus,
    LabelledImageCorpus,
    LabelledTextCorpus,
    LabelledPairCorpus,
)
"""Corpora whose recipes are not named after languages."""


VOCABULARIES = {
    "classification": ("vocabulary_size",),
    "matching": ("vocabulary_size",),
    "translation": ("source_vocabulary_size", "target_vocabulary_size"),
    "language_modeling": ("vocabulary_size",),
    "masked_language_modeling": ("vocabulary_size",),
    "summarization": ("vocabulary_size",),
    "captioning": ("vocabulary_size",),
    "retrieval": ("vocabulary_size",),
}


TAGS = ["B-LOC", "I-LOC", "O"]
CLASSES = {"classes": ["a", "b"]}
AROUND_BERT: dict[str, tuple[Any, dict[str, Any]]] = {
    "classification": (models.TransformerClassifier, CLASSES),
    "matching": (models.PairClassifier, {**CLASSES, "start_token": 2, "end_token": 3}),
    "tagging": (models.TransformerTagger, {"tags": TAGS}),
}
"""Models around a BERT, and their arguments that the data and the tokenizer determine."""


def languages(recipe: Recipe) -> tuple[str, ...]:
    """Return the data that the end of a recipe's name refers to."""
    data: Any = recipe.data
    if isinstance(data, WITHOUT_LANGUAGE) or recipe.task == "summarization":
        return ()
    return (data.source, data.target) if isinstance(data, NamedPairCorpus) else (data.language,)


def built(recipe: Recipe) -> Any:
    """A small model of the recipe's section."""
    if recipe.init is not None and recipe.task in AROUND_BERT:
        cls, given = AROUND_BERT[recipe.task]
        section = {"preset": "bert_tiny", **recipe.model}
        return build_around_bert(cls, section, None, 20, False, **given)
    if recipe.task == "tagging":
        characters = 20 if takes_characters(recipe.model) else None
        small = {"units": 16, "embedding_dim": 8}
        recipe.model |= small
        return build_tagger(recipe, TAGS, 20, characters)
    if recipe.task == "glimpses":
        size = recipe.data.image_size
        return build_model(recipe.model, image_shape=[size, size, 1], classes=10)
    sizes: dict[str, Any] = dict.fromkeys(VOCABULARIES[recipe.task], 20)
    if recipe.task in ("classification", "matching"):
        return build_model({**recipe.model, "embedding_dim": 8}, classes=["a", "b"], **sizes)
    section = {**recipe.model, "units": 8, "embedding_dim": 8}
    if isinstance(encoder := section.get("encoder"), dict):
        section["encoder"] = {name: encoder[name] for name in encoder if name != "weights"}
        if encoder.get("kind") == "efficientnet_lite":
            section["encoder"]["width_coefficient"] = 0.1
        first = encoder.get("weights", "data/")  # of a run that another recipe makes, or public
        stems = [path.stem for path in RECIPES]
        assert first.startswith("data/") or Path(first).name in stems, f"no recipe of {first}"
    return build_model(section, **sizes)


def test_there_are_recipes() -> None:
    assert len(RECIPES) >= 8


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_recipe(path: Path) -> None:
    recipe = read_recipe(path)
    preset, _, data = path.stem.partition(".")
    assert data.endswith("_".join(("", *languages(recipe))))
    if recipe.init == f"data/{preset}":  # a public checkpoint, described in the comment
        assert "preset" not in recipe.model
    else:
        assert recipe.model["preset"] == preset
        assert preset in models.list_presets()
    model = built(recipe)
    freeze(model, recipe.training.frozen)
    assert model.count_params() > 0
    assert float(build_optimizer(recipe.training).learning_rate) > 0
    head = path.read_text(encoding="utf-8").split("\n\n")[0]
    words = [f"attention-zoo train {path.relative_to(ROOT)}", "Machine:", "Time:", "Expected"]
    weights = (recipe.model.get("encoder") or {}).get("weights", "")
    words += [weights] * weights.startswith("data/")  # how to create them
    for word in words:
        assert word in head


def test_the_dates_baselines_have_as_many_parameters_and_no_less_training() -> None:
    counts, sections, amounts = {}, [], {}
    for path in RECIPES:
        if path.stem.startswith(RECURRENT) and path.stem.endswith(".dates_en_fr"):
            recipe = read_recipe(path)
            sizes = {"source_vocabulary_size": 122, "target_vocabulary_size": 120}
            counts[path.stem] = build_model(recipe.model, **sizes).count_params()
            amounts[path.stem] = (recipe.training.steps, recipe.data.size)
            training = replace(recipe.training, steps=1, evaluate_every=1)
            sections.append((replace(recipe.data, size=1), recipe.tokenizer, training))
    assert len(counts) >= 4
    assert all(section == sections[0] for section in sections)
    steps, size = amounts["rnnsearch_small.dates_en_fr"]
    assert all(more[0] >= steps and more[1] >= size for more in amounts.values()), amounts
    least = counts["rnnsearch_small.dates_en_fr"]
    assert all(least <= count <= 1.1 * least for count in counts.values()), counts
