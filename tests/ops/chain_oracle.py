"""Chains of tags by listing every sequence, and by plain loops in float64."""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np

from tests.layers.running import MODES

SHAPES = [(3, 5, 4), (3, 3, 1), (2, 1, 4), (3, 0, 2), (0, 3, 2)]
"""Sentences, positions and tags."""
CASES = [
    *((MODES[0], shape) for shape in SHAPES),
    *((mode, shape) for mode in MODES[1:] for shape in (SHAPES[0], SHAPES[3])),
]


class Energies(NamedTuple):
    """Of a batch, as `ops.make_chain` takes them."""

    emissions: np.ndarray
    transitions: np.ndarray
    starts: np.ndarray
    ends: np.ndarray
    mask: np.ndarray


def energies(
    batch: int, places: int, tags: int, seed: int = 0, forbidden: float = 0.0, scale: float = 1.0
) -> Energies:
    """Random ones; the share `forbidden` of what `starts` and `transitions` hold is -inf.

    Row 0 has no mask, row 1 nothing but masks, the others any.
    """
    rng = np.random.default_rng(seed)
    numbers = [
        (scale * rng.normal(size=shape)).astype("float32")
        for shape in ((batch, places, tags), (tags, tags), (tags,), (tags,))
    ]
    for x in numbers[1:3]:
        x[rng.random(x.shape) < forbidden] = -np.inf
    mask = rng.random((batch, places)) < 0.6
    mask[:1], mask[1:2] = True, False
    return Energies(*numbers, mask)


def every(of: Energies, row: int) -> tuple[np.ndarray, np.ndarray]:
    """All sequences of a row's places that count, `(K^n, n)`, and their scores in float64."""
    there = np.flatnonzero(of.mask[row])
    emissions, transitions, starts, ends = (x.astype("float64") for x in of[:4])
    size = len(starts)
    paths = np.array(list(itertools.product(range(size), repeat=len(there))), "int64")
    paths = paths.reshape(size ** len(there), len(there))
    scores = np.zeros(len(paths))
    for number, t in enumerate(there):
        scores += emissions[row, t, paths[:, number]]
        if number:
            scores += transitions[paths[:, number - 1], paths[:, number]]
    if len(there):
        scores += starts[paths[:, 0]] + ends[paths[:, -1]]
    return paths, scores


def log_sum(scores: np.ndarray) -> float:
    """-inf of none, or of nothing but -inf."""
    with np.errstate(divide="ignore"):
        top = scores.max(initial=-np.inf)
        return float(top + np.log(np.exp(scores - top).sum())) if np.isfinite(top) else -np.inf


def probabilities(scores: np.ndarray) -> np.ndarray:
    """0 for each where every sequence is forbidden."""
    total = log_sum(scores)
    return np.exp(scores - total) if np.isfinite(total) else np.zeros_like(scores)


def shares(of: Energies, row: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Expected tags `(T, K)`, pairs `(K, K)`, first and last tags `(K,)`: the gradient."""
    paths, scores = every(of, row)
    there, size = np.flatnonzero(of.mask[row]), len(of.starts)
    found = tuple(np.zeros(x.shape) for x in (of.emissions[row], *of[1:4]))
    for path, share in zip(paths, probabilities(scores), strict=True):
        for number, t in enumerate(there):
            found[0][t, path[number]] += share
            if number:
                found[1][path[number - 1], path[number]] += share
        if len(path):
            found[2][path[0]] += share
            found[3][path[-1]] += share
    assert size
    return found


def spread(path: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """The tags of places that count, at those places; 0 elsewhere."""
    tags = np.zeros(len(mask), "int64")
    tags[mask] = path
    return tags


def log_partition(of: Energies) -> np.ndarray:
    """By the forward algorithm, place by place."""
    results = []
    for row in range(len(of.mask)):
        alpha = None
        for t in np.flatnonzero(of.mask[row]):
            emission = of.emissions[row, t].astype("float64")
            if alpha is None:
                alpha = of.starts + emission
            else:
                ways = alpha[:, None] + of.transitions
                alpha = np.array([log_sum(column) for column in ways.T]) + emission
        results.append(0.0 if alpha is None else log_sum(alpha + of.ends))
    return np.array(results)
