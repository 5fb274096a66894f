from __future__ import annotations

import numpy as np
import pytest

from attention_zoo.models import WordByWordAttention
from tests.layers.running import array, randomise
from tests.models.matcher_conformance import (
    CLASSES,
    FIRST,
    SECOND,
    MatcherConformance,
    fit_and_evaluate,
    run_lstm,
    softmax,
)

TINY = {"vocabulary_size": 13, "classes": CLASSES, "embedding_dim": 5, "units": 6}


class TestWordByWordAttention(MatcherConformance):
    covers = WordByWordAttention
    options = TINY
    off = {"attention": "none"}
    sum_axis = 1
    changed = {
        "vocabulary_size": 15,
        "classes": CLASSES[:2],
        "embedding_dim": 4,
        "units": 8,
        "attention": "last",
        "score": "dot",
        "share_encoder": True,
        "dropout": 0.4,
        "word_dropout": 0.3,
    }


@pytest.mark.parametrize(
    ("attention", "score", "share_encoder"),
    [
        ("word_by_word", "additive", False),
        ("word_by_word", "dot", True),
        ("last", "additive", False),
        ("last", "dot", False),
        ("none", "additive", True),
    ],
)
def test_logits_equal_the_equations(attention: str, score: str, share_encoder: bool) -> None:
    options = {"attention": attention, "score": score, "share_encoder": share_encoder}
    model = WordByWordAttention(**TINY, **options)
    randomise(model)
    table, projection = array(model.token_embedding.embeddings), array(model.projection.kernel)
    kernel, bias = (array(w) for w in model.head.weights)
    first, second = np.array([4, 5, 6, 4]), np.array([7, 5, 6])
    encoders = [
        [array(w) for w in encoder.weights]
        for encoder in (model.first_encoder, model.second_encoder)
    ]
    y, cell = run_lstm(table[first] @ projection, encoders[0])
    h, _ = run_lstm(table[second] @ projection, encoders[1], c=cell)
    pairs = h[-1] @ array(model.project_hidden.kernel)
    expected_weights = np.zeros((4, 3))
    if attention != "none":
        r = np.zeros(6)
        for t in range(3) if attention == "word_by_word" else (2,):
            if score == "dot":
                recurrent = r @ array(model.feedback.kernel) if attention == "word_by_word" else 0
                alpha = softmax(y @ (h[t] + recurrent))
            else:
                names = ("query_kernel", "key_kernel", "v")
                query_kernel, key_kernel, v = (
                    array(getattr(model.attention.score, name)) for name in names
                )
                query = np.concatenate([h[t], r]) if attention == "word_by_word" else h[t]
                alpha = softmax(np.tanh(y @ key_kernel + query @ query_kernel) @ v)
            recurrent = np.zeros(6)
            if attention == "word_by_word":
                recurrent = np.tanh(r @ array(model.recurrence.kernel))
            r = alpha @ y + recurrent
            expected_weights[:, t] = alpha
        pairs = pairs + r @ array(model.project_context.kernel)
    expected = np.tanh(pairs) @ kernel + bias
    inputs = {"first": first[None], "second": second[None]}
    logits, weights = model(inputs, return_attention_scores=True)
    np.testing.assert_allclose(array(logits)[0], expected, rtol=1e-4, atol=1e-5)
    if attention != "none":
        np.testing.assert_allclose(array(weights)[0], expected_weights, atol=1e-5)


def test_attention_of_the_last_state_is_in_its_column() -> None:
    """The last token of the second text may be before padding."""
    model = WordByWordAttention(**TINY, attention="last")
    randomise(model)
    _, weights = model({"first": FIRST, "second": SECOND}, return_attention_scores=True)
    columns = array(weights).sum(axis=1)
    np.testing.assert_allclose(columns, [[0, 1], [1, 0], [0, 1]], atol=1e-6)


def test_parameter_counts() -> None:
    """By hand: projection, LSTMs, W_y, W_h, W_p and W_x, w, and the output layer."""
    sizes = {"vocabulary_size": 7, "classes": CLASSES}
    once, each = (
        WordByWordAttention.from_preset(name, **sizes).count_params() - 7 * 300
        for name in ("last_state_attention", "word_by_word_attention")
    )
    lstms = 2 * 4 * (100 + 100 + 1) * 100
    square = 100 * 100
    assert once == 300 * 100 + lstms + 4 * square + 100 + 3 * 101
    assert each == once + 2 * square


def test_equal_words_have_large_weights_before_training() -> None:
    """With the dot score and a shared LSTM, which have no random weights between the texts."""
    model = WordByWordAttention(60, CLASSES, score="dot", share_encoder=True)
    rng = np.random.default_rng(0)
    first = np.stack([4 + rng.permutation(56)[:8] for _ in range(32)])
    second = rng.permuted(first, axis=1)
    _, weights = model({"first": first, "second": second}, return_attention_scores=True)
    is_equal = first[:, :, None] == second[:, None]
    assert array(weights)[is_equal].mean() > 1.2 * array(weights)[~is_equal].mean()


def test_unknown_attention_is_rejected() -> None:
    with pytest.raises(ValueError, match=r"attention must be one of none, last, word_by_word, got"):
        WordByWordAttention(**TINY, attention="words")
    with pytest.raises(ValueError, match="score must be one of additive, dot, got 'general'"):
        WordByWordAttention(**TINY, score="general")


@pytest.mark.full
def test_learns_with_fit() -> None:
    model = WordByWordAttention(13, ["no", "yes"], 8, 16, dropout=0.0)
    assert fit_and_evaluate(model, 0.02, 25) > 0.95
