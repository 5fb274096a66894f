from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest

from attention_zoo.losses import HardestNegatives
from tests.layers.running import MODES, array, compiled, differentiable
from tests.losses.test_sequence_cross_entropy import LossConformance

ALIKE = np.array([[0.9, 0.8, 0.1], [0.3, 0.7, 0.95], [0.85, 0.2, 0.6]], "float32")


class TestHardestNegatives(LossConformance):
    covers = HardestNegatives
    changed = {"margin": 0.1, "sharpness": 5.0, "reduction": "sum", "name": "other"}

    def labels_and_predictions(self) -> tuple[Any, Any]:
        return np.array([7, 8, 9]), ALIKE


def costs(numbers: list[int], alike: np.ndarray = ALIKE, **options: float | None) -> np.ndarray:
    return array(HardestNegatives(reduction="none", **options)(np.array(numbers), alike))


@pytest.mark.every_backend
def test_by_hand() -> None:
    """By text .2 - .9 + .8, .2 - .7 + .95, .2 - .6 + .85; by image .2 - .9 + .85 and so on."""
    by_text, by_image = [0.1, 0.45, 0.45], [0.15, 0.3, 0.55]
    want = np.add(by_text, by_image)
    np.testing.assert_allclose(costs([7, 8, 9]), want, atol=1e-6)
    assert float(array(HardestNegatives()(np.array([7, 8, 9]), ALIKE))) == pytest.approx(
        want.mean()
    )
    np.testing.assert_allclose(
        costs([7, 8, 9], margin=0.0), [0, 0.25 + 0.1, 0.25 + 0.35], atol=1e-6
    )


@pytest.mark.every_backend
def test_captions_of_one_image_are_no_strangers() -> None:
    """The last two pairs are of one image: .95 and .2 between them do not count."""
    want = [0.1 + 0.15, 0 + 0.3, 0.2 - 0.6 + 0.85 + 0]
    np.testing.assert_allclose(costs([7, 8, 8]), want, atol=1e-6)


@pytest.mark.every_backend
@pytest.mark.parametrize("sharpness", [None, 3.0])
def test_without_strangers_nothing_is_to_be_learnt(sharpness: float | None) -> None:
    loss = HardestNegatives(sharpness=sharpness)
    for numbers in ([5], [5, 5, 5]):
        alike = ALIKE[: len(numbers), : len(numbers)]
        assert not costs(numbers, alike, sharpness=sharpness).any()
        run = differentiable(
            keras.layers.Identity(), lambda x, n=numbers: loss(np.array(n), x) / np.cos(1)
        )
        assert not run(alike)[1][0].any()
    assert costs([], ALIKE[:0, :0]).shape == (0,)


@pytest.mark.every_backend
def test_a_sharpness_goes_from_the_mean_to_the_likest() -> None:
    """Means of strangers by hand: of rows .45, .625, .525, of columns .575, .5, .525."""
    by_text, by_image = [0, 0.125, 0.125], [0, 0, 0.125]
    want = np.add(by_text, by_image)
    np.testing.assert_allclose(costs([7, 8, 9], sharpness=1e-3), want, atol=1e-3)
    np.testing.assert_allclose(costs([7, 8, 9], sharpness=1e4), costs([7, 8, 9]), atol=1e-3)
    mean = (np.exp(4 * 0.3) + np.exp(4 * 0.95)) / 2
    one = costs([7, 8, 9], np.where([[1, 1, 1], [1, 1, 1], [0, 0, 1]], ALIKE, -9), sharpness=4.0)
    columns = 0.2 - 0.7 + np.log((np.exp(4 * 0.8) + np.exp(4 * -9)) / 2) / 4
    want = 0.2 - 0.7 + np.log(mean) / 4 + columns
    assert one[1] == pytest.approx(want, abs=1e-5)


@pytest.mark.every_backend
def test_the_gradient_is_that_of_the_likest() -> None:
    run = differentiable(
        keras.layers.Identity(),
        lambda x: HardestNegatives(reduction="sum")(np.array([1, 2, 3]), x) / np.cos(1),
    )
    want = np.array([[-2, 2, 0], [0, -2, 2], [2, 0, -2]])
    np.testing.assert_allclose(run(ALIKE)[1][0], want, atol=1e-6)


@pytest.mark.every_backend
@pytest.mark.parametrize("mode", MODES[1:])
def test_compiled_is_eager(mode: str) -> None:
    run = compiled(lambda y, x: HardestNegatives()(y, x), mode)
    numbers = np.array([1, 2, 2])
    assert float(array(run(numbers, ALIKE))) == pytest.approx(float(costs([1, 2, 2]).mean()))


def test_misuse_is_refused() -> None:
    with pytest.raises(ValueError, match=r"y_pred must be \(2, 2\), got shape \(2, 3\)"):
        costs([1, 2], ALIKE[:2])
    with pytest.raises(ValueError, match=r"y_true must be \(3\), got shape \(2,\)"):
        costs([1, 2])
    with pytest.raises(ValueError, match=r"y_pred must be \(images, texts\), got shape"):
        costs([1, 2, 3], ALIKE[0])
