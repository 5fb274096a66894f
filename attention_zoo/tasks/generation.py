"""Base class of tasks that generate text with `decoding.search`."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar

import keras
import numpy as np
from numpy.typing import NDArray

from attention_zoo.decoding import Rule, SearchOptions, SearchResult
from attention_zoo.losses import SequenceCrossEntropy
from attention_zoo.tasks.base import Task
from attention_zoo.tasks.inputs import NAN_LOGITS
from attention_zoo.tasks.result import rank_results
from attention_zoo.tasks.text_inputs import list_shapes

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
        options = self.override_search(**overrides)
        limits = options.max_length, options.max_length_ratio
        if self.max_length_attribute is None or limits != (None, None):
            return options
        return options.override(max_length=vars(self)[self.max_length_attribute])

    def warm_up(
        self, batch_sizes: Sequence[int] = (1, 2), lengths: Sequence[int] = (8, 16)
    ) -> None:
        """Compile the search for sources of these shapes; see `Task.warm_up`."""
        options = self.search_options()
        for size, length in list_shapes(batch_sizes, lengths):
            self._run_search(self._make_source(size, length), options)

    @abstractmethod
    def _make_source(self, size: int, length: int) -> NDArray[Any]:
        """Return a batch of any sources of this length."""

    def _run_search(
        self, source: NDArray[Any], options: SearchOptions, rules: Sequence[Rule] = ()
    ) -> SearchResult:
        """Return the hypotheses of a batch of sources."""
        result: SearchResult = self.model.compiled_search(source, options, rules=rules)
        return result

    def _rank(self, results: Iterable[Any], scores: Any) -> Any:
        """Return the first result, with the others as `alternatives`.

        The result has `ok=False` if there is none, or any of their `scores`, `(n,)`, is NaN.
        """
        if np.isnan(scores).any():
            return self.result_class.failed(NAN_LOGITS)
        missing = f"the search found no {self.output_noun}; relax the search options"
        return rank_results(self.result_class, results, missing)


def read_hypotheses(result: SearchResult, row: int) -> Iterator[Hypothesis]:
    """Yield the hypotheses of a row of a search result, best first.

    Weights are views of the batch's; copy them into results, which may outlive the batch. The
    fields are `score`, `token_scores` (including the end token's) and `truncated`.
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
