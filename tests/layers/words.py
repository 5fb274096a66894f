"""What holds for layers that read words from their characters."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.layers.conformance import LayerConformance
from tests.layers.running import array, close, differentiable

WORDS = np.array([[[4, 5, 6, 7], [3, 5, 0, 0]], [[6, 0, 0, 0], [0, 0, 0, 0]]], "int32")


class WordConformance(LayerConformance):
    """`(B, T, C)` characters to `(B, T, units)`."""

    def tensors(self, batch: int = 3) -> tuple[np.ndarray, ...]:
        return (np.random.default_rng(0).integers(1, 8, size=(batch, 2, 4)).astype("int32"),)

    @pytest.mark.every_backend
    def test_padding_cannot_be_seen(self) -> None:
        layer = self.built()
        want = array(layer(WORDS))
        assert want[:1].any(axis=-1).all()
        assert not want[1, 1].any()
        close(layer(np.pad(WORDS, ((0, 0), (0, 0), (0, 5)))), want, 1e-5)
        close(layer(np.pad(WORDS, ((0, 0), (0, 0), (5, 0)))), want, 1e-5)
        close(layer(WORDS[:1, 1:, :2]), want[:1, 1:], 1e-5)
        for word in (0, 1):
            close(layer(WORDS[:, word : word + 1]), want[:, word : word + 1], 1e-5)

    @pytest.mark.parametrize("sizes", [(0, 2, 4), (2, 0, 4), (2, 3, 0), (1, 1, 1), (1, 1, 2)])
    def test_small_sizes(self, sizes: tuple[int, ...]) -> None:
        y = array(self.make()(np.full(sizes, 3, "int32"), training=True))
        assert y.shape == (*sizes[:2], self.options["units"])
        assert np.isfinite(y).all()
        assert y.any() == (0 not in sizes)

    def test_gradients_are_finite_with_empty_words(self) -> None:
        layer = self.built()
        _, _, by_weights = differentiable(layer, layer)(WORDS)
        assert all(np.isfinite(x).all() and x.any() for x in by_weights)

    def test_dropout_acts_in_training_only(self) -> None:
        layer = self.built(dropout=0.5)
        words: Any = WORDS[:1]
        np.testing.assert_array_equal(array(layer(words)), array(layer(words, training=False)))
        assert (array(layer(words, training=True)) != array(layer(words))).any()

    def test_other_shapes_are_refused(self) -> None:
        with pytest.raises(ValueError, match=r"\(batch, words, characters\), got shape"):
            self.make()(np.zeros((2, 3), "int32"))
