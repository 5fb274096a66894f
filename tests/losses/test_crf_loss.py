from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest

from attention_zoo import ops as zoo_ops
from attention_zoo.losses import CRFLoss
from tests.layers.running import (
    JAX,
    MODES,
    array,
    arrays,
    compiled,
    differentiable,
    needs_dynamic_shapes,
)
from tests.losses.test_sequence_cross_entropy import LossConformance
from tests.ops import chain_oracle as oracle
from tests.tiers import mark_full

RNG = np.random.default_rng(0)
ENERGIES = oracle.make_energies(4, 5, 3)
LABELS = RNG.integers(0, 3, (4, 5)).astype("int32")
PARTIAL_LABELS = np.where(RNG.random((4, 5)) < 0.4, -1, LABELS)
TAG_SETS = RNG.random((4, 5, 3)) < 0.7
KINDS = {"labels": LABELS, "parts": PARTIAL_LABELS, "sets": TAG_SETS}


def get_allowed_tags(labels: np.ndarray, size: int = 3) -> np.ndarray:
    """Return the allowed tags `(B, T, K)` of labels of any kind."""
    if labels.ndim == 3:
        return labels
    return (labels[..., None] == np.arange(size)) | (labels[..., None] == -1)


def compute_expected_losses(chain_inputs: oracle.Energies, labels: np.ndarray) -> np.ndarray:
    losses = []
    for row, mask in enumerate(chain_inputs.mask):
        paths, scores = oracle.list_paths(chain_inputs, row)
        is_correct = get_allowed_tags(labels)[row][mask][np.arange(mask.sum()), paths].all(1)
        losses.append(oracle.log_sum(scores) - oracle.log_sum(scores[is_correct]))
    return np.array(losses)


def make_potentials(*make_energies: Any) -> Any:
    return zoo_ops.pack(zoo_ops.make_chain(*make_energies))


class TestCRFLoss(LossConformance):
    covers = CRFLoss
    changed = {"reduction": "sum", "name": "other"}

    def labels_and_predictions(self) -> tuple[Any, Any]:
        return LABELS, make_potentials(*ENERGIES)

    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize("mode", MODES)
    def test_loss_equals_reference(self, mode: str, kind: str) -> None:
        labels = KINDS[kind]
        run = compiled(lambda y, *x: CRFLoss("none")(y, make_potentials(*x)), mode)
        np.testing.assert_allclose(
            array(run(labels, *ENERGIES)), compute_expected_losses(ENERGIES, labels), atol=1e-5
        )
        assert float(array(CRFLoss()(labels, make_potentials(*ENERGIES)))) == pytest.approx(
            compute_expected_losses(ENERGIES, labels).mean(), rel=1e-5
        )

    @needs_dynamic_shapes
    @pytest.mark.parametrize("kind", ["parts", mark_full("sets")])
    def test_sets_of_tags_compile_under_xla_with_dynamic_shapes(self, kind: str) -> None:
        self.check_dynamic_shapes(KINDS[kind], make_potentials(*ENERGIES))

    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize("name", ["emissions", "transitions", "starts", "ends"])
    def test_nan_gives_nan(self, name: str, kind: str) -> None:
        """Row 0 has two or more unmasked positions, row 1 none."""
        corrupted = getattr(ENERGIES, name).copy()
        corrupted.flat[-1 if name == "transitions" else 0] = np.nan
        energies = ENERGIES._replace(**{name: corrupted})
        losses = array(CRFLoss("none")(KINDS[kind], make_potentials(*energies)))
        assert np.isnan(losses[0])
        assert losses[1] == 0

    @pytest.mark.parametrize("mode", MODES)
    def test_nan_or_forbidden_emissions_with_labels_that_are_no_tags(self, mode: str) -> None:
        """NaN gives NaN; a position without an allowed tag makes all labels forbidden."""
        emissions = ENERGIES.emissions[:1].repeat(5, axis=0)
        emissions[0, 2, 1], emissions[1, 2], emissions[2, 2, 1] = np.nan, -np.inf, -np.inf
        labels = np.array([[7] * 5, [0] * 5, [0] * 5, [7] * 5, [0] * 5], "int32")
        run = compiled(
            lambda *x: CRFLoss("none")(labels, make_potentials(*x, *ENERGIES[1:4])), mode
        )
        losses = array(run(emissions))
        np.testing.assert_array_equal(losses[[0, 1, 3]], [np.nan, 1e4, 1e4])
        assert 0 < losses[2] < losses[4] < 100

    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize("mode", MODES)
    def test_gradient_is_difference_of_expectations(self, mode: str, kind: str) -> None:
        """The expectation over all sequences minus that over the correct ones."""
        labels = KINDS[kind]
        loss = CRFLoss("sum")
        run = differentiable(
            keras.layers.Identity(),
            lambda *x: loss(labels, make_potentials(*x, ENERGIES.mask)),
            mode,
        )
        _, gradients, _ = run(*ENERGIES[:4])
        is_correct = ENERGIES._replace(
            emissions=np.where(get_allowed_tags(labels), ENERGIES.emissions, -np.inf)
        )
        expected_gradients = [np.zeros(x.shape) for x in ENERGIES[:4]]
        for row in range(4):
            for sign, chain_inputs in ((1, ENERGIES), (-1, is_correct)):
                by_emissions, *shared = oracle.compute_expectations(chain_inputs, row)
                expected_gradients[0][row] += sign * by_emissions
                for total, part in zip(expected_gradients[1:], shared, strict=True):
                    total += sign * part
        for got, expected in zip(gradients, expected_gradients, strict=True):
            np.testing.assert_allclose(got, np.cos(1.0) * expected, atol=1e-5)

    def test_loss_equals_hand_computed_value(self) -> None:
        """Two positions, two tags: the correct one of four sequences has probability 1/3."""
        transitions = np.log([[2.0, 1.0], [1.0, 2.0]]).astype("float32")
        chain_inputs = make_potentials(np.zeros((1, 2, 2), "float32"), transitions)
        loss = CRFLoss()
        assert float(array(loss(np.array([[0, 0]]), chain_inputs))) == pytest.approx(
            np.log(3), rel=1e-6
        )
        assert float(array(loss(np.array([[-1, 0]]), chain_inputs))) == pytest.approx(
            np.log(2), rel=1e-6
        )
        assert float(array(loss(np.array([[-1, -1]]), chain_inputs))) == 0

    @pytest.mark.full
    @pytest.mark.parametrize("length", [0, 1, 127, 128, 300])
    def test_loss_is_not_negative_and_zero_for_empty_sentences(self, length: int) -> None:
        chain_inputs = oracle.make_energies(4, length, 3, scale=8.0)
        chain = zoo_ops.make_chain(*chain_inputs)
        best, _ = zoo_ops.best_path(chain)
        for labels in (array(best).astype("int32"), np.zeros((4, length), "int32")):
            run = differentiable(
                keras.layers.Identity(),
                lambda *x, y=labels: CRFLoss("none")(y, make_potentials(*x, chain_inputs.mask)),
                MODES[1],
            )
            values, gradients, _ = run(*chain_inputs[:4])
            assert (values >= 0).all()
            assert not values[~chain_inputs.mask.any(1)].any()
            assert all(np.isfinite(x).all() for x in gradients)

    def test_small_costs_of_long_sentences_are_exact(self) -> None:
        """300 positions with large emissions; each leaves probability 1e-3 to the other tag."""
        emissions = np.zeros((1, 300, 2), "float32")
        emissions[..., 0] = np.arange(300)
        emissions[..., 1] = np.arange(300) - np.float32(np.log(999))
        emissions += 1000
        chain_inputs = make_potentials(emissions, np.zeros((2, 2), "float32"))
        exact = np.logaddexp(0, emissions[0, :, 1].astype(float) - emissions[0, :, 0]).sum()
        got = float(array(CRFLoss()(np.zeros((1, 300), "int32"), chain_inputs)))
        assert got == pytest.approx(exact, rel=1e-4)

    @pytest.mark.parametrize("kind", KINDS)
    def test_padding_has_no_effect(self, kind: str) -> None:
        labels = KINDS[kind]
        padding = np.full((4, 7, *labels.shape[2:]), 9).astype(labels.dtype)
        longer = np.concatenate([labels, padding], axis=1)
        emissions = np.concatenate(
            [ENERGIES.emissions, np.full((4, 7, 3), np.nan, "float32")], axis=1
        )
        mask = np.concatenate([ENERGIES.mask, np.zeros((4, 7), "bool")], axis=1)
        got = CRFLoss("none")(longer, make_potentials(emissions, *ENERGIES[1:4], mask))
        np.testing.assert_allclose(array(got), compute_expected_losses(ENERGIES, labels), atol=1e-5)

    def test_sample_weights_and_mean(self) -> None:
        weights = np.array([1.0, 0.0, 2.0, 0.5], "float32")
        sentence_losses = compute_expected_losses(ENERGIES, LABELS)
        got = CRFLoss()(LABELS, make_potentials(*ENERGIES), sample_weight=weights)
        assert float(array(got)) == pytest.approx((weights * sentence_losses).mean(), rel=1e-5)

    @pytest.mark.full
    @pytest.mark.parametrize("kind", ["labels", "parts", "sets"])
    @pytest.mark.parametrize("mode", MODES[1:])
    def test_forbidden_labels_have_fixed_cost_and_no_gradient(self, mode: str, kind: str) -> None:
        chain_inputs = ENERGIES._replace(
            transitions=np.where(np.eye(3, dtype=bool), -np.inf, ENERGIES.transitions).astype(
                "float32"
            ),
            mask=np.ones_like(ENERGIES.mask),
        )
        labels = np.tile(np.array([0, 1, 0, 1, 2], "int32"), (4, 1))
        labels[1, 2] = 1  # after 1
        labels[2, 0] = -1 if kind == "parts" else 3  # 3 is no tag
        is_forbidden = [False, True, kind != "parts", False]
        if kind == "sets":
            labels = get_allowed_tags(labels)
        loss = CRFLoss("none")
        run = differentiable(
            keras.layers.Identity(),
            lambda *x: loss(labels, make_potentials(*x, chain_inputs.mask)),
            mode,
        )
        values, gradients, _ = run(*chain_inputs[:4])
        assert (values == 1e4).tolist() == is_forbidden
        assert all(np.isfinite(x).all() for x in gradients)
        assert gradients[0].any((1, 2)).tolist() == [not x for x in is_forbidden]

    @pytest.mark.skipif(JAX, reason="the training loop is TensorFlow's")
    def test_training_loop_averages_over_sentences(self) -> None:
        from attention_zoo.training.step import check_loss, compute_sums

        loss, chain_inputs = CRFLoss(), make_potentials(*ENERGIES)
        check_loss(loss)
        total, count = arrays(compute_sums(loss, keras.ops.convert_to_tensor(LABELS), chain_inputs))
        assert count == 4
        assert total == pytest.approx(compute_expected_losses(ENERGIES, LABELS).sum(), rel=1e-5)

    def test_empty_batch(self) -> None:
        chain_inputs = oracle.make_energies(0, 4, 3)
        got = CRFLoss("none")(np.zeros((0, 4), "int32"), make_potentials(*chain_inputs))
        assert tuple(got.shape) == (0,)

    def test_invalid_arguments_raise(self) -> None:
        loss, chain_inputs = CRFLoss(), make_potentials(*ENERGIES)
        with pytest.raises(ValueError, match="y_pred must be the output of a CRF layer"):
            loss(LABELS, ENERGIES.emissions[:, :3])
        with pytest.raises(ValueError, match=r"y_pred as a CRF layer returns it, must be"):
            loss(LABELS, ENERGIES.emissions)
        for labels in (LABELS[:, :4], LABELS[0]):
            with pytest.raises(ValueError, match=r"y_true, .* must be \(batch, 5\), got shape"):
                loss(labels, chain_inputs)
        with pytest.raises(ValueError, match=r"y_true, .* must be \(batch, 5, 3\), got shape"):
            loss(TAG_SETS[..., :2], chain_inputs)
