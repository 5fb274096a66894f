from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attention_zoo.models import BERT, PairClassifier
from tests.layers.running import array
from tests.models.language.test_bert import TINY as BERT_TINY
from tests.models.matcher_conformance import (
    CLASSES,
    FIRST,
    SECOND,
    MatcherConformance,
    begins_later,
    fit_and_evaluate,
)
from tests.refusals import refuses

TINY = {**BERT_TINY, "use_pooler": False, "max_length": 40}
START, END = 2, 3


class TestPairClassifier(MatcherConformance):
    covers = PairClassifier
    options = {
        "bert": {**TINY, "num_layers": 1},
        "start_token": START,
        "end_token": END,
        "classes": CLASSES,
    }
    deep = {"bert": {**TINY, "num_layers": 12}}
    changed = {
        "bert": {**TINY, "num_layers": 2},
        "start_token": 4,
        "end_token": 4,
        "classes": CLASSES[:2],
        "dropout": 0.3,
    }


@pytest.mark.parametrize("positions", ["learned", "shaw"])
def test_logits_and_weights_equal_those_of_the_joint_sequence(positions: str) -> None:
    """Pairs with and without padding equal `[CLS] first [SEP] second [SEP]` without it."""
    bert = BERT(**{**TINY, "layer": {"positions": positions}})
    model = PairClassifier(bert, START, END, CLASSES)
    TestPairClassifier.fill(model)
    assert model.bert is bert
    kernel, bias = (array(w) for w in model.head.weights)
    logits, weights = model({"first": FIRST, "second": SECOND}, return_attention_scores=True)
    for row in (0, 1):
        first, second = (list(x[row][x[row] != 0]) for x in (FIRST, SECOND))
        tokens = np.array([[START, *first, END, *second, END]], "int32")
        segments = np.array([[0] * (len(first) + 2) + [1] * (len(second) + 1)], "int32")
        hidden = array(bert({"tokens": tokens, "segments": segments})["hidden"])
        np.testing.assert_allclose(array(logits)[row], hidden[0, 0] @ kernel + bias, atol=1e-5)
        x = bert.norm(bert.embed(tokens, tokens != 0, segments))
        for layer in bert.encoder:
            x, layer_weights = layer(x, return_attention_scores=True)
        mean = array(layer_weights)[0].mean(axis=0)
        expected = mean[1 : 1 + len(first), 2 + len(first) : -1]
        got = array(weights)[row][: len(first), : len(second)]
        np.testing.assert_allclose(got, expected, atol=1e-5)


def test_inputs_are_limited_by_the_bert() -> None:
    model = PairClassifier(TINY, START, END)
    assert (model.vocabulary_size, model.max_length, model.max_pair_length) == (13, 37, 37)
    assert model.token_embedding is model.bert.token_embedding
    with pytest.raises(ValueError, match="first and second have 38 positions, more than max_pair"):
        model({"first": np.ones((1, 30), "int32"), "second": np.ones((1, 8), "int32")})
    model({"first": np.ones((1, 30), "int32"), "second": np.ones((1, 7), "int32")})


@refuses(
    ({"bert": "bert_tiny"}, "bert must be a BERT or its arguments, got 'bert_tiny'"),
    ({"bert": {**TINY, "num_segments": 1}}, "bert must have num_segments of at least 2, got 1"),
    ({"start_token": 13}, "start_token must be at most 12, got 13"),
    ({"end_token": 0}, "end_token must be at least 1, got 0"),
)
def test_invalid_options_are_rejected(options: dict[str, Any]) -> None:
    PairClassifier(**{"bert": TINY, "start_token": START, "end_token": END, **options})


def test_presets_equal_those_of_bert(tmp_path: Path) -> None:
    sizes = {"vocabulary_size": 7, "embedding_dim": 4, "units": 4, "num_heads": 2}
    model = PairClassifier.from_preset(
        "bert_tiny", **sizes, start_token=START, end_token=END, classes=CLASSES, dropout=0.2
    )
    assert (model.bert.settings["num_layers"], model.settings["dropout"]) == (2, 0.2)
    model.save_to_preset(tmp_path / "saved")
    repeated = PairClassifier.from_preset(tmp_path / "saved", dropout=0.0)
    assert repeated.settings == {**model.settings, "dropout": 0.0}


@pytest.mark.full
def test_learns_with_fit() -> None:
    bert = {**TINY, "embedding_dim": 16, "num_layers": 1, "dropout": 0.0}
    model = PairClassifier(bert, START, END, ["no", "yes"], dropout=0.0)
    assert fit_and_evaluate(model, 0.003, 40, begins_later) > 0.95
