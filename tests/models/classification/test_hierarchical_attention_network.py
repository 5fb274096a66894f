from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from attention_zoo.models import HierarchicalAttentionNetwork
from tests.layers.running import array, close
from tests.models.classifier_conformance import (
    CLASSES,
    DOCUMENTS,
    ClassifierConformance,
    fit_and_evaluate,
    run,
)
from tests.models.encoder_conformance import fill
from tests.refusals import refuses

TINY = {
    "vocabulary_size": 13,
    "classes": CLASSES,
    "embedding_dim": 6,
    "units": 8,
    "attention_units": 5,
    "dropout": 0.1,
}


class TestHierarchicalAttentionNetwork(ClassifierConformance):
    covers = HierarchicalAttentionNetwork
    options = TINY
    changed = {
        "vocabulary_size": 15,
        "classes": [*CLASSES, "art"],
        "multi_label": True,
        "embedding_dim": 5,
        "units": 6,
        "attention_units": 4,
        "dropout": 0.3,
        "word_dropout": 0.5,
    }

    def behaviour(self, model: Any, training: bool) -> list[np.ndarray]:
        """Return outputs and a loss, which depends on `multi_label`."""
        outputs = super().behaviour(model, training)
        labels = np.eye(3)[np.arange(3)] if model.multi_label else np.arange(3)
        return [*outputs, array(model.make_loss()(labels, outputs[0].astype("float32")))]


def make(**options: Any) -> HierarchicalAttentionNetwork:
    model = HierarchicalAttentionNetwork(**{**TINY, **options})
    fill(model)
    return model


def run_gru(x: np.ndarray, weights: list[np.ndarray]) -> np.ndarray:
    """Return the states of a GRU, `(T, U)`, by the equations of Cho et al. 2014.

    In Keras's form, r multiplies the projected state, with a bias of its own.
    """
    kernel, recurrent_kernel, bias = weights
    states, h = [], np.zeros(len(recurrent_kernel))
    for x_t in x:
        a_z, a_r, a_h = np.split(x_t @ kernel + bias[0], 3)
        b_z, b_r, b_h = np.split(h @ recurrent_kernel + bias[1], 3)
        z, r = (1 / (1 + np.exp(-a)) for a in (a_z + b_z, a_r + b_r))
        h = z * h + (1 - z) * np.tanh(a_h + r * b_h)
        states.append(h)
    return np.array(states)


def pool(x: np.ndarray, encoder: Any, pooling: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the vector and the weights of a level: Yang et al. 2016, equations 1 to 7."""
    weights = [array(w) for w in encoder.weights]
    forward, backward = run_gru(x, weights[:3]), run_gru(x[::-1], weights[3:])[::-1]
    h = np.concatenate([forward, backward], axis=-1)
    score = pooling.attention.score
    b = array(pooling.learned_query) @ array(score.query_kernel)
    scores = np.tanh(h @ array(score.key_kernel) + b) @ array(score.v)
    alpha = np.exp(scores) / np.exp(scores).sum()
    return alpha @ h, alpha


def test_logits_and_weights_equal_the_equations() -> None:
    """In NumPy, word by word; padding and empty sentences are removed first."""
    model = make()
    logits, weights = run(model, DOCUMENTS)
    embeddings = array(model.token_embedding.embeddings)
    words, sentences = zip(model.attention.encoders, model.attention.poolings, strict=True)
    for number, document in enumerate(DOCUMENTS):
        rows = np.flatnonzero(document.any(axis=-1))
        vectors = []
        for row in rows:
            is_token = document[row] > 0
            vector, alpha = pool(embeddings[document[row, is_token]], *words)
            np.testing.assert_allclose(weights["tokens"][number, row, is_token], alpha, atol=1e-5)
            vectors.append(vector)
        vector, alpha = pool(np.array(vectors), *sentences)
        np.testing.assert_allclose(weights["sentences"][number, rows], alpha, atol=1e-5)
        expected = vector @ array(model.head.kernel) + array(model.head.bias)
        np.testing.assert_allclose(logits[number], expected, rtol=1e-4, atol=1e-5)


def test_sentence_order_affects_logits_and_padding_does_not() -> None:
    model = make()
    document = DOCUMENTS[:1]
    expected, _ = run(model, document)
    padded = np.insert(np.insert(document, [0, 1, 1, 3], 0, axis=1), [2, 4], 0, axis=2)
    close(run(model, padded)[0], expected, 1e-5)
    other = run(model, document[:, ::-1])[0]
    assert np.abs(other - expected).max() > 1e-3 * np.abs(expected).max()


@pytest.mark.full
def test_learns_with_fit() -> None:
    """The class is that of the sentence with token 2, whose other token decides."""
    rng = np.random.default_rng(0)
    documents = rng.integers(3, 13, size=(256, 4, 3)).astype("int32")
    labels = rng.integers(0, 3, size=256)
    row = rng.integers(0, 4, size=256)
    documents[range(256), row, 0] = 2
    documents[range(256), row, 1] = 3 + labels
    model = HierarchicalAttentionNetwork(**{**TINY, "units": 16, "dropout": 0.0})
    assert fit_and_evaluate(model, documents, labels, 25) > 0.97


def test_parameter_counts_follow_the_paper() -> None:
    """By hand: embeddings of 200, GRUs of 50 each way, attention of 100, linear layer.

    A bias b of the paper's score is a query of 100 here, times a kernel.
    """
    model = HierarchicalAttentionNetwork.from_preset(
        "han", vocabulary_size=50, classes=list("12345")
    )
    words, sentences = (2 * 3 * (inputs + 50 + 2) * 50 for inputs in (200, 100))
    attention = 2 * (100 + 2 * 100 * 100 + 100)
    assert model.count_params() == 50 * 200 + words + sentences + attention + (100 + 1) * 5


@refuses(
    ({"units": 7}, "bidirectional needs an even number of units, got 7"),
    ({"attention_units": 0}, "attention_units must be at least 1, got 0"),
)
def test_invalid_options_are_rejected(options: dict) -> None:
    HierarchicalAttentionNetwork(**{**TINY, **options})
