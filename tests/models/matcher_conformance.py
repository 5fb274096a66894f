"""Conformance of models of text pairs.

class TestESIM(MatcherConformance):
    covers = ESIM
    options = {"vocabulary_size": 13, "classes": CLASSES, ...}   # a tiny model
    changed = {"vocabulary_size": 15, ...}   # every constructor argument, changed
"""

from __future__ import annotations

from typing import Any, ClassVar

import keras
import numpy as np
import pytest

from attention_zoo import losses
from attention_zoo.models import Matcher
from tests.layers.running import (
    JAX,
    array,
    arrays,
    close,
    differentiable,
    needs_dynamic_shapes,
    quick,
    with_dynamic_shapes,
)
from tests.models.encoder_conformance import fill
from tests.models.model_conformance import ExportableModelConformance, assert_finite_and_nonzero
from tests.tiers import FULL, mark_full

CLASSES = ["entailment", "neutral", "contradiction"]
FIRST = np.array([[4, 5, 6], [9, 8, 0], [5, 0, 0]], "int32")
SECOND = np.array([[6, 4], [5, 0], [12, 5]], "int32")
LABELS = np.array([2, 0, 1])
Given = dict[str, np.ndarray]


def insert_padding(tokens: np.ndarray, where: str, pads: int) -> tuple[np.ndarray, np.ndarray]:
    """Return tokens with more padding, and the new index of each position."""
    rows, length = tokens.shape
    cut = {"right": length, "left": 0, "inside": 1}[where]
    positions = np.r_[0:cut, cut + pads : length + pads]
    padded = np.zeros((rows, length + pads), "int32")
    padded[:, positions] = tokens
    return padded, positions


class MatcherConformance(ExportableModelConformance):
    """A public matcher. A case defines `covers`, `options`, `changed` and the sums of weights."""

    fill = staticmethod(fill)
    deep: ClassVar[dict[str, Any]] = {}
    """Options with which the model has the depth of a real one."""
    off: ClassVar[dict[str, Any] | None] = None
    """Options of the same model without attention, if there are any."""
    sum_axis: ClassVar[int | None] = None
    """Axis along which the weights of a token sum to 1; None if they do not."""

    def make_deep(self) -> Any:
        """Return a model with the depth of a real one in the full tier."""
        return self.make_random(**(self.deep if FULL else {}))

    def inputs(self) -> Given:
        return {"first": FIRST, "second": SECOND}

    def training_examples(self, model: Any) -> tuple[Any, Any, Any]:
        return self.inputs(), LABELS, model.make_loss()

    def run(self, model: Any, first: np.ndarray, second: np.ndarray) -> tuple[Any, Any]:
        """Return logits and weights."""

        def compute(*texts: Any) -> Any:
            inputs = dict(zip(("first", "second"), texts, strict=True))
            return model(inputs, return_attention_scores=True)

        return arrays(quick(compute)(first, second))

    # masking rules

    @pytest.mark.every_backend
    def test_padding_does_not_affect_outputs(self) -> None:
        model = self.make_deep()
        logits, weights = self.run(model, FIRST, SECOND)
        for where in ("right", "left", "inside") if FULL else ("inside",):
            first, rows = insert_padding(FIRST, where, 1)
            second, columns = insert_padding(SECOND, where, 2)
            got, shifted = self.run(model, first, second)
            close(got, logits, 1e-5)
            close(shifted[:, rows][..., columns], weights, 1e-5)
            assert np.count_nonzero(shifted) == np.count_nonzero(weights)

    def test_batch_members_do_not_affect_each_other(self) -> None:
        model = self.make_deep()
        logits, weights = self.run(model, FIRST, SECOND)
        for row in range(len(FIRST)) if FULL else (1,):
            first, second = (x[row : row + 1, x[row] != 0] for x in (FIRST, SECOND))
            single, alignment = self.run(model, first, second)
            close(single, logits[row : row + 1], 1e-5)
            close(alignment[0], weights[row][FIRST[row] != 0][:, SECOND[row] != 0], 1e-5)

    @pytest.mark.every_backend
    def test_tokens_of_both_texts_affect_the_logits(self) -> None:
        """Rules out constant outputs; another row's logits do not change."""
        model = self.make_deep()
        logits, _ = self.run(model, FIRST, SECOND)
        texts = {"first": FIRST, "second": SECOND}
        for name, x in texts.items():
            other = x.copy()
            other[0, 0] = 10
            got, _ = self.run(model, **{**texts, name: other})
            assert np.abs(got - logits)[0].max() > 1e-4 * np.abs(logits).max(), name
            close(got[1:], logits[1:], 1e-6)

    def test_empty_texts_give_finite_logits(self) -> None:
        """The other rows are not affected, and the weights of an empty text are 0."""
        model = self.make_deep()
        expected, _ = self.run(model, FIRST, SECOND)
        first, second = FIRST.copy(), SECOND.copy()
        first[1], second[2] = 0, 0
        logits, weights = self.run(model, first, second)
        assert np.isfinite(logits).all()
        assert np.isfinite(weights).all()
        assert not weights[1:].any()
        close(logits[0], expected[0], 1e-5)

    # attention

    @pytest.mark.every_backend
    def test_weights_of_padding_are_zero(self) -> None:
        model = self.make_random()
        _, weights = self.run(model, FIRST, SECOND)
        pairs = (FIRST != 0)[:, :, None] & (SECOND != 0)[:, None, :]
        assert weights.shape == pairs.shape
        assert not weights[~pairs].any()
        assert (weights >= 0).all()
        if self.sum_axis is None:
            return
        text = (FIRST, SECOND)[2 - self.sum_axis]
        np.testing.assert_allclose(weights.sum(self.sum_axis), text != 0, atol=1e-5)

    def test_requested_weights_do_not_change_the_logits(self) -> None:
        model = self.make_random()
        logits, weights = model(self.inputs(), return_attention_scores=True)
        close(model(self.inputs()), logits, 1e-5)
        assert {keras.backend.standardize_dtype(x.dtype) for x in (logits, weights)} == {"float32"}
        repeated = model(self.inputs(), training=True, return_attention_scores=True)
        assert np.isfinite(array(repeated[0])).all()

    def test_model_without_attention_returns_no_weights(self) -> None:
        if self.off is not None:
            model = self.make_random(**self.off)
            logits, weights = model(self.inputs(), return_attention_scores=True)
            assert weights is None
            close(model(self.inputs()), logits, 1e-6)

    # execution modes

    @pytest.mark.full
    @needs_dynamic_shapes
    @pytest.mark.parametrize("mode", ["graph", "xla"])
    def test_dynamic_shapes_give_the_same_weights(self, mode: str) -> None:
        model = self.make_random()

        def compute(first: Any, second: Any) -> Any:
            return model({"first": first, "second": second}, return_attention_scores=True)

        run = with_dynamic_shapes(compute, *[((None, None), "int32")] * 2, mode=mode)
        close(run(FIRST, SECOND), self.run(model, FIRST, SECOND), 1e-5)
        if mode == "graph":
            empty = arrays(run(FIRST[:, :0], SECOND))
            assert np.isfinite(empty[0]).all()
            assert empty[1].shape == (3, 0, 2)

    @pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
    def test_mixed_precision(self, policy: str) -> None:
        """Logits and weights are float32; every layer has the policy."""
        model = self.with_policy(policy)
        for x in model(self.inputs(), return_attention_scores=True):
            assert keras.backend.standardize_dtype(x.dtype) == "float32"
            assert getattr(x, "_keras_mask", None) is None
            assert np.isfinite(array(x)).all()

    @pytest.mark.parametrize("sizes", [(1, 1, 2), mark_full((2, 0, 3))], ids=str)
    def test_small_sizes(self, sizes: tuple[int, int, int]) -> None:
        rows, *lengths = sizes
        texts = [np.full((rows, length), 4, "int32") for length in lengths]
        logits, weights = self.run(self.make(), *texts)
        assert logits.shape == (rows, 3)
        assert weights.shape == sizes
        assert np.isfinite(logits).all()

    @pytest.mark.every_backend
    def test_gradients_are_finite(self) -> None:
        """Finite for a batch with empty texts, and nonzero for every weight."""
        model = self.make_random()
        first, second = (np.concatenate([x, x[:2]]) for x in (FIRST, SECOND))
        first[3], second[4] = 0, 0
        labels, loss = np.array([2, 0, 1, 1, 0]), model.make_loss(0.1)
        work = differentiable(
            model, lambda *x: loss(labels, model({"first": x[0], "second": x[1]}))
        )
        value, _, by_weights = work(first, second)
        assert np.isfinite(value).all()
        assert_finite_and_nonzero(model, by_weights)

    # losses and arguments

    def test_losses(self) -> None:
        model = self.make()
        assert type(model.make_loss(0.1)) is losses.ClassCrossEntropy
        assert model.make_loss(0.1).label_smoothing == 0.1
        assert model.classes == tuple(CLASSES)
        logits = model(self.inputs())
        np.testing.assert_allclose(array(model.probabilities(logits)).sum(-1), 1, atol=1e-6)
        with pytest.raises(ValueError, match="target must be None for a model with classes"):
            model.make_loss(target="regression")

    def test_model_without_classes_has_one_output(self) -> None:
        model = self.make(classes=None)
        assert model.classes is None
        logits = model(self.inputs())
        assert logits.shape == (3, 1)
        numbers = array(model.make_loss(target="regression")(np.ones(3), logits))
        np.testing.assert_allclose(numbers, np.mean((array(logits) - 1) ** 2), rtol=1e-4)
        assert type(model.make_loss(target="ranking")) is losses.BinaryCrossEntropy
        for options, message in (
            ({}, "target must be one of regression, ranking, got None"),
            ({"target": "order"}, "target must be one of regression, ranking, got 'order'"),
            ({"target": "regression", "label_smoothing": 0.1}, "label_smoothing must be 0 for a"),
        ):
            with pytest.raises(ValueError, match=message):
                model.make_loss(**options)
        with pytest.raises(ValueError, match="probabilities need a model with classes"):
            model.probabilities(logits)

    def test_invalid_inputs_are_rejected(self) -> None:
        model = self.make()
        assert isinstance(model, Matcher)
        with pytest.raises(ValueError, match="must be a dict with first, second, but second is"):
            model({"first": FIRST})
        with pytest.raises(
            ValueError, match=r"second must be \(3, positions\), got shape \(2, 2\)"
        ):
            model({"first": FIRST, "second": SECOND[:2]})
        with pytest.raises(ValueError, match="classes must be a list of at least 2 names"):
            self.make(classes=["one"])
        with pytest.raises(ValueError, match="classes must be distinct, got 'a' 2 times"):
            self.make(classes=["a", "b", "a"])


def contains(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Whether the second text contains the first word of the first text."""
    return (second == first[:, :1]).any(axis=1)


def begins_later(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Whether the first word of the second text has a larger id than that of the first text."""
    return second[:, 0] > first[:, 0]


def fit_and_evaluate(model: Any, rate: float, epochs: int, label: Any = contains) -> float:
    """Train on pairs of texts of one word, and of two or three words; return the test accuracy."""
    rng = np.random.default_rng(0)
    first, second = (rng.integers(3, 9, size=(600, 3)).astype("int32") for _ in range(2))
    first[:, 1:] = 0
    second[::2, 1] = 0
    labels = label(first, second).astype("int32")
    train, test = (
        {"first": first[rows], "second": second[rows]} for rows in (slice(400), slice(400, None))
    )
    model.compile(keras.optimizers.Adam(rate), model.make_loss(), jit_compile=JAX)
    model.fit(train, labels[:400], batch_size=32, epochs=epochs, shuffle=False, verbose=0)
    predicted = array(model(test)).argmax(-1)
    return float((predicted == labels[400:]).mean())


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def softmax(x: np.ndarray) -> np.ndarray:
    """Return the softmax over the last axis."""
    x = np.exp(x - x.max(-1, keepdims=True))
    return x / x.sum(-1, keepdims=True)


def run_lstm(
    x: np.ndarray, weights: list[np.ndarray], h: Any = None, c: Any = None, backwards: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Return the outputs of an LSTM `(S, D)` of one text `(S, E)`, and its last cell state.

    Args:
        weights: kernel, recurrent kernel and bias, gates in the order i, f, c, o.
        h, c: initial states; None for 0.
    """
    kernel, recurrent, bias = weights
    h = np.zeros(len(recurrent)) if h is None else h
    c = np.zeros(len(recurrent)) if c is None else c
    outputs = []
    for step in x[::-1] if backwards else x:
        i, f, g, o = np.split(step @ kernel + h @ recurrent + bias, 4)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        outputs.append(h)
    states = np.array(outputs)
    return (states[::-1] if backwards else states), c
