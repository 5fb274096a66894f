from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attention_zoo.models import ESIM
from tests.layers.running import MODES, array, randomise
from tests.models.matcher_conformance import (
    CLASSES,
    FIRST,
    SECOND,
    MatcherConformance,
    fit_and_evaluate,
    run_lstm,
    softmax,
)

TINY = {"vocabulary_size": 13, "classes": CLASSES, "embedding_dim": 5, "units": 6}


class TestESIM(MatcherConformance):
    covers = ESIM
    options = TINY
    off = {"use_attention": False}
    sum_axis = 2
    changed = {
        "vocabulary_size": 15,
        "classes": CLASSES[:2],
        "embedding_dim": 4,
        "units": 8,
        "use_attention": False,
        "dropout": 0.2,
        "word_dropout": 0.3,
    }

    def inputs(self) -> Any:
        """Return short texts: every step of an LSTM takes long in eager mode."""
        return {"first": FIRST[:, :2], "second": SECOND[:, :1]}

    @pytest.mark.full
    @pytest.mark.every_backend
    @pytest.mark.parametrize("mode", MODES[1:])
    def test_compiled_equals_eager(self, mode: str) -> None:
        """In the full tier: the graph has eight LSTMs."""
        super().test_compiled_equals_eager(mode)


def run_bilstm(x: np.ndarray, encoder: object) -> np.ndarray:
    weights = [array(w) for w in encoder.weights]
    forward, _ = run_lstm(x, weights[:3])
    backward, _ = run_lstm(x, weights[3:], backwards=True)
    return np.concatenate([forward, backward], axis=-1)


@pytest.mark.parametrize("attention", [True, False])
def test_logits_equal_the_equations(attention: bool) -> None:
    model = ESIM(**TINY, use_attention=attention)
    randomise(model)
    table = array(model.token_embedding.embeddings)
    projection, hidden, head = (
        [array(w) for w in layer.weights] for layer in (model.projection, model.hidden, model.head)
    )
    first, second = np.array([4, 5, 6, 4]), np.array([7, 5])
    a, b = (run_bilstm(table[tokens], model.encoder) for tokens in (first, second))
    e = a @ b.T if attention else np.zeros((4, 2))
    pooled = []
    for states, aligned in ((a, softmax(e) @ b), (b, softmax(e.T) @ a)):
        m = np.concatenate([states, aligned, states - aligned, states * aligned], axis=-1)
        v = run_bilstm(np.maximum(m @ projection[0] + projection[1], 0), model.composition)
        pooled += [v.mean(axis=0), v.max(axis=0)]
    expected = np.tanh(np.concatenate(pooled) @ hidden[0] + hidden[1]) @ head[0] + head[1]
    inputs = {"first": first[None], "second": second[None]}
    logits, weights = model(inputs, return_attention_scores=True)
    np.testing.assert_allclose(array(logits)[0], expected, rtol=1e-4, atol=1e-5)
    if attention:
        np.testing.assert_allclose(array(weights)[0], softmax(e), atol=1e-5)


def test_attention_adds_no_weights() -> None:
    sizes = [
        [tuple(v.shape) for v in ESIM(**TINY, use_attention=attention).weights]
        for attention in (True, False)
    ]
    assert sizes[0] == sizes[1]


def test_parameter_count_follows_the_paper() -> None:
    """By hand, with 300 units a direction: embeddings, two BiLSTMs, F, G and the output layer."""
    model = ESIM.from_preset("esim", vocabulary_size=1000, classes=CLASSES)
    bilstm = 2 * 4 * (300 + 300 + 1) * 300
    dense = (2400 + 1) * 300
    assert model.count_params() == 1000 * 300 + 2 * bilstm + 2 * dense + (300 + 1) * 3


def test_word_vectors_are_loaded(tmp_path: Path) -> None:
    path = tmp_path / "vectors.txt"
    path.write_text("cat 1 2 3 4 5\n")
    model = ESIM(**TINY)
    vocabulary = ["<pad>", "<unk>", "<s>", "</s>", "cat", *"abcdefgh"]
    assert model.load_word_vectors(path, vocabulary) == 1
    np.testing.assert_array_equal(array(model.token_embedding.embeddings)[4], [1, 2, 3, 4, 5])


@pytest.mark.full
def test_learns_with_fit() -> None:
    assert fit_and_evaluate(ESIM(13, ["no", "yes"], 8, 16, dropout=0.0), 0.01, 10) > 0.95


def test_equal_tokens_are_aligned_before_training() -> None:
    """Scores of equal tokens are larger than those of others, because of the initial norm."""
    model = ESIM(200, CLASSES, embedding_dim=100, units=40)
    table = array(model.token_embedding.embeddings)
    np.testing.assert_allclose(np.linalg.norm(table, axis=1).mean(), 8, rtol=0.02)
    first = np.random.default_rng(0).permutation(np.arange(2, 200))[None, :3]
    _, weights = model({"first": first, "second": first[:, ::-1]}, return_attention_scores=True)
    aligned = array(weights)[0, np.arange(3), np.arange(3)[::-1]]
    assert aligned.mean() > 0.34  # 0.333, as for a uniform alignment, with a norm of 1
