from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from attention_zoo.models import BCNN
from tests.layers.running import array, randomise
from tests.models.matcher_conformance import (
    CLASSES,
    FIRST,
    SECOND,
    MatcherConformance,
    fit_and_evaluate,
)
from tests.refusals import refuses

TINY = {
    "vocabulary_size": 13,
    "classes": CLASSES,
    "embedding_dim": 5,
    "filters": 6,
    "kernel_size": 3,
    "max_length": 15,
}


class TestBCNN(MatcherConformance):
    covers = BCNN
    options = {**TINY, "attention": "both"}
    deep = {"num_blocks": 3}
    off = {"attention": "none"}
    changed = {
        "vocabulary_size": 15,
        "classes": CLASSES[:2],
        "embedding_dim": 4,
        "filters": 8,
        "kernel_size": 2,
        "num_blocks": 2,
        "attention": "pooling",
        "max_length": 8,
        "dropout": 0.2,
        "word_dropout": 0.3,
    }


@pytest.mark.parametrize("attention", ["none", "input", "pooling"])
def test_padding_does_not_affect_variants(attention: str) -> None:
    """Also with two blocks, an even width and a text shorter than the width."""
    model = BCNN(**{**TINY, "kernel_size": 4}, num_blocks=2, attention=attention)
    randomise(model)
    expected = model({"first": FIRST, "second": SECOND})
    padded = {
        "first": np.insert(FIRST, [0, 1, 1, 3], 0, axis=1),
        "second": np.insert(SECOND, [1, 2, 2], 0, axis=1),
    }
    np.testing.assert_allclose(array(model(padded)), array(expected), rtol=1e-4, atol=1e-6)


# oracle


def match(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Compute A, `1 / (1 + distance)` of all pairs of rows."""
    return np.array([[1 / (1 + np.linalg.norm(a - b)) for b in y] for a in x])


def run_block(
    model: BCNN, number: int, x: np.ndarray, y: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Compute the pooled texts of a block, and A between positions, window by window."""
    attention, w = model.settings["attention"], model.settings["kernel_size"]
    similarity = None
    if attention in ("input", "both"):
        similarity = match(x, y)
        maps = model.maps[number]
        map_x = similarity @ array(maps.first_kernel)[: len(y)]
        map_y = similarity.T @ array(maps.second_kernel)[: len(x)]
        x, y = np.concatenate([x, map_x], axis=1), np.concatenate([y, map_y], axis=1)
    kernel, bias = (array(weight) for weight in model.convolutions[number].weights)
    convolved = []
    for text in (x, y):
        zeros = np.zeros((w - 1, text.shape[1]))
        wide = np.concatenate([zeros, text, zeros])
        windows = [wide[k : k + w].ravel() for k in range(len(text) + w - 1)]
        convolved.append(np.tanh(np.array(windows) @ kernel + bias))
    scores = match(*convolved)
    weights = [np.ones(len(c)) for c in convolved]
    if attention in ("pooling", "both"):
        weights = [scores.sum(axis=1), scores.sum(axis=0)]
    if similarity is None:
        shape = len(x), len(y)
        similarity = np.array(
            [scores[i : i + w, j : j + w].mean() for i, j in np.ndindex(shape)]
        ).reshape(shape)
    pooled = [
        np.array([(u[i : i + w, None] * c[i : i + w]).mean(axis=0) for i in range(len(c) - w + 1)])
        for c, u in zip(convolved, weights, strict=True)
    ]
    return pooled[0], pooled[1], similarity


@pytest.mark.parametrize("num_blocks", [1, 2])
@pytest.mark.parametrize("attention", ["none", "input", "pooling", "both"])
def test_logits_equal_the_equations(attention: str, num_blocks: int) -> None:
    model = BCNN(**TINY, num_blocks=num_blocks, attention=attention)
    randomise(model)
    first, second = np.array([4, 5, 6, 4]), np.array([7, 5])
    table = array(model.token_embedding.embeddings)
    x, y = table[first], table[second]
    features, alignments = [], []
    for number in range(num_blocks):
        x, y, similarity = run_block(model, number, x, y)
        alignments.append(similarity)
        v, u = x.mean(axis=0), y.mean(axis=0)
        cosine = v @ u / (np.linalg.norm(v) * np.linalg.norm(u))
        features += [v, u, np.abs(v - u), v * u, [cosine]]
    kernel, bias = (array(weight) for weight in model.head.weights)
    inputs = {"first": first[None], "second": second[None]}
    logits, weights = model(inputs, return_attention_scores=True)
    expected = np.concatenate(features) @ kernel + bias
    np.testing.assert_allclose(array(logits)[0], expected, rtol=1e-4, atol=1e-5)
    if attention == "none":
        assert weights is None
    else:
        np.testing.assert_allclose(array(weights)[0], alignments[0], rtol=1e-4)


def test_pooling_by_hand() -> None:
    """One filter of width 1: c is tanh(x), weighted by 1 / (1 + |c - c'|).

    The texts are c = (0, 3/4) and c' = (0): a = (1, 4/7), and a' = 1 + 4/7, so v = (3/4 * 4/7) / 2.
    """
    model = BCNN(5, CLASSES, embedding_dim=1, filters=1, kernel_size=1, attention="pooling")
    model.token_embedding.embeddings.assign(np.array([[0], [0], [0], [0], [np.arctanh(0.75)]]))
    model.convolutions[0].set_weights([np.ones((1, 1)), np.zeros(1)])
    kernel = np.zeros((5, 3))
    kernel[0, 0] = kernel[1, 1] = kernel[2, 2] = 1
    model.head.set_weights([kernel, np.zeros(3)])
    inputs = {"first": np.array([[3, 4]]), "second": np.array([[3]])}
    logits, weights = model(inputs, return_attention_scores=True)
    v = 0.75 * (4 / 7) / 2
    np.testing.assert_allclose(array(logits)[0], [v, 0, v], rtol=1e-5)
    np.testing.assert_allclose(array(weights)[0], [[1], [4 / 7]], rtol=1e-5)


@pytest.mark.parametrize(
    ("system", "attention", "num_blocks"),
    [
        ("bcnn", "none", 1),
        ("bcnn_two", "none", 2),
        ("abcnn1", "input", 1),
        ("abcnn1_two", "input", 2),
        ("abcnn2", "pooling", 1),
        ("abcnn2_two", "pooling", 2),
        ("abcnn3", "both", 1),
        ("abcnn3_two", "both", 2),
    ],
)
def test_presets_are_the_systems_of_the_paper(system: str, attention: str, num_blocks: int) -> None:
    sizes = {"vocabulary_size": 7, "classes": CLASSES, "embedding_dim": 4, "filters": 3}
    model = BCNN.from_preset(system, **sizes, max_length=9)
    assert (model.settings["attention"], model.settings["num_blocks"]) == (attention, num_blocks)
    assert model.max_length == (9 if attention in ("input", "both") else None)
    maps = {"input": 1, "both": 1}.get(attention, 0)
    inputs = [4 * (1 + maps), *[3 * (1 + maps)] * (num_blocks - 1)]
    filters = sum(4 * width * 3 + 3 for width in inputs)
    rows = maps * 2 * 9 * (4 + 3 * (num_blocks - 1))
    head = (13 * num_blocks + 1) * 3
    assert model.count_params() == 7 * 4 + filters + rows + head


@refuses(
    ({"attention": "abcnn"}, "attention must be one of none, input, pooling, both, got 'abcnn'"),
    ({"kernel_size": 0}, "kernel_size must be at least 1, got 0"),
    ({"num_blocks": 0}, "num_blocks must be at least 1, got 0"),
)
def test_invalid_options_are_rejected(options: dict[str, Any]) -> None:
    BCNN(**{**TINY, **options})


def test_long_texts_are_rejected() -> None:
    model = BCNN(**TINY, attention="input")
    with pytest.raises(ValueError, match="sequence length 16 of second exceeds max_length=15"):
        model({"first": FIRST, "second": np.ones((3, 16), "int32")})


@pytest.mark.full
def test_learns_with_fit() -> None:
    model = BCNN(13, ["no", "yes"], 8, 16, 2, attention="both", max_length=4)
    assert fit_and_evaluate(model, 0.01, 20) > 0.95
