"""Reference for linear chains: lists of all sequences, and loops in float64."""

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
    """Energies of a batch, the arguments of `ops.make_chain`."""

    emissions: np.ndarray
    transitions: np.ndarray
    starts: np.ndarray
    ends: np.ndarray
    mask: np.ndarray


def make_energies(
    batch: int, length: int, tags: int, seed: int = 0, forbidden: float = 0.0, scale: float = 1.0
) -> Energies:
    """Return random energies; the fraction `forbidden` of `starts` and `transitions` is -inf.

    Row 0 is unmasked, row 1 fully masked, the others are random.
    """
    rng = np.random.default_rng(seed)
    numbers = [
        (scale * rng.normal(size=shape)).astype("float32")
        for shape in ((batch, length, tags), (tags, tags), (tags,), (tags,))
    ]
    for x in numbers[1:3]:
        x[rng.random(x.shape) < forbidden] = -np.inf
    mask = rng.random((batch, length)) < 0.6
    mask[:1], mask[1:2] = True, False
    return Energies(*numbers, mask)


def list_paths(energies: Energies, row: int) -> tuple[np.ndarray, np.ndarray]:
    """Return all tag sequences of a row's unmasked positions, `(K^n, n)`, and their scores."""
    positions = np.flatnonzero(energies.mask[row])
    emissions, transitions, starts, ends = (x.astype("float64") for x in energies[:4])
    size = len(starts)
    paths = np.array(list(itertools.product(range(size), repeat=len(positions))), "int64")
    paths = paths.reshape(size ** len(positions), len(positions))
    scores = np.zeros(len(paths))
    for number, t in enumerate(positions):
        scores += emissions[row, t, paths[:, number]]
        if number:
            scores += transitions[paths[:, number - 1], paths[:, number]]
    if len(positions):
        scores += starts[paths[:, 0]] + ends[paths[:, -1]]
    return paths, scores


def log_sum(scores: np.ndarray) -> float:
    """Return the log-sum-exp; -inf for no scores, or for -inf only."""
    with np.errstate(divide="ignore"):
        top = scores.max(initial=-np.inf)
        return float(top + np.log(np.exp(scores - top).sum())) if np.isfinite(top) else -np.inf


def probabilities(scores: np.ndarray) -> np.ndarray:
    """Return the probabilities; all 0 if every sequence is forbidden."""
    total = log_sum(scores)
    return np.exp(scores - total) if np.isfinite(total) else np.zeros_like(scores)


def compute_expectations(
    energies: Energies, row: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return the expected tags `(T, K)`, pairs `(K, K)`, first and last tags `(K,)`."""
    paths, scores = list_paths(energies, row)
    positions, size = np.flatnonzero(energies.mask[row]), len(energies.starts)
    expectations = tuple(np.zeros(x.shape) for x in (energies.emissions[row], *energies[1:4]))
    for path, probability in zip(paths, probabilities(scores), strict=True):
        for number, t in enumerate(positions):
            expectations[0][t, path[number]] += probability
            if number:
                expectations[1][path[number - 1], path[number]] += probability
        if len(path):
            expectations[2][path[0]] += probability
            expectations[3][path[-1]] += probability
    assert size
    return expectations


def place_tags(path: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Return the tags at the unmasked positions; 0 elsewhere."""
    tags = np.zeros(len(mask), "int64")
    tags[mask] = path
    return tags


def log_partition(energies: Energies) -> np.ndarray:
    """Compute the log partition function by the forward algorithm."""
    results = []
    for row in range(len(energies.mask)):
        alpha = None
        for t in np.flatnonzero(energies.mask[row]):
            emission = energies.emissions[row, t].astype("float64")
            if alpha is None:
                alpha = energies.starts + emission
            else:
                candidates = alpha[:, None] + energies.transitions
                alpha = np.array([log_sum(column) for column in candidates.T]) + emission
        results.append(0.0 if alpha is None else log_sum(alpha + energies.ends))
    return np.array(results)
