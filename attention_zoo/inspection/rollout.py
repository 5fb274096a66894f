"""Attention rollout and attention flow: attention of a layer to the input of the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attention_zoo.extras import explain_missing_package
from attention_zoo.inspection.attention_data import check_nonnegative
from attention_zoo.inspection.record import AttentionRecord
from attention_zoo.ops.arguments import whole_number

MAX_FLOW_POSITIONS = 64
"""Maximum number of positions, without padding, of `attention_flow`."""

CAPACITY_UNITS = 2**30
"""Integer capacity of weight 1; the sum of a row, at most 1, must fit in 32 bits."""


def attention_rollout(weights: Any, mask: ArrayLike | None = None) -> NDArray[np.float64]:
    """Attention rollout: the product of the attention matrices of consecutive layers.

    `A'_n = (mean over heads of A_n + I) / 2`, `R = A'_N ... A'_1`

    I stands for the residual connections. Rows of A' are divided by their sum instead of by 2, as
    in the paper's code; the two are equal where the weights of a query sum to 1.

    Args:
        weights: of N self-attention layers, the first layer first: `(N, H, T, T)` or
            `(N, B, H, T, T)`, a list of N arrays `(H, T, T)` or `(B, H, T, T)`, whose H may differ,
            or a list of N `AttentionRecord`.
        mask: `(B, T)`, or `(T,)` without a batch, False at padding. If None, padding is what the
            masks of all records mask as a source for all queries, and positions whose weights as a
            query and as a source are 0 in all layers and heads.

    Returns:
        R, `(B, T, T)`, or `(T, T)` for weights without a batch. Row t, which sums to 1, has the
        shares of the input positions in position t of the last layer.

    Masking:
        Rows and columns of padding are 0, and the remaining rows are divided by their sum. A causal
        mask needs nothing else: A' and R are lower triangular. A fully masked query that is not
        padding attends to itself only, through the residual connection.

    Raises:
        ValueError: there are no layers, shapes are wrong or differ, or a weight is negative or not
            finite.

    Example:
        >>> from attention_zoo.inspection.rollout import attention_rollout
        >>> uniform = [[[0.5, 0.5], [0.5, 0.5]]]  # one head, two positions
        >>> attention_rollout([uniform, uniform]).tolist()
        [[0.625, 0.375], [0.375, 0.625]]

    Reference:
        Abnar and Zuidema 2020, arXiv 2005.00928, section 3, equation 1: A is A', W_att the mean of
        the weights over heads, A-tilde is R.
    """
    matrices, has_batch = _add_residual(weights, mask)
    rollout = matrices[0]
    for matrix in matrices[1:]:
        rollout = matrix @ rollout
    return rollout if has_batch else rollout[0]


def attention_flow(
    weights: Any, mask: ArrayLike | None = None, positions: Sequence[int] | None = None
) -> NDArray[np.float64]:
    """Attention flow: the maximum flow from positions of the last layer to input positions.

    The flow network has a node for each position of the input and of each layer. The capacity of
    the edge from position t of layer n to position s of layer n - 1 is `A'_n[t, s]`, as defined in
    `attention_rollout`. Each value is the maximum flow of a network of its own, from one position
    to one input position. The paper's code then divides each row by its sum; this function does
    not.

    Args:
        weights, mask: as in `attention_rollout`.
        positions: P positions of the last layer, all T if None. The time is proportional to P.

    Returns:
        Flows in [0, 1], `(B, P, T)`, or `(P, T)` for weights without a batch. Rows and columns of
        padding are 0.

    Raises:
        ValueError: as in `attention_rollout`; more than 64 positions are not padding, a position
            does not exist, or SciPy is not installed.

    Cost:
        One maximum flow for each of the P T values, by Dinic's algorithm of SciPy, on integer
        capacities: weights are rounded to multiples of 2^-30.

    Example:
        >>> from attention_zoo.inspection.rollout import attention_flow
        >>> uniform = [[[0.5, 0.5], [0.5, 0.5]]]  # one head, two positions
        >>> attention_flow([uniform, uniform]).tolist()
        [[1.0, 0.5], [0.5, 1.0]]

    Reference:
        Abnar and Zuidema 2020, arXiv 2005.00928, section 3, "Attention flow".
    """
    matrices, has_batch = _add_residual(weights, mask)
    length = matrices.shape[-1]
    if positions is None:
        positions = range(length)
    positions = [whole_number("positions", p, 0, length - 1) for p in positions]
    tokens = matrices[0].any(-1)  # (B, T)
    count = int(tokens.sum(-1).max(initial=0))
    if count > MAX_FLOW_POSITIONS:
        raise ValueError(
            f"attention_flow has at most {MAX_FLOW_POSITIONS} positions that are not padding, got"
            f" {count}. Shorten the input, or use attention_rollout."
        )
    flows = np.zeros((len(tokens), len(positions), length))
    for example, kept in enumerate(map(np.flatnonzero, tokens)):
        rows = np.flatnonzero(np.isin(positions, kept))
        starts = np.searchsorted(kept, np.asarray(positions, int)[rows])
        capacities = matrices[:, example][:, kept[:, None], kept]
        flows[example][rows[:, None], kept] = _compute_flows(capacities, starts)
    return flows if has_batch else flows[0]


def _compute_flows(
    capacities: NDArray[np.float64], starts: NDArray[np.intp]
) -> NDArray[np.float64]:
    """Compute the maximum flows from nodes of the last layer to all inputs, `(P, T)`.

    Args:
        capacities: `(N, T, T)`, from the first layer to the last.
        starts: P positions.
    """
    with explain_missing_package():
        from scipy.sparse import csr_array
        from scipy.sparse.csgraph import maximum_flow

    num_layers, length = capacities.shape[:2]
    units = np.rint(capacities * CAPACITY_UNITS).astype(np.int32)
    layer, target, source = np.nonzero(units)
    edges = ((layer + 1) * length + target, layer * length + source)  # node = layer * T + position
    num_nodes = (num_layers + 1) * length
    graph = csr_array((units[layer, target, source], edges), shape=(num_nodes, num_nodes))
    graph.indices, graph.indptr = graph.indices.astype("int32"), graph.indptr.astype("int32")
    flows = [
        maximum_flow(graph, num_layers * length + int(start), end).flow_value
        for start in starts
        for end in range(length)
    ]
    shares = np.asarray(flows, "float64") / CAPACITY_UNITS
    return np.minimum(shares, 1.0).reshape(len(starts), length)  # rounded rows may exceed 1


def _add_residual(weights: Any, mask: ArrayLike | None) -> tuple[NDArray[np.float64], bool]:
    """Return A' of each layer, `(N, B, T, T)`, and whether the weights have a batch."""
    layers, records = _read_layers(weights)
    has_batch = layers[0].ndim == 4
    layers = [layer if has_batch else layer[None] for layer in layers]
    batch, _, length, _ = layers[0].shape
    if mask is None:
        tokens = ~(_find_masked(records, batch, length) | _find_unused(layers))
    else:
        tokens = np.asarray(mask, bool)
        if tokens.shape not in [(batch, length), (length,) if not has_batch else ()]:
            expected = f"({batch}, {length})" if has_batch else f"({length},)"
            raise ValueError(f"mask must be {expected}, got shape {tokens.shape}")
        tokens = tokens.reshape(batch, length)
    pairs = tokens[:, :, None] & tokens[:, None]
    matrices = np.stack([layer.mean(1) for layer in layers]) + np.eye(length)
    matrices = np.where(pairs, matrices, 0.0)
    total = matrices.sum(-1, keepdims=True)
    return np.divide(matrices, total, out=np.zeros_like(matrices), where=total > 0), has_batch


def _read_layers(weights: Any) -> tuple[list[NDArray[np.float64]], list[AttentionRecord]]:
    """Return the weights of the layers as arrays, and the records among them; check both."""
    if isinstance(weights, (Mapping, AttentionRecord)):
        raise ValueError(
            f"weights must be a list of layers, got {type(weights).__name__}; of recorded weights,"
            " pass `[records[0] for records in weights.values()]`"
        )
    items = list(weights)
    if not items:
        raise ValueError("weights must have at least one layer, got none")
    records = [item for item in items if isinstance(item, AttentionRecord)]
    layers = [
        np.asarray(item.weights if isinstance(item, AttentionRecord) else item, "float64")
        for item in items
    ]
    first = layers[0].shape
    for number, layer in enumerate(layers, 1):
        shape = layer.shape
        if layer.ndim not in (3, 4) or shape[-1] != shape[-2] or not shape[-3]:
            raise ValueError(
                f"weights of layer {number} must be (H, T, T) or (B, H, T, T) of self-attention,"
                f" got shape {shape}"
            )
        if (*shape[:-3], *shape[-2:]) != (*first[:-3], *first[-2:]):
            raise ValueError(
                "weights of all layers must have the same shape, except H, got"
                f" {first} in layer 1 and {shape} in layer {number}"
            )
        check_nonnegative(f"weights of layer {number}", layer)
    return layers, records if len(records) == len(items) else []


def _find_masked(records: Sequence[AttentionRecord], batch: int, length: int) -> NDArray[np.bool_]:
    """Return which sources the masks of all records mask for all queries, `(B, T)`."""
    masked = np.full((batch, length), bool(records))
    for record in records:
        masked &= False if record.mask is None else ~record.mask.any((1, 2))
    return masked


def _find_unused(layers: Sequence[NDArray[np.float64]]) -> NDArray[np.bool_]:
    """Return which positions have weights 0, as query and source, in all layers, `(B, T)`."""
    used = [layer.any((1, 3)) | layer.any((1, 2)) for layer in layers]
    return ~np.any(used, axis=0)
