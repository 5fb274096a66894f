from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest

from attention_zoo import ops as zoo_ops
from attention_zoo.losses import CRFLoss
from tests.layers.running import JAX, MODES, array, arrays, compiled, differentiable
from tests.losses.test_sequence_cross_entropy import LossConformance
from tests.ops import chain_oracle as oracle

RNG = np.random.default_rng(0)
OF = oracle.energies(4, 5, 3)
LABELS = RNG.integers(0, 3, (4, 5)).astype("int32")
PARTS = np.where(RNG.random((4, 5)) < 0.4, -1, LABELS)
SETS = RNG.random((4, 5, 3)) < 0.7
KINDS = {"labels": LABELS, "parts": PARTS, "sets": SETS}


def allowed(labels: np.ndarray, size: int = 3) -> np.ndarray:
    """The sets of tags that labels of any kind mean."""
    if labels.ndim == 3:
        return labels
    return (labels[..., None] == np.arange(size)) | (labels[..., None] == -1)


def costs(of: oracle.Energies, labels: np.ndarray) -> np.ndarray:
    found = []
    for row, mask in enumerate(of.mask):
        paths, scores = oracle.every(of, row)
        right = allowed(labels)[row][mask][np.arange(mask.sum()), paths].all(1)
        found.append(oracle.log_sum(scores) - oracle.log_sum(scores[right]))
    return np.array(found)


def potentials(*energies: Any) -> Any:
    return zoo_ops.pack(zoo_ops.make_chain(*energies))


class TestCRFLoss(LossConformance):
    covers = CRFLoss
    changed = {"reduction": "sum", "name": "other"}

    def labels_and_predictions(self) -> tuple[Any, Any]:
        return LABELS, potentials(*OF)

    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize("mode", MODES)
    def test_oracle(self, mode: str, kind: str) -> None:
        labels = KINDS[kind]
        run = compiled(lambda y, *x: CRFLoss("none")(y, potentials(*x)), mode)
        np.testing.assert_allclose(array(run(labels, *OF)), costs(OF, labels), atol=1e-5)
        assert float(array(CRFLoss()(labels, potentials(*OF)))) == pytest.approx(
            costs(OF, labels).mean(), rel=1e-5
        )

    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize("mode", MODES)
    def test_gradient(self, mode: str, kind: str) -> None:
        """What is expected of all sequences, less what is expected of the right ones."""
        labels = KINDS[kind]
        loss = CRFLoss("sum")
        run = differentiable(
            keras.layers.Identity(), lambda *x: loss(labels, potentials(*x, OF.mask)), mode
        )
        _, gradients, _ = run(*OF[:4])
        right = OF._replace(emissions=np.where(allowed(labels), OF.emissions, -np.inf))
        wanted = [np.zeros(x.shape) for x in OF[:4]]
        for row in range(4):
            for sign, of in ((1, OF), (-1, right)):
                by_emissions, *shared = oracle.shares(of, row)
                wanted[0][row] += sign * by_emissions
                for total, part in zip(wanted[1:], shared, strict=True):
                    total += sign * part
        for got, want in zip(gradients, wanted, strict=True):
            np.testing.assert_allclose(got, np.cos(1.0) * want, atol=1e-5)

    def test_by_hand(self) -> None:
        """Two places, two tags; of four sequences the right one has a third of what there is."""
        transitions = np.log([[2.0, 1.0], [1.0, 2.0]]).astype("float32")
        of = potentials(np.zeros((1, 2, 2), "float32"), transitions)
        loss = CRFLoss()
        assert float(array(loss(np.array([[0, 0]]), of))) == pytest.approx(np.log(3), rel=1e-6)
        assert float(array(loss(np.array([[-1, 0]]), of))) == pytest.approx(np.log(2), rel=1e-6)
        assert float(array(loss(np.array([[-1, -1]]), of))) == 0

    @pytest.mark.full
    @pytest.mark.parametrize("length", [0, 1, 127, 128, 300])
    def test_is_never_below_0_and_0_of_nothing(self, length: int) -> None:
        of = oracle.energies(4, length, 3, scale=8.0)
        chain = zoo_ops.make_chain(*of)
        best, _ = zoo_ops.best_path(chain)
        for labels in (array(best).astype("int32"), np.zeros((4, length), "int32")):
            run = differentiable(
                keras.layers.Identity(),
                lambda *x, y=labels: CRFLoss("none")(y, potentials(*x, of.mask)),
                MODES[1],
            )
            values, gradients, _ = run(*of[:4])
            assert (values >= 0).all()
            assert not values[~of.mask.any(1)].any()
            assert all(np.isfinite(x).all() for x in gradients)

    def test_small_costs_of_long_sentences_are_exact(self) -> None:
        """300 places of great emissions, each of which leaves 1e-3 to the other tag."""
        emissions = np.zeros((1, 300, 2), "float32")
        emissions[..., 0] = np.arange(300)
        emissions[..., 1] = np.arange(300) - np.float32(np.log(999))
        emissions += 1000
        of = potentials(emissions, np.zeros((2, 2), "float32"))
        exact = np.logaddexp(0, emissions[0, :, 1].astype(float) - emissions[0, :, 0]).sum()
        got = float(array(CRFLoss()(np.zeros((1, 300), "int32"), of)))
        assert got == pytest.approx(exact, rel=1e-4)

    @pytest.mark.parametrize("kind", KINDS)
    def test_padding_counts_nothing(self, kind: str) -> None:
        labels = KINDS[kind]
        pads = np.full((4, 7, *labels.shape[2:]), 9).astype(labels.dtype)
        longer = np.concatenate([labels, pads], axis=1)
        emissions = np.concatenate([OF.emissions, np.full((4, 7, 3), np.nan, "float32")], axis=1)
        mask = np.concatenate([OF.mask, np.zeros((4, 7), "bool")], axis=1)
        got = CRFLoss("none")(longer, potentials(emissions, *OF[1:4], mask))
        np.testing.assert_allclose(array(got), costs(OF, labels), atol=1e-5)

    def test_sample_weights_and_mean(self) -> None:
        weights = np.array([1.0, 0.0, 2.0, 0.5], "float32")
        each = costs(OF, LABELS)
        got = CRFLoss()(LABELS, potentials(*OF), sample_weight=weights)
        assert float(array(got)) == pytest.approx((weights * each).mean(), rel=1e-5)

    @pytest.mark.full
    @pytest.mark.parametrize("kind", ["labels", "parts", "sets"])
    @pytest.mark.parametrize("mode", MODES[1:])
    def test_labels_that_are_forbidden_cost_much_and_teach_nothing(
        self, mode: str, kind: str
    ) -> None:
        of = OF._replace(
            transitions=np.where(np.eye(3, dtype=bool), -np.inf, OF.transitions).astype("float32"),
            mask=np.ones_like(OF.mask),
        )
        labels = np.tile(np.array([0, 1, 0, 1, 2], "int32"), (4, 1))
        labels[1, 2] = 1  # after 1
        labels[2, 0] = -1 if kind == "parts" else 3  # 3 is no tag
        wrong = [False, True, kind != "parts", False]
        if kind == "sets":
            labels = allowed(labels)
        loss = CRFLoss("none")
        run = differentiable(
            keras.layers.Identity(), lambda *x: loss(labels, potentials(*x, of.mask)), mode
        )
        values, gradients, _ = run(*of[:4])
        assert (values == 1e4).tolist() == wrong
        assert all(np.isfinite(x).all() for x in gradients)
        assert gradients[0].any((1, 2)).tolist() == [not x for x in wrong]

    @pytest.mark.skipif(JAX, reason="the training loop is TensorFlow's")
    def test_the_training_loop_takes_it_as_a_mean_over_sentences(self) -> None:
        from attention_zoo.training.step import check_loss, sum_and_count

        loss, of = CRFLoss(), potentials(*OF)
        check_loss(loss)
        total, count = arrays(sum_and_count(loss, keras.ops.convert_to_tensor(LABELS), of))
        assert count == 4
        assert total == pytest.approx(costs(OF, LABELS).sum(), rel=1e-5)

    def test_empty_batch(self) -> None:
        of = oracle.energies(0, 4, 3)
        got = CRFLoss("none")(np.zeros((0, 4), "int32"), potentials(*of))
        assert tuple(got.shape) == (0,)

    def test_misuse_is_refused(self) -> None:
        loss, of = CRFLoss(), potentials(*OF)
        with pytest.raises(ValueError, match="y_pred must be the output of a CRF layer"):
            loss(LABELS, OF.emissions[:, :3])
        with pytest.raises(ValueError, match=r"y_pred as a CRF layer returns it, must be"):
            loss(LABELS, OF.emissions)
        for labels in (LABELS[:, :4], LABELS[0]):
            with pytest.raises(ValueError, match=r"y_true, .* must be \(batch, 5\), got shape"):
                loss(labels, of)
        with pytest.raises(ValueError, match=r"y_true, .* must be \(batch, 5, 3\), got shape"):
            loss(SETS[..., :2], of)
