from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import pytest

from attention_zoo import models
from attention_zoo.data import TaggedSentences, TextLines, TextPairs, train_tokenizer
from attention_zoo.tasks import TASKS
from attention_zoo.tasks.building import (
    TokenizerOptions,
    check_option_types,
    train_recipe_tokenizer,
)
from attention_zoo.tasks.caption_corpora import Scenes
from attention_zoo.tasks.line_corpora import DateLines
from attention_zoo.tasks.tagging.corpora import Conll
from attention_zoo.tasks.text_pair_corpora import Dates, Reports, TextPairCorpus
from attention_zoo.training import Recipe
from tests.tasks.captioners import captioned

PAIRS = TextPairs(["ein Hund", "zwei Hunde"], ["a dog", "two dogs"], "here")
LINES = TextLines(["a dog", "two dogs"], "here")
TINY = {"preset": "transformer_tiny", "embedding_dim": 8, "units": 8, "num_layers": 1}


def build_task(recipe: Recipe, train: Any) -> Any:
    return TASKS.get(recipe.task).from_recipe(recipe, train)


def recipe(shared: bool, **model: object) -> Recipe:
    options = TokenizerOptions("character", 60, shared=shared)
    return Recipe(tokenizer=options, model={**TINY, **model})


def test_shared_vocabulary() -> None:
    task = build_task(recipe(True, tie="all"), PAIRS)
    text = "ein Hund, two dogs"
    assert task.source_tokenizer.encode([text]) == task.target_tokenizer.encode([text])
    assert task.model.source_embedding is task.model.target_embedding


def test_tying_of_separate_vocabularies_raises() -> None:
    with pytest.raises(ValueError, match="model: tie='all' requires one vocabulary"):
        build_task(recipe(False, tie="all"), PAIRS)


def test_nested_options_are_merged_into_the_preset() -> None:
    base = {"preset": "transformer_base", "layer": {"activation": "gelu"}}
    settings = build_task(recipe(False, **base), PAIRS).model.settings
    assert settings["layer"] == {"norm_first": False, "activation": "gelu"}


REPORTS = TextPairs(["a fire in Tromak", "no fire"], ["fire in Tromak", "none"], "here")


def recipe_of(task: str, preset: str, data: Any, words: Any = None, **model: Any) -> Recipe:
    """Return a recipe of a tiny model."""
    sizes = {"preset": preset, "embedding_dim": 8, "units": 8}
    tokenizer = words or TokenizerOptions("word", 60)
    return Recipe(task=task, data=data, tokenizer=tokenizer, model={**sizes, **model})


def summarization(data: TextPairCorpus | None = None, **model: object) -> Recipe:
    data = data or Reports(max_source_length=30, truncate_source=True)
    preset = model.pop("preset", "pointer_generator_small")
    return recipe_of("summarization", preset, data, TokenizerOptions(), **model)


def test_summarizer_shares_one_vocabulary_and_can_copy() -> None:
    task = build_task(summarization(copies=5), REPORTS)
    assert task.tokenizer.kind == "word"
    words = ["▁a", "▁fire", "▁in", "▁no", "▁none", "▁Tromak"]
    assert sorted(task.tokenizer.vocabulary[4:]) == sorted(words)
    assert (task.model.vocabulary_size, task.model.copies) == (10, 5)
    assert (task.max_source_length, task.max_target_length, task.truncate_source) == (30, 100, True)
    task.set_options(**task.recipe_options(summarization(Reports(max_source_length=40))))
    assert (task.max_source_length, task.truncate_source) == (40, False)
    covered = {"coverage": {"from_step": 7}, "copies": 0}
    settings = build_task(summarization(**covered), REPORTS).model.settings
    assert settings["coverage"] == {"from_step": 7, "weight": 1.0}


def test_model_that_cannot_summarize_raises() -> None:
    gpt = {"preset": "gpt_tiny", "num_layers": 1}
    with pytest.raises(
        ValueError, match=r"model\.preset=gpt_tiny: model must be a models.CopyingMixin"
    ):
        build_task(summarization(**gpt), REPORTS)


def test_subwords_of_a_large_corpus_are_learned_from_a_sample() -> None:
    texts = [f"text{number}" for number in range(10)]
    options = TokenizerOptions("subword", 500, sample=4)
    sample = [texts[row] for row in (0, 2, 5, 7)]
    tokenizer = train_recipe_tokenizer(options, texts)
    assert tokenizer.vocabulary == train_tokenizer("subword", sample, 500).vocabulary
    assert tokenizer.vocabulary != train_tokenizer("subword", texts, 500).vocabulary
    for sample_size in (10, None):
        options = TokenizerOptions("subword", 500, sample=sample_size)
        expected = train_tokenizer("subword", texts, 500).vocabulary
        assert train_recipe_tokenizer(options, texts).vocabulary == expected
    with pytest.raises(ValueError, match=r"^tokenizer\.sample=4 requires .*=subword, got word;"):
        train_recipe_tokenizer(TokenizerOptions("word", 500, sample=4), texts)


@pytest.mark.parametrize("name", ["min_count", "sample"])
def test_tokenizer_options_below_one_raise(name: str) -> None:
    with pytest.raises(ValueError, match=rf"^tokenizer\.{name} must be at least 1, got 0$"):
        TokenizerOptions(**{name: 0})


def test_truncate_source_is_unknown_to_translation() -> None:
    with pytest.raises(ValueError, match=r"data\.truncate_source=true: task translation has no "):
        Recipe(data=Dates(truncate_source=True))


def captioning(preset: str = "show_attend_tell_small", **model: object) -> Recipe:
    data = Scenes(image_size=12, max_target_length=9)
    words = TokenizerOptions("whitespace", 60, lowercase=True, min_count=2)
    return recipe_of("captioning", preset, data, words, **model)


@pytest.mark.full
def test_captioner_has_vocabulary_and_limits_of_its_data() -> None:
    data = captioned(2, captions=[("A dog", "a dog runs"), ("two cats",)])
    task = build_task(captioning(attention={"kind": "hard"}), data)
    assert sorted(task.tokenizer.vocabulary[4:]) == ["▁a", "▁dog"]
    assert task.model.settings["vocabulary_size"] == 6
    assert task.model.settings["attention"]["kind"] == "hard"
    assert (task.image_size, task.max_target_length) == (12, 9)
    assert task.predict(list(data.images))[0].attention.shape[1:] == (2, 2)
    with pytest.raises(ValueError, match=r"model\.preset=gpt_tiny: model must be a models.Capt"):
        build_task(captioning(preset="gpt_tiny", num_layers=1), data)


def language_model(preset: str = "gpt_tiny", **model: object) -> Recipe:
    data = DateLines(max_length=30)
    return recipe_of("language_modeling", preset, data, num_layers=1, **model)


def test_language_model_has_vocabulary_and_limit_of_its_data() -> None:
    task = build_task(language_model(max_length=40), LINES)
    assert task.model.settings["vocabulary_size"] == task.tokenizer.vocabulary_size == 4 + 4
    assert (task.max_length, task.longest) == (30, 30)


def test_model_that_is_no_language_model_raises() -> None:
    with pytest.raises(ValueError, match="vocabulary_size: determined by the data"):
        build_task(language_model(vocabulary_size=9), LINES)
    message = r"model\.preset=transformer_tiny .* \(Transformer\); use one of .*gpt_tiny"
    with pytest.raises(ValueError, match=message):
        build_task(language_model(preset="transformer_tiny"), LINES)
    with pytest.raises(ValueError, match="max_length=30 exceeds the 20 positions of the model; l"):
        build_task(language_model(max_length=20), LINES).make_batches(LINES, 2, 1)


def test_vocabulary_of_a_masked_language_model_includes_the_mask() -> None:
    data = DateLines(max_length=30)
    recipe = recipe_of("masked_language_modeling", "bert_tiny", data, num_layers=1)
    task = build_task(recipe, LINES)
    settings = task.model.bert.settings
    assert settings["vocabulary_size"] == task.tokenizer.vocabulary_size + 1 == 4 + 4 + 1
    assert settings["use_pooler"] is False
    assert settings["layer"]["norm_first"] is False
    assert task.max_length == 30


SENTENCES = TaggedSentences(
    [("Ida", "saw", "Ida"), ("a", "lamp")], [("B-PER", "O", "B-PER"), ("O", "O")], "here"
)
SMALL = {"embedding_dim": 4, "units": 4}


def tagging(model: dict[str, Any] | None = None, **tokenizer: Any) -> Recipe:
    preset = {"preset": "bilstm_cnn", **SMALL, "characters": SMALL}
    return Recipe(
        task="tagging",
        data=Conll(scheme="BIO", max_length=9),
        tokenizer=TokenizerOptions(**tokenizer),
        model={**preset, **(model or {})},
    )


def test_tagger_has_vocabulary_characters_and_tags_of_its_data() -> None:
    task = build_task(tagging(), SENTENCES)
    assert task.tokenizer.kind == "whitespace"
    assert task.tokenizer.vocabulary[4:] == ["▁Ida", "▁a", "▁lamp", "▁saw"]
    assert set(task.characters.vocabulary[4:]) == {*"Idasawlmp"}
    assert task.model.settings["vocabulary_size"] == 8
    assert task.model.settings["characters"]["vocabulary_size"] == 4 + 8
    assert task.tags == ("B-PER", "O")
    assert (task.scheme, task.max_length) == ("BIO", 9)


def test_list_arguments_accept_a_single_value_in_a_recipe() -> None:
    task = build_task(tagging({"units": [4, 6]}), SENTENCES)
    assert [encoder.units for encoder in task.model.encoders] == [4, 6]
    with pytest.raises(ValueError, match=r"model\.units: expected int, got 'wide'"):
        build_task(tagging({"units": "wide"}), SENTENCES)
    with pytest.raises(ValueError, match=r"model\.embedding_dim: expected int, got \[4\]"):
        build_task(tagging({"embedding_dim": [4]}), SENTENCES)


def test_rare_words_of_a_tagger_are_unknown() -> None:
    task = build_task(tagging(min_count=2, lowercase=True), SENTENCES)
    assert task.tokenizer.vocabulary[4:] == ["▁ida"]
    with pytest.raises(
        ValueError, match=r"min_count=2 requires tokenizer\.kind=whitespace, got subw"
    ):
        build_task(tagging({"characters": None}, kind="subword", min_count=2), SENTENCES)


def test_tagger_without_characters_accepts_any_tokenizer() -> None:
    task = build_task(tagging({"characters": None}, kind="subword"), SENTENCES)
    assert (task.characters, task.tokenizer.kind) == (None, "subword")
    with pytest.raises(ValueError, match="got subword instead of whitespace"):
        build_task(tagging(kind="subword"), SENTENCES)


def test_word_vectors_are_read_from_a_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "vectors.txt"
    path.write_text("lamp 1 2 3 4\nother 0 0 0 0\n")
    task = build_task(tagging(vectors=str(path)), SENTENCES)
    (token,) = task.tokenizer.encode(["lamp"])[0]
    table = keras.ops.convert_to_numpy(task.model.token_embedding.embeddings)
    assert table[token].tolist() == [1, 2, 3, 4]
    assert f"{path}: vectors of 1 of 8 tokens" in capsys.readouterr().out


def test_tagger_arguments_determined_by_the_data_raise() -> None:
    options = {"characters": {**SMALL, "vocabulary_size": 9}}
    with pytest.raises(ValueError, match=r"characters\.vocabulary_size: determined by the data"):
        build_task(tagging(options), SENTENCES)
    with pytest.raises(ValueError, match=r"model\.tags: determined by the data"):
        build_task(tagging({"tags": ["O"]}), SENTENCES)
    broken = TaggedSentences([("a",)], [("I-ORG",)], "here")
    with pytest.raises(ValueError, match="tag 'I-ORG' cannot occur in any BIO sequence"):
        build_task(tagging({"head": {"kind": "crf", "tag_scheme": "BIO"}}), broken)


def test_preset_of_bert_builds_a_tagger() -> None:
    small = {"num_layers": 1, "num_heads": 2, "max_length": 6, "dropout": 0.0}
    recipe = tagging(kind="character", lowercase=True)
    recipe.model = {"preset": "bert_tiny", "embedding_dim": 4, "units": 4, **small}
    recipe.model["head"] = {"kind": "crf"}
    task = build_task(recipe, SENTENCES)
    assert isinstance(task.model, models.TransformerTagger)
    assert task.model.settings["head"]["kind"] == "crf"
    assert task.max_positions == 6
    (answer,) = task.predict([["a", "lamp"]])
    assert len(answer.tags) == 2
    assert answer.attention.shape == (1, 2, 5, 5)
    assert len(task.make_batches(SENTENCES, 2, 1)) == 1
    with pytest.raises(ValueError, match="source 0: 7 tokens, but the model has 6 positions; s"):
        task.predict([["lamp", "saw"]])


def test_an_option_may_be_a_mapping_if_the_argument_takes_one() -> None:
    check_option_types({"tie": {"kind": "all", "bias": True}}, models.Transformer)
    check_option_types({"pooling": {"kind": "attention"}}, models.RecurrentClassifier)
    with pytest.raises(ValueError, match=r"model.pooling: expected str, got .'kind': 'max'."):
        check_option_types({"pooling": {"kind": "max"}}, models.TransformerClassifier)
