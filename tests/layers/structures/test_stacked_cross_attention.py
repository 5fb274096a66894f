from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
from keras import layers

from attention_zoo.layers import StackedCrossAttention
from attention_zoo.ops import implicit_mask
from tests.layers.attention_case import softmax
from tests.layers.running import array, close, differentiable, normal, same
from tests.layers.structure_conformance import Arrays, StructureConformance
from tests.variants import numerics_only


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    size = np.linalg.norm(a) * np.linalg.norm(b)
    return float(a @ b / size) if size else 0.0


def pair(words: np.ndarray, regions: np.ndarray, sharp: float, pool: Any) -> Any:
    """The paper's text-to-image equations for one unmasked sentence and image."""
    attended, weights = np.zeros(words.shape), np.zeros((len(words), len(regions)))
    if not len(words) or not len(regions):
        return attended, 0.0, weights
    s = np.array([[max(cosine(v, e), 0.0) for e in words] for v in regions])
    norms = np.sqrt((s**2).sum(1, keepdims=True))
    s = np.divide(s, norms, out=np.zeros_like(s), where=norms > 0)
    weights = softmax(sharp * s.T, np.ones((len(words), len(regions)), "bool"))
    attended = weights @ regions
    return attended, pool([cosine(e, a) for e, a in zip(words, attended, strict=True)]), weights


class TestTextToImage(StructureConformance):
    covers = StackedCrossAttention
    options = {"inverse_temperature": 3.0}
    changed = {
        "direction": "image_to_text",
        "inverse_temperature": 2.0,
        "pooling": "log_sum_exp",
        "pooling_sharpness": 5.0,
    }
    together = {"pooling_sharpness": {"pooling": "log_sum_exp"}}
    names = ("words_mask", "regions_mask")
    lengths = (4, 5)
    oracle_tolerance = 1e-5  # of a mean of cosines, which may cancel to far below 1

    def shapes(self, batch: int, *lengths: int) -> tuple[tuple[int, ...], ...]:
        return (batch, lengths[0], 6), (batch, lengths[1], 6)

    def pool(self, matches: list[float]) -> float:
        return float(np.mean(matches))

    def oracle(self, layer: Any, tensors: Arrays, masks: Arrays) -> tuple[np.ndarray, ...]:
        """Compare unmasked words and regions; return weights with masked ones as 0."""
        (words, regions), (valid, mask) = tensors, masks
        attended, similarity = np.zeros(words.shape), np.zeros(len(words))
        weights = np.zeros((*words.shape[:2], regions.shape[1]))
        for row, (e, v) in enumerate(zip(valid, mask, strict=True)):
            context, similarity[row], attention_weights = pair(
                words[row][e], regions[row][v], 3.0, self.pool
            )
            attended[row, e], weights[row][np.ix_(e, v)] = context, attention_weights
        return attended, similarity, weights


@numerics_only
class TestImageToText(TestTextToImage):
    """The same with words and regions exchanged."""

    options = {"inverse_temperature": 3.0, "direction": "image_to_text"}

    def oracle(self, layer: Any, tensors: Arrays, masks: Arrays) -> tuple[np.ndarray, ...]:
        return super().oracle(layer, tensors[::-1], masks[::-1])


@numerics_only
class TestLogSumExp(TestTextToImage):
    options = {"inverse_temperature": 3.0, "pooling": "log_sum_exp", "pooling_sharpness": 2.0}

    def pool(self, matches: list[float]) -> float:
        return float(np.log(np.exp(2.0 * np.array(matches)).sum()) / 2.0)


def test_by_hand() -> None:
    """Word [1, 0] and regions [1, 0], [0, 1]: s = [1, 0], also after normalization.

    With l = ln 3 the weights are 3/4 and 1/4, so a = [3, 1] / 4 and the cosine is 3 / sqrt(10).
    """
    words, regions = np.array([[[1.0, 0.0]]]), np.eye(2)[None]
    for pooling in ("average", "log_sum_exp"):
        layer = StackedCrossAttention(inverse_temperature=np.log(3), pooling=pooling)
        attended, match, weights = layer(words, regions, return_attention_scores=True)
        np.testing.assert_allclose(array(weights), [[[0.75, 0.25]]], atol=1e-6)
        np.testing.assert_allclose(array(attended), [[[0.75, 0.25]]], atol=1e-6)
        np.testing.assert_allclose(array(match), [3 / np.sqrt(10)], atol=1e-6)


def test_words_compete_for_a_region() -> None:
    """s is divided by its norm over words: each of two equal words gets 1 / sqrt(2)."""
    words, regions = np.array([[[1.0, 0.0], [1.0, 0.0]]]), np.eye(2)[None]
    layer = StackedCrossAttention(inverse_temperature=np.sqrt(2) * np.log(3))
    _, _, weights = layer(words, regions, return_attention_scores=True)
    np.testing.assert_allclose(array(weights), [[[0.75, 0.25]] * 2], atol=1e-6)


def test_opposite_vectors_have_zero_similarity() -> None:
    words, regions = np.array([[[1.0, 0.0]]]), np.array([[[-1.0, 0.0], [0.0, 1.0]]])
    _, match, weights = StackedCrossAttention()(words, regions, return_attention_scores=True)
    np.testing.assert_allclose(array(weights), [[[0.5, 0.5]]], atol=1e-6)
    np.testing.assert_allclose(array(match), [-1 / np.sqrt(2)], atol=1e-6)


@pytest.mark.parametrize("sharpness", [1e-3, 1.0, 500.0])
def test_log_sum_exp_of_any_sharpness(sharpness: float) -> None:
    """From the mean (plus a constant) to the maximum, without overflow."""
    rng = np.random.default_rng(0)
    words, regions = rng.normal(size=(1, 4, 6)), -rng.random(size=(1, 5, 6))
    layer = StackedCrossAttention(pooling="log_sum_exp", pooling_sharpness=sharpness)
    attended, match = layer(words, regions)
    cosines = np.array([cosine(e, a) for e, a in zip(words[0], array(attended)[0], strict=True)])
    expected = (
        cosines.max() + np.log(np.exp(sharpness * (cosines - cosines.max())).sum()) / sharpness
    )
    assert float(array(match)[0]) == pytest.approx(expected, rel=1e-5)


def test_masked_words_are_excluded_at_any_sharpness() -> None:
    """A masked word has a much higher similarity than the unmasked one."""
    words, regions = np.zeros((1, 3, 4)), np.zeros((1, 2, 4))
    words[0, 0, 0], regions[..., 0] = 1, -1
    layer = StackedCrossAttention(pooling="log_sum_exp", pooling_sharpness=500.0)
    _, match = layer(words, regions, words_mask=np.array([[True, False, False]]))
    assert float(array(match)[0]) == pytest.approx(-1)


@pytest.mark.parametrize("direction", ["text_to_image", "image_to_text"])
def test_query_mask_is_passed_on(direction: str) -> None:
    tokens, regions = keras.Input((None,), dtype="int32"), keras.Input((None, 6))
    masked_regions = layers.Masking()(regions)
    words = layers.Embedding(9, 6, mask_zero=True)(tokens)
    attended, match = StackedCrossAttention(direction)(words, masked_regions)
    model = keras.Model([tokens, regions], [attended, match])
    ids = np.array([[1, 2, 0, 0], [3, 4, 5, 6]])
    image = np.random.default_rng(0).normal(size=(2, 5, 6))
    image[1, 2:] = 0
    attended, match = model([ids, image])
    same(implicit_mask(attended), ids != 0 if direction == "text_to_image" else image[..., 0] != 0)
    assert implicit_mask(match) is None
    close(model([ids[:1, :2], image[:1]])[1], array(match)[:1], 1e-5)
    close(model([ids[1:], image[1:, :2]])[1], array(match)[1:], 1e-5)


def test_only_regions_are_masked() -> None:
    words, regions = np.ones((2, 5, 3), "float32"), np.ones((2, 5, 3), "float32")
    mask = np.array([[1, 1, 0, 0, 0]] * 2, "bool")
    assert implicit_mask(StackedCrossAttention()(words, regions, regions_mask=mask)[0]) is None
    back = StackedCrossAttention("image_to_text")(words, regions, words_mask=mask)
    assert implicit_mask(back[0]) is None


def test_other_widths_are_rejected() -> None:
    words = np.ones((2, 3, 4), "float32")
    with pytest.raises(ValueError, match=r"words and regions must have the same .*, got 4 and 3"):
        StackedCrossAttention()(words, words[..., :3])
    with pytest.raises(ValueError, match="words and regions must have the same width"):
        StackedCrossAttention().similarities(words, words[..., :3])


@pytest.mark.every_backend
@pytest.mark.parametrize("pooling", ["average", "log_sum_exp"])
@pytest.mark.parametrize("direction", ["text_to_image", "image_to_text"])
def test_all_pairs_equal_single_pairs(direction: str, pooling: str) -> None:
    layer = StackedCrossAttention(direction=direction, pooling=pooling)
    rng = np.random.default_rng(0)
    words = rng.normal(size=(4, 5, 7)).astype("float32")
    regions = (10 * rng.normal(size=(3, 6, 7))).astype("float32")
    valid = np.arange(5) < np.array([5, 3, 1, 0])[:, None]
    mask = np.arange(6) < np.array([6, 2, 0])[:, None]
    words[~valid] = np.nan
    got = array(layer.similarities(words, regions, valid, mask))
    expected = np.zeros((3, 4))
    for i, j in np.ndindex(3, 4):
        pair = words[j : j + 1], regions[i : i + 1], valid[j : j + 1], mask[i : i + 1]
        expected[i, j] = array(layer(*pair)[1])[0]
    close(got, expected, 1e-5)
    assert np.abs(expected[:2, :3]).min() > 0
    huge = array(layer.similarities(words, 1e30 * regions, valid, mask))
    close(huge, expected, 1e-5)
    assert array(layer.similarities(words[:0], regions)).shape == (3, 0)


@pytest.mark.every_backend
@pytest.mark.parametrize("pooling", ["average", "log_sum_exp"])
@pytest.mark.parametrize("direction", ["text_to_image", "image_to_text"])
def test_nan_in_a_pair_gives_a_similarity_of_nan(direction: str, pooling: str) -> None:
    """In the matrix of all pairs, NaN of an image fills its row and NaN of a text its column."""
    layer = StackedCrossAttention(direction=direction, pooling=pooling)
    words, regions = normal((3, 4, 6), (2, 5, 6))
    words[2, 3, 5], regions[1, 2, 0] = np.nan, np.nan
    expected = [[False, False, True], [True, True, True]]
    np.testing.assert_array_equal(np.isnan(array(layer.similarities(words, regions))), expected)
    np.testing.assert_array_equal(np.isnan(array(layer(words[1:], regions)[1])), [False, True])
    np.testing.assert_array_equal(np.isnan(array(layer(words[:2], regions)[1])), [False, True])


@pytest.mark.every_backend
def test_gradients_of_all_pairs_equal_those_of_single_pairs() -> None:
    words, regions = normal((1, 3, 4), (1, 5, 4))
    layer = StackedCrossAttention()
    of_call = differentiable(layer, lambda w, v: layer(w, v)[1])(words, regions)
    of_all = differentiable(layer, lambda w, v: layer.similarities(w, v)[0])(words, regions)
    close(of_all[1], of_call[1], 1e-4)
