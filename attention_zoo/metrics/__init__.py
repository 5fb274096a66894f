"""Metrics of text: thin adapters over sacrebleu, exact match, and any of them by length."""

from attention_zoo.metrics.by_length import LengthScore, by_length
from attention_zoo.metrics.exact_match import exact_match
from attention_zoo.metrics.overlap import Score, bleu, bleu_tokenizer, chrf

__all__ = ["LengthScore", "Score", "bleu", "bleu_tokenizer", "by_length", "chrf", "exact_match"]
