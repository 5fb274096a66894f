"""Exported matchers predict as the task does, in a process with TensorFlow only."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from attention_zoo import models
from attention_zoo.data import train_tokenizer
from attention_zoo.tasks import Matching, MatchingResult
from tests.export.alone import ExportedOutputs, run_exported_eagerly
from tests.tiers import mark_others_full

FIRSTS = ["Ada sold 1,000.5 lamps!", "  Ida 😀👍🏽  saw\t東京 tower, ", "x", "ↄ שלום e\u0301-b"]
SECONDS = ["Did Ada sell lamps?", "x", "Ida saw a tower. And a lamp.", "ÉCOLE ."]
BATCHES = [
    {"first": FIRSTS, "second": SECONDS},
    {"first": [], "second": []},
    {"first": ["x", " ", "x"], "second": ["x", "x", "lamp " * 40]},
]
SIZES = {"embedding_dim": 6, "units": 8}
CLASSES = ["no", "so", "yes"]


def esim(tokens: int, tokenizer: Any) -> models.Matcher:
    return models.ESIM(tokens, CLASSES, **SIZES)


def decomposable(tokens: int, tokenizer: Any) -> models.Matcher:
    return models.DecomposableAttention(tokens, CLASSES, **SIZES)


def number(tokens: int, tokenizer: Any) -> models.Matcher:
    return models.BCNN(tokens, embedding_dim=6, filters=8, attention="both", max_length=40)


def ranking(tokens: int, tokenizer: Any) -> models.Matcher:
    return models.WordByWordAttention(tokens, **SIZES)


def bert(tokens: int, tokenizer: Any) -> models.Matcher:
    sizes = {"embedding_dim": 8, "units": 16, "num_heads": 2, "num_layers": 2}
    encoder = models.BERT(tokens, max_length=80, use_pooler=False, **sizes)
    return models.PairClassifier(encoder, tokenizer.start, tokenizer.end, CLASSES)


KINDS = {
    "decomposable": decomposable,
    "regression": number,
    "ranking": ranking,
    "esim": esim,
    "bert": bert,
}


@functools.cache
def task(kind: str) -> Matching:
    """Matchers with random weights."""
    tokenizer = train_tokenizer("subword", [*FIRSTS, *SECONDS], 60)
    model = KINDS[kind](tokenizer.vocabulary_size, tokenizer)
    rng = np.random.default_rng(3)
    for weight in model.weights:
        if len(weight.shape) > 1:
            weight.assign(rng.normal(size=weight.shape))
    target = kind if kind in ("regression", "ranking") else "classification"
    unit = {"score_mean": 3.0, "score_deviation": 0.5} if target == "regression" else {}
    return Matching(
        model, tokenizer, max_first_length=36, max_second_length=36, target=target, **unit
    )


def assert_same(answers: dict[str, Any], wants: Sequence[MatchingResult]) -> None:
    assert len(answers["scores"]) == len(wants)
    for row, expected in enumerate(wants):
        np.testing.assert_allclose(answers["scores"][row], expected.score, rtol=1e-4, atol=1e-5)
        if expected.classes:
            assert answers["text"][row] == expected.text
            assert answers["classes"][row] == list(expected.classes)
            np.testing.assert_allclose(
                answers["probabilities"][row], expected.probabilities, rtol=1e-4, atol=1e-6
            )
        for name, tokens in (
            ("first_tokens", expected.tokens),
            ("second_tokens", expected.source_tokens),
        ):
            assert [token for token in answers[name][row] if token] == list(tokens)
        weights = np.array(answers["attention"][row])
        first, second = expected.attention.shape
        np.testing.assert_allclose(
            weights[:first, :second], expected.attention, rtol=1e-4, atol=1e-6
        )
        assert np.abs(weights).sum() == pytest.approx(np.abs(expected.attention).sum(), rel=1e-4)


@pytest.mark.parametrize("kind", mark_others_full(KINDS))
def test_exported_outputs_equal_predictions(kind: str, exported_outputs: ExportedOutputs) -> None:
    (several, _), *_ = exported_outputs[kind]
    assert_same(several, task(kind).predict(zip(FIRSTS, SECONDS, strict=True)))


@pytest.mark.full
@pytest.mark.parametrize("kind", KINDS)
def test_no_pairs(kind: str, exported_outputs: ExportedOutputs) -> None:
    _, shapes = exported_outputs[kind][1]
    assert all(shape[0] == 0 for shape in shapes.values())
    assert task(kind).predict([]) == []


@pytest.mark.parametrize("kind", mark_others_full(KINDS))
def test_pairs_that_predict_rejects_do_not_affect_other_rows(
    kind: str, exported_outputs: ExportedOutputs
) -> None:
    answers, _ = exported_outputs[kind][2]
    assert answers["ok"] == [True, False, False]
    assert "the first text is empty" in answers["error"][1]
    assert "tokens, the limit is 36" in answers["error"][2]
    assert answers["scores"][1] == -np.inf
    valid = {name: rows[:1] for name, rows in answers.items()}
    assert_same(valid, task(kind).predict([("x", "x")]))


def test_different_numbers_of_texts_are_an_error() -> None:
    module = task("decomposable").export_module()
    message = run_exported_eagerly(module, {"first": ["x", "y"], "second": ["x"]})
    assert "first and second must have as many texts" in message
