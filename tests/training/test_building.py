from __future__ import annotations

import pytest

from attention_zoo.data import TextLines, TextPairs
from attention_zoo.training.building import build_task
from attention_zoo.training.corpora import DateLines
from attention_zoo.training.recipe import Recipe, TokenizerOptions

PAIRS = TextPairs(["ein Hund", "zwei Hunde"], ["a dog", "two dogs"], "here")
LINES = TextLines(["a dog", "two dogs"], "here")
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


def language_model(**model: object) -> Recipe:
    preset = {"preset": "gpt_tiny", "embedding_dim": 8, "units": 8, "num_layers": 1}
    return Recipe(
        task="language_modeling",
        data=DateLines(max_length=30),
        tokenizer=TokenizerOptions("word", 60),
        model={**preset, **model},
    )


def test_a_language_model_has_one_vocabulary_and_the_limit_of_its_data() -> None:
    task = build_task(language_model(max_length=40), LINES)
    assert task.model.settings["vocabulary_size"] == task.tokenizer.vocabulary_size == 4 + 4
    assert (task.max_length, task.longest) == (30, 30)


def test_a_model_that_does_not_write_on_is_refused() -> None:
    with pytest.raises(ValueError, match="vocabulary_size: the data decide it"):
        build_task(language_model(vocabulary_size=9), LINES)
    with pytest.raises(ValueError, match="Transformer has no argument 'vocabulary_size'"):
        build_task(language_model(preset="transformer_tiny"), LINES)
    with pytest.raises(ValueError, match="max_length is 30 but the model has 20 places; lower it"):
        build_task(language_model(max_length=20), LINES).batches(LINES, 2, 1)


def test_a_masked_language_model_reads_the_mask_too() -> None:
    recipe = Recipe(
        task="masked_language_modeling",
        data=DateLines(max_length=30),
        tokenizer=TokenizerOptions("word", 60),
        model={"preset": "bert_tiny", "embedding_dim": 8, "units": 8, "num_layers": 1},
    )
    task = build_task(recipe, LINES)
    settings = task.model.bert.settings
    assert settings["vocabulary_size"] == task.tokenizer.vocabulary_size + 1 == 4 + 4 + 1
    assert settings["use_pooler"] is False
    assert settings["layer"]["norm_first"] is False
    assert task.max_length == 30
