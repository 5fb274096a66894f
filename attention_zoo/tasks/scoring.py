"""Metrics of translations and summaries against references."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attention_zoo.metrics import (
    bleu,
    bleu_tokenizer,
    by_length,
    chrf,
    copied_share,
    exact_match,
    fact_score,
    first_sentence,
    repeated_ngrams,
    rouge,
)

EDGES = (10, 20, 30, 40, 50)  # longest source, in tokens, of each group but the last


def score_translations(
    translations: Sequence[str], references: Sequence[str], source_lengths: Sequence[int]
) -> dict[str, Any]:
    """Compute BLEU, chrF and exact match, all 0 to 100, with sacrebleu's signatures.

    Args:
        translations, references: one for each sentence.
        source_lengths: number of tokens of each source.

    Raises:
        ValueError: if there is no sentence.
    """
    tokenizer = bleu_tokenizer(references)

    def score_group(texts: Sequence[str], targets: Sequence[str]) -> dict[str, float]:
        overlap = bleu(texts, targets, tokenizer=tokenizer).score
        return {"bleu": overlap, "exact_match": exact_match(texts, targets)}

    overlap = bleu(translations, references, tokenizer=tokenizer)
    characters = chrf(translations, references)
    groups = by_length(score_group, translations, references, source_lengths, EDGES)
    return {
        "sentences": len(translations),
        "bleu": overlap.score,
        "chrf": characters.score,
        "exact_match": exact_match(translations, references),
        "bleu_signature": overlap.signature,
        "chrf_signature": characters.signature,
        "by_source_length": [
            {"from": group.first, "to": group.last, "sentences": group.size, **group.value}
            for group in groups
        ],
    }


def score_summaries(
    summaries: Sequence[str],
    references: Sequence[Sequence[str]],
    sources: Sequence[str],
    cased: bool = True,
) -> dict[str, Any]:
    """Compute ROUGE with its intervals, exact match, and repetition, copying and fact scores.

    Args:
        summaries: one for each source.
        references: reference summaries of each source; fact scores use the first one.
        sources: the texts that are summarized.
        cased: whether summaries keep upper case. Without it, names cannot be recognized, and there
            are no fact scores.

    Returns:
        `sentences` (number of texts), `rouge1`, `rouge2`, `rougeL` and `exact_match` (0 to 100,
        with the best reference), `repeated_3grams`, `reference_repeated_3grams` (of the first
        references) and `copied_share` (percent), `lead_rouge1` and so on (of the first sentence of
        each source), `intervals`, and if cased `facts`, `facts_precision` and `facts_recall` (names
        and figures, see `metrics.fact_score`).

    Raises:
        ValueError: if there is no text, or one has no reference.
    """
    if not cased:
        references = [[text.lower() for text in of_source] for of_source in references]
    first = [of_source[0] for of_source in references]
    scores = rouge(summaries, references)
    lead = rouge([first_sentence(source) for source in sources], references)
    return {
        "sentences": len(summaries),
        **{kind: interval.score for kind, interval in scores.items()},
        "exact_match": exact_match(summaries, references),
        **(_facts(summaries, first) if cased else {}),
        "repeated_3grams": repeated_ngrams(summaries),
        "reference_repeated_3grams": repeated_ngrams(first),
        "copied_share": copied_share(summaries, sources),
        **{f"lead_{kind}": interval.score for kind, interval in lead.items()},
        "intervals": [
            {"metric": kind, "low": interval.low, "high": interval.high}
            for kind, interval in scores.items()
        ],
    }


def _facts(summaries: Sequence[str], references: Sequence[str]) -> dict[str, float]:
    """Compute F1, precision and recall of names and figures, in percent."""
    facts = fact_score(summaries, references)
    return {"facts": facts.f1, "facts_precision": facts.precision, "facts_recall": facts.recall}
