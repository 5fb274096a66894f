"""Metrics of generated text, captions, classes, tags, spans, attention, ranking and retrieval.

`by_length` splits a metric of texts by source length. `MaskedAccuracy`, `Perplexity` and
`CRFAccuracy` are Keras metrics for `compile(metrics=[...])`.
"""

from attention_zoo.metrics.attention_mass import BoxMass, mass_in_boxes
from attention_zoo.metrics.by_length import LengthScore, by_length
from attention_zoo.metrics.calibration import expected_calibration_error
from attention_zoo.metrics.captioning import CaptionScores, caption_scores
from attention_zoo.metrics.cider import cider
from attention_zoo.metrics.classification import (
    ClassScore,
    ClassScores,
    MultiLabelScores,
    class_scores,
    multi_label_scores,
)
from attention_zoo.metrics.correlation import pearson_correlation, spearman_correlation
from attention_zoo.metrics.crf_accuracy import CRFAccuracy
from attention_zoo.metrics.exact_match import exact_match
from attention_zoo.metrics.masked_accuracy import MaskedAccuracy
from attention_zoo.metrics.overlap import Score, bleu, bleu_tokenizer, chrf
from attention_zoo.metrics.perplexity import Perplexity
from attention_zoo.metrics.ranking import RankingScores, ranking_scores
from attention_zoo.metrics.recall import RecallAtK, recall_at_k
from attention_zoo.metrics.rouge import Rouge, rouge
from attention_zoo.metrics.spans import (
    LabelScore,
    Span,
    SpanScores,
    count_invalid_sequences,
    read_spans,
    span_scores,
    tag_accuracy,
)
from attention_zoo.metrics.summarization import (
    FactScore,
    copied_share,
    extract_facts,
    fact_score,
    first_sentence,
    repeated_ngrams,
)

__all__ = [
    "BoxMass",
    "CRFAccuracy",
    "CaptionScores",
    "ClassScore",
    "ClassScores",
    "FactScore",
    "LabelScore",
    "LengthScore",
    "MaskedAccuracy",
    "MultiLabelScores",
    "Perplexity",
    "RankingScores",
    "RecallAtK",
    "Rouge",
    "Score",
    "Span",
    "SpanScores",
    "bleu",
    "bleu_tokenizer",
    "by_length",
    "caption_scores",
    "chrf",
    "cider",
    "class_scores",
    "copied_share",
    "count_invalid_sequences",
    "exact_match",
    "expected_calibration_error",
    "extract_facts",
    "fact_score",
    "first_sentence",
    "mass_in_boxes",
    "multi_label_scores",
    "pearson_correlation",
    "ranking_scores",
    "read_spans",
    "recall_at_k",
    "repeated_ngrams",
    "rouge",
    "span_scores",
    "spearman_correlation",
    "tag_accuracy",
]
