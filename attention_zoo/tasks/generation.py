"""Base class of tasks that generate text with `decoding.search`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, ClassVar

import keras
import numpy as np
from numpy.typing import NDArray

from attention_zoo.decoding import SearchOptions, SearchResult
from attention_zoo.losses import SequenceCrossEntropy
from attention_zoo.tasks.base import Task
from attention_zoo.tasks.result import R, rank_results

Hypothesis = tuple[list[int], NDArray[np.floating] | None, dict[str, Any]]
"""Token ids `(T,)` without the end token, attention weights or None, and fields of `Result`."""


class GenerationTask(Task):
    """Base class of tasks that generate text with `decoding.search`.

    Attributes:
        output_noun: singular noun for an output in messages.
        max_length_attribute: attribute that is the default of `search.max_length`, used if
            `search.max_length_ratio` is not set either; None for no default.
    """

    output_noun: ClassVar[str]
    max_length_attribute: ClassVar[str | None] = None

    def make_loss(self, label_smoothing: float = 0.0) -> keras.losses.Loss:
        """Return the cross-entropy loss per token."""
        return SequenceCrossEntropy(label_smoothing=label_smoothing)

    def search_options(self, **overrides: Any) -> SearchOptions:
        """Return the search options with overrides and the default maximum length."""
        options = self.search.override(**overrides)
        limits = options.max_length, options.max_length_ratio
        if self.max_length_attribute is None or limits != (None, None):
            return options
        return options.override(max_length=vars(self)[self.max_length_attribute])

    def _rank(self, results: Iterable[R], scores: Any, location: str) -> R:
        """Return the first result, with the others as `alternatives`.

        Raises:
            ValueError: the search found no result; any of its `scores`, `(n,)`, is NaN.
        """
        if np.isnan(scores).any():
            raise ValueError(
                f"{location}: the model returned NaN or +inf logits; load an earlier checkpoint, "
                "or train it again with a lower learning rate or gradient clipping"
            )
        missing = f"{location}: the search found no {self.output_noun}; relax the search options"
        return rank_results(results, missing)


def read_hypotheses(result: SearchResult, row: int) -> Iterator[Hypothesis]:
    """Yield the hypotheses of a row of a search result, best first.

    The fields are `score`, `token_scores` (including the end token's) and `truncated`.
    """
    for n, length in enumerate(result.lengths[row].tolist()):
        if not length:  # the search found fewer than `n_best`
            return
        finished = bool(result.finished[row, n])
        size = length - finished
        weights = None if result.attention is None else result.attention[row, n, :size]
        fields = {
            "score": float(result.scores[row, n]),
            "token_scores": tuple(result.token_scores[row, n, :length].tolist()),
            "truncated": not finished,
        }
        yield result.tokens[row, n, :size].tolist(), weights, fields
