"""Statistics of attention heads: entropy, distance and diagonality."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attention_zoo.inspection.attention_data import check_nonnegative


def attention_entropy(weights: ArrayLike, mask: ArrayLike | None = None) -> NDArray[np.float64]:
    """Entropy of the attention weights of each head in nats, averaged over queries.

    `-1/T sum_t sum_s weights_ts ln weights_ts`, between 0 and ln S.

    Args:
        weights: `(..., H, T, S)`, such as the `(B, H, T, S)` of an `AttentionRecord`. Each row is
            divided by its sum.
        mask: booleans that broadcast to the weights, False where query t must not attend to
            source s. Masked weights are excluded, and so are fully masked rows and rows of zeros.

    Returns:
        `(..., H)`; 0 for heads without any unmasked query.

    Raises:
        ValueError: weights have fewer than three axes, or an unmasked weight is negative or not
            finite; the mask does not broadcast to the weights.

    Example:
        >>> from attention_zoo.inspection.head_statistics import attention_entropy
        >>> attention_entropy([[[0.5, 0.5], [1.0, 0.0]]]).round(3).tolist()  # (ln 2 + 0) / 2
        [0.347]

    Reference:
        Vig and Belinkov 2019, arXiv 1906.04284: the entropy of the attention distribution.
    """
    rows = _normalize_rows(weights, mask)
    logarithms = np.log(rows.weights, out=np.zeros_like(rows.weights), where=rows.weights > 0)
    entropy = -(rows.weights * logarithms).sum(-1)
    return _average_queries(np.maximum(entropy, 0.0), rows.are_unmasked)


def attention_distance(weights: ArrayLike, mask: ArrayLike | None = None) -> NDArray[np.float64]:
    """Mean distance between query and source of each head, in positions, averaged over queries.

    `1/T sum_t sum_s weights_ts |t - s|`; it compares positions of the same sequence, so it is meant
    for self-attention.

    Args:
        weights, mask: as in `attention_entropy`.

    Returns:
        `(..., H)`; 0 for heads without any unmasked query.

    Raises:
        ValueError: as in `attention_entropy`.

    Example:
        >>> from attention_zoo.inspection.head_statistics import attention_distance
        >>> attention_distance([[[0.5, 0.5], [1.0, 0.0]]]).tolist()  # (0.5 + 1) / 2
        [0.75]

    Reference:
        Vig and Belinkov 2019, arXiv 1906.04284: the mean distance spanned by attention.
    """
    rows = _normalize_rows(weights, mask)
    num_queries, num_sources = rows.weights.shape[-2:]
    distances = np.abs(np.arange(num_queries)[:, None] - np.arange(num_sources))
    return _average_queries((rows.weights * distances).sum(-1), rows.are_unmasked)


def diagonality(weights: ArrayLike, mask: ArrayLike | None = None) -> NDArray[np.float64]:
    """Diagonality of each head: 1 minus the normalized distance from the diagonal.

    `1/T sum_t sum_s weights_ts (1 - |s - d_t| / max_r |r - d_t|)`, where
    `d_t = t (S - 1) / (T - 1)` is the source position on the diagonal, t in self-attention. It is
    1 if each query attends to its position on the diagonal, 0 if each attends to a source as far
    from it as possible. T, S and positions count those that some mask entry leaves unmasked, so
    padding has no effect if the mask excludes padded queries and sources.

    Args:
        weights, mask: as in `attention_entropy`.

    Returns:
        `(..., H)` in [0, 1]; 0 for heads without any unmasked query. With a single source, it is 1.

    Raises:
        ValueError: as in `attention_entropy`.

    Example:
        >>> from attention_zoo.inspection.head_statistics import diagonality
        >>> diagonality([[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [1.0, 0.0, 0.0]]]).round(3).tolist()
        [0.667]

    Reference: this library. Zhang et al. 2020, arXiv 2011.04906, measure diagonality in speech
    recognition by a normalized distance from the diagonal too.
    """
    rows = _normalize_rows(weights, mask)
    queries, num_queries = _count_positions(rows.queries)
    sources, num_sources = _count_positions(rows.sources)
    scale = np.maximum(num_sources - 1, 0) / np.maximum(num_queries - 1, 1)
    diagonal = queries * scale  # (..., 1, T)
    farthest = np.maximum(diagonal, num_sources - 1 - diagonal)[..., None]
    distance = np.abs(sources[..., None, :] - diagonal[..., None])
    distance = np.divide(distance, farthest, out=np.zeros_like(distance), where=farthest > 0)
    return _average_queries((rows.weights * (1 - distance)).sum(-1), rows.are_unmasked)


class _Rows(NamedTuple):
    """Weights whose rows sum to 1, or are 0.

    weights: `(..., H, T, S)`. are_unmasked: `(..., H, T)`, which rows count. queries: `(..., 1, T)`
    and sources: `(..., 1, S)`, which positions the mask leaves unmasked in some head.
    """

    weights: NDArray[np.float64]
    are_unmasked: NDArray[np.bool_]
    queries: NDArray[np.bool_]
    sources: NDArray[np.bool_]


def _normalize_rows(weights: ArrayLike, mask: ArrayLike | None) -> _Rows:
    array = np.asarray(weights, "float64")
    if array.ndim < 3:
        raise ValueError(f"weights must be (..., H, T, S), got shape {array.shape}")
    pairs = np.asarray(True if mask is None else mask, bool)
    try:
        pairs = np.broadcast_to(pairs, array.shape)
    except ValueError:
        raise ValueError(
            f"mask must broadcast to the weights {array.shape}, got shape {pairs.shape}"
        ) from None
    array = np.where(pairs, array, 0.0)
    check_nonnegative("weights", array)
    total = array.sum(-1, keepdims=True)
    normalized = np.divide(array, total, out=np.zeros_like(array), where=total > 0)
    queries = np.asarray(pairs.any((-3, -1)))[..., None, :]
    sources = np.asarray(pairs.any((-3, -2)))[..., None, :]
    return _Rows(normalized, total[..., 0] > 0, queries, sources)


def _average_queries(
    values: NDArray[np.float64], are_unmasked: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """Average `(..., H, T)` over the unmasked queries; 0 without any."""
    total = np.where(are_unmasked, values, 0.0).sum(-1)
    return total / np.maximum(are_unmasked.sum(-1), 1)


def _count_positions(are_unmasked: NDArray[np.bool_]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the indices of positions among the unmasked ones, and the number of these."""
    positions = np.maximum(np.cumsum(are_unmasked, -1) - 1, 0)
    return positions, are_unmasked.sum(-1, keepdims=True)
