"""Entropy, distance and diagonality of heads: worked values, a NumPy oracle and padding."""

from __future__ import annotations

import doctest
import math
from typing import Any

import numpy as np
import pytest

from attention_zoo.inspection import head_statistics
from attention_zoo.inspection.head_statistics import (
    attention_distance,
    attention_entropy,
    diagonality,
)

STATISTICS = (attention_entropy, attention_distance, diagonality)
TOLERANCE = {"rtol": 0, "atol": 1e-12}


def make_weights(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).dirichlet(np.ones(shape[-1]), size=shape[:-1])


def compute_entropy(row: np.ndarray, t: int, num_queries: int) -> float:
    return sum(-w * math.log(w) for w in row)


def compute_distance(row: np.ndarray, t: int, num_queries: int) -> float:
    return sum(w * abs(t - s) for s, w in enumerate(row))


def compute_diagonality(row: np.ndarray, t: int, num_queries: int) -> float:
    diagonal = t * (len(row) - 1) / (num_queries - 1)
    farthest = max(abs(s - diagonal) for s in range(len(row)))
    return sum(w * (1 - abs(s - diagonal) / farthest) for s, w in enumerate(row))


ORACLES = (compute_entropy, compute_distance, compute_diagonality)


@pytest.mark.parametrize("shape", [(2, 3, 4, 4), (2, 3, 5, 3), (3, 2, 6)], ids=str)
@pytest.mark.parametrize("number", range(3))
def test_statistics_equal_the_oracle(number: int, shape: tuple[int, ...]) -> None:
    weights = make_weights(*shape)
    expected = np.zeros(shape[:-2])
    for index in np.ndindex(*shape[:-2]):
        rows = [ORACLES[number](row, t, shape[-2]) for t, row in enumerate(weights[index])]
        expected[index] = sum(rows) / len(rows)
    np.testing.assert_allclose(STATISTICS[number](weights), expected, **TOLERANCE)


def test_uniform_and_one_hot_heads() -> None:
    uniform, first, diagonal = np.full((4, 4), 0.25), np.eye(4)[[0, 0, 0, 0]], np.eye(4)
    heads = np.stack([uniform, first, diagonal, diagonal[::-1]])
    np.testing.assert_allclose(attention_entropy(heads), [math.log(4), 0, 0, 0], **TOLERANCE)
    np.testing.assert_allclose(attention_distance(heads), [1.25, 1.5, 0, 2], **TOLERANCE)
    # First source: distances 0, 1, 2, 3 of at most 3, 2, 2, 3. Reversed: 3, 1, 1, 3.
    expected = [(1 + 0.5 + 0 + 0) / 4, 1, (0 + 0.5 + 0.5 + 0) / 4]
    np.testing.assert_allclose(diagonality(heads)[1:], expected, **TOLERANCE)


def test_diagonality_of_two_lengths_follows_the_scaled_diagonal() -> None:
    weights = np.zeros((1, 3, 5))
    weights[0, [0, 1, 2], [0, 2, 4]] = 1.0
    assert diagonality(weights).tolist() == [1.0]
    assert diagonality(weights.swapaxes(-1, -2)[:, [0, 2, 4]]).tolist() == [1.0]
    weights[0, 1] = [0, 1, 0, 0, 0]
    np.testing.assert_allclose(diagonality(weights), [(1 + 0.5 + 1) / 3], **TOLERANCE)


@pytest.mark.parametrize("statistic", STATISTICS)
@pytest.mark.parametrize("left", [False, True])
def test_padding_changes_nothing(statistic: Any, left: bool) -> None:
    """Padded rows are uniform over all sources, as those of Keras."""
    weights = make_weights(2, 4, 4)
    tokens = np.s_[3:] if left else np.s_[:4]
    padded = np.full((2, 7, 7), 1 / 7)
    padded[:, tokens] = 0.0
    padded[:, tokens, tokens] = weights
    is_token = np.zeros(7, bool)
    is_token[tokens] = True
    mask = is_token[:, None] & is_token
    np.testing.assert_allclose(statistic(padded, mask), statistic(weights), **TOLERANCE)
    assert (statistic(padded) != statistic(weights)).all()


@pytest.mark.parametrize("statistic", STATISTICS)
def test_fully_masked_rows_are_ignored(statistic: Any) -> None:
    weights = make_weights(1, 3, 4, 4)
    mask = np.ones((1, 1, 4, 1), bool)
    mask[0, 0, 3] = False
    if statistic is not diagonality:  # the mask shortens its diagonal
        expected = statistic(weights[:, :, :3])
        np.testing.assert_allclose(statistic(weights, mask), expected, **TOLERANCE)
    zeros = weights.copy()
    zeros[:, :, 3] = 0.0
    rows = statistic(weights) * 4 - statistic(np.where(np.arange(4)[:, None] == 3, weights, 0))
    np.testing.assert_allclose(statistic(zeros), rows / 3, **TOLERANCE)


@pytest.mark.parametrize("statistic", STATISTICS)
def test_masked_weights_are_excluded_even_if_they_are_nan(statistic: Any) -> None:
    weights = make_weights(2, 3, 3)
    causal = np.tril(np.ones((3, 3), bool))
    kept = np.where(causal, weights, 0)
    expected = statistic(kept / kept.sum(-1, keepdims=True), causal)
    result = statistic(np.where(causal, weights, np.nan), causal)
    np.testing.assert_allclose(result, expected, **TOLERANCE)


@pytest.mark.parametrize("statistic", STATISTICS)
def test_heads_without_unmasked_queries_are_0(statistic: Any) -> None:
    weights = make_weights(2, 3, 4, 4)
    mask = np.array([True, False])[:, None, None, None]
    result = statistic(weights, mask)
    assert result.shape == (2, 3)
    assert result[0].all()
    assert not result[1].any()
    for shape in ((0, 3, 4, 4), (2, 3, 0, 0), (2, 3, 4, 0), (2, 0, 4, 4)):
        empty = statistic(np.zeros(shape))
        assert empty.shape == shape[:2]
        assert not empty.any()


def test_single_source_is_on_the_diagonal() -> None:
    assert diagonality(np.ones((2, 3, 1))).tolist() == [1.0, 1.0]
    assert diagonality(np.full((1, 1, 2), 0.5)).tolist() == [0.5]


@pytest.mark.parametrize("statistic", STATISTICS)
def test_bad_input(statistic: Any) -> None:
    with pytest.raises(
        ValueError, match=r"weights must be \(\.\.\., H, T, S\), got shape \(2, 2\)"
    ):
        statistic(np.ones((2, 2)))
    with pytest.raises(ValueError, match=r"mask must broadcast to the weights .* \(3,\)"):
        statistic(np.ones((1, 2, 2)), [True] * 3)
    with pytest.raises(ValueError, match="finite and at least 0, got nan"):
        statistic(np.full((1, 2, 2), np.nan))
    with pytest.raises(ValueError, match="finite and at least 0, got -1"):
        statistic(-np.ones((1, 2, 2)))


def test_examples_of_the_docstrings() -> None:
    results = doctest.testmod(head_statistics)
    assert results.attempted
    assert not results.failed
