# ruff: noqa: RUF012
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from keras import ops

from attention_zoo.layers import (
    Attention,
    DotScore,
    LocalMonotonicAlignment,
    LocalPredictiveAlignment,
)
from attention_zoo.ops import Window
from tests.layers.attention_case import softmax
from tests.layers.conformance import AlignmentConformance
from tests.layers.running import array


class TestLocalMonotonicAlignment(AlignmentConformance):
    covers = LocalMonotonicAlignment
    registered = "local_monotonic"
    changed = {"window": 1}


class TestLocalPredictiveAlignment(AlignmentConformance):
    """Every window starts at place 2 and aims at 3.25; D = 4, so sigma is 2."""

    covers = LocalPredictiveAlignment
    registered = "local_predictive"
    options = {"window": 4}
    changed = {"window": 3, "units": 5}
    sums_to_one = False

    def window(self, scores: Any) -> Window:
        nothing = ops.zeros_like(scores[..., :1], dtype="int32")
        inside = np.ones(scores.shape[-1], "bool")
        return Window(nothing + 2, inside, ops.cast(nothing, "float32") + 3.25)

    def apply(self, layer: Any, scores: Any, *state: Any) -> Any:
        return layer(scores, state=state, evidence=self.window(scores))[0]

    def align(self, layer: Any, scores: Any, mask: Any = None) -> Any:
        scores = ops.convert_to_tensor(scores)
        return layer(scores, mask=mask, evidence=self.window(scores))[0]

    def oracle(self, scores: np.ndarray, mask: np.ndarray) -> np.ndarray:
        distance = 2 + np.arange(scores.shape[-1]) - 3.25
        return softmax(scores, mask) * np.exp(-(distance**2) / (2 * 2**2))

    def test_state_is_declared(self) -> None:
        layer, (scores,) = self.built(), self.tensors()
        assert not layer.remembers
        assert layer(scores, evidence=self.window(scores))[1] == ()


def test_steps_are_counted() -> None:
    layer, scores = LocalMonotonicAlignment(1), np.zeros((2, 3), "float32")
    state = layer.initial_state(scores)
    for t in range(3):
        assert array(state[0]).tolist() == [[t], [t]]
        _, state = layer(scores, state=state)


@pytest.mark.parametrize("live", [[1, 1, 1, 1], [0, 0, 1, 1], [1, 0, 1, 0], [0, 0, 0, 0]])
def test_hidden_queries_are_not_counted(live: list[int]) -> None:
    layer = LocalMonotonicAlignment()
    mask = ops.convert_to_tensor(np.array([live], "bool"))
    (before,) = layer.before_each(ops.zeros((1, 9)), mask)
    assert array(before)[0, :, 0].tolist() == [sum(live[:t]) for t in range(4)]
    (after,) = layer.after_all((before + 1,), mask)
    assert array(after).tolist() == [[sum(live)]]


class Tiring(DotScore):
    """A score that remembers, and that no list of excluded pairs knows."""

    def initial_state(self, like: Any) -> Any:
        return (like,)


@pytest.mark.parametrize("alignment", ["local_monotonic", "local_predictive"])
def test_a_score_that_remembers_is_refused(alignment: str) -> None:
    """Names are refused when the layer is made, what is not known by name when it is called."""
    states = np.ones((1, 2, 3), "float32")
    with pytest.raises(ValueError, match="scores places of the whole memory"):
        Attention(score="coverage", alignment=alignment)
    with pytest.raises(ValueError, match="take one that does not remember"):
        Attention(score=Tiring(), alignment=alignment)(states, states)
