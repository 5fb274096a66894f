"""Conformance of captioners, in addition to that of all generation models."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.layers.running import array, close
from tests.models.generation_conformance import (
    LENGTH,
    SOURCE,
    TARGET,
    GenerationConformance,
    forward,
    make_images,
)


class CaptionerConformance(GenerationConformance):
    """A captioner. Images show the source: one square per token, each of another colour."""

    def inputs(self, source: np.ndarray = SOURCE, target: np.ndarray = TARGET) -> Any:
        return {"image": make_images(source), "target": target}

    def padded(self, source: np.ndarray, none: np.ndarray) -> np.ndarray:
        return source

    def tokens_of(self, source: np.ndarray) -> np.ndarray:
        """Return True everywhere: token 0 is a square too."""
        return np.ones(len(source), bool)

    def test_attention_weights_sum_to_one(self) -> None:
        model = self.make()
        result = self.search(model, n_best=2, beam_width=2, max_length=LENGTH)
        height, width = model.grid_shape(make_images(SOURCE))
        assert result.attention.shape == (3, 2, LENGTH, height * width)
        for row, rank in np.ndindex(3, 2):
            n = int(result.lengths[row, rank])
            close(result.attention[row, rank, :n].sum(-1), np.ones(n), 1e-5)

    @pytest.mark.full
    def test_sampled_captions_do_not_depend_on_the_batch(self) -> None:
        model = self.make()
        options = {"method": "sampling", "seed": 3}
        together = self.search(model, **options).tokens
        for row in range(len(SOURCE)):
            single = self.search(model, SOURCE[row : row + 1], **options).tokens
            np.testing.assert_array_equal(single[0], together[row])

    @pytest.mark.full
    def test_images_of_several_sizes(self) -> None:
        model = self.make()
        for height, width in ((8, 8), (12, 16), (7, 5)):
            image = np.random.default_rng(0).integers(0, 256, (2, height, width, 3), np.uint8)
            expected = model.search(image, max_length=3)
            result = model.compiled_search(image, max_length=3)
            np.testing.assert_array_equal(result.tokens, array(expected.tokens))
            assert result.attention.shape[-1] == np.prod(model.grid_shape(image))

    def test_small_feature_differences_affect_outputs(self) -> None:
        model = self.make(encoder={"kind": "features", "width": 5})
        grid = np.random.default_rng(0).uniform(0, 1e-3, (16, 2, 2, 5)).astype("float32")
        keys = array(model.start_decoding(grid, 1, 4).source_keys)
        assert len(set(keys.tolist())) == 16

    @pytest.mark.full
    @pytest.mark.numerics
    def test_learns(self) -> None:
        """Learns to name the squares of an image from right to left."""
        wide = {"kind": "cnn", "filters": [8, 16]}
        model, words, target, labels = self.train_to_reverse(epochs=24, encoder=wide)
        predicted = forward(model, words, target).argmax(-1)
        assert (predicted == labels).mean() > 0.6

    def test_integer_and_float_images_give_the_same_results(self) -> None:
        model = self.make()
        image = make_images(SOURCE)
        expected = model({"image": image, "target": TARGET})
        close(model({"image": image.astype("float32"), "target": TARGET}), expected, 1e-6)
