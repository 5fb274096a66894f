"""Attention maps of all layers of a task's model, with labelled positions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import attention_zoo as az
from attention_zoo.tasks.attention_maps import QUERY, make_attention_maps
from tests.models.public.checkpoints import GOLDEN
from tests.tasks import captioners, translators


def check(maps: list[Any]) -> None:
    """Each query distributes its weight over the labelled sources."""
    for one in maps:
        weights = np.asarray(one.weights)
        assert weights.shape[1:] == (len(one.targets), len(one.sources)), one.name
        np.testing.assert_allclose(weights.sum(-1), 1, atol=1e-5)


def test_translator_with_attention_in_a_loop() -> None:
    """The map equals the attention of `predict`, with a further row for the end token."""
    task = translators.make_untrained_task("rnnsearch_small", ["a b c d"], ["e f g"])
    task.set_options(max_target_length=4, search=task.search.override(banned_tokens=(1,)))
    (result,) = task.predict(["c a d"])
    (one,) = make_attention_maps(task, "c a d")
    check([one])
    assert one.targets == [*result.tokens, "</s>"]
    assert one.sources == list(result.source_tokens)
    np.testing.assert_allclose(np.asarray(one.weights)[0, :-1], result.attention, atol=1e-4)


@pytest.mark.parametrize("words", [2, 3, 4])
def test_transformer_translator(words: int) -> None:
    """Source and target are distinguished, also with equal lengths."""
    task = translators.make_untrained_task(
        "transformer_tiny", ["a b c d"], ["a b c d"], kind="word"
    )
    source, output = "a b c", " ".join("abcd"[:words])
    maps = {one.name: one for one in make_attention_maps(task, source, output)}
    check(list(maps.values()))
    source_labels, target = list("abc"), list("abcd"[:words])
    encoder, decoder = maps["encoder/0/attention"], maps["decoder/0/attention"]
    memory = maps["decoder/0/memory_attention"]
    assert (encoder.targets, encoder.sources) == (source_labels, source_labels)
    assert (decoder.targets, decoder.sources) == ([*target, "</s>"], ["<s>", *target])
    assert (memory.targets, memory.sources) == ([*target, "</s>"], source_labels)
    assert not np.triu(np.asarray(decoder.weights), 1).any()


def test_captioner_has_labelled_regions() -> None:
    task = captioners.make_untrained_task()
    image = captioners.picture(0)
    (result,) = task.predict([image])
    (one,) = make_attention_maps(task, image)
    check([one])
    rows, columns = result.attention.shape[1:]
    assert one.sources == [f"{r},{c}" for r in range(1, rows + 1) for c in range(1, columns + 1)]
    assert one.targets[: len(result.tokens)] == list(result.tokens)


def test_matcher_has_a_map_for_each_direction() -> None:
    """Also with texts of equal lengths."""
    task = az.load("esim_small.claims")
    first, second = "Ulla gave a bell to Tess.", "Tess got a bell from Ulla."
    to_second, to_first = make_attention_maps(task, (first, second))
    check([to_second, to_first])
    assert to_second.sources == to_first.targets
    assert to_second.targets == to_first.sources
    assert (to_second.targets[0], to_second.sources[0]) == ("ulla", "tess")


def test_documents_have_a_map_for_each_sentence() -> None:
    task = az.load("han_small.reviews")
    maps = make_attention_maps(task, "The food was cheap. I liked it.")
    check(maps)
    words = "attention/poolings/0/attention"
    names = [f"{words}, sentence 1", f"{words}, sentence 2", "attention/poolings/1/attention"]
    assert [one.name for one in maps] == names
    assert [one.targets for one in maps] == [[QUERY]] * 3
    assert maps[1].sources[-1] == "."
    assert maps[2].sources == ["sentence 1", "sentence 2"]


def test_tagger_of_selected_layers() -> None:
    task = az.load("bert_tiny.orders")
    (one,) = make_attention_maps(task, "two large pizzas", layers=["bert/encoder/1/*"])
    check([one])
    assert one.targets == one.sources
    assert len(one.sources) == 3


def test_tasks_that_cannot_be_inspected() -> None:
    task = az.load("bert_tiny.dates_en")
    with pytest.raises(ValueError, match="task masked_language_modeling cannot be inspected"):
        make_attention_maps(task, "a text")
    task = az.load("esim_small.claims")
    with pytest.raises(ValueError, match="the pair"):
        make_attention_maps(task, ("", "a text"))


def test_document_of_one_sentence() -> None:
    task = az.load("han_small.reviews")
    words, sentences = make_attention_maps(task, "The food was cheap.")
    assert words.sources[-1] == "."
    assert len(words.sources) == 5
    assert sentences.sources == ["sentence 1"]


def test_axes_of_equal_length_are_not_confused() -> None:
    """A structured pooling with as many rows as the text has tokens."""
    text = "Ann saw a lamp"
    tokenizer = az.data.train_tokenizer("word", [text])
    pooling = {"kind": "structured", "units": 3, "hops": 4}
    model = az.models.RecurrentClassifier(
        tokenizer.vocabulary_size, ["a", "b"], embedding_dim=4, units=4, pooling=pooling
    )
    task = az.tasks.Classification(model, tokenizer)
    (one,) = make_attention_maps(task, text)
    assert one.targets == ["1", "2", "3", "4"]
    assert one.sources == ["Ann", "saw", "a", "lamp"]


@pytest.mark.full
def test_captioner_with_a_class_token() -> None:
    """The caption has as many tokens as the memory has positions."""
    task = az.load(GOLDEN / "vit_gpt2")
    image = captioners.picture(0)
    words = task.predict([image])[0].text.split()[:3]
    maps = {one.name: one for one in make_attention_maps(task, image, " ".join(words))}
    memory = next(one for name, one in maps.items() if "memory_attention" in name)
    assert memory.sources[:2] == ["class token", "1,1"]
    assert "class token" not in memory.targets


@pytest.mark.full
def test_decoder_inputs_of_a_public_summarizer() -> None:
    """BART's decoder begins with its start token, and then the first token of all texts."""
    task = az.load(GOLDEN / "bart")
    text = "na"
    (result,) = task.predict([text])
    one = next(m for m in make_attention_maps(task, text) if "memory_attention" in m.name)
    assert one.targets[0] == result.tokens[0] == "<s>"
