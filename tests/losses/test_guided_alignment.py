from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest

from attention_zoo.layers import AdditiveAttention
from attention_zoo.losses import GuidedAlignment
from tests.layers.running import MODES, WIDE, array, check_gradients, compiled, differentiable
from tests.losses.test_sequence_cross_entropy import LossConformance

KINDS = ("cross_entropy", "mse")
RNG = np.random.default_rng(0)
WEIGHTS = RNG.dirichlet(np.ones(5), size=(3, 4)).astype("float32")
REFERENCE = (RNG.random((3, 4, 5)) < 0.3).astype("float32")
REFERENCE[0, 1] = REFERENCE[2] = 0
REFERENCE[1, 0] = [0, 1, 1, 0, 1]
HAS_REFERENCE = REFERENCE.any(-1)


def oracle(reference: np.ndarray, weights: np.ndarray, kind: str) -> float:
    """Compute the loss in float64, word by word."""
    costs = []
    for row in np.ndindex(*reference.shape[:2]):
        target, row_weights = reference[row].astype(float), weights[row].astype(float)
        if not target.any():
            continue
        if kind == "mse":
            costs.append(((target - row_weights) ** 2).sum())
            continue
        links = target > 0
        costs.append(-(target[links] / target.sum()) @ np.log(row_weights[links]))
    return float(np.mean(costs)) if costs else 0.0


class TestGuidedAlignment(LossConformance):
    covers = GuidedAlignment
    changed = {"kind": "mse", "name": "other"}

    def labels_and_predictions(self) -> tuple[Any, Any]:
        return REFERENCE, WEIGHTS

    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize("mode", MODES)
    def test_loss_equals_reference_implementation(self, mode: str, kind: str) -> None:
        got = compiled(GuidedAlignment(kind), mode)(REFERENCE, WEIGHTS)
        assert float(array(got)) == pytest.approx(oracle(REFERENCE, WEIGHTS, kind), rel=1e-6)

    def test_loss_equals_hand_computed_value(self) -> None:
        """Links to the first two of three words, weights 1/2, 1/8, 3/8; a word without links."""
        links = np.array([[[1, 1, 0], [0, 0, 0]]])
        weights = np.array([[[0.5, 0.125, 0.375], [0.1, 0.2, 0.7]]])
        cross, squares = (float(array(GuidedAlignment(kind)(links, weights))) for kind in KINDS)
        assert cross == pytest.approx((np.log(2) + np.log(8)) / 2, rel=1e-6)
        assert squares == pytest.approx(0.5**2 + 0.875**2 + 0.375**2, rel=1e-6)

    def test_cross_entropy_normalizes_the_reference(self) -> None:
        loss = GuidedAlignment()
        expected = float(array(loss(REFERENCE, WEIGHTS)))
        assert float(array(loss(7 * REFERENCE, WEIGHTS))) == pytest.approx(expected, rel=1e-6)
        normalized = REFERENCE / np.maximum(REFERENCE.sum(-1, keepdims=True), 1)
        assert float(array(loss(normalized, WEIGHTS))) == pytest.approx(expected, rel=1e-6)

    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize("fill", [np.nan, np.inf])
    def test_words_without_a_reference_are_ignored(self, fill: float, kind: str) -> None:
        loss = GuidedAlignment(kind)
        corrupted = np.where(HAS_REFERENCE[..., None], WEIGHTS, np.float32(fill))
        run = differentiable(keras.layers.Identity(), lambda x: loss(REFERENCE, x))
        value, (gradient,), _ = run(corrupted)
        assert value == pytest.approx(oracle(REFERENCE, WEIGHTS, kind), rel=1e-6)
        assert np.isfinite(gradient).all()
        assert not gradient[~HAS_REFERENCE].any()

    @pytest.mark.parametrize("kind", KINDS)
    def test_padding_has_no_effect(self, kind: str) -> None:
        """Additional targets have no reference, additional sources no weight."""
        loss = GuidedAlignment(kind)
        links, weights = (np.zeros((3, 9, 12), "float32") for _ in range(2))
        links[:, :4, :5], weights[:, :4, :5] = REFERENCE, WEIGHTS
        expected = float(array(loss(REFERENCE, WEIGHTS)))
        assert float(array(loss(links, weights))) == pytest.approx(expected, rel=1e-6)

    @pytest.mark.parametrize("kind", KINDS)
    def test_gradients_equal_finite_differences(self, kind: str) -> None:
        weights = RNG.uniform(0.2, 0.8, size=(3, 4, 5)).astype(WIDE)
        loss = GuidedAlignment(kind, dtype=WIDE)
        run = differentiable(keras.layers.Identity(), lambda x: loss(REFERENCE.astype(WIDE), x))
        check_gradients(keras.layers.Identity(), run, [weights])

    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize("shape", [(0, 4, 5), (3, 0, 5), (3, 4, 0), (3, 4, 5)])
    def test_no_reference_gives_zero(self, shape: tuple[int, ...], kind: str) -> None:
        assert float(array(GuidedAlignment(kind)(np.zeros(shape), np.ones(shape)))) == 0

    def test_zero_weight_at_a_link_gives_finite_loss(self) -> None:
        """log 0 and its gradient would be infinite."""
        loss, links = GuidedAlignment(), np.array([[[1.0, 0.0]]])
        run = differentiable(keras.layers.Identity(), lambda x: loss(links, x))
        value, (gradient,), _ = run(np.array([[[0.0, 1.0]]], "float32"))
        assert np.isfinite(value)
        assert value > 10
        assert np.isfinite(gradient).all()

    @pytest.mark.full
    @pytest.mark.parametrize("kind", KINDS)
    def test_attention_learns_the_reference(self, kind: str) -> None:
        query, value = keras.Input((6, 8)), keras.Input((6, 8))
        attention = AdditiveAttention(32)
        context, weights = attention(query, value, return_attention_scores=True)
        model = keras.Model([query, value], {"context": context, "weights": weights})
        losses = {"context": "mse", "weights": GuidedAlignment(kind)}
        model.compile(keras.optimizers.Adam(0.02), losses, {"context": 0.0, "weights": 1.0})
        rng = np.random.default_rng(0)
        data = [np.tile(rng.normal(size=(1, 6, 8)), (960, 1, 1)) for _ in range(2)]
        links = np.tile(np.eye(6)[None, ::-1], (960, 1, 1))
        links[:, 4:] = 0
        model.fit(
            data, {"context": data[1], "weights": links}, batch_size=8, shuffle=False, verbose=0
        )
        learned_weights = array(model([x[:1] for x in data])["weights"])[0]
        assert learned_weights[:4].argmax(-1).tolist() == [5, 4, 3, 2]
        assert (learned_weights[:4].max(-1) > 0.8).all()

    def test_invalid_shapes_raise(self) -> None:
        with pytest.raises(ValueError, match=r"weights, must be \(batch, targets, sources\), got"):
            GuidedAlignment()(REFERENCE, WEIGHTS[:, None])
        for other in (REFERENCE[..., :-1], REFERENCE[:, :1], REFERENCE[0]):
            with pytest.raises(ValueError, match=r"reference, must be \(\d+, \d+, \d+\), got"):
                GuidedAlignment()(other, WEIGHTS)
