from __future__ import annotations

import pytest

from attention_zoo.data import TextPairs
from attention_zoo.training.building import build_task
from attention_zoo.training.recipe import Recipe, TokenizerOptions

PAIRS = TextPairs(["ein Hund", "zwei Hunde"], ["a dog", "two dogs"], "here")
TINY = {"preset": "transformer_tiny", "embedding_dim": 8, "units": 8, "num_layers": 1}


def recipe(shared: bool, **model: object) -> Recipe:
    options = TokenizerOptions("character", 60, shared=shared)
    return Recipe(tokenizer=options, model={**TINY, **model})


def test_both_sides_have_one_vocabulary_where_it_is_shared() -> None:
    task = build_task(recipe(True, tie="all"), PAIRS)
    text = "ein Hund, two dogs"
    assert task.source_tokenizer.encode([text]) == task.target_tokenizer.encode([text])
    assert task.model.source_embedding is task.model.target_embedding


def test_two_vocabularies_are_not_tied() -> None:
    with pytest.raises(ValueError, match="model: tie='all' is for one vocabulary"):
        build_task(recipe(False, tie="all"), PAIRS)


def test_options_of_layers_are_merged_into_the_presets() -> None:
    base = {"preset": "transformer_base", "layer": {"activation": "gelu"}}
    settings = build_task(recipe(False, **base), PAIRS).model.settings
    assert settings["layer"] == {"norm_first": False, "activation": "gelu"}
