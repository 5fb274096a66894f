from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from keras import ops

from attention_zoo import ops as zoo_ops
from attention_zoo.models import ConvolutionalClassifier
from attention_zoo.models.classification.convolutional_classifier import divide_among_tokens
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

TINY = {"vocabulary_size": 13, "classes": CLASSES, "embedding_dim": 6, "filters": 8}


class TestConvolutionalClassifier(ClassifierConformance):
    covers = ConvolutionalClassifier
    options = TINY
    weighted = {"pooling": "lstm_attention"}
    changed = {
        "vocabulary_size": 15,
        "classes": [*CLASSES, "art"],
        "multi_label": True,
        "embedding_dim": 5,
        "kernel_sizes": [2, 3],
        "filters": 5,
        "pooling": "attention",
        "dropout": 0.2,
        "word_dropout": 0.5,
        "max_norm": 0.5,
    }

    def behaviour(self, model: Any, training: bool) -> list[np.ndarray]:
        """Return outputs, a loss, which depends on `multi_label`, and the constrained weights."""
        outputs = super().behaviour(model, training)
        labels = np.eye(3)[np.arange(3)] if model.multi_label else np.arange(3)
        loss = model.make_loss()(labels, outputs[0].astype("float32"))
        return [*outputs, array(loss), array(model.head.kernel.constraint(4 * np.ones((24, 3))))]


def make(**options: Any) -> ConvolutionalClassifier:
    model = ConvolutionalClassifier(**{**TINY, **options})
    fill(model)
    return model


def compute_maps(model: ConvolutionalClassifier, row: np.ndarray) -> list[np.ndarray]:
    """Compute the feature maps of a text in NumPy, window by window."""
    x = array(model.token_embedding.embeddings)[row]
    results = []
    for convolution in model.convolutions:
        kernel, bias = (array(w) for w in convolution.weights)
        width = len(kernel)
        windows = np.pad(x, ((width - 1, width - 1), (0, 0)))
        starts = range(len(windows) - width + 1)
        sums = [np.einsum("wd,wdf->f", windows[i : i + width], kernel) + bias for i in starts]
        results.append(np.maximum(sums, 0))
    return results


@pytest.mark.parametrize("row", range(3))
def test_logits_equal_the_definition(row: int) -> None:
    """Kim 2014, equations 2 to 4; the texts have six tokens, three and one, the widths are 3-5."""
    model = make()
    kernel, bias = (array(w) for w in model.head.weights)
    maps = compute_maps(model, TEXTS[row, TEXTS[row] > 0])
    assert [len(x) for x in maps] == [[8, 9, 10], [5, 6, 7], [3, 4, 5]][row]
    expected = np.concatenate([x.max(0) for x in maps]) @ kernel + bias
    np.testing.assert_allclose(run(model, TEXTS)[0][row], expected, rtol=1e-4, atol=1e-5)


def test_attention_equals_the_definition() -> None:
    """The weights of one width, in NumPy: `softmax(v . tanh(q W + c_i U))`, shared by tokens."""
    model = make(kernel_sizes=[3], pooling="attention")
    row = TEXTS[0]
    (maps,) = compute_maps(model, row)
    logits, weights = run(model, TEXTS)
    pooling = model.poolings[0]
    score = pooling.attention.score
    variables = {v.name: array(v) for v in score.weights}
    assert len(variables) == len(score.weights) == 3, variables
    query = array(pooling.learned_query) @ variables["query_kernel"]
    scores = np.tanh(query + maps @ variables["key_kernel"]) @ variables["v"]
    window_weights = np.exp(scores) / np.exp(scores).sum()
    kernel, bias = (array(w) for w in model.head.weights)
    expected = (window_weights @ maps) @ kernel + bias
    np.testing.assert_allclose(logits[0], expected, rtol=1e-4, atol=1e-5)
    sizes = [1, 2, 3, 3, 3, 3, 2, 1]
    shares = np.convolve(window_weights / sizes, np.ones(3), "valid")
    np.testing.assert_allclose(weights["tokens"][0], shares, rtol=1e-4)


def test_query_of_lstm_attention_is_its_final_state() -> None:
    """A token that is in no other window changes the weights of the first window."""
    model = make(kernel_sizes=[1], pooling="lstm_attention")
    tokens = np.array([[4, 5, 6], [4, 5, 7]], "int32")
    _, weights = run(model, tokens)
    a, b = weights["tokens"][:, :2]
    assert abs(a[0] / a[1] - b[0] / b[1]) > 1e-3
    other = make(kernel_sizes=[1], pooling="attention")
    a, b = run(other, tokens)[1]["tokens"][:, :2]
    assert a[0] / a[1] == pytest.approx(b[0] / b[1], rel=1e-4)


def test_windows_and_their_tokens() -> None:
    """Windows of three with a text of two tokens: [0 0 a], [0 a b], [a b 0] and [b 0 0]."""
    mask = np.array([[1, 1, 0], [0, 0, 0]], "bool")
    window_mask = array(zoo_ops.widen_mask(ops.convert_to_tensor(mask), 3))
    assert window_mask.astype(int).tolist() == [[1, 1, 1, 1, 0], [0, 0, 0, 0, 0]]
    weights = np.array([[0.1, 0.2, 0.4, 0.3, 0], [0, 0, 0, 0, 0]], "float32")
    shares = array(divide_among_tokens(weights, ops.convert_to_tensor(mask), 3))
    np.testing.assert_allclose(shares, [[0.4, 0.6, 0], [0, 0, 0]], rtol=1e-6)


def test_padding_does_not_affect_the_maximum() -> None:
    """With positive biases, windows of padding would have positive features."""
    model = make()
    for convolution in model.convolutions:
        convolution.bias.assign(5.0 * np.ones(8))
    expected, _ = run(model, TEXTS)
    padded = np.insert(TEXTS, [0, 2, 4, 6, 6], 0, axis=1)
    close(run(model, np.vstack([padded, np.zeros_like(padded[:1])]))[0][:3], expected, 1e-5)


def test_norm_of_the_weights_of_each_class_is_bounded() -> None:
    model = make(max_norm=2.0)
    kernel = model.head.kernel
    kernel.assign(np.outer(np.ones(24), [0.1, 1.0, 2.0]))
    norms = np.linalg.norm(array(kernel.constraint(kernel)), axis=0)
    np.testing.assert_allclose(norms, [0.1 * 24**0.5, 2, 2], rtol=1e-5)


@pytest.mark.full
def test_norm_is_bounded_in_training() -> None:
    rng = np.random.default_rng(0)
    tokens = rng.integers(2, 13, size=(96, 6)).astype("int32")
    model = make(max_norm=0.5, dropout=0.0)
    fit_and_evaluate(model, tokens, rng.integers(0, 3, size=96), 2)
    assert np.linalg.norm(array(model.head.kernel), axis=0).max() <= 0.5 + 1e-5


@pytest.mark.full
@pytest.mark.parametrize("pooling", ["max", "attention", "lstm_attention"])
def test_learns_with_fit(pooling: str) -> None:
    """The class depends on two adjacent tokens, at any position."""
    rng = np.random.default_rng(0)
    tokens = rng.integers(6, 13, size=(192, 8)).astype("int32")
    labels = rng.integers(0, 3, size=192)
    starts = rng.integers(0, 7, size=192)
    tokens[range(192), starts] = 3 + labels
    tokens[range(192), starts + 1] = 2
    model = ConvolutionalClassifier(**{**TINY, "pooling": pooling, "dropout": 0.0})
    assert fit_and_evaluate(model, tokens, labels, 12) > 0.97


def test_parameter_counts_follow_the_paper() -> None:
    """By hand: embeddings, convolutions of widths 3, 4 and 5, linear layer."""
    inputs = {"vocabulary_size": 50, "classes": list("123456")}
    model = ConvolutionalClassifier.from_preset("kim_cnn", **inputs)
    convolutions = (3 + 4 + 5) * 300 * 100 + 3 * 100
    assert model.count_params() == 50 * 300 + convolutions + (300 + 1) * 6
    assert model.settings["kernel_sizes"] == [3, 4, 5]


@refuses(
    ({"pooling": "mean"}, "pooling must be one of max, attention, lstm_attention, got 'mean'"),
    ({"kernel_sizes": []}, r"kernel_sizes must be a list of at least one size, got \[\]"),
    ({"kernel_sizes": 3}, "kernel_sizes must be a list of at least one size, got 3"),
    ({"kernel_sizes": [3, 0]}, "kernel_sizes must be at least 1, got 0"),
    ({"max_norm": 0}, "max_norm must be a finite number above 0, got 0"),
    ({"filters": 0}, "filters must be at least 1, got 0"),
)
def test_invalid_options_are_rejected(options: dict) -> None:
    ConvolutionalClassifier(**{**TINY, **options})
