from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest

from attention_zoo import ops as zoo_ops
from attention_zoo.losses import TagCrossEntropy
from tests.layers.running import JAX, MODES, array, arrays, compiled, differentiable
from tests.losses.test_sequence_cross_entropy import LossConformance
from tests.ops import chain_oracle as oracle

ENERGIES = oracle.make_energies(4, 5, 3)
LABELS = np.random.default_rng(1).integers(-1, 3, (4, 5)).astype("int32")
IS_LABELLED = ENERGIES.mask & (LABELS >= 0)


def make_potentials(*make_energies: Any) -> Any:
    return zoo_ops.pack(zoo_ops.make_chain(*make_energies))


def compute_expected_loss(smoothing: float, is_labelled: np.ndarray = IS_LABELLED) -> float:
    """Compute the loss in float64, position by position."""
    total = 0.0
    for row, position in zip(*np.nonzero(is_labelled), strict=True):
        x = ENERGIES.emissions[row, position].astype("float64")
        log_probs = x - np.log(np.exp(x).sum())
        target = np.full(3, smoothing / 3)
        target[LABELS[row, position]] += 1 - smoothing
        total -= float(target @ log_probs)
    return total / max(is_labelled.sum(), 1)


class TestTagCrossEntropy(LossConformance):
    covers = TagCrossEntropy
    changed = {"label_smoothing": 0.1, "name": "other"}

    def labels_and_predictions(self) -> tuple[Any, Any]:
        return LABELS, make_potentials(*ENERGIES)

    @pytest.mark.parametrize("smoothing", [0.0, 0.2])
    @pytest.mark.parametrize("mode", MODES)
    def test_loss_equals_reference(self, mode: str, smoothing: float) -> None:
        """Nonzero transitions, starts and ends have no effect."""
        loss = TagCrossEntropy(smoothing)
        got = compiled(lambda y, *x: loss(y, make_potentials(*x)), mode)(LABELS, *ENERGIES)
        assert float(array(got)) == pytest.approx(compute_expected_loss(smoothing), rel=1e-5)

    def test_loss_equals_hand_computed_value(self) -> None:
        """Probabilities 1/2 and 1/8 of the two tags: (ln 2 + ln 8) / 2 = ln 4."""
        emissions = np.log([[[0.25, 0.5, 0.25], [0.75, 0.125, 0.125]]]).astype("float32")
        packed_potentials = make_potentials(emissions, np.zeros((3, 3), "float32"))
        got = TagCrossEntropy()(np.array([[1, 2]]), packed_potentials)
        assert float(array(got)) == pytest.approx(np.log(4), rel=1e-6)

    @pytest.mark.parametrize("fill", [np.nan, np.inf])
    def test_values_at_masked_positions_have_no_effect(self, fill: float) -> None:
        """The values are in the packed potentials, which only the loss reads."""
        packed = array(make_potentials(*ENERGIES)).astype("float32")
        packed[:, :5, :3][~ENERGIES.mask] = fill
        loss = TagCrossEntropy(0.2)
        run = differentiable(keras.layers.Identity(), lambda x: loss(LABELS, x))
        value, (gradient,), _ = run(packed)
        assert float(value) == pytest.approx(compute_expected_loss(0.2), rel=1e-5)
        assert np.isfinite(gradient).all()
        assert not gradient[:, :5][~IS_LABELLED].any()
        assert gradient[:, :5, :3][IS_LABELLED].all()
        assert not gradient[:, 5:].any()

    @pytest.mark.parametrize("shape", [(2, 3), (0, 3), (2, 0)])
    def test_unknown_tags_only_give_zero(self, shape: tuple[int, int]) -> None:
        packed_potentials = make_potentials(
            np.ones((*shape, 4), "float32"), np.ones((4, 4), "float32")
        )
        assert float(array(TagCrossEntropy(0.1)(np.full(shape, -1), packed_potentials))) == 0

    @pytest.mark.skipif(JAX, reason="the training loop is TensorFlow's")
    def test_training_loop_weights_batches_by_tags(self) -> None:
        from attention_zoo.training.step import check_loss, compute_sums

        labels = keras.ops.convert_to_tensor(np.where(ENERGIES.mask, LABELS, -1))
        loss, packed_potentials = TagCrossEntropy(), make_potentials(*ENERGIES)
        check_loss(loss)
        total, count = arrays(compute_sums(loss, labels, packed_potentials))
        assert count == IS_LABELLED.sum()
        assert total == pytest.approx(compute_expected_loss(0.0) * IS_LABELLED.sum(), rel=1e-5)

    def test_invalid_arguments_raise(self) -> None:
        with pytest.raises(ValueError, match="y_pred must be the output of a CRF layer"):
            TagCrossEntropy()(LABELS, ENERGIES.emissions[:, :3])
        with pytest.raises(ValueError, match=r"y_true, .* must be \(4, 5\), got shape"):
            TagCrossEntropy()(LABELS[:, :4], make_potentials(*ENERGIES))
