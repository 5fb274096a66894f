from __future__ import annotations

import keras
import numpy as np
import pytest

from attention_zoo.layers import GlimpseSensor
from tests.layers.conformance import LayerConformance
from tests.layers.running import (
    MODES,
    WIDE,
    any_batch,
    array,
    check_gradients,
    close,
    compiled,
    differentiable,
    same,
)


def oracle(images: np.ndarray, locations: np.ndarray, size: int, scales: int) -> np.ndarray:
    """Compute each output pixel in float64: the mean of the interpolated pixels of its block."""
    count, height, width, channels = images.shape
    patches = np.zeros((count, scales, size, size, channels))

    def interpolate(image: np.ndarray, row: float, column: float) -> np.ndarray:
        total = np.zeros(channels)
        for y in (int(np.floor(row)), int(np.floor(row)) + 1):
            for x in (int(np.floor(column)), int(np.floor(column)) + 1):
                if 0 <= y < height and 0 <= x < width:
                    total += (1 - abs(row - y)) * (1 - abs(column - x)) * image[y, x]
        return total

    for n, scale, i, j in np.ndindex(count, scales, size, size):
        block = 2**scale
        middle = (locations[n] + 1) * (height, width) / 2
        top, left = middle - size * block / 2 + block * np.array([i, j])
        points = [(top + a, left + b) for a, b in np.ndindex(block, block)]
        patches[n, scale, i, j] = np.mean(
            [interpolate(images[n], *location) for location in points], axis=0
        )
    return patches


def make_inputs(batch: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return images with an odd side, and locations inside them and at the corners."""
    rng = np.random.default_rng(seed)
    images = rng.normal(size=(batch, 7, 10, 2)).astype("float32")
    locations = rng.uniform(-1, 1, size=(batch, 2)).astype("float32")
    if batch > 1:
        locations[:2] = [[-1, 1], [0, 0]]
    return images, locations


class TestGlimpseSensor(LayerConformance):
    covers = GlimpseSensor
    options = {"size": 3, "scales": 3}
    changed = {"size": 4, "scales": 2}

    def tensors(self, batch: int = 3) -> tuple[np.ndarray, ...]:
        return make_inputs(batch)

    @pytest.mark.every_backend
    @pytest.mark.parametrize(("size", "scales"), [(1, 1), (3, 3), (4, 2), (12, 1)])
    def test_oracle(self, size: int, scales: int) -> None:
        images, locations = make_inputs(5, size)
        expected = oracle(images.astype("float64"), locations.astype("float64"), size, scales)
        close(GlimpseSensor(size, scales)(images, locations), expected, 1e-5)

    @pytest.mark.every_backend
    def test_gradients_are_finite_differences(self) -> None:
        """By pixels and by locations, none of which is exactly on a pixel."""
        images, locations = make_inputs(3)
        locations = np.array([[0.31, -0.62], [-0.47, 0.11], [0.93, 0.77]])
        layer = GlimpseSensor(3, 2, dtype=WIDE)
        run = differentiable(layer, layer)
        check_gradients(layer, run, [images.astype(WIDE), locations.astype(WIDE)])


def test_by_hand() -> None:
    """At integer pixels the finest patch is an exact crop; outside of the image it is 0."""
    image = np.arange(1, 17, dtype="uint8").reshape(1, 4, 4, 1)
    locations = np.array([[0, 0], [-1, -1], [1, 1], [0, 0.5]], "float32")
    patches = array(GlimpseSensor(2, 2)(np.repeat(image, 4, 0), locations))[..., 0]
    assert patches[:, 0].tolist() == [
        [[6, 7], [10, 11]],
        [[0, 0], [0, 1]],
        [[16, 0], [0, 0]],
        [[7, 8], [11, 12]],
    ]
    assert patches[0, 1].tolist() == [[3.5, 5.5], [11.5, 13.5]]
    assert patches[1, 1].tolist() == [[0, 0], [0, 3.5]]


@pytest.mark.fast
@pytest.mark.parametrize("policy", ["float16", "bfloat16", "mixed_float16"])
def test_locations_are_exact_in_half_precision(policy: str) -> None:
    """Location of pixel 200 is exact, although half precision cannot represent it."""
    image = np.zeros((1, 200, 200, 1), "uint8")
    image[0, 171, 5] = 200
    target = np.array([[(171.5 / 200) * 2 - 1, (5.5 / 200) * 2 - 1]], "float32")
    layer = GlimpseSensor(1, dtype=policy)
    for location in (target, keras.ops.convert_to_tensor(target)):
        assert array(layer(image, location)).item() == pytest.approx(200, abs=0.5)


@pytest.mark.parametrize("mode", MODES)
def test_images_of_any_size_and_number(mode: str) -> None:
    images, locations = keras.Input((None, None, 1), dtype="uint8"), keras.Input((2,))
    model = keras.Model([images, locations], GlimpseSensor(4, 2)(images, locations))
    assert model.output_shape == (None, 2, 4, 4, 1)
    rng = np.random.default_rng(0)
    for batch, height, width in ((2, 5, 9), (1, 1, 1)):
        image = rng.integers(0, 256, (batch, height, width, 1)).astype("uint8")
        location = rng.uniform(-1, 1, (batch, 2)).astype("float32")
        run = compiled(lambda x, at: model([x, at]), mode)
        close(run(image, location), oracle(image.astype("float64"), location, 4, 2), 1e-5)


def test_empty_batch_of_unknown_size() -> None:
    layer = GlimpseSensor(3, 2)
    got = any_batch(layer)(*make_inputs(0))
    assert tuple(got.shape) == (0, 2, 3, 3, 2)
    both = any_batch(layer)(*make_inputs(4))
    same(any_batch(layer)(*(x[1:2] for x in make_inputs(4))), array(both)[1:2])


def test_invalid_arguments_are_rejected() -> None:
    images, locations = make_inputs(3)
    with pytest.raises(ValueError, match=r"images must be \(batch, height, width, channels\)"):
        GlimpseSensor(3)(images[..., 0], locations)
    for wrong in (locations[:2], locations[:, :1], locations[:, None]):
        with pytest.raises(ValueError, match=r"locations must be \(3, 2\), got shape"):
            GlimpseSensor(3)(images, wrong)
