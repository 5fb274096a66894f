"""Results of text classification."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from attention_zoo.tasks.classification.texts import (
    EncodedText,
    TextEncoder,
    find_sentence_spans,
)
from attention_zoo.tasks.inputs import NAN_LOGITS
from attention_zoo.tasks.result import Result, Span, rank_results
from attention_zoo.tasks.text_inputs import find_unknown

THRESHOLD = 0.5
"""Probability from which a multi-label classifier predicts a class."""

SEPARATOR = ", "
"""Separator of the names of several classes in the text of a result."""


@dataclass(frozen=True, kw_only=True)
class ClassificationResult(Result):
    """A text and its classes.

    Args:
        text: name of the predicted class; of a multi-label classifier, the names of all predicted
            classes, separated by ", ", which may be none.
        score: log probability of the prediction.
        labels: names of the predicted classes.
        classes: names of all classes.
        probabilities: probability of each of `classes`, 0 to 1.
        source: the text that was classified; the lines of a list of sentences.
        source_tokens: readable labels of its P tokens.
        tokens: same as `source_tokens`, for plots.
        offsets: start and end of each token in `source`, in characters, the end exclusive.
        attention: weight of each token `(P,)`; in documents, they sum to 1 in each sentence. None
            if the model has no attention or weights were not requested.
        sentences: start and end of each of the L sentences of a document; empty for a text.
        sentence_attention: weight of each sentence `(L,)`, or None.
        unknown: positions of unknown tokens in `source_tokens`.
        truncated: whether tokens were dropped because the text exceeds a limit.
        alternatives: the next most probable classes, if there is one class per text.
    """

    labels: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()
    probabilities: tuple[float, ...] = ()
    source: str = ""
    offsets: tuple[Span, ...] = ()
    sentences: tuple[Span, ...] = ()
    sentence_attention: np.ndarray | None = None


class Source(NamedTuple):
    """A text to classify.

    text: the text.
    encoded: its token ids.
    tokens: readable labels of its tokens.
    offsets: span of each token in the text.
    unknown: positions of unknown tokens.
    """

    text: str
    encoded: EncodedText
    tokens: tuple[str, ...]
    offsets: tuple[Span, ...]
    unknown: tuple[int, ...]


def make_source(text: str, encoded: EncodedText, encoder: TextEncoder) -> Source:
    """Return a text with the labels and spans of its tokens."""
    tokens = tuple(encoder.tokenizer.tokens(encoded.tokens))
    unknown = find_unknown(encoded.tokens, encoder.tokenizer.unknown)
    return Source(text, encoded, tokens, tuple(encoder.find_offsets(text, encoded)), unknown)


def make_result(
    source: Source, outputs: dict[str, np.ndarray], classes: Sequence[str], count: int
) -> ClassificationResult:
    """Return the result of classifying a text.

    Args:
        source: the text.
        outputs: its outputs of a `ClassifierInference`.
        classes: names of the classes.
        count: number of predictions, if there is one class per text.

    Returns:
        The result; with `ok=False` if a log probability is NaN.
    """
    log_probabilities = outputs["log_probabilities"]
    if np.isnan(log_probabilities).any():
        return ClassificationResult.failed(NAN_LOGITS)
    is_multi_label = log_probabilities.ndim == 2
    present = log_probabilities[:, 1] if is_multi_label else log_probabilities
    common = ClassificationResult(
        text="",
        score=0.0,
        classes=tuple(classes),
        probabilities=tuple(np.exp(present).tolist()),
        source=source.text,
        source_tokens=source.tokens,
        tokens=source.tokens,
        offsets=source.offsets,
        unknown=source.unknown,
        truncated=source.encoded.is_truncated,
        **_get_attention(source, outputs),
    )
    if is_multi_label:
        chosen = np.exp(present) >= THRESHOLD
        labels = tuple(name for name, is_chosen in zip(classes, chosen, strict=True) if is_chosen)
        score = float(np.where(chosen, present, log_probabilities[:, 0]).sum())
        return replace(common, text=SEPARATOR.join(labels), labels=labels, score=score)
    ranked = np.argsort(-present, kind="stable")[:count]
    results = (
        replace(common, text=classes[one], labels=(classes[one],), score=float(present[one]))
        for one in ranked
    )
    return rank_results(ClassificationResult, results)


def _get_attention(source: Source, outputs: dict[str, np.ndarray]) -> dict[str, Any]:
    """Return the fields of a result that contain sentences and attention weights."""
    encoded, weights = source.encoded, outputs.get("tokens")
    if encoded.lengths is None:
        return {"attention": None if weights is None else weights[: len(encoded.tokens)].copy()}
    spans = tuple(find_sentence_spans(source.offsets, encoded.lengths))
    if weights is None:
        return {"sentences": spans}
    parts = [row[:length] for row, length in zip(weights, encoded.lengths, strict=False)]
    return {
        "sentences": spans,
        "attention": np.concatenate(parts),
        "sentence_attention": outputs["sentences"][: len(spans)].copy(),
    }
