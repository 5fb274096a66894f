"""Exported classifiers predict as the task does, in a process with TensorFlow only."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import attention_zoo as az
from attention_zoo import models
from attention_zoo.data import train_tokenizer
from attention_zoo.tasks import Classification, ClassificationResult
from attention_zoo.tasks.classification.export import split_long_sentences, truncate_documents
from tests.export.alone import ExportedOutputs
from tests.models.public.checkpoints import GOLDEN
from tests.tiers import mark_others_full

TEXTS = [
    "Ada didn't like the lamps. Dr. Lamp sold 1,000.5 lamps! Why? No.",
    "  Ida 😀👍🏽  saw\t東京。塔 tower\u200b, ",
    "x",
    "ↄ שלום e\u0301-b ÉCOLE .\nA second line",
    "lamps " * 40,
]
BATCHES = [TEXTS, TEXTS[2:3], [], ["a cat", "", " \t"]]
SIZES = {"embedding_dim": 6, "units": 8}


def lstm(tokens: int) -> models.Classifier:
    return models.RecurrentClassifier(tokens, ["no", "so", "yes"], pooling="attention", **SIZES)


def han(tokens: int) -> models.Classifier:
    return models.HierarchicalAttentionNetwork(tokens, ["no", "yes"], **SIZES)


def several_classes(tokens: int) -> models.Classifier:
    return models.HierarchicalAttentionNetwork(tokens, ["a", "b", "c"], multi_label=True, **SIZES)


def cnn(tokens: int) -> models.Classifier:
    return models.ConvolutionalClassifier(tokens, ["no", "yes"], embedding_dim=6, filters=4)


def bert(tokens: int) -> models.Classifier:
    sizes = {"embedding_dim": 8, "units": 16, "num_heads": 2, "num_layers": 2}
    encoder = models.BERT(tokens, max_length=40, use_pooler=False, **sizes)
    return models.TransformerClassifier(encoder, ["no", "yes"])


def windows(tokens: int) -> models.Classifier:
    return models.TransformerClassifier(bert(tokens).bert, ["no", "yes"], window=16)


KINDS = {
    "han": han,
    "lstm": lstm,
    "several": several_classes,
    "cnn": cnn,
    "bert": bert,
    "windows": windows,
}


PUBLIC = ("distilbert", "roberta_classifier")
"""Golden text classification checkpoints."""


@functools.cache
def task(kind: str) -> Classification:
    """Return a classifier with random weights, or a golden checkpoint."""
    if kind in PUBLIC:
        return az.load(GOLDEN / kind)
    tokenizer = train_tokenizer("subword", TEXTS, 60)
    model = KINDS[kind](tokenizer.vocabulary_size)
    rng = np.random.default_rng(3)
    for weight in model.weights:
        weight.assign(rng.normal(size=weight.shape))
    limits = {"max_length": 40, "max_sentences": 4, "max_sentence_length": 7}
    return Classification(model, tokenizer, **limits)


def flatten(row: Any) -> list[Any]:
    return (
        [one for sentence in row for one in sentence] if row and isinstance(row[0], list) else row
    )


def assert_same(answers: dict[str, Any], wants: Sequence[ClassificationResult]) -> None:
    assert len(answers["text"]) == len(wants)
    for row, expected in enumerate(wants):
        assert answers["text"][row] == expected.text
        assert answers["classes"][row] == list(expected.classes)
        tokens = [token for token in flatten(answers["tokens"][row]) if token]
        assert tokens == list(expected.tokens)
        np.testing.assert_allclose(
            answers["probabilities"][row], expected.probabilities, rtol=1e-4, atol=1e-6
        )
        np.testing.assert_allclose(answers["scores"][row], expected.score, rtol=1e-4, atol=1e-5)
        if expected.attention is not None:
            weights = flatten(answers["attention"][row])
            is_token = [bool(token) for token in flatten(answers["tokens"][row])]
            kept = np.array(weights)[is_token]
            np.testing.assert_allclose(kept, expected.attention, rtol=1e-4, atol=1e-6)
            assert np.sum(weights) == pytest.approx(kept.sum(), abs=1e-6)
        if expected.sentence_attention is not None:
            size = len(expected.sentences)
            weights = np.array(answers["sentence_attention"][row])
            np.testing.assert_allclose(
                weights[:size], expected.sentence_attention, rtol=1e-4, atol=1e-6
            )
            assert not weights[size:].any()


@pytest.mark.parametrize("kind", mark_others_full([*KINDS, *PUBLIC]))
def test_exported_outputs_equal_predictions(kind: str, exported_outputs: ExportedOutputs) -> None:
    (several, _), (one, _), *_ = exported_outputs[kind]
    wants = task(kind).predict(TEXTS)
    assert wants[4].truncated
    assert_same(several, wants)
    assert_same(one, wants[2:3])


@pytest.mark.full
@pytest.mark.parametrize("kind", [*KINDS, *PUBLIC])
def test_no_texts(kind: str, exported_outputs: ExportedOutputs) -> None:
    _, shapes = exported_outputs[kind][BATCHES.index([])]
    assert all(shape[0] == 0 for shape in shapes.values())
    assert task(kind).predict([]) == []


@pytest.mark.parametrize("kind", mark_others_full([*KINDS, *PUBLIC]))
def test_empty_text_does_not_affect_other_rows(
    kind: str, exported_outputs: ExportedOutputs
) -> None:
    answers, _ = exported_outputs[kind][-1]
    # Byte-level tokens encode white space.
    empty_rows = [1] if kind == "roberta_classifier" else [1, 2]
    assert answers["ok"] == [row not in empty_rows for row in range(3)]
    for row in empty_rows:
        assert re.search("is empty", answers["error"][row])
    assert (answers["text"][1], answers["scores"][1]) == ("", -np.inf)
    assert_same({name: rows[:1] for name, rows in answers.items()}, task(kind).predict(["a cat"]))


def test_without_truncation_long_texts_are_errors() -> None:
    own = task("han")
    limits = {"max_length": 30, "max_sentences": 2, "max_sentence_length": 16}
    own = Classification(own.model, own.tokenizer, truncate=False, **limits)
    texts = ["x", "a. A. B.", "x " * 31]
    module = own.export_module()
    ids = module._encode(tf.constant(texts))
    checks = module._make_checks(ids, module._truncate(ids))
    errors = [result.error for result in own.predict(texts, on_error="skip")]
    for row, (failed, expected) in enumerate(
        zip(np.transpose([flag.numpy() for flag, _ in checks]), errors, strict=True)
    ):
        assert failed.any() == bool(expected), texts[row]


def test_sentences_are_split_and_documents_are_truncated() -> None:
    documents = tf.ragged.constant([[[1, 2, 3, 4, 5], [6]], [], [[7], [], [8, 9]]], dtype="int32")
    split = split_long_sentences(documents, 2)
    assert split.to_list() == [[[1, 2], [3, 4], [5], [6]], [], [[7], [8, 9]]]
    assert truncate_documents(split, 3, 9).to_list() == [[[1, 2], [3, 4], [5]], [], [[7], [8, 9]]]
    assert truncate_documents(split, 9, 3).to_list() == [[[1, 2], [3]], [], [[7], [8, 9]]]
    assert truncate_documents(split, 9, 2).to_list() == [[[1, 2]], [], [[7], [8]]]
