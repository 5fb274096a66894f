"""Metrics of text, of tags and of the spans they mark, and any of them by length."""

from attention_zoo.metrics.by_length import LengthScore, by_length
from attention_zoo.metrics.exact_match import exact_match
from attention_zoo.metrics.overlap import Score, bleu, bleu_tokenizer, chrf
from attention_zoo.metrics.spans import (
    LabelScore,
    Span,
    SpanScores,
    invalid_sequences,
    read_spans,
    span_scores,
    tag_accuracy,
)

__all__ = [
    "LabelScore",
    "LengthScore",
    "Score",
    "Span",
    "SpanScores",
    "bleu",
    "bleu_tokenizer",
    "by_length",
    "chrf",
    "exact_match",
    "invalid_sequences",
    "read_spans",
    "span_scores",
    "tag_accuracy",
]
