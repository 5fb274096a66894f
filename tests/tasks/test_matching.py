"""Matching of two texts: limits, results, targets and metrics."""

from __future__ import annotations

import functools
from dataclasses import replace
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from attention_zoo import models, tasks
from attention_zoo.data import LabelledPairs, train_tokenizer
from attention_zoo.tasks import Matching, inference
from attention_zoo.tasks.matching.building import compute_score_statistics
from tests.refusals import refuses

FIRSTS = ["Ann saw a red lamp.", "Ben has no lamp.", "A lamp", "It is red and it is a lamp"]
SECONDS = ["The lamp was red", "Ben has two lamps.", "A red lamp.", "It is"]
CORPUS = LabelledPairs(FIRSTS, SECONDS, ["yes", "no", "so", "yes"], None, None, "test pairs")
NUMBERS = LabelledPairs(FIRSTS, SECONDS, None, [3.0, 1.0, 4.0, 4.5], None, "test numbers")
RANKED = LabelledPairs(
    [FIRSTS[0]] * 2 + [FIRSTS[1]] * 2, SECONDS, None, [1.0, 0.0, 0.0, 1.0], [*"aabb"], "test groups"
)
TARGETS = {"classification": CORPUS, "regression": NUMBERS, "ranking": RANKED}
SIZES: dict[str, Any] = {"embedding_dim": 6, "units": 8}


@functools.cache
def matcher(target: str = "classification", kind: str = "word", **options: Any) -> Matching:
    """Return a small matcher with random weights; tests must not change it."""
    tokenizer = train_tokenizer(kind, [*FIRSTS, *SECONDS], 60)
    with keras.device("cpu"):
        keras.utils.set_random_seed(3)
        classes = CORPUS.known_classes if target == "classification" else None
        model = models.DecomposableAttention(tokenizer.vocabulary_size, classes, **SIZES)
    return Matching(model, tokenizer, target=target, **options)


PAIRS = list(zip(FIRSTS, SECONDS, strict=True))


def test_results_have_tokens_offsets_and_the_alignment() -> None:
    task = matcher()
    pair = (" Ann saw\ta lamp. ", "Ben ⓧ red")
    (result,) = task.predict([pair])
    assert (result.first, result.second) == pair
    for text, tokens, offsets in (
        (pair[0], result.tokens, result.first_offsets),
        (pair[1], result.source_tokens, result.second_offsets),
    ):
        assert len(tokens) == len(offsets)
        assert "".join(text[start:end] for start, end in offsets) == "".join(text.split())
    assert result.unknown == (1,)
    assert result.attention.shape == (len(result.tokens), len(result.source_tokens))
    np.testing.assert_allclose(result.attention.sum(axis=1), 1, atol=1e-5)
    assert result.text == result.label in result.classes == ("no", "so", "yes")
    assert sum(result.probabilities) == pytest.approx(1, abs=1e-6)
    (ranked,) = task.predict([pair], n_best=3)
    assert {ranked.text, *(one.text for one in ranked.alternatives)} == {*ranked.classes}


def test_numbers_are_in_their_own_unit() -> None:
    mean, deviation = compute_score_statistics(NUMBERS.scores, "test numbers")
    plain = matcher("regression").predict(PAIRS)
    scaled = matcher("regression", score_mean=mean, score_deviation=deviation).predict(PAIRS)
    for one, other in zip(plain, scaled, strict=True):
        assert other.score == pytest.approx(one.score * deviation + mean, abs=1e-5)
        assert other.text == f"{other.score:.4g}"
    task = matcher("regression", score_mean=mean, score_deviation=deviation)
    _, labels = task.make_batches(NUMBERS, 4, 1).make_batch(np.arange(4))
    np.testing.assert_allclose(labels * deviation + mean, NUMBERS.scores, rtol=1e-6)
    assert refuses(
        ["scores must vary, got 2 for all pairs"],
        compute_score_statistics,
        [2.0, 2.0],
        "test numbers",
    )


def test_relevance_is_a_probability() -> None:
    for result in matcher("ranking").predict(PAIRS):
        (relevance,) = result.probabilities
        assert 0 < relevance < 1
        assert result.score == pytest.approx(np.log(relevance), abs=1e-5)


@pytest.mark.parametrize("target", TARGETS)
def test_evaluation(target: str) -> None:
    task, corpus = matcher(target), TARGETS[target]
    metrics = task.evaluate(corpus)
    assert (metrics["pairs"], metrics["sources_truncated"]) == (4, 0)
    assert {*task.metric_names} <= {*metrics}
    results = task.predict(zip(corpus.firsts, corpus.seconds, strict=True))
    if target == "classification":
        correct = [one.text == label for one, label in zip(results, corpus.labels, strict=True)]
        assert metrics["accuracy"] == pytest.approx(100 * np.mean(correct))
    elif target == "regression":
        scores = [one.score for one in results]
        expected = np.corrcoef(scores, corpus.scores)[0, 1]
        assert metrics["pearson"] == pytest.approx(expected, abs=1e-5)
    else:
        first = [results[0].score > results[1].score, results[3].score > results[2].score]
        expected = np.mean([1.0 if is_first else 0.5 for is_first in first])
        assert metrics["mean_average_precision"] == pytest.approx(expected)


def test_targets_must_fit_the_data_and_the_model() -> None:
    words = ["test numbers: the target is classification, but the pairs have no labels"]
    assert refuses(words, matcher().evaluate, NUMBERS)
    words = ["the target is ranking, but the pairs have no groups"]
    assert refuses(words, matcher("ranking").evaluate, CORPUS)
    task = matcher()
    words = ["target='regression' does not fit a model with classes"]
    make = functools.partial(Matching, target="regression")
    assert refuses(words, make, task.model, task.tokenizer)
    other = replace(CORPUS, labels=["yes", "no", "so", "noo"])
    words = ["test pairs:4: unknown class 'noo'", "Did you mean 'no'?"]
    assert refuses(words, task.evaluate, other)
    assert refuses(words, task.make_batches, other, 2, 1)


def test_pairs_over_a_limit() -> None:
    task = matcher(max_first_length=5, max_second_length=5)
    assert task.filter_by_length(CORPUS).firsts == [FIRSTS[1], FIRSTS[2]]
    assert task.make_batches(CORPUS, 2, 1).num_examples == 2
    words = ["source 0: first text: 6 tokens, the limit is 5", "data.max_first_length"]
    assert refuses(words, task.predict, PAIRS)
    task = matcher(max_first_length=5, max_second_length=5, truncate=True)
    assert task.make_batches(CORPUS, 2, 1).num_examples == 4
    result = task.predict(PAIRS)[0]
    assert (result.truncated, len(result.tokens)) == (True, 5)


def test_invalid_pairs() -> None:
    task = matcher()
    failed, fine, other = task.predict([("", "x"), ("x", "x"), ("x", " ")], on_error="skip")
    assert "the first text is empty" in failed.error
    assert "the second text is empty" in other.error
    assert fine.ok
    assert refuses(["expected a pair of texts"], task.predict, [("a", "b", "c")])
    assert refuses(["expected a pair of texts"], task.predict, ["ab"])
    assert refuses(["source 0: second text: expected a str"], task.predict, [("a", 3)])


@pytest.mark.full
def test_a_prediction_does_not_depend_on_the_other_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    task = matcher()
    together = task.predict(PAIRS)
    with monkeypatch.context() as patch:
        patch.setattr(inference, "MAX_EAGER_INPUTS", 1)
        compiled = task.predict(PAIRS)
    for pair, *results in zip(PAIRS, together, compiled, strict=True):
        (alone,) = task.predict([pair])
        for result in results:
            assert alone.probabilities == pytest.approx(result.probabilities, abs=1e-5)


def test_saved_tasks_predict_the_same(tmp_path: Path) -> None:
    task = matcher("regression", score_mean=3.0, score_deviation=0.5, max_first_length=9)
    task.save(tmp_path)
    loaded = tasks.load(tmp_path)
    assert isinstance(loaded, Matching)
    assert (loaded.options, loaded.target) == (task.options, "regression")
    for one, other in zip(loaded.predict(PAIRS), task.predict(PAIRS), strict=True):
        assert one.score == pytest.approx(other.score, abs=1e-5)


def test_both_texts_of_a_bert_share_its_positions() -> None:
    tokenizer = train_tokenizer("word", [*FIRSTS, *SECONDS], 60)
    sizes = {"embedding_dim": 8, "units": 16, "num_heads": 2, "num_layers": 1}
    bert = models.BERT(tokenizer.vocabulary_size, max_length=20, use_pooler=False, **sizes)
    model = models.PairClassifier(
        bert, tokenizer.start, tokenizer.end, classes=CORPUS.known_classes
    )
    task = Matching(model, tokenizer, max_first_length=9, max_second_length=8)
    (result,) = task.predict(PAIRS[:1])
    assert result.attention.shape == (6, 4)
    task = Matching(model, tokenizer, max_first_length=10, max_second_length=8)
    assert refuses(["max_first_length=10 and max_second_length=8 exceed"], task.predict, PAIRS)


def test_pairs_at_the_limits_of_a_bert() -> None:
    """Padded lengths of both texts stay within the positions that both share."""
    tokenizer = train_tokenizer("word", [*FIRSTS, *SECONDS], 60)
    sizes = {"embedding_dim": 8, "units": 16, "num_heads": 2, "num_layers": 1}
    bert = models.BERT(tokenizer.vocabulary_size, max_length=16, use_pooler=False, **sizes)
    model = models.PairClassifier(
        bert, tokenizer.start, tokenizer.end, classes=CORPUS.known_classes
    )
    task = Matching(model, tokenizer, max_first_length=6, max_second_length=7)
    (result,) = task.predict([("a b", "c")])
    assert result.ok
    task.warm_up([1], [8])


def test_monitored_pairs_are_evenly_spaced_or_whole_groups() -> None:
    task = matcher("ranking")
    groups = [name for name in "abcdef" for _ in range(5)]
    scores = [float(name != "b" and row % 5 == 0) for row, name in enumerate(groups)]
    pairs = LabelledPairs(["x"] * 30, ["y"] * 30, None, scores, groups, "groups")
    chosen = task.select_monitored(pairs, 12)
    assert chosen.groups == [*"aaaaa", *"ddddd"]
    pairs = LabelledPairs(["x"] * 30, ["y"] * 30, None, scores, None, "numbers")
    assert len(matcher("regression").select_monitored(pairs, 10)) == 10


def test_initial_tasks_must_fit_the_target() -> None:
    class Recipe:
        init = "runs/one"
        data = type("Data", (), {"target": "ranking"})

    task = matcher("regression")
    words = ["init=runs/one: its target is regression, but the recipe has data.target=ranking"]
    assert refuses(words, task.adapt_to_recipe, Recipe, NUMBERS)
