"""Metrics of text, of summaries, of tags and of the spans they mark, and any of them by length."""

from attention_zoo.metrics.by_length import LengthScore, by_length
from attention_zoo.metrics.exact_match import exact_match
from attention_zoo.metrics.overlap import Score, bleu, bleu_tokenizer, chrf
from attention_zoo.metrics.rouge import Rouge, rouge
from attention_zoo.metrics.spans import (
    LabelScore,
    Span,
    SpanScores,
    invalid_sequences,
    read_spans,
    span_scores,
    tag_accuracy,
)
from attention_zoo.metrics.wording import (
    FactScore,
    copied_share,
    fact_score,
    facts,
    first_sentence,
    repeated_ngrams,
)

__all__ = [
    "FactScore",
    "LabelScore",
    "LengthScore",
    "Rouge",
    "Score",
    "Span",
    "SpanScores",
    "bleu",
    "bleu_tokenizer",
    "by_length",
    "chrf",
    "copied_share",
    "exact_match",
    "fact_score",
    "facts",
    "first_sentence",
    "invalid_sequences",
    "read_spans",
    "repeated_ngrams",
    "rouge",
    "span_scores",
    "tag_accuracy",
]
