from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
from keras import layers

from attention_zoo.layers import SCORES, CoAttention, LocationScore
from attention_zoo.ops import implicit_mask
from tests.layers.attention_case import numbers, softmax
from tests.layers.running import array, close, same
from tests.layers.structure_conformance import Arrays, StructureConformance


class TestCoAttention(StructureConformance):
    covers = CoAttention
    changed = {"score": "general", "units": 9}
    together = {"units": {"score": "additive"}}
    names = ("context_mask", "query_mask")
    lengths = (5, 4)
    seed = 141  # the best match is far from the second: at a tie the gradient is not unique

    def shapes(self, batch: int, *lengths: int) -> tuple[tuple[int, ...], ...]:
        return (batch, lengths[0], 6), (batch, lengths[1], 6)

    def oracle(self, layer: Any, tensors: Arrays, masks: Arrays) -> tuple[np.ndarray, ...]:
        """Compute each pair with the paper's w over the concatenated [h; u; h * u]."""
        w = numbers(layer)["kernel"]
        merged, to_query, to_context = [], [], []
        for h, u, h_mask, u_mask in zip(*tensors, *masks, strict=True):
            h = np.where(h_mask[:, None], h, 0)
            s = np.zeros((len(h), len(u)))
            for t, j in np.ndindex(*s.shape):
                s[t, j] = w @ np.concatenate([h[t], u[j], h[t] * u[j]])
            a = softmax(s, h_mask[:, None] & u_mask)
            best = np.max(np.where(u_mask, s, -np.inf), axis=1, initial=-1e300)
            b = softmax(best, h_mask & u_mask.any())
            attended_query, attended_context = a @ u, np.broadcast_to(b @ h, h.shape)
            merged.append(
                np.concatenate(
                    [h, attended_query, h * attended_query, h * attended_context], axis=-1
                )
            )
            to_query.append(a)
            to_context.append(b)
        batch, steps, positions = len(tensors[0]), tensors[0].shape[1], tensors[1].shape[1]
        return (
            np.array(merged).reshape(batch, steps, 24),
            np.array(to_query).reshape(batch, steps, positions),
            np.array(to_context).reshape(batch, steps),
        )

    def check_fully_masked(self, name: str, tensors: Arrays, outputs: list[np.ndarray]) -> None:
        """With a fully masked query the context is returned, and all attended parts are 0."""
        merged, to_query, to_context = outputs
        assert not to_query[1].any()
        assert not to_context[1].any()
        if name == "query_mask":
            close(merged[1, :, :6], tensors[0][1], 1e-2)
            merged = merged[..., 6:]
        assert not merged[1].any()


def test_by_hand() -> None:
    """One number a word, scores h u: s = ln [[2, 4], [1, 1]], so u~_1 = (2 u_1 + 4 u_2) / 6.

    The best matches are ln 4 and ln 1: weights 4/5 and 1/5 of h_1 and h_2.
    """
    h, u = np.array([[[1.0], [0.0]]], "float32"), np.log([[[2.0], [4.0]]]).astype("float32")
    merged, to_query, to_context = CoAttention("dot")(h, u, return_attention_scores=True)
    np.testing.assert_allclose(array(to_query), [[[1 / 3, 2 / 3], [1 / 2, 1 / 2]]], atol=1e-6)
    np.testing.assert_allclose(array(to_context), [[4 / 5, 1 / 5]], atol=1e-6)
    first, second = np.log(2) / 3 + 2 * np.log(4) / 3, np.log(8) / 2
    expected = [[[1, first, first, 0.8], [0, second, 0, 0]]]
    np.testing.assert_allclose(array(merged), expected, atol=1e-6)


def test_masks_of_embeddings_are_used_and_the_context_mask_is_passed_on() -> None:
    text, question = keras.Input((None,), dtype="int32"), keras.Input((None,), dtype="int32")
    embed = layers.Embedding(9, 6, mask_zero=True)
    merged = CoAttention()(embed(text), embed(question))
    read = layers.LSTM(3, return_sequences=True)(merged)
    model = keras.Model([text, question], [merged, read])
    texts, questions = (
        np.array([[1, 2, 3, 0, 0], [4, 5, 6, 7, 8]]),
        np.array([[1, 2, 0], [0, 0, 0]]),
    )
    out, states = model([texts, questions])
    same(implicit_mask(out), texts != 0)
    assert not array(out)[texts == 0].any()
    single, last = model([texts[:1, :3], questions[:1, :2]])
    close(array(out)[:1, :3], array(single), 1e-5)
    close(array(states)[:1, :3], array(last), 1e-5)


@pytest.mark.parametrize("score", SCORES.names())
def test_every_stateless_score(score: str) -> None:
    score_layer = LocationScore(max_length=7) if score == "location" else score
    if SCORES.get(score)(**({"max_length": 7} if score == "location" else {})).is_stateful:
        with pytest.raises(ValueError, match="depends on previous attention steps"):
            CoAttention(score_layer)
        return
    context, query = np.ones((2, 3, 4), "float32"), np.ones((2, 5, 4), "float32")
    assert tuple(CoAttention(score_layer)(context, query).shape) == (2, 3, 16)


def test_other_widths_are_rejected() -> None:
    context, query = np.ones((2, 3, 4), "float32"), np.ones((2, 5, 4), "float32")
    with pytest.raises(ValueError, match=r"must have the same width.*got 4 and 3"):
        CoAttention("general")(context, query[..., :3])


def test_integers_are_read_as_floats() -> None:
    """Weights are fractions, so weighted sums of integers are not integers."""
    rng = np.random.default_rng(0)
    context, query = (rng.integers(-3, 4, size=(2, n, 4)) for n in (5, 3))
    layer = CoAttention()
    expected = layer(context.astype("float32"), query.astype("float32"))
    got = layer(context, query)
    assert keras.backend.standardize_dtype(got.dtype) == "float32"
    np.testing.assert_array_equal(array(got), array(expected))
