"""Exported masked language models predict as the task does, in a process with TensorFlow only."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from attention_zoo import models
from attention_zoo.data import load_tokenizer, train_tokenizer
from attention_zoo.decoding import SearchOptions
from attention_zoo.tasks import FillMaskResult, MaskedLanguageModeling
from tests.export.alone import ExportedOutputs
from tests.models.public.checkpoints import GOLDEN
from tests.tasks.captioners import with_normal_weights
from tests.tiers import mark_others_full

LINES = ["the cat saw the dog in Paris", "a dog ran , the cat of France sat ."]
TEXTS = ["the [MASK] saw a [MASK].", "[MASK]", "of [MASK] , \ue000 Zed"]
BATCHES = [TEXTS, [], ["a cat", TEXTS[0], "[MASK] " * 40]]
KINDS = ("word", "subword", "whitespace", "character", "wordpiece")


@functools.cache
def task(kind: str) -> MaskedLanguageModeling:
    """Return a masked language model with random weights."""
    if kind == "wordpiece":
        tokenizer = load_tokenizer(GOLDEN / "bert")
    else:
        tokenizer = train_tokenizer(kind, LINES, 60, lowercase=kind == "subword")
    sizes = {"embedding_dim": 8, "units": 8, "num_heads": 2, "num_layers": 1, "max_length": 64}
    model = models.MaskedLM({"vocabulary_size": tokenizer.vocabulary_size + 1, **sizes})
    return MaskedLanguageModeling(with_normal_weights(model), tokenizer, max_length=32)


def assert_same(answers: dict[str, Any], wants: Sequence[FillMaskResult]) -> None:
    for row, best in enumerate(wants):
        found = (best, *best.alternatives)
        assert answers["text"][row] == [expected.text for expected in found]
        scores = [expected.score for expected in found]
        np.testing.assert_allclose(answers["scores"][row], scores, rtol=1e-4, atol=1e-5)
        for mask, predictions in enumerate(best.predictions):
            assert answers["predictions"][row][mask] == [one.token for one in predictions]
            expected = [one.probability for one in predictions]
            np.testing.assert_allclose(answers["probabilities"][row][mask], expected, rtol=1e-3)
        labels = answers["source_tokens"][row]
        size = len(best.source_tokens)
        assert labels == [*best.source_tokens, *[""] * (len(labels) - size)]


@pytest.mark.parametrize("kind", mark_others_full(KINDS))
def test_exported_outputs_equal_predictions(kind: str, exported_outputs: ExportedOutputs) -> None:
    answers, shapes = exported_outputs[kind][0]
    assert_same(answers, task(kind).predict(TEXTS))
    assert answers["ok"] == [True] * 3
    assert shapes["predictions"] == shapes["probabilities"] == [3, 2, 5]


@pytest.mark.parametrize("kind", mark_others_full(KINDS))
def test_rows_without_a_prediction(kind: str, exported_outputs: ExportedOutputs) -> None:
    assert exported_outputs[kind][1][1]["text"] == [0, 5]
    answers, _ = exported_outputs[kind][2]
    assert answers["ok"] == [False, True, False]
    assert answers["error"][0].startswith("the text has no [MASK]")
    assert_same({name: rows[1:2] for name, rows in answers.items()}, task(kind).predict(TEXTS[:1]))


def test_number_of_predictions() -> None:
    own = task("word")
    search = SearchOptions(beam_width=3, n_best=3)
    own = MaskedLanguageModeling(own.model, own.tokenizer, search, max_length=32)
    module = own.export_module()
    answers = module.serve(tf.constant(TEXTS[:1]), top=tf.constant(2))
    assert answers["predictions"].shape == (1, 2, 2)
    assert module.serve(tf.constant(TEXTS[:1]))["predictions"].shape == (1, 2, 3)
    assert len(own.predict(TEXTS[:1])[0].alternatives) == 2
    with pytest.raises(tf.errors.InvalidArgumentError, match="top must be from 1 to"):
        module.serve(tf.constant(TEXTS[:1]), top=tf.constant(0))
