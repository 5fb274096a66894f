from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attention_zoo.models import RecurrentClassifier
from tests.layers.running import array, close
from tests.models.classifier_conformance import (
    CLASSES,
    TEXTS,
    ClassifierConformance,
    fit_and_evaluate,
    run,
)
from tests.models.encoder_conformance import fill
from tests.refusals import refuses
from tests.tiers import mark_full

TINY = {
    "vocabulary_size": 13,
    "classes": CLASSES,
    "embedding_dim": 6,
    "units": 8,
    "pooling": {"kind": "structured", "units": 4, "hops": 2, "hidden_units": 5},
}
NAMES = ("last", "mean", "max", "attention")


class TestRecurrentClassifier(ClassifierConformance):
    covers = RecurrentClassifier
    options = TINY
    weighted = {"pooling": "attention"}
    changed = {
        "vocabulary_size": 15,
        "classes": [*CLASSES, "art"],
        "multi_label": True,
        "embedding_dim": 5,
        "units": 6,
        "cell": "gru",
        "pooling": {"kind": "attention", "units": 3},
        "dropout": 0.2,
        "word_dropout": 0.5,
    }

    def behaviour(self, model: Any, training: bool) -> list[np.ndarray]:
        """Return outputs and a loss, which depends on `multi_label`."""
        outputs = super().behaviour(model, training)
        labels = np.arange(3) % 3
        labels = np.eye(3)[labels] if model.multi_label else labels
        return [*outputs, array(model.make_loss()(labels, outputs[0].astype("float32")))]


def make(**options: Any) -> RecurrentClassifier:
    model = RecurrentClassifier(**{**TINY, **options})
    fill(model)
    return model


@pytest.mark.parametrize("cell", ["lstm", mark_full("gru")])
def test_poolings_equal_their_definitions(cell: str) -> None:
    """In NumPy from the encoder's states; the weights of all options have the same sizes."""
    models = {name: make(cell=cell, pooling=name) for name in NAMES}
    encoder = models["mean"].encoder
    for model in models.values():
        model.encoder.set_weights(encoder.get_weights())
    row = TEXTS[1:2, TEXTS[1] > 0]
    states = array(encoder(models["mean"].features({"tokens": row}))[0])[0]
    results = {name: run(model, TEXTS[1:2]) for name, model in models.items()}
    weights = results["attention"][1]["tokens"][0, TEXTS[1] > 0]
    expected = {
        "last": np.concatenate([states[-1, :4], states[0, 4:]]),
        "mean": states.mean(0),
        "max": states.max(0),
        "attention": weights @ states,
    }
    for name, model in models.items():
        kernel, bias = (array(w) for w in model.head.weights)
        logits, others = results[name]
        np.testing.assert_allclose(logits[0], expected[name] @ kernel + bias, rtol=1e-4, atol=1e-5)
        assert (others == {}) is (name != "attention")
    sizes = {name: model.count_params() for name, model in models.items()}
    assert sizes["last"] == sizes["mean"] == sizes["max"] < sizes["attention"]


def test_structured_pooling_equals_its_definition() -> None:
    """Lin et al. 2017, equations 6 to 8, in NumPy: A, M, the ReLU layer and the penalty."""
    model = make()
    attention, hidden = model.pooling.attention, model.pooling.hidden
    penalty = 0.0
    logits, weights = run(model, TEXTS)
    loss = float(array(model.losses[0]))
    for number, row in enumerate(TEXTS):
        memory = array(model.encoder(model.features({"tokens": row[None, row > 0]}))[0])[0]
        scores = array(attention.queries) @ np.tanh(memory @ array(attention.key_kernel)).T
        a = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
        penalty += ((a @ a.T - np.eye(2)) ** 2).sum() / 3
        vector = np.maximum((a @ memory).ravel() @ array(hidden.kernel) + array(hidden.bias), 0)
        expected = vector @ array(model.head.kernel) + array(model.head.bias)
        np.testing.assert_allclose(logits[number], expected, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(weights["tokens"][number, row > 0], a.mean(0), atol=1e-5)
    assert loss == pytest.approx(penalty, rel=1e-4)


@pytest.mark.parametrize("pooling", NAMES)
def test_padding_does_not_affect_the_logits_of_any_pooling(pooling: str) -> None:
    model = make(pooling=pooling, cell="gru")
    expected, _ = run(model, TEXTS)
    padded = np.insert(TEXTS, [2, 4, 4], 0, axis=1)
    close(run(model, np.vstack([padded, np.zeros_like(padded[:1])]))[0][:3], expected, 1e-5)


@pytest.mark.full
@pytest.mark.parametrize("pooling", [*NAMES, TINY["pooling"]], ids=str)
def test_learns_with_fit(pooling: Any) -> None:
    """The class is in the only token below 6, at any position."""
    rng = np.random.default_rng(0)
    tokens = rng.integers(6, 13, size=(192, 7)).astype("int32")
    labels = rng.integers(0, 3, size=192)
    tokens[range(192), rng.integers(0, 7, size=192)] = 3 + labels
    model = RecurrentClassifier(**{**TINY, "pooling": pooling, "units": 16, "dropout": 0.0})
    assert fit_and_evaluate(model, tokens, labels, 12) > 0.97


def test_parameter_counts_follow_the_paper() -> None:
    """By hand: embeddings, two LSTMs of 300, W_s1 and W_s2, two layers."""
    model = RecurrentClassifier.from_preset(
        "structured_bilstm", vocabulary_size=50, classes=list("12345")
    )
    lstm = 2 * 4 * (100 + 300 + 1) * 300
    attention = 350 * 600 + 30 * 350
    head = (30 * 600 + 1) * 3000 + (3000 + 1) * 5
    assert model.count_params() == 50 * 100 + lstm + attention + head
    small = RecurrentClassifier.from_preset(
        "recurrent_classifier_small", vocabulary_size=50, classes=["a", "b"], pooling="max"
    )
    lstm = 2 * 4 * (100 + 50 + 1) * 50
    assert small.count_params() == 50 * 100 + lstm + (100 + 1) * 2
    assert small.settings["pooling"] == {"kind": "max"}


def test_word_vectors_are_loaded(tmp_path: Path) -> None:
    path = tmp_path / "vectors.txt"
    path.write_text("cat 1 2 3 4 5 6\n")
    vocabulary = ["<pad>", "<unk>", "<s>", "</s>", "cat", *"abcdefgh"]
    model = RecurrentClassifier(**TINY)
    assert model.load_word_vectors(path, vocabulary) == 1
    assert array(model.token_embedding.embeddings)[4].tolist() == [1, 2, 3, 4, 5, 6]


@refuses(
    ({"pooling": "median"}, "unknown pooling 'median'"),
    ({"pooling": {"kind": "max", "hops": 2}}, "pooling.kind='max' has no option 'hops'"),
    ({"pooling": {"kind": "structured", "hop": 2}}, "no option 'hop'; did you mean 'hops'"),
    ({"pooling": {"kind": "structured", "hops": 0}}, "hops must be at least 1, got 0"),
    ({"pooling": 3}, "pooling must be a dict of options"),
    ({"cell": "rnn"}, "cell must be one of lstm, gru, simple_rnn, got 'rnn'"),
    ({"units": 7}, "bidirectional needs an even number of units, got 7"),
    ({"units": 0}, "units must be at least 1, got 0"),
)
def test_invalid_options_are_rejected(options: dict) -> None:
    RecurrentClassifier(**{**TINY, **options})
