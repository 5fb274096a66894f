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

OF = oracle.energies(4, 5, 3)
LABELS = np.random.default_rng(1).integers(-1, 3, (4, 5)).astype("int32")
LIVE = OF.mask & (LABELS >= 0)


def potentials(*energies: Any) -> Any:
    return zoo_ops.pack(zoo_ops.make_chain(*energies))


def wanted(smoothing: float, live: np.ndarray = LIVE) -> float:
    """Float64, place by place."""
    total = 0.0
    for row, place in zip(*np.nonzero(live), strict=True):
        x = OF.emissions[row, place].astype("float64")
        log_probs = x - np.log(np.exp(x).sum())
        right = np.full(3, smoothing / 3)
        right[LABELS[row, place]] += 1 - smoothing
        total -= float(right @ log_probs)
    return total / max(live.sum(), 1)


class TestTagCrossEntropy(LossConformance):
    covers = TagCrossEntropy
    changed = {"label_smoothing": 0.1, "name": "other"}

    def labels_and_predictions(self) -> tuple[Any, Any]:
        return LABELS, potentials(*OF)

    @pytest.mark.parametrize("smoothing", [0.0, 0.2])
    @pytest.mark.parametrize("mode", MODES)
    def test_oracle(self, mode: str, smoothing: float) -> None:
        """Transitions, starts and ends, which are no 0 here, are not read."""
        loss = TagCrossEntropy(smoothing)
        got = compiled(lambda y, *x: loss(y, potentials(*x)), mode)(LABELS, *OF)
        assert float(array(got)) == pytest.approx(wanted(smoothing), rel=1e-5)

    def test_by_hand(self) -> None:
        """Probabilities 1/2 and 1/8 of the two tags: (ln 2 + ln 8) / 2 = ln 4."""
        emissions = np.log([[[0.25, 0.5, 0.25], [0.75, 0.125, 0.125]]]).astype("float32")
        of = potentials(emissions, np.zeros((3, 3), "float32"))
        got = TagCrossEntropy()(np.array([[1, 2]]), of)
        assert float(array(got)) == pytest.approx(np.log(4), rel=1e-6)

    @pytest.mark.parametrize("fill", [np.nan, np.inf])
    def test_garbage_at_hidden_places_reaches_nothing(self, fill: float) -> None:
        """In what was packed, so that the loss alone stands before it."""
        packed = array(potentials(*OF)).astype("float32")
        packed[:, :5, :3][~OF.mask] = fill
        loss = TagCrossEntropy(0.2)
        run = differentiable(keras.layers.Identity(), lambda x: loss(LABELS, x))
        value, (gradient,), _ = run(packed)
        assert float(value) == pytest.approx(wanted(0.2), rel=1e-5)
        assert np.isfinite(gradient).all()
        assert not gradient[:, :5][~LIVE].any()
        assert gradient[:, :5, :3][LIVE].all()
        assert not gradient[:, 5:].any()

    @pytest.mark.parametrize("shape", [(2, 3), (0, 3), (2, 0)])
    def test_nothing_known_is_nothing(self, shape: tuple[int, int]) -> None:
        of = potentials(np.ones((*shape, 4), "float32"), np.ones((4, 4), "float32"))
        assert float(array(TagCrossEntropy(0.1)(np.full(shape, -1), of))) == 0

    @pytest.mark.skipif(JAX, reason="the training loop is TensorFlow's")
    def test_the_training_loop_weighs_batches_by_their_tags(self) -> None:
        from attention_zoo.training.step import check_loss, sum_and_count

        labels = keras.ops.convert_to_tensor(np.where(OF.mask, LABELS, -1))
        loss, of = TagCrossEntropy(), potentials(*OF)
        check_loss(loss)
        total, count = arrays(sum_and_count(loss, labels, of))
        assert count == LIVE.sum()
        assert total == pytest.approx(wanted(0.0) * LIVE.sum(), rel=1e-5)

    def test_misuse_is_refused(self) -> None:
        with pytest.raises(ValueError, match="y_pred must be the output of a CRF layer"):
            TagCrossEntropy()(LABELS, OF.emissions[:, :3])
        with pytest.raises(ValueError, match=r"y_true, .* must be \(4, 5\), got shape"):
            TagCrossEntropy()(LABELS[:, :4], potentials(*OF))
