from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
from keras import layers

from attention_zoo.layers import AttentionFeatureMap, AttentionWeightedPooling
from attention_zoo.ops import implicit_mask
from tests.layers.attention_case import numbers
from tests.layers.running import JAX, array, close, same, with_dynamic_shapes
from tests.layers.structure_conformance import Arrays, StructureConformance
from tests.variants import numerics_only


def match_scores(
    first: np.ndarray, second: np.ndarray, rows: np.ndarray, columns: np.ndarray
) -> Any:
    """Return the paper's match score of every pair; 0 where either word is masked."""
    matrix = np.zeros((len(first), len(second)))
    for i, j in np.ndindex(*matrix.shape):
        if rows[i] and columns[j]:
            matrix[i, j] = 1 / (1 + np.linalg.norm(first[i] - second[j]))
    return matrix


class SentencePairCase(StructureConformance):
    """A layer of two sentences that computes match scores. A case implements `pair`."""

    names = ("first_mask", "second_mask")
    lengths = (5, 4)

    def shapes(self, batch: int, *lengths: int) -> tuple[tuple[int, ...], ...]:
        return (batch, lengths[0], 6), (batch, lengths[1], 6)

    def pair(self, layer: Any, x: Any, y: Any, a: Any, rows: Any, columns: Any) -> Arrays:
        """Compute both outputs for one pair from match scores and masks."""
        raise NotImplementedError

    def output_steps(self, layer: Any, steps: int) -> int:
        return steps

    def oracle(self, layer: Any, tensors: Arrays, masks: Arrays) -> Arrays:
        batch, *steps = len(tensors[0]), *(x.shape[1] for x in tensors)
        outputs = [np.zeros((batch, self.output_steps(layer, n), 6)) for n in steps]
        matrices = np.zeros((batch, *steps))
        for row, (x, y, rows, columns) in enumerate(zip(*tensors, *masks, strict=True)):
            matrices[row] = match_scores(x, y, rows, columns)
            result = self.pair(layer, x, y, matrices[row], rows, columns)
            for output, part in zip(outputs, result, strict=True):
                output[row] = part
        return *outputs, matrices


class TestAttentionFeatureMap(SentencePairCase):
    covers = AttentionFeatureMap
    options = {"max_length": 150}
    changed = {"max_length": 160, "score": "cosine"}

    def pair(self, layer: Any, x: Any, y: Any, a: Any, rows: Any, columns: Any) -> Arrays:
        """In the paper's notation: F and W are features by words."""
        w0, w1 = (numbers(layer)[name].T for name in ("first_kernel", "second_kernel"))
        return (w0[:, : len(y)] @ a.T).T, (w1[:, : len(x)] @ a).T


def test_feature_map_by_hand() -> None:
    """Words at distances 0 and 3 (A = 1 and 1/4), W0 = [[8], [4]], W1 = [[2], [.]]."""
    layer = AttentionFeatureMap(max_length=2)
    first, second = np.array([[[0.0, 0.0]]]), np.array([[[0.0, 0.0], [0.0, 3.0]]])
    layer(first, second)
    layer.set_weights([np.array([[8, 0], [4, 1]]), np.array([[2, 6], [100, 100]])])
    of_first, of_second, matrix = layer(first, second, return_attention_scores=True)
    np.testing.assert_allclose(array(matrix), [[[1, 0.25]]], atol=1e-6)
    np.testing.assert_allclose(array(of_first), [[[9, 0.25]]], atol=1e-6)
    np.testing.assert_allclose(array(of_second), [[[2, 6], [0.5, 1.5]]], atol=1e-6)


def test_feature_maps_keep_masks() -> None:
    tokens = [keras.Input((None,), dtype="int32") for _ in range(2)]
    embed = layers.Embedding(9, 4, mask_zero=True)
    maps = AttentionFeatureMap(max_length=9)(*[embed(x) for x in tokens])
    model = keras.Model(tokens, maps)
    first, second = np.array([[1, 2, 0, 0]]), np.array([[3, 4, 5, 0, 0, 0]])
    outputs = model([first, second])
    for output, ids in zip(outputs, (first, second), strict=True):
        same(implicit_mask(output), ids != 0)
        assert not array(output)[ids == 0].any()
    for single, output in zip(model([first[:, :2], second[:, :3]]), outputs, strict=True):
        close(single, array(output)[:, : single.shape[1]], 1e-5)


def test_sentences_of_different_widths() -> None:
    first, second = np.ones((2, 3, 4), "float32"), np.ones((2, 5, 6), "float32")
    maps = AttentionFeatureMap(max_length=5, score="general")(first, second)
    assert [tuple(x.shape) for x in maps] == [(2, 3, 4), (2, 5, 6)]


def test_feature_map_rejects_invalid_arguments() -> None:
    first, second = np.ones((2, 3, 4), "float32"), np.ones((2, 5, 4), "float32")
    with pytest.raises(ValueError, match="sequence length 5 of second exceeds max_length=4"):
        AttentionFeatureMap(4)(first, second)
    with pytest.raises(ValueError, match=r"first \(the query\) and second .*equal widths"):
        AttentionFeatureMap(5)(first, second[..., :3])


def test_too_long_sentence_is_rejected_at_run_time() -> None:
    layer = AttentionFeatureMap(4)
    layer(np.ones((2, 3, 4), "float32"), np.ones((2, 3, 4), "float32"))
    padded = np.ones((2, 5, 4), "float32")
    with pytest.raises(ValueError, match="sequence length 5 of first exceeds max_length=4"):
        layer(padded, padded)
    if not JAX:  # which has static shapes
        run = with_dynamic_shapes(layer, (None, None, 4), (None, None, 4))
        with pytest.raises(Exception, match=r"size\[0\]"):
            run(padded, padded)


def windows(x: np.ndarray, weights: np.ndarray, mask: np.ndarray, size: int) -> np.ndarray:
    """Sums over all windows of `size` positions; 0 for a window with a masked one."""
    count = max(len(x) - size + 1, 0)
    out = np.zeros((count, x.shape[1]))
    for start in range(count):
        if mask[start : start + size].all():
            for position in range(start, start + size):
                out[start] += weights[position] * x[position]
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
    """Windows of one position."""

    options = {"window": 1}


@numerics_only
class TestWindowOfFour(TestAttentionWeightedPooling):
    """Windows longer than some sentences."""

    options = {"window": 4}


def test_pooling_by_hand() -> None:
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


def test_pooled_windows_keep_masks() -> None:
    """Two pooling layers: a sentence of n words has n - 1, then n - 2 windows."""
    tokens = [keras.Input((None,), dtype="int32") for _ in range(2)]
    embed = layers.Embedding(9, 4, mask_zero=True)
    once = AttentionWeightedPooling(2)(*[embed(x) for x in tokens])
    model = keras.Model(tokens, AttentionWeightedPooling(2)(*once))
    first, second = np.array([[1, 2, 3, 4, 0, 0]]), np.array([[5, 6, 7, 0]])
    outputs = model([first, second])
    same(implicit_mask(outputs[0]), np.array([[1, 1, 0, 0]], "bool"))
    same(implicit_mask(outputs[1]), np.array([[1, 0]], "bool"))
    for single, output in zip(model([first[:, :4], second[:, :3]]), outputs, strict=True):
        close(single, array(output)[:, : single.shape[1]], 1e-5)


def test_pooling_rejects_invalid_arguments() -> None:
    first, second = np.ones((2, 3, 4), "float32"), np.ones((2, 5, 4), "float32")
    with pytest.raises(ValueError, match=r"first \(the query\) and second .*equal widths"):
        AttentionWeightedPooling(2)(first, second[..., :3])
    bare, learned = AttentionWeightedPooling(2), AttentionWeightedPooling(2, score="general")
    for layer in (bare, learned):
        layer(first, second)
    assert tuple(bare(first[..., :3], second[..., :3])[0].shape) == (2, 2, 3)  # nothing to fit
    with pytest.raises(ValueError, match=r"first must be \(batch, positions, 4\), got shape"):
        learned(first[..., :3], second)
