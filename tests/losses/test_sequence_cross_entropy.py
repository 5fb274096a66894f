from __future__ import annotations

import json
from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

from attention_zoo.losses import SequenceCrossEntropy
from attention_zoo.ops import Projection
from tests.layers.layer_case import ArgumentCase
from tests.layers.layer_conformance import (
    check_docstring,
    run_example,
    same_behaviour,
    saved_config,
)
from tests.layers.running import (
    MODES,
    POLICIES,
    array,
    close,
    compiled,
    differentiable,
    needs_dynamic_shapes,
    with_dynamic_shapes,
)

LABELS = np.array([[3, 1, 2, 0], [4, 0, 0, 0], [0, 0, 0, 0]])
LOGITS = np.random.default_rng(0).normal(size=(3, 4, 5)).astype("float32")


def oracle(labels: np.ndarray, logits: np.ndarray, smoothing: float) -> float:
    """Compute the loss in float64, token by token."""
    total, count = 0.0, 0
    for row, column in zip(*np.nonzero(labels), strict=True):
        x = logits[row, column].astype("float64")
        log_probs = x - np.log(np.exp(x).sum())
        target = np.full(len(x), smoothing / len(x))
        target[labels[row, column]] += 1 - smoothing
        total, count = total - float(target @ log_probs), count + 1
    return total / max(count, 1)


class LossConformance(ArgumentCase):
    """Config and documentation of a loss. A case implements `labels_and_predictions`."""

    same_results = ("name",)  # the name affects logs and files only

    def labels_and_predictions(self) -> tuple[Any, Any]:
        raise NotImplementedError

    def behaviour(self, loss: keras.losses.Loss) -> list[np.ndarray]:
        return [array(loss(*self.labels_and_predictions()))]

    def test_every_constructor_argument_is_saved_and_restored(self, argument: str) -> None:
        """A changed argument changes the value, and the rebuilt loss gives the same value."""
        self.check_names()
        base, loss = self.covers(), self.covers(**self.changed_option(argument))
        config = saved_config(loss)
        assert config != saved_config(base)
        behaviour = self.behaviour(loss)
        unchanged = same_behaviour(behaviour, self.behaviour(base))
        assert unchanged is (argument in self.same_results), f"effect of {argument}"
        saved = json.loads(json.dumps(keras.saving.serialize_keras_object(loss)))
        rebuilt = self.covers.from_config(config), keras.saving.deserialize_keras_object(saved)
        for rebuilt_loss in rebuilt:
            assert rebuilt_loss.get_config() == loss.get_config()
            assert same_behaviour(self.behaviour(rebuilt_loss), behaviour)

    @pytest.mark.parametrize("policy", POLICIES)
    def test_half_precision_gives_a_float32_loss(self, policy: str) -> None:
        keras.config.set_dtype_policy(policy)
        dtype = keras.dtype_policies.get(policy).compute_dtype
        labels, predictions = self.labels_and_predictions()
        half = keras.tree.map_structure(lambda x: ops.cast(x, dtype), predictions)
        got = self.covers()(labels, half)
        assert keras.backend.standardize_dtype(got.dtype) == "float32"
        keras.config.set_dtype_policy("float32")
        expected = array(self.covers()(labels, predictions))
        assert array(got) == pytest.approx(float(expected), rel=1e-2)

    @pytest.mark.parametrize("mode", ["eager", pytest.param("xla", marks=pytest.mark.full)])
    def test_nan_in_a_prediction_gives_nan(self, mode: str) -> None:
        """The first two elements of each tensor are unmasked in all cases."""
        labels, predictions = self.labels_and_predictions()
        leaves = [ops.convert_to_numpy(leaf) for leaf in keras.tree.flatten(predictions)]

        def compute(*leaves: Any) -> Any:
            return self.covers()(labels, keras.tree.pack_sequence_as(predictions, leaves))

        run = compiled(compute, mode)
        for n, leaf in enumerate(leaves):
            for position in range(min(leaf.size, 2)):
                corrupted = leaf.copy()
                corrupted.flat[position] = np.nan
                loss = run(*leaves[:n], corrupted, *leaves[n + 1 :])
                assert np.isnan(array(loss)), f"element {position} of tensor {n}"

    @needs_dynamic_shapes
    def test_gradient_compiles_under_xla_with_dynamic_shapes(self) -> None:
        self.check_dynamic_shapes(*self.labels_and_predictions())

    def check_dynamic_shapes(self, labels: Any, predictions: Any) -> None:
        """Compare loss and gradients under XLA with eager ones; only the last sizes are static."""
        import tensorflow as tf

        leaves = [tf.convert_to_tensor(x) for x in keras.tree.flatten(predictions)]

        def compute(labels: Any, *leaves: Any) -> Any:
            with tf.GradientTape() as tape:
                tape.watch(leaves)
                loss = self.covers()(labels, keras.tree.pack_sequence_as(predictions, leaves))
            return loss, tape.gradient(loss, leaves)

        labels = tf.convert_to_tensor(labels)
        specs = [((*[None] * (len(x.shape) - 1), x.shape[-1]), x.dtype) for x in leaves]
        run = with_dynamic_shapes(
            compute, ((None,) * len(labels.shape), labels.dtype), *specs, mode="xla"
        )
        close(run(labels, *leaves), compute(labels, *leaves), 1e-5)

    def test_docstring(self) -> None:
        check_docstring(self.covers, ("Args", "Call arguments", "Returns", "Example"), True)

    def test_example(self) -> None:
        run_example(self.covers)


class TestSequenceCrossEntropy(LossConformance):
    covers = SequenceCrossEntropy
    changed = {"label_smoothing": 0.1, "name": "other"}

    def labels_and_predictions(self) -> tuple[Any, Any]:
        return LABELS, LOGITS

    @pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.9])
    @pytest.mark.parametrize("mode", MODES)
    def test_loss_equals_reference(self, mode: str, smoothing: float) -> None:
        loss = SequenceCrossEntropy(smoothing)
        got = array(compiled(loss, mode)(LABELS, LOGITS))
        assert got == pytest.approx(oracle(LABELS, LOGITS, smoothing), rel=1e-6)

    def test_loss_equals_hand_computed_value(self) -> None:
        """Probabilities 1/2 and 1/8 of the two labels: (ln 2 + ln 8) / 2 = ln 4."""
        logits = np.log([[[0.25, 0.5, 0.25], [0.75, 0.125, 0.125]]]).astype("float32")
        got = array(SequenceCrossEntropy()(np.array([[1, 2]]), logits))
        assert got == pytest.approx(np.log(4), rel=1e-6)

    def test_mean_is_over_tokens(self) -> None:
        """Three tokens of one row and one of another have weight 1/4 each."""
        loss = SequenceCrossEntropy()
        rows = [float(array(loss(LABELS[i : i + 1], LOGITS[i : i + 1]))) for i in (0, 1)]
        got = array(loss(LABELS, LOGITS))
        assert got == pytest.approx((3 * rows[0] + rows[1]) / 4, rel=1e-6)
        assert abs(got - np.mean(rows)) > 1e-3

    def test_padding_has_no_effect(self) -> None:
        loss = SequenceCrossEntropy(0.1)
        longer = np.concatenate([LABELS, np.zeros((3, 7), "int64")], axis=1)
        garbage = np.concatenate([LOGITS, np.full((3, 7, 5), 1e4, "float32")], axis=1)
        assert array(loss(longer, garbage)) == pytest.approx(float(array(loss(LABELS, LOGITS))))

    @pytest.mark.parametrize("fill", [np.nan, np.inf])
    @pytest.mark.parametrize("smoothing", [0.0, 0.1])
    def test_values_at_padding_have_no_effect(self, smoothing: float, fill: float) -> None:
        loss = SequenceCrossEntropy(smoothing)
        corrupted = np.where((LABELS != 0)[..., None], LOGITS, np.float32(fill))
        run = differentiable(keras.layers.Identity(), lambda x: loss(LABELS, x))
        value, (gradient,), _ = run(corrupted)
        assert value == pytest.approx(oracle(LABELS, LOGITS, smoothing), rel=1e-6)
        assert np.isfinite(gradient).all()
        assert not gradient[LABELS == 0].any()

    @pytest.mark.parametrize("shape", [(2, 3), (0, 3), (2, 0)])
    def test_padding_only_gives_zero(self, shape: tuple[int, int]) -> None:
        logits = np.ones((*shape, 5), "float32")
        assert array(SequenceCrossEntropy(0.1)(np.zeros(shape, "int32"), logits)) == 0

    def test_invalid_shapes_raise(self) -> None:
        labels, logits = np.ones((2, 3), "int32"), np.zeros((2, 3, 5), "float32")
        with pytest.raises(ValueError, match=r"y_pred must be \(batch, steps, vocabulary\), got"):
            SequenceCrossEntropy()(labels, logits[:, 0])
        for other in (labels[:, :1], labels[..., None]):
            with pytest.raises(ValueError, match=r"y_true must be \(2, 3\), got shape"):
                SequenceCrossEntropy()(other, logits)


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_total_equals_mean_times_count(smoothing: float) -> None:
    rng = np.random.default_rng(0)
    hidden = ops.convert_to_tensor(rng.normal(size=(2, 3, 4)).astype("float32"))
    kernel = ops.convert_to_tensor(rng.normal(size=(4, 5)).astype("float32"))
    labels = np.array([[1, 4, 0], [2, 0, 0]])
    loss, projection = SequenceCrossEntropy(smoothing), Projection(hidden, kernel)
    expected = float(array(loss(labels, projection.logits()))) * float(array(loss.count(labels)))
    assert float(array(loss.total(ops.convert_to_tensor(labels), projection))) == pytest.approx(
        expected
    )
    with pytest.raises(ValueError, match="y_true"):
        loss.total(ops.convert_to_tensor(labels[:, :2]), projection)
