"""Source positions of copied tokens."""

from __future__ import annotations

import numpy as np

from attention_zoo.tasks.summarization.result import origins


def test_origins_by_hand() -> None:
    source = [5, 9, 7, 9]
    attention = np.array([[0.7, 0.1, 0.1, 0.1], [0.4, 0.1, 0.2, 0.3], [0.1, 0.8, 0.1, 0.0]])
    found = origins(source, [7, 9, 9], attention, [0.5, 0.9, 0.49])
    assert found == (2, 3, -1)  # the word's position, not the largest weight; the third


def test_word_that_is_not_in_the_source_has_no_origin() -> None:
    assert origins([5], [6], np.ones((1, 1)), [0.9]) == (-1,)


def test_no_tokens() -> None:
    assert origins([5, 6], [], np.zeros((0, 2)), []) == ()
