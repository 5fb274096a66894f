"""Layers that encode words from characters: CNN and LSTM."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from attention_zoo.layers import CharacterCNN, CharacterLSTM
from tests.layers.conformance import LayerConformance
from tests.layers.running import array, close, differentiable

WORDS = np.array([[[4, 5, 6, 7], [3, 5, 0, 0]], [[6, 0, 0, 0], [0, 0, 0, 0]]], "int32")


class WordConformance(LayerConformance):
    """Encoders of characters `(B, T, C)` as `(B, T, units)`."""

    def tensors(self, batch: int = 3) -> tuple[np.ndarray, ...]:
        return (np.random.default_rng(0).integers(1, 8, size=(batch, 2, 4)).astype("int32"),)

    @pytest.mark.every_backend
    def test_padding_does_not_affect_outputs(self) -> None:
        layer = self.make_random()
        expected = array(layer(WORDS))
        assert expected[:1].any(axis=-1).all()
        assert not expected[1, 1].any()
        close(layer(np.pad(WORDS, ((0, 0), (0, 0), (0, 5)))), expected, 1e-5)
        close(layer(np.pad(WORDS, ((0, 0), (0, 0), (5, 0)))), expected, 1e-5)
        close(layer(WORDS[:1, 1:, :2]), expected[:1, 1:], 1e-5)
        for word in (0, 1):
            close(layer(WORDS[:, word : word + 1]), expected[:, word : word + 1], 1e-5)

    test_empty_batch = None  # a case of test_small_sizes

    @pytest.mark.every_backend
    @pytest.mark.parametrize("sizes", [(0, 2, 4), (2, 0, 4), (2, 3, 0), (1, 1, 1), (1, 1, 2)])
    def test_small_sizes(self, sizes: tuple[int, ...]) -> None:
        y = array(self.make()(np.full(sizes, 3, "int32"), training=True))
        assert y.shape == (*sizes[:2], self.options["units"])
        assert np.isfinite(y).all()
        assert y.any() == (0 not in sizes)

    def test_gradients_are_finite_with_empty_words(self) -> None:
        layer = self.make_random()
        _, _, by_weights = differentiable(layer, layer)(WORDS)
        assert all(np.isfinite(x).all() and x.any() for x in by_weights)

    def test_dropout_acts_in_training_only(self) -> None:
        layer = self.make_random(dropout=0.5)
        words: Any = WORDS[:1]
        np.testing.assert_array_equal(array(layer(words)), array(layer(words, training=False)))
        assert (array(layer(words, training=True)) != array(layer(words))).any()

    def test_other_shapes_are_rejected(self) -> None:
        with pytest.raises(ValueError, match=r"\(batch, words, characters\), got shape"):
            self.make()(np.zeros((2, 3), "int32"))


class TestCharacterCNN(WordConformance):
    covers = CharacterCNN
    options = {"vocabulary_size": 8, "embedding_dim": 3, "units": 5}
    changed = {
        "vocabulary_size": 9,
        "embedding_dim": 4,
        "units": 6,
        "width": 2,
        "dropout": 0.1,
        "seed": 3,
    }

    @pytest.mark.parametrize("width", [1, 2, 3, 5])
    def test_oracle(self, width: int) -> None:
        """Compute each filter in float64; wide filters reach beyond the word."""
        layer = self.make_random(width=width)
        table, kernel, bias = (array(w) for w in layer.weights)
        kernel = kernel.reshape(width, 3, 5)
        got = array(layer(WORDS))
        for row, word in np.ndindex(WORDS.shape[:2]):
            characters = [letter for letter in WORDS[row, word] if letter]
            expected = np.zeros(5) if not characters else np.full(5, -np.inf)
            for position in range(len(characters)):
                response = bias.copy()
                for n in range(width):
                    source = position - (width - 1) // 2 + n
                    if 0 <= source < len(characters):
                        response += table[characters[source]] @ kernel[n]
                expected = np.maximum(expected, response)
            np.testing.assert_allclose(got[row, word], expected, atol=1e-5)


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def last_state(
    vectors: np.ndarray, kernel: np.ndarray, recurrent: np.ndarray, bias: np.ndarray
) -> np.ndarray:
    """Return the final h of an LSTM over these vectors, in float64."""
    h = c = np.zeros(len(recurrent))
    for x in vectors:
        i, f, new, o = np.split(x @ kernel + h @ recurrent + bias, 4)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(new)
        h = sigmoid(o) * np.tanh(c)
    return h


class TestCharacterLSTM(WordConformance):
    covers = CharacterLSTM
    options = {"vocabulary_size": 8, "embedding_dim": 3, "units": 6}
    changed = {"vocabulary_size": 9, "embedding_dim": 4, "units": 8, "dropout": 0.1, "seed": 3}
    tolerance = 1e-5
    keras_cells = True

    def test_oracle(self) -> None:
        layer = self.make_random()
        table, *cells = (array(w) for w in layer.weights)
        got = array(layer(WORDS))
        for row, word in np.ndindex(WORDS.shape[:2]):
            characters = table[[letter for letter in WORDS[row, word] if letter]]
            expected = [
                last_state(characters, *cells[:3]),
                last_state(characters[::-1], *cells[3:]),
            ]
            np.testing.assert_allclose(got[row, word], np.concatenate(expected), atol=1e-5)
