"""What holds for every model that tells what images show, beside what holds for all that write."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from attention_zoo.losses import SequenceCrossEntropy
from attention_zoo.models import from_preset
from tests.layers.running import JAX, array, close
from tests.models.conformance import (
    END,
    LENGTH,
    SOURCE,
    START,
    TARGET,
    ModelConformance,
    check_row,
    forward,
    picture_of,
    read_by,
)
from tests.tiers import FULL


class CaptionerConformance(ModelConformance):
    """One captioner. Its sources are drawn: a square for each token, no two of them alike."""

    def inputs(self, source: np.ndarray = SOURCE, target: np.ndarray = TARGET) -> Any:
        return {"image": picture_of(source), "target": target}

    def test_pads_cannot_be_seen(self, preset: str) -> None:
        model = self.shipped(preset)
        want = forward(model, SOURCE, TARGET)
        longer = np.concatenate([TARGET, np.zeros((len(TARGET), 20), "int32")], 1)
        got = forward(model, SOURCE, longer)[:, : TARGET.shape[1]]
        close(got[TARGET != 0], want[TARGET != 0], 1e-5)

    def test_batch_cannot_be_seen(self, preset: str) -> None:
        model = self.shipped(preset)
        together = forward(model, SOURCE, TARGET)
        for row in range(len(SOURCE)):
            said = TARGET[row] != 0
            alone = forward(model, SOURCE[row : row + 1], TARGET[row : row + 1, said])
            close(alone[0], together[row, said], 1e-5)

    @pytest.mark.numerics
    def test_nothing_but_padding(self) -> None:
        """An image of one colour, and a target that has not begun."""
        model = self.make()
        source, target = SOURCE.copy(), TARGET.copy()
        source[1], target[2] = 0, 0
        assert np.isfinite(forward(model, source, target)).all()
        for options in ({}, {"beam_width": 2}):
            found = self.search(model, source, max_length=4 if FULL else 2, **options)
            assert np.isfinite(found.scores).all()
            for row in range(3):
                check_row(found.tokens[row, 0], int(found.lengths[row, 0]), found.finished[row, 0])

    def test_looks_add_up_to_one(self) -> None:
        model = self.make()
        found = self.search(model, n_best=2, beam_width=2, max_length=LENGTH)
        height, width = model.grid_shape(picture_of(SOURCE))
        assert found.attention.shape == (3, 2, LENGTH, height * width)
        for row, rank in np.ndindex(3, 2):
            n = int(found.lengths[row, rank])
            close(found.attention[row, rank, :n].sum(-1), np.ones(n), 1e-5)

    @pytest.mark.full
    def test_draws_depend_on_the_image_alone(self) -> None:
        model = self.make()
        options = {"method": "sampling", "seed": 3}
        together = self.search(model, **options).tokens
        for row in range(len(SOURCE)):
            alone = self.search(model, SOURCE[row : row + 1], **options).tokens
            np.testing.assert_array_equal(alone[0], together[row])

    @pytest.mark.full
    def test_images_of_several_sizes(self) -> None:
        model = self.make()
        for height, width in ((8, 8), (12, 16), (7, 5)):
            image = np.random.default_rng(0).integers(0, 256, (2, height, width, 3), np.uint8)
            want = model.search(image, max_length=3)
            found = model.compiled_search(image, max_length=3)
            np.testing.assert_array_equal(found.tokens, array(want.tokens))
            assert found.attention.shape[-1] == np.prod(model.grid_shape(image))

    def test_numbers_of_numpy_are_numbers(self, tmp_path: Path) -> None:
        encoder = {"kind": "cnn", "filters": (np.int64(4), 6)}
        numbers = {"embedding_dim": np.int64(8), "units": np.int32(8), "dropout": np.float32(0.25)}
        model = self.make(**numbers, encoder=encoder)
        model.save_to_preset(tmp_path)
        assert from_preset(tmp_path).settings == model.settings
        assert model.settings["encoder"]["filters"] == [4, 6]

    def test_small_features_are_told_apart(self) -> None:
        model = self.make(encoder={"kind": "features", "width": 5})
        grid = np.random.default_rng(0).uniform(0, 1e-3, (16, 2, 2, 5)).astype("float32")
        keys = array(model.decoder_step(grid, 1, 4).keys)
        assert len(set(keys.tolist())) == 16

    @pytest.mark.full
    @pytest.mark.numerics
    def test_learns(self) -> None:
        """Names the squares of an image from right to left."""
        rng = np.random.default_rng(0)
        words = rng.integers(4, 9, size=(256, 3)).astype("int32")
        target = np.concatenate([np.full((256, 1), START), words[:, ::-1]], 1).astype("int32")
        labels = np.concatenate([words[:, ::-1], np.full((256, 1), END)], 1).astype("int32")
        wide = {"kind": "cnn", "filters": [8, 16]}
        model = self.make(units=24, embedding_dim=12, dropout=0.0, encoder=wide)
        model.compile(keras.optimizers.Adam(self.rate), SequenceCrossEntropy(), jit_compile=JAX)
        data = self.inputs(words, target)
        untrained = model.evaluate(data, labels, batch_size=32, verbose=0)
        history = model.fit(
            data, labels, batch_size=32, epochs=24, shuffle=False, verbose=0
        ).history["loss"]
        assert untrained > 1.2
        assert history[-1] < 0.5 * history[0]
        said = forward(model, words, target).argmax(-1)
        assert (said == labels).mean() > 0.6

    def test_images_of_whole_numbers_and_of_others_are_the_same(self) -> None:
        model = self.make()
        image = picture_of(SOURCE)
        want = model({"image": image, "target": TARGET})
        close(model({"image": image.astype("float32"), "target": TARGET}), want, 1e-6)


__all__ = ["SOURCE", "TARGET", "CaptionerConformance", "forward", "picture_of", "read_by"]
