"""Exported summarizers predict as the task does, in a process with TensorFlow only."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import attention_zoo as az
from attention_zoo import models
from attention_zoo.data import train_tokenizer
from attention_zoo.decoding import SearchOptions
from attention_zoo.export import export
from attention_zoo.tasks import Summarization, Summary
from tests.export.alone import (
    STATUS,
    ExportedOutputs,
    predict_in_tensorflow_process,
    run_exported_eagerly,
)
from tests.models.public.checkpoints import GOLDEN
from tests.tasks.captioners import with_normal_weights
from tests.tiers import mark_others_full

KNOWN = ["a fire in the harbour , said the mayor .", "the fire is out ."]
TEXTS = [
    "Fire in Tromak ! The mayor of Tromak , Ilse Vordun , said 12 ships are lost .",
    "a fire",
    "the fire \u200b in 東京 , said  Élodie-Ana",
    "Bo Bo Bo saw Ada , Bo , Cy , Di , Ed and Ada .",
]
LONG = " ".join(["fire in Zemlok"] * 9)
BATCHES = [TEXTS, TEXTS[2:3], [], ["fire", " \u200b", "  "], [TEXTS[0], LONG]]
LIMIT = 20


@functools.cache
def task(kind: str) -> Summarization:
    """Summarizers with random weights; the first cuts articles, the last one copies nothing."""
    tokenizer = train_tokenizer("word", KNOWN)
    size, limits = tokenizer.vocabulary_size, {"max_source_length": LIMIT}
    if kind == "pointer generator":
        model = models.PointerGenerator(size, 8, 8, copies=4, coverage={"from_step": 0})
        search = SearchOptions(beam_width=3, n_best=2, no_repeat_ngram=2, length_penalty="average")
        limits |= {"max_target_length": 9, "truncate_source": True}
    elif kind == "Transformer":
        model = models.CopyTransformer(size, 8, 8, num_heads=2, num_layers=1, copies=2)
        forced = {1: size + 1}  # a word that not all articles have
        search = SearchOptions(beam_width=2, max_length=6, forced_tokens=forced)
    else:
        model = models.AttentionSummarizer(size, embedding_dim=4, units=6, source_dim=8)
        search = SearchOptions(replace_unknown=True, forced_tokens={1: 1}, max_length_ratio=1.0)
    return Summarization(with_normal_weights(model), tokenizer, search, **limits)


KINDS = ("pointer generator", "Transformer", "attention alone")


@functools.cache
def expected_results(kind: str) -> list[Summary]:
    """Return the task's predictions for all valid texts."""
    return task(kind).predict([*TEXTS, LONG] if task(kind).truncate_source else TEXTS)


def assert_same(answers: dict[str, Any], wants: Sequence[Summary]) -> None:
    assert len(answers["text"]) == len(wants)
    for row, best in enumerate(wants):
        length = len(best.source_tokens)
        assert_row(answers["source_tokens"][row], best.source_tokens, "")
        assert answers["source_truncated"][row] is best.source_truncated
        found = (best, *best.alternatives)
        assert len(answers["text"][row]) == len(found)
        for n, expected in enumerate(found):
            output = {
                name: answers[name][row][n]
                for name in answers
                if not name.startswith("sour") and name not in STATUS
            }
            assert output["text"] == expected.text
            assert output["lengths"] == len(expected.tokens)
            assert output["finished"] is not expected.truncated
            assert_row(output["tokens"], expected.tokens, "")
            assert_row(output["origins"], expected.origins, -1)
            np.testing.assert_allclose(output["scores"], expected.score, rtol=1e-4, atol=1e-5)
            attention = np.array(output["attention"])
            assert not attention[len(expected.tokens) :].any()
            assert not attention[:, length:].any()
            np.testing.assert_allclose(
                attention[: len(expected.tokens), :length], expected.attention, rtol=1e-3, atol=1e-5
            )
            assert_numbers(output["copied"], expected.copied)
            assert_numbers(output["token_scores"], expected.token_scores)


def assert_row(got: list[Any], want: Sequence[Any], nothing: Any) -> None:
    assert got == [*want, *[nothing] * (len(got) - len(want))]


def assert_numbers(got: list[float], want: Sequence[float]) -> None:
    np.testing.assert_allclose(got[: len(want)], want, rtol=1e-3, atol=1e-4)
    assert not any(got[len(want) :])


@pytest.mark.parametrize("kind", mark_others_full(KINDS))
def test_exported_outputs_equal_predictions(kind: str, exported_outputs: ExportedOutputs) -> None:
    (several, _), (one, _), *_ = exported_outputs[kind]
    assert_same(several, expected_results(kind)[:4])
    assert_same(one, expected_results(kind)[2:3])


def test_unknown_tokens_are_replaced() -> None:
    summarizer = task("attention alone")
    answers, _ = run_exported_eagerly(summarizer.export_module(), TEXTS[:2])
    assert_same(answers, summarizer.predict(TEXTS[:2]))


@pytest.mark.full
def test_out_of_vocabulary_words_are_copied(exported_outputs: ExportedOutputs) -> None:
    """Such words occur in summaries, and their origins are their source positions.

    Of an article only 4 have an id; the others are unknown.
    """
    answers, _ = exported_outputs["pointer generator"][0]
    rare = 0
    for row, of_row in enumerate(answers["tokens"]):
        for n, tokens in enumerate(of_row):
            for token, origin in zip(tokens, answers["origins"][row][n], strict=True):
                rare += origin >= 0 and token in {"Tromak", "Ilse", "Vordun", "Bo", "Ada", "Cy"}
                source_token = answers["source_tokens"][row][origin]
                assert origin < 0 or token in (source_token, "<unk>")
    assert rare > 2
    assert (np.array(exported_outputs["attention alone"][0][0]["origins"]) == -1).all()


@pytest.mark.full
@pytest.mark.parametrize("kind", KINDS)
def test_no_articles(kind: str, exported_outputs: ExportedOutputs) -> None:
    _, shapes = exported_outputs[kind][BATCHES.index([])]
    count = task(kind).search.n_best
    assert shapes["text"] == shapes["scores"] == shapes["lengths"] == [0, count]
    assert shapes["tokens"] == shapes["copied"] == shapes["origins"] == [0, count, 0]
    assert task(kind).predict([]) == []


@pytest.mark.parametrize("kind", mark_others_full(KINDS))
def test_empty_articles_do_not_affect_others(kind: str, exported_outputs: ExportedOutputs) -> None:
    answers, _ = exported_outputs[kind][3]
    assert answers["ok"] == [True, True, False]
    assert re.search("is empty", answers["error"][2])
    assert answers["text"][2] == [""] * task(kind).search.n_best
    valid = {name: rows[:2] for name, rows in answers.items()}
    assert_same(valid, task(kind).predict(BATCHES[3][:2]))


@pytest.mark.full
def test_long_article_is_truncated_or_an_error(exported_outputs: ExportedOutputs) -> None:
    answers, _ = exported_outputs["attention alone"][-1]
    assert answers["error"] == ["", "27 tokens, the limit is 20. Shorten the text."]
    answers, _ = exported_outputs["pointer generator"][-1]
    assert answers["source_truncated"] == [False, True]
    expected = expected_results("pointer generator")
    assert_same(answers, [expected[0], expected[4]])
    assert len(answers["source_tokens"][1]) == LIMIT


@pytest.mark.full
@pytest.mark.parametrize("family", ["bart", "t5_gated"])
def test_exported_checkpoint_equals_predict(family: str, tmp_path: Path) -> None:
    """A BART and a T5 with the generation config of its checkpoint, and scores of targets."""
    summarizer = az.load(GOLDEN / family)
    expected = json.loads((GOLDEN / family / "expected.json").read_text("utf-8"))["sources"][:20]
    texts = [*expected, "", "ba de " * 400, "<s>ba</s> de<pad> <extra_id_0>", "京"]
    exported = export(summarizer, tmp_path / "served")
    ((answers, _),) = predict_in_tensorflow_process([exported], [texts])[0]
    assert answers["ok"] == [row != 20 for row in range(24)]
    assert answers["error"][20].startswith("the text is empty")
    assert answers["source_truncated"] == [row == 21 for row in range(24)]
    del texts[20]
    valid = {name: [*rows[:20], *rows[21:]] for name, rows in answers.items()}
    assert_same(valid, summarizer.predict(texts))
    plain = SearchOptions(max_length=40).as_dict()  # greedy
    (best,) = summarizer.predict(texts[:1], **plain)
    score = summarizer.export_module().make_signatures()["score"]
    scores = score(tf.constant(texts[:1]), tf.constant([best.text]))
    np.testing.assert_allclose(scores["scores"].numpy(), [best.score], rtol=1e-4)
    assert scores["tokens"].numpy()[0, 0].decode() == best.tokens[0]
    if family == "bart":
        long = score(tf.constant(texts[:1]), tf.constant(["ba " * 100]))
        assert (
            b"tokens with its end token, the limit is 64. Shorten it." in long["error"].numpy()[0]
        )
