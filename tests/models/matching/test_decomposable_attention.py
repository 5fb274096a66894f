from __future__ import annotations

import numpy as np
import pytest

from attention_zoo.models import DecomposableAttention
from tests.layers.running import array, randomise
from tests.models.matcher_conformance import (
    CLASSES,
    MatcherConformance,
    fit_and_evaluate,
    softmax,
)

TINY = {"vocabulary_size": 13, "classes": CLASSES, "embedding_dim": 5, "units": 6}


class TestDecomposableAttention(MatcherConformance):
    covers = DecomposableAttention
    options = {**TINY, "intra_attention": True}
    off = {"use_attention": False}
    sum_axis = 2
    changed = {
        "vocabulary_size": 15,
        "classes": CLASSES[:2],
        "embedding_dim": 4,
        "units": 8,
        "use_attention": False,
        "intra_attention": False,
        "dropout": 0.4,
        "word_dropout": 0.3,
    }


def apply_two_layers(network: object, x: np.ndarray) -> np.ndarray:
    for layer in (network.inner, network.outer):
        kernel, bias = (array(w) for w in layer.weights)
        x = np.maximum(x @ kernel + bias, 0)
    return x


def represent(model: DecomposableAttention, tokens: np.ndarray) -> np.ndarray:
    """Compute a of one text; the distance i - j selects the bias."""
    x = array(model.token_embedding.embeddings)[tokens] @ array(model.projection.kernel)
    if model.intra is None:
        return x
    hidden, bias = apply_two_layers(model.intra, x), array(model.distance_bias)
    scores = hidden @ hidden.T
    for i, j in np.ndindex(*scores.shape):
        scores[i, j] += bias[11 + max(-11, min(11, i - j))]
    return np.concatenate([x, softmax(scores) @ x], axis=-1)


@pytest.mark.parametrize("intra", [False, True])
@pytest.mark.parametrize("attention", [True, False])
def test_logits_equal_the_equations(attention: bool, intra: bool) -> None:
    model = DecomposableAttention(**TINY, use_attention=attention, intra_attention=intra)
    randomise(model, scale=0.3)
    first = np.array([4, 5, 6, 4, 7, 8, 9, 10, 11, 12, 4, 6, 5, 5])  # distances above 10
    second = np.array([7, 5])
    a, b = (represent(model, tokens) for tokens in (first, second))
    e = np.zeros((14, 2))
    if attention:
        e = apply_two_layers(model.attend, a) @ apply_two_layers(model.attend, b).T
    v = [
        apply_two_layers(model.compare_aligned, np.concatenate([x, aligned], axis=-1)).sum(axis=0)
        for x, aligned in ((a, softmax(e) @ b), (b, softmax(e.T) @ a))
    ]
    kernel, bias = (array(w) for w in model.head.weights)
    expected = apply_two_layers(model.aggregate, np.concatenate(v)) @ kernel + bias
    inputs = {"first": first[None], "second": second[None]}
    logits, weights = model(inputs, return_attention_scores=True)
    np.testing.assert_allclose(array(logits)[0], expected, rtol=1e-4, atol=1e-5)
    if attention:
        np.testing.assert_allclose(array(weights)[0], softmax(e), atol=1e-5)


def test_distances_count_tokens_only() -> None:
    """Distances within a text are those without padding between its tokens."""
    model = DecomposableAttention(**TINY, intra_attention=True)
    randomise(model)
    second = np.array([[4, 5]])
    near, far = (
        array(model({"first": np.array([first]), "second": second}))
        for first in ([4, 6, 5], [4, 0, 0, 6, 0, 5])
    )
    np.testing.assert_allclose(near, far, rtol=1e-5)


def test_parameter_counts_follow_the_paper() -> None:
    """Parikh et al. 2016, table 1: 380k and 580k parameters besides the embeddings."""
    counts = [
        DecomposableAttention.from_preset(name, vocabulary_size=7, classes=CLASSES).count_params()
        - 7 * 300
        for name in ("decomposable_attention", "decomposable_attention_intra")
    ]
    layer = 200 * 200 + 200
    projection, last = 300 * 200, 200 * 3 + 3
    assert counts[0] == projection + 2 * layer + 2 * (layer + 200 * 200 + layer) + last
    assert [round(count / 10_000) for count in counts] == [38, 58]


@pytest.mark.full
def test_learns_with_fit() -> None:
    model = DecomposableAttention(13, ["no", "yes"], 8, 16, dropout=0.0)
    assert fit_and_evaluate(model, 0.01, 15) > 0.95
