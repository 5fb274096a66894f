# ruff: noqa: RUF012
from __future__ import annotations

import numpy as np

from attention_zoo.layers import CharacterLSTM
from tests.layers.running import array
from tests.layers.words import WORDS, WordConformance


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def last_state(
    letters: np.ndarray, kernel: np.ndarray, recurrent: np.ndarray, bias: np.ndarray
) -> np.ndarray:
    """h of an LSTM after these vectors, in float64."""
    h = c = np.zeros(len(recurrent))
    for x in letters:
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
        layer = self.built()
        table, *cells = (array(w) for w in layer.weights)
        got = array(layer(WORDS))
        for row, word in np.ndindex(WORDS.shape[:2]):
            letters = table[[letter for letter in WORDS[row, word] if letter]]
            want = [last_state(letters, *cells[:3]), last_state(letters[::-1], *cells[3:])]
            np.testing.assert_allclose(got[row, word], np.concatenate(want), atol=1e-5)
