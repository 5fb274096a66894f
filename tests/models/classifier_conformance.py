"""Conformance of text classifiers.

class TestRecurrentClassifier(ClassifierConformance):
    covers = RecurrentClassifier
    options = {"vocabulary_size": 13, "classes": CLASSES, ...}   # a tiny model
    changed = {"vocabulary_size": 15, ...}   # every constructor argument, changed
"""

from __future__ import annotations

from typing import Any, ClassVar

import keras
import numpy as np
import pytest

from attention_zoo.models import Classifier
from tests.layers.running import JAX, QUICK, any_batch, array, close, compiled, differentiable
from tests.models.encoder_conformance import fill
from tests.models.model_conformance import ExportableModelConformance, assert_finite_and_nonzero
from tests.tiers import FULL, mark_full

CLASSES = ["sports", "politics", "science"]
TEXTS = np.array([[4, 5, 6, 7, 8, 9], [9, 0, 8, 7, 0, 0], [0, 0, 5, 0, 0, 0]], "int32")
"""Rows of six tokens, three and one, with padding anywhere."""
DOCUMENTS = np.array(
    [
        [[4, 5, 6, 7], [8, 9, 0, 0], [5, 4, 7, 0]],
        [[0, 0, 0, 0], [9, 0, 8, 7], [0, 6, 0, 0]],
        [[0, 0, 0, 0], [0, 5, 4, 0], [0, 0, 0, 0]],
    ],
    "int32",
)
"""Documents of three sentences, two and one, with padding and empty sentences anywhere."""
Results = tuple[np.ndarray, dict[str, np.ndarray]]


def run(model: Any, tokens: np.ndarray) -> Results:
    """Return the logits and the attention weights."""

    def call(tokens: Any) -> Any:
        return model({"tokens": tokens}, return_attention_scores=True)

    logits, weights = compiled(call, QUICK)(keras.ops.convert_to_tensor(tokens))
    return array(logits), {name: array(x) for name, x in weights.items()}


def pad(tokens: np.ndarray, axis: int, where: str, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return tokens with more padding on an axis, and the new index of each position."""
    length = tokens.shape[axis]
    cut = {"right": length, "left": 0, "inside": length // 2}[where]
    positions = np.r_[0:cut, cut + count : length + count]
    shape = [*tokens.shape]
    shape[axis] += count
    longer = np.zeros(shape, "int32")
    longer[(slice(None),) * axis + (positions,)] = tokens
    return longer, positions


def fit_and_evaluate(model: Any, tokens: np.ndarray, labels: np.ndarray, epochs: int) -> float:
    """Train with `compile` and `fit`; return the accuracy on the training set."""
    model.compile(keras.optimizers.Adam(0.02), model.make_loss(), jit_compile=JAX)
    inputs = {"tokens": tokens}
    model.fit(inputs, labels, batch_size=32, epochs=epochs, shuffle=False, verbose=0)
    return float((array(model(inputs)).argmax(-1) == labels).mean())


class ClassifierConformance(ExportableModelConformance):
    """A public classifier. A case defines `covers`, `options`, `changed` and, if needed, `make`."""

    fill = staticmethod(fill)
    deep: ClassVar[dict[str, Any]] = {}
    """Options with which the model has the depth of a real one."""
    weighted: ClassVar[dict[str, Any]] = {}
    """Options with which the model has attention weights; None if it never has."""

    def make_deep(self) -> Any:
        """Return a model with attention, and the depth of a real one in the full tier."""
        return self.make_random(**self.weighted, **(self.deep if FULL else {}))

    @property
    def tokens(self) -> np.ndarray:
        return DOCUMENTS if self.covers.has_sentences else TEXTS  # type: ignore[attr-defined]

    def inputs(self) -> dict[str, np.ndarray]:
        """Return all inputs of the model."""
        return {"tokens": self.tokens}

    def training_examples(self, model: Any) -> tuple[Any, Any, Any]:
        return self.inputs(), np.arange(3) % len(CLASSES), model.make_loss()

    # masking rules

    @pytest.mark.numerics
    @pytest.mark.every_backend
    def test_padding_does_not_affect_outputs(self) -> None:
        model, tokens = self.make_deep(), self.tokens
        expected, weights = run(model, tokens)
        for axis in range(1, tokens.ndim):
            for where in ("right", "left", "inside") if FULL else ("inside",):
                padded, positions = pad(tokens, axis, where, 7 if FULL else 3)
                logits, padded_weights = run(model, padded)
                close(logits, expected, 1e-5)
                for name, x in padded_weights.items():
                    if x.ndim > axis:
                        assert not np.delete(x, positions, axis).any()
                        x = x.take(positions, axis)
                    close(x, weights[name], 1e-5)

    @pytest.mark.numerics
    def test_batch_members_do_not_affect_each_other(self) -> None:
        model, tokens = self.make_deep(), self.tokens
        expected, weights = run(model, tokens)
        for row in range(3) if FULL else (1,):
            single = tokens[row : row + 1]
            columns = np.flatnonzero(single.reshape(-1, single.shape[-1]).any(axis=0))
            logits, single_weights = run(model, single[..., columns])
            close(logits, expected[row : row + 1], 1e-5)
            for name, x in single_weights.items():
                kept = weights[name][row : row + 1]
                close(x, kept[..., columns] if name == "tokens" else kept, 1e-5)

    @pytest.mark.every_backend
    def test_every_token_affects_outputs(self) -> None:
        """Rules out constant outputs, and effects on other rows."""
        model, tokens = self.make_deep(), self.tokens
        expected, _ = run(model, tokens)
        positions = [position for position in np.argwhere(tokens) if position[0] == 1]
        for position in positions if FULL else positions[1:2]:
            changed = tokens.copy()
            changed[tuple(position)] = 10
            difference = np.abs(run(model, changed)[0] - expected)
            assert difference[1].max() > 1e-4 * np.abs(expected).max()
            assert difference[[0, 2]].max() <= 1e-5 * np.abs(expected).max()

    @pytest.mark.numerics
    @pytest.mark.every_backend
    def test_attention_weights(self) -> None:
        """Weights are 0 at padding and sum to 1 in each text or sentence with tokens."""
        model, tokens = self.make_deep(), self.tokens
        _, weights = run(model, tokens)
        is_token = tokens != 0
        expected = {"tokens": is_token}
        if self.covers.has_sentences:  # type: ignore[attr-defined]
            expected["sentences"] = is_token.any(axis=-1)
        assert weights.keys() == expected.keys()
        for name, mask in expected.items():
            assert weights[name].shape == mask.shape
            assert not weights[name][~mask].any()
            assert (weights[name][mask] > 0).all()
            np.testing.assert_allclose(weights[name].sum(-1), mask.any(-1), atol=1e-6)

    @pytest.mark.every_backend
    def test_texts_without_tokens(self) -> None:
        """They have finite logits, whatever the number of positions, and weights 0."""
        model, tokens = self.make_deep(), self.tokens
        empty = np.zeros_like(tokens[:1])
        together, weights = run(model, np.concatenate([tokens, empty]))
        assert np.isfinite(together).all()
        assert not any(x[3].any() for x in weights.values())
        shapes = [empty.shape, *([(1, 0, 4), (1, 3, 0)] if tokens.ndim == 3 else [(1, 0)])]
        for shape in shapes if FULL else shapes[-1:]:
            logits, weights = run(model, np.zeros(shape, "int32"))
            close(logits, together[3:], 1e-5)
            assert all(x.shape == shape[: x.ndim] for x in weights.values())

    # outputs

    def test_attention_weights_do_not_affect_logits(self) -> None:
        model = self.make_deep()
        logits, _ = run(model, self.tokens)
        close(model(self.inputs()), logits, 1e-5)

    @pytest.mark.parametrize("multi_label", [False, True])
    def test_probabilities(self, multi_label: bool) -> None:
        model = self.make(multi_label=multi_label)
        assert model.multi_label is multi_label
        logits = np.log([[1.0, 3.0, 4.0], [2.0, 2.0, 2.0]]).astype("float32")
        got = array(model.probabilities(logits))
        expected = [[1 / 2, 3 / 4, 4 / 5], [2 / 3] * 3]
        if not multi_label:
            expected = [[1 / 8, 3 / 8, 4 / 8], [1 / 3] * 3]
        np.testing.assert_allclose(got, expected, rtol=1e-5)

    def test_loss(self) -> None:
        loss = self.make(multi_label=True).make_loss(0.1, [1.0, 2.0, 3.0])
        expected = {"label_smoothing": 0.1, "class_weights": [1.0, 2.0, 3.0], "multi_label": True}
        assert expected.items() <= loss.get_config().items()
        with pytest.raises(ValueError, match="one weight for each of 3 classes, got 2"):
            self.make().make_loss(class_weights=[1.0, 2.0])

    # execution modes

    @pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
    def test_mixed_precision(self, policy: str) -> None:
        """Logits and weights are float32; every layer has the policy."""
        logits, weights = self.with_policy(policy)(self.inputs(), return_attention_scores=True)
        for x in (logits, *weights.values()):
            assert keras.backend.standardize_dtype(x.dtype) == "float32"
            assert np.isfinite(array(x)).all()

    @pytest.mark.parametrize("sizes", [mark_full((0, 4)), (1, 1), (2, 3)], ids=str)
    def test_small_sizes(self, sizes: tuple[int, int]) -> None:
        model = self.make(**self.weighted)
        shape = (*sizes, 2)[: self.tokens.ndim]

        def call(tokens: Any) -> Any:
            return model({"tokens": tokens}, return_attention_scores=True)

        logits, weights = (any_batch(call) if FULL else call)(np.full(shape, 4, "int32"))
        assert logits.shape == (sizes[0], 3)
        assert np.isfinite(array(logits)).all()
        assert all(x.shape == shape[: len(x.shape)] for x in weights.values())

    @pytest.mark.numerics
    @pytest.mark.every_backend
    def test_gradients_are_finite(self) -> None:
        """Finite for a batch with a row of padding only, and nonzero for every weight."""
        model = self.make_random(**self.weighted)
        tokens = np.concatenate([self.tokens, np.zeros_like(self.tokens[:1])])
        logits, _, by_weights = differentiable(model, lambda x: model({"tokens": x}))(tokens)
        assert np.isfinite(logits).all()
        assert_finite_and_nonzero(model, by_weights)

    def test_invalid_inputs_are_rejected(self) -> None:
        model = self.make()
        assert isinstance(model, Classifier)
        assert model.classes == tuple(CLASSES)
        with pytest.raises(ValueError, match=r"tokens must be \(batch, .*\), got shape \(3,\)"):
            model({"tokens": np.ones(3, "int32")})
        with pytest.raises(ValueError, match="classes must be a list of at least 2 names, got"):
            self.make(classes=["sports"])
