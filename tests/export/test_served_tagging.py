"""Exported taggers predict as the task does, in a process with TensorFlow only."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import attention_zoo as az
from attention_zoo import models
from attention_zoo.data import Tokenizer, train_tokenizer
from attention_zoo.decoding import SearchOptions
from attention_zoo.export import export
from attention_zoo.export.checks import get_first_error
from attention_zoo.metrics import count_invalid_sequences
from attention_zoo.tasks import Tagging, TaggingResult
from attention_zoo.tasks.tagging.export import TaggingModule
from tests.export.alone import ExportedOutputs, run_exported_eagerly
from tests.models.public.checkpoints import GOLDEN
from tests.tiers import mark_others_full

TEXTS = [
    "Ada Lamp didn't send 1,000.5 lamps.",
    "  Ida 😀👍🏽  saw\t東京 tower\u200b, ",
    "x",
    "ↄ שלום e\u0301-b ÉCOLE .",
]
RANDOM = [
    " ".join(np.random.default_rng(size).choice(["Ada", "Lamp", "send", "York", ".", "zz"], size))
    for size in (1, 2, 3, 5, 8, 13, 19, 24)
]
BATCHES = [TEXTS, TEXTS[2:3], [], RANDOM, ["a cat", " \u200b"], ["lamps " * 31, "a"]]
TAGS = ["O", *(f"{letter}-{kind}" for letter in "BIES" for kind in ("PER", "LOC"))]
CHARACTERS = {"embedding_dim": 4, "units": 6}


def tokenizer(kind: str, lowercase: bool = False) -> Tokenizer:
    texts = [" ".join(TEXTS[0].split()), "Ida saw lamps , no ?"]
    return train_tokenizer(kind, texts, 40, lowercase)


CRF = {"kind": "crf", "tag_scheme": "BIOES"}
SOFTMAX = {"kind": "softmax", "tag_scheme": "BIOES"}


def read(letters: Tokenizer, kind: str) -> dict[str, Any]:
    """Options of a model's characters."""
    return {"kind": kind, "vocabulary_size": letters.vocabulary_size, **CHARACTERS}


def lstm_over_characters(tokens: int, letters: Tokenizer) -> models.Tagger:
    sizes = {"embedding_dim": 6, "units": 8}
    return models.RecurrentTagger(
        tokens, tags=TAGS, head=CRF, characters=read(letters, "cnn"), **sizes
    )


def lstm_over_subwords(tokens: int, letters: Tokenizer) -> models.Tagger:
    attention = {"num_heads": 2, "key_dim": 3}
    return models.RecurrentTagger(
        tokens, tags=TAGS, embedding_dim=6, units=8, head=SOFTMAX, attention=attention
    )


def deep_att(tokens: int, letters: Tokenizer) -> models.Tagger:
    stack = {"num_layers": 2, "sublayer": "recurrent", "num_heads": 2}
    sizes = {"embedding_dim": 2, "units": 8}
    return models.DeepAttTagger(
        tokens, tags=TAGS, head=CRF, characters=read(letters, "lstm"), stack=stack, **sizes
    )


def bert(tokens: int, letters: Tokenizer) -> models.Tagger:
    sizes = {"embedding_dim": 8, "units": 16, "num_heads": 2, "num_layers": 2}
    of = models.BERT(tokens, max_length=200, use_pooler=False, **sizes)
    return models.TransformerTagger(of, TAGS, head=SOFTMAX)


KINDS = {
    "characters": lstm_over_characters,
    "subwords": lstm_over_subwords,
    "self-attention": deep_att,
    "bert": bert,
}


@functools.cache
def task(kind: str) -> Tagging:
    """Taggers with random weights: of words with characters, or of subwords."""
    letters = tokenizer("character") if kind in ("characters", "self-attention") else None
    tokens = tokenizer("whitespace", lowercase=True) if letters else tokenizer("subword")
    model = KINDS[kind](tokens.vocabulary_size, letters or tokens)
    rng = np.random.default_rng(3)
    for weight in model.weights:
        if len(weight.shape) > 1:
            weight.assign(2 * rng.normal(size=weight.shape))
    return Tagging(model, tokens, letters, max_length=30, scheme="BIOES")


def assert_same(answers: dict[str, Any], wants: Sequence[TaggingResult]) -> None:
    assert len(answers["words"]) == len(wants)
    for row, expected in enumerate(wants):
        size = len(expected.words)
        assert answers["lengths"][row] == size
        for name, expected_values, nothing in (
            ("words", expected.words, ""),
            ("tags", expected.tags, ""),
            ("span_labels", [span.label for span in expected.spans], ""),
            ("offsets", expected.offsets, (0, 0)),
            ("spans", [(span.start, span.end) for span in expected.spans], (0, 0)),
        ):
            got = [tuple(x) if np.ndim(x) else x for x in answers[name][row]]
            assert got == [*expected_values, *[nothing] * (len(got) - len(expected_values))], name
        for name, expected_values in (
            ("probabilities", expected.probabilities),
            ("span_probabilities", [span.probability for span in expected.spans]),
        ):
            got = np.array(answers[name][row])
            size = len(expected_values)
            np.testing.assert_allclose(got[:size], expected_values, rtol=1e-4, atol=1e-6)
            assert not got[size:].any()
        np.testing.assert_allclose(answers["scores"][row], expected.score, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", mark_others_full(KINDS))
def test_exported_outputs_equal_predictions(kind: str, exported_outputs: ExportedOutputs) -> None:
    (several, _), (one, _), *_ = exported_outputs[kind]
    wants = task(kind).predict(TEXTS)
    assert_same(several, wants)
    assert_same(one, wants[2:3])
    assert any(row and row[0] for row in several["span_labels"])


@pytest.mark.parametrize("kind", mark_others_full(KINDS))
def test_constrained_tags_follow_the_scheme(kind: str, exported_outputs: ExportedOutputs) -> None:
    answers, _ = exported_outputs[kind][BATCHES.index(RANDOM)]
    tags = [row[:size] for row, size in zip(answers["tags"], answers["lengths"], strict=True)]
    assert [len(row) for row in tags] == [len(text.split()) for text in RANDOM]
    assert count_invalid_sequences(tags, "BIOES") == 0
    assert len({tag for row in tags for tag in row}) > 3


@pytest.mark.full
@pytest.mark.parametrize("kind", KINDS)
def test_no_sentences(kind: str, exported_outputs: ExportedOutputs) -> None:
    _, shapes = exported_outputs[kind][BATCHES.index([])]
    assert {name: shape for name, shape in shapes.items() if shape != [0, 0]} == {
        "scores": [0],
        "lengths": [0],
        "ok": [0],
        "error": [0],
        "offsets": [0, 0, 2],
        "spans": [0, 0, 2],
    }
    assert task(kind).predict([]) == []


@pytest.mark.parametrize("kind", mark_others_full(KINDS))
def test_input_that_predict_rejects_does_not_affect_other_rows(
    kind: str, exported_outputs: ExportedOutputs
) -> None:
    for (answers, _), row, text, message in (
        (exported_outputs[kind][-2], 1, "a cat", "is empty"),
        (exported_outputs[kind][-1], 0, "a", "31 words, the limit is 30"),
    ):
        assert answers["ok"][row] is False
        assert re.search(message, answers["error"][row])
        assert answers["scores"][row] == -np.inf
        valid = {name: rows[1 - row : 2 - row] for name, rows in answers.items()}
        assert (valid["ok"], valid["error"]) == ([True], [""])
        assert_same(valid, task(kind).predict([text]))


def test_more_tokens_than_positions_are_an_error() -> None:
    module = TaggingModule(task("subwords"))
    module._limits = (30, 40)
    checks = module._make_checks(tf.constant([2, 30]), tf.constant([2, 41]))
    assert get_first_error(*checks).numpy().tolist() == [
        b"",
        b"41 tokens, the limit is 40. Shorten the text.",
    ]


@pytest.mark.full
def test_windows_of_a_public_tagger_are_exported(tmp_path: Path) -> None:
    task = az.load(GOLDEN / "distilbert_tagger")
    texts = ["The unseen cat sat on mats. " * 12, "The cat sat."]
    export(task, tmp_path / "served")
    served = tf.saved_model.load(str(tmp_path / "served")).signatures["serving_default"]
    answers = {name: x.numpy() for name, x in served(text=tf.constant(texts)).items()}
    assert answers["ok"].tolist() == [True, True]
    for row, result in enumerate(task.predict(texts)):
        size = len(result.tags)
        assert [tag.decode() for tag in answers["tags"][row, :size]] == list(result.tags)
        np.testing.assert_allclose(
            answers["probabilities"][row, :size], result.probabilities, atol=1e-5
        )


@pytest.mark.full
def test_the_n_best_tag_sequences_are_exported() -> None:
    own = task("subwords")
    own = Tagging(
        own.model, own.tokenizer, None, SearchOptions(n_best=3, beam_width=3), scheme="BIOES"
    )
    texts = [TEXTS[0], " ", TEXTS[2]]
    answers, shapes = run_exported_eagerly(own.export_module(), texts)
    assert answers["ok"] == [True, False, True]
    assert shapes["tags"] == [3, 3, *shapes["words"][1:]]
    valid = {name: rows[::2] for name, rows in answers.items()}
    wants = own.predict(texts[::2])
    shared = ("words", "offsets", "lengths", "ok", "error")
    for rank in range(3):
        ranked = {
            name: rows if name in shared else [row[rank] for row in rows]
            for name, rows in valid.items()
        }
        assert_same(ranked, [(want, *want.alternatives)[rank] for want in wants])


def test_tagger_without_export_raises(tmp_path: Path) -> None:
    own = task("subwords")
    settings = {**own.model.settings, "marks": True}
    marked = Tagging(models.RecurrentTagger(**settings), own.tokenizer)
    with pytest.raises(ValueError, match="a model with marks=True cannot be exported"):
        export(marked, tmp_path / "new")
    assert not list(tmp_path.iterdir())
