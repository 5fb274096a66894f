# ruff: noqa: RUF012
from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
from keras import layers

from attention_zoo.layers import AttentionWeightedPooling
from attention_zoo.ops import implicit_mask
from tests.layers.running import array, close, same
from tests.layers.structure_laws import Arrays
from tests.layers.test_attention_feature_map import SentencePairCase
from tests.variants import numerics_only


def windows(x: np.ndarray, weights: np.ndarray, mask: np.ndarray, size: int) -> np.ndarray:
    """Sums over every run of `size` places; 0 of a run in which one is hidden."""
    count = max(len(x) - size + 1, 0)
    out = np.zeros((count, x.shape[1]))
    for start in range(count):
        if mask[start : start + size].all():
            for place in range(start, start + size):
                out[start] += weights[place] * x[place]
    return out


class TestAttentionWeightedPooling(SentencePairCase):
    covers = AttentionWeightedPooling
    options = {"window": 2}
    changed = {"window": 3, "score": "cosine"}

    def output_steps(self, layer: Any, steps: int) -> int:
        return max(steps - layer.window + 1, 0)

    def pair(self, layer: Any, x: Any, y: Any, a: Any, rows: Any, columns: Any) -> Arrays:
        return windows(x, a.sum(1), rows, layer.window), windows(y, a.sum(0), columns, layer.window)


@numerics_only
class TestWindowOfOne(TestAttentionWeightedPooling):
    """Every place alone."""

    options = {"window": 1}


@numerics_only
class TestWindowOfFour(TestAttentionWeightedPooling):
    """Longer than some sentences."""

    options = {"window": 4}


def test_by_hand() -> None:
    """Words 0, 3 against 0: A = [1, 1/4]; the rows weigh 1 and 1/4, the only column 5/4."""
    first, second = np.array([[[0.0], [3.0]]]), np.array([[[0.0]]])
    of_first, of_second, matrix = AttentionWeightedPooling(2)(
        first, second, return_attention_scores=True
    )
    np.testing.assert_allclose(array(matrix), [[[1], [0.25]]], atol=1e-6)
    np.testing.assert_allclose(array(of_first), [[[0.75]]], atol=1e-6)
    assert tuple(of_second.shape) == (1, 0, 1)
    of_first, of_second = AttentionWeightedPooling(1)(second + 4, first)
    # |4 - 0| and |4 - 3|: A = [1/5, 1/2], whose sum 0.7 weighs the 4, and 1/2 the 3
    np.testing.assert_allclose(array(of_first), [[[2.8]]], atol=1e-6)
    np.testing.assert_allclose(array(of_second), [[[0], [1.5]]], atol=1e-6)


def test_a_wide_convolution_and_its_pooling_keep_the_length() -> None:
    """ABCNN-2: S places, S + w - 1 after the convolution, S after the pooling."""
    sentences = [np.random.default_rng(n).normal(size=(2, n, 4)) for n in (5, 7)]
    wide = keras.Sequential([layers.ZeroPadding1D(2), layers.Conv1D(6, 3, activation="tanh")])
    pooled = AttentionWeightedPooling(window=3)(*[wide(x) for x in sentences])
    assert [tuple(x.shape) for x in pooled] == [(2, 5, 6), (2, 7, 6)]


def test_masks_of_the_windows_go_on() -> None:
    """Two poolings in a row: a sentence of n words has n - 1, then n - 2 windows."""
    tokens = [keras.Input((None,), dtype="int32") for _ in range(2)]
    embed = layers.Embedding(9, 4, mask_zero=True)
    once = AttentionWeightedPooling(2)(*[embed(x) for x in tokens])
    model = keras.Model(tokens, AttentionWeightedPooling(2)(*once))
    first, second = np.array([[1, 2, 3, 4, 0, 0]]), np.array([[5, 6, 7, 0]])
    outputs = model([first, second])
    same(implicit_mask(outputs[0]), np.array([[1, 1, 0, 0]], "bool"))
    same(implicit_mask(outputs[1]), np.array([[1, 0]], "bool"))
    for alone, output in zip(model([first[:, :4], second[:, :3]]), outputs, strict=True):
        close(alone, array(output)[:, : alone.shape[1]], 1e-5)


def test_misuse_is_refused() -> None:
    first, second = np.ones((2, 3, 4), "float32"), np.ones((2, 5, 4), "float32")
    with pytest.raises(ValueError, match=r"first \(the query\) and second .*one width"):
        AttentionWeightedPooling(2)(first, second[..., :3])
    bare, learned = AttentionWeightedPooling(2), AttentionWeightedPooling(2, score="general")
    for layer in (bare, learned):
        layer(first, second)
    assert tuple(bare(first[..., :3], second[..., :3])[0].shape) == (2, 2, 3)  # nothing to fit
    with pytest.raises(ValueError, match=r"first must be \(batch, places, 4\), got shape"):
        learned(first[..., :3], second)
