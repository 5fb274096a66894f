from __future__ import annotations

import numpy as np
import pytest

from attention_zoo.layers import (
    ALIGNMENTS,
    Alignment,
    Attention,
    HardAlignment,
    SoftmaxAlignment,
)
from tests.layers.attention_case import hard
from tests.layers.conformance import AlignmentConformance
from tests.layers.running import array, differentiable


class TestSoftmaxAlignment(AlignmentConformance):
    covers = SoftmaxAlignment
    registered = "softmax"


class TestHardAlignment(AlignmentConformance):
    covers = HardAlignment
    registered = "hard"

    def oracle(self, scores: np.ndarray, mask: np.ndarray) -> np.ndarray:
        return hard(scores, mask)


@pytest.mark.parametrize("name", ALIGNMENTS.names())
def test_a_name_is_enough(name: str) -> None:
    states = np.ones((2, 3, 4), "float32")
    assert tuple(Attention(alignment=name)(states, states).shape) == (2, 3, 4)


def test_unknown_alignment_is_refused() -> None:
    with pytest.raises(TypeError, match="base class"):
        Alignment()(np.zeros((1, 2), "float32"))


def test_softmax_by_hand() -> None:
    scores = np.log(np.array([[1.0, 2.0, 4.0, 8.0]], "float32"))
    weights, _ = SoftmaxAlignment()(scores, mask=np.array([[True, False, True, True]]))
    np.testing.assert_allclose(array(weights)[0], [1 / 13, 0, 4 / 13, 8 / 13], rtol=1e-6)


def test_hard_takes_the_first_of_equals_and_gives_scores_no_gradient() -> None:
    layer = HardAlignment()
    run = differentiable(layer, lambda x: layer(x)[0])
    weights, (gradient,), _ = run(np.array([[1.0, 3.0, 3.0]], "float32"))
    assert weights.tolist() == [[0, 1, 0]]
    assert not gradient.any()
