from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest

from attention_zoo.losses import HardestNegatives
from tests.layers.running import MODES, array, compiled, differentiable
from tests.losses.test_sequence_cross_entropy import LossConformance

SIMILARITIES = np.array([[0.9, 0.8, 0.1], [0.3, 0.7, 0.95], [0.85, 0.2, 0.6]], "float32")


class TestHardestNegatives(LossConformance):
    covers = HardestNegatives
    changed = {"margin": 0.1, "sharpness": 5.0, "reduction": "sum", "name": "other"}

    def labels_and_predictions(self) -> tuple[Any, Any]:
        return np.array([7, 8, 9]), SIMILARITIES


def compute_losses(
    image_ids: list[int], similarities: np.ndarray = SIMILARITIES, **options: float | None
) -> np.ndarray:
    return array(HardestNegatives(reduction="none", **options)(np.array(image_ids), similarities))


@pytest.mark.every_backend
def test_losses_equal_hand_computed_values() -> None:
    """By text: .2 - .9 + .8, .2 - .7 + .95, .2 - .6 + .85; by image: .2 - .9 + .85 and so on."""
    text_losses, image_losses = [0.1, 0.45, 0.45], [0.15, 0.3, 0.55]
    expected = np.add(text_losses, image_losses)
    np.testing.assert_allclose(compute_losses([7, 8, 9]), expected, atol=1e-6)
    assert float(array(HardestNegatives()(np.array([7, 8, 9]), SIMILARITIES))) == pytest.approx(
        expected.mean()
    )
    np.testing.assert_allclose(
        compute_losses([7, 8, 9], margin=0.0), [0, 0.25 + 0.1, 0.25 + 0.35], atol=1e-6
    )


@pytest.mark.every_backend
def test_captions_of_one_image_are_not_negatives() -> None:
    """The last two pairs have one image: the .95 and .2 between them are not negatives."""
    expected = [0.1 + 0.15, 0 + 0.3, 0.2 - 0.6 + 0.85 + 0]
    np.testing.assert_allclose(compute_losses([7, 8, 8]), expected, atol=1e-6)


@pytest.mark.every_backend
@pytest.mark.parametrize("sharpness", [None, 3.0])
def test_pairs_without_negatives_have_no_loss(sharpness: float | None) -> None:
    loss = HardestNegatives(sharpness=sharpness)
    for image_ids in ([5], [5, 5, 5]):
        similarities = SIMILARITIES[: len(image_ids), : len(image_ids)]
        assert not compute_losses(image_ids, similarities, sharpness=sharpness).any()
        run = differentiable(
            keras.layers.Identity(), lambda x, n=image_ids: loss(np.array(n), x) / np.cos(1)
        )
        assert not run(similarities)[1][0].any()
    assert compute_losses([], SIMILARITIES[:0, :0]).shape == (0,)


@pytest.mark.every_backend
def test_sharpness_interpolates_between_mean_and_hardest() -> None:
    """Means of the negatives: rows .45, .625, .525; columns .575, .5, .525."""
    text_losses, image_losses = [0, 0.125, 0.125], [0, 0, 0.125]
    expected = np.add(text_losses, image_losses)
    np.testing.assert_allclose(compute_losses([7, 8, 9], sharpness=1e-3), expected, atol=1e-3)
    np.testing.assert_allclose(
        compute_losses([7, 8, 9], sharpness=1e4), compute_losses([7, 8, 9]), atol=1e-3
    )
    mean = (np.exp(4 * 0.3) + np.exp(4 * 0.95)) / 2
    one = compute_losses(
        [7, 8, 9], np.where([[1, 1, 1], [1, 1, 1], [0, 0, 1]], SIMILARITIES, -9), sharpness=4.0
    )
    columns = 0.2 - 0.7 + np.log((np.exp(4 * 0.8) + np.exp(4 * -9)) / 2) / 4
    expected = 0.2 - 0.7 + np.log(mean) / 4 + columns
    assert one[1] == pytest.approx(expected, abs=1e-5)


@pytest.mark.every_backend
def test_gradient_reaches_the_hardest_negatives() -> None:
    run = differentiable(
        keras.layers.Identity(),
        lambda x: HardestNegatives(reduction="sum")(np.array([1, 2, 3]), x) / np.cos(1),
    )
    expected = np.array([[-2, 2, 0], [0, -2, 2], [2, 0, -2]])
    np.testing.assert_allclose(run(SIMILARITIES)[1][0], expected, atol=1e-6)


@pytest.mark.every_backend
@pytest.mark.parametrize("mode", MODES[1:])
def test_compiled_equals_eager(mode: str) -> None:
    run = compiled(lambda y, x: HardestNegatives()(y, x), mode)
    image_ids = np.array([1, 2, 2])
    assert float(array(run(image_ids, SIMILARITIES))) == pytest.approx(
        float(compute_losses([1, 2, 2]).mean())
    )


def test_invalid_shapes_raise() -> None:
    with pytest.raises(ValueError, match=r"y_pred must be \(2, 2\), got shape \(2, 3\)"):
        compute_losses([1, 2], SIMILARITIES[:2])
    with pytest.raises(ValueError, match=r"y_true must be \(3\), got shape \(2,\)"):
        compute_losses([1, 2])
    with pytest.raises(ValueError, match=r"y_pred must be \(images, texts\), got shape"):
        compute_losses([1, 2, 3], SIMILARITIES[0])
