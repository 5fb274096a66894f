"""A linear classifier of word counts, the baseline of generated corpora."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

STEPS = 40


def split_tokens(text: str) -> list[str]:
    return re.findall(r"\w+|[^\w\s]", text.lower())


def add_pairs(tokens: list[str]) -> list[str]:
    """Return the tokens and all pairs of adjacent ones."""
    return [*tokens, *map(" ".join, pairwise(tokens))]


def measure_accuracy(
    features: Sequence[list[str]], labels: Sequence[str], num_test: int, min_count: int = 5
) -> float:
    """Train a softmax regression on TF-IDF features; return its accuracy on the last examples."""
    count = Counter(name for words in features for name in {*words})
    names = [name for name, number in count.items() if number >= min_count]
    columns = {name: column for column, name in enumerate(names)}
    x = np.zeros((len(features), len(columns) + 1), np.float32)
    for row, words in enumerate(features):
        for name, n in Counter(words).items():
            if name in columns:
                x[row, columns[name]] = n * np.log(len(features) / count[name])
    x /= np.linalg.norm(x, axis=1, keepdims=True) + 1e-9
    x /= x.std()
    x[:, -1] = 1
    classes, y = np.unique(labels, return_inverse=True)
    train, test = slice(0, -num_test), slice(-num_test, None)
    targets = np.eye(len(classes), dtype=np.float32)[y[train]]
    weights = np.zeros((x.shape[1], len(classes)), np.float32)
    mean, square = np.zeros_like(weights), np.zeros_like(weights)
    for step in range(1, STEPS + 1):  # Adam on all examples
        p = np.exp(x[train] @ weights)
        gradient = x[train].T @ (p / p.sum(1, keepdims=True) - targets) / len(targets)
        mean = 0.9 * mean + 0.1 * gradient
        square = 0.99 * square + 0.01 * gradient**2
        root = np.sqrt(square / (1 - 0.99**step))
        weights -= 0.05 * mean / (1 - 0.9**step) / (root + 1e-8)
    return float(np.mean((x[test] @ weights).argmax(1) == y[test]))
