# ruff: noqa: RUF012
from __future__ import annotations

import numpy as np
import pytest

from attention_zoo.layers import CharacterCNN
from tests.layers.running import array
from tests.layers.words import WORDS, WordConformance


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
        """Float64, filter by filter; the wider ones see more than there is."""
        layer = self.built(width=width)
        table, kernel, bias = (array(w) for w in layer.weights)
        kernel = kernel.reshape(width, 3, 5)
        got = array(layer(WORDS))
        for row, word in np.ndindex(WORDS.shape[:2]):
            letters = [letter for letter in WORDS[row, word] if letter]
            want = np.zeros(5) if not letters else np.full(5, -np.inf)
            for place in range(len(letters)):
                answer = bias.copy()
                for n in range(width):
                    source = place - (width - 1) // 2 + n
                    if 0 <= source < len(letters):
                        answer += table[letters[source]] @ kernel[n]
                want = np.maximum(want, answer)
            np.testing.assert_allclose(got[row, word], want, atol=1e-5)
