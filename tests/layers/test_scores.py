# ruff: noqa: RUF012
from __future__ import annotations

import numpy as np
import pytest

from attention_zoo.layers import (
    SCORES,
    AdditiveScore,
    Attention,
    ConcatScore,
    DotScore,
    GeneralScore,
    ScaledDotScore,
    Score,
)
from tests.layers.attention_case import Weights
from tests.layers.conformance import ScoreConformance
from tests.layers.running import array
from tests.variants import numerics_only


class TestDotScore(ScoreConformance):
    covers = DotScore
    registered = "dot"
    widths = (6, 6)

    def oracle(self, weights: Weights, query: np.ndarray, key: np.ndarray) -> np.ndarray:
        return query @ key.swapaxes(-1, -2)


class TestScaledDotScore(ScoreConformance):
    covers = ScaledDotScore
    registered = "scaled_dot"
    widths = (6, 6)

    def oracle(self, weights: Weights, query: np.ndarray, key: np.ndarray) -> np.ndarray:
        return query @ key.swapaxes(-1, -2) / np.sqrt(6)


class TestGeneralScore(ScoreConformance):
    covers = GeneralScore
    registered = "general"
    options = {"scale": True}
    changed = {"scale": False}

    def oracle(self, weights: Weights, query: np.ndarray, key: np.ndarray) -> np.ndarray:
        scores = query @ (key @ weights["key_kernel"]).swapaxes(-1, -2)
        return weights["gain"] * scores


class TestAdditiveScore(ScoreConformance):
    covers = AdditiveScore
    registered = "additive"
    options = {"units": 8, "normalize": True}
    changed = {"units": 9, "normalize": False}

    def oracle(self, weights: Weights, query: np.ndarray, key: np.ndarray) -> np.ndarray:
        hidden = (query @ weights["query_kernel"])[..., :, None, :]
        hidden = hidden + (key @ weights["key_kernel"])[..., None, :, :] + weights["bias"]
        v = weights["v"] / np.sqrt((weights["v"] ** 2).sum())
        return weights["gain"] * (np.tanh(hidden) @ v)


@numerics_only
class TestAdditiveScoreWithoutNormalization(ScoreConformance):
    covers = AdditiveScore
    registered = "additive"
    options = {"units": 8}

    def oracle(self, weights: Weights, query: np.ndarray, key: np.ndarray) -> np.ndarray:
        hidden = (query @ weights["query_kernel"])[..., :, None, :]
        return np.tanh(hidden + (key @ weights["key_kernel"])[..., None, :, :]) @ weights["v"]


class TestConcatScore(ScoreConformance):
    covers = ConcatScore
    registered = "concat"
    options = {"units": 8}
    changed = {"units": 9}

    def oracle(self, weights: Weights, query: np.ndarray, key: np.ndarray) -> np.ndarray:
        """Side by side indeed, as the paper writes it."""
        steps, sources = query.shape[-2], key.shape[-2]
        pairs = np.concatenate(
            [
                np.repeat(query[:, :, None], sources, axis=2),
                np.repeat(key[:, None], steps, axis=1),
            ],
            axis=-1,
        )
        return np.tanh(pairs @ weights["kernel"]) @ weights["v"]


@pytest.mark.parametrize("name", [name for name in SCORES.names() if name != "location"])
def test_a_name_is_enough(name: str) -> None:
    states = np.ones((2, 3, 4), "float32")
    assert tuple(Attention(score=name)(states, states).shape) == (2, 3, 4)


def test_bad_scores_are_refused() -> None:
    with pytest.raises(TypeError, match="base class"):
        Score().compare(None, None)


def test_gain_starts_where_the_norm_of_v_is_expected() -> None:
    score = AdditiveScore(16, normalize=True)
    score.build((1, 1, 3), (1, 1, 4))
    assert float(array(score.gain)) == pytest.approx(0.25)
    assert not array(score.bias).any()


def test_user_scores_are_layers_like_ours() -> None:
    """A score of another package, given as an object."""

    class Distance(Score):
        def compare(self, query: object, keys: object) -> object:
            from keras import ops

            return -ops.sum(ops.square(query[..., :, None, :] - keys[..., None, :, :]), axis=-1)

    keys = np.array([[[0.0], [5.0]]], "float32")
    context = Attention(score=Distance(), alignment="hard")(np.array([[[4.0]]], "float32"), keys)
    assert float(array(context)[0, 0, 0]) == 5
