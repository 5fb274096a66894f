"""Figures of translations against references, over all and by the source's length."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from attention_zoo.metrics import bleu, bleu_tokenizer, by_length, chrf, exact_match

EDGES = (10, 20, 30, 40, 50)  # last source token of each group but the last


def score_translations(
    translations: Sequence[str], references: Sequence[str], source_lengths: Sequence[int]
) -> dict[str, Any]:
    """BLEU, chrF and exact match, all 0 to 100, with sacrebleu's signatures.

    Args:
        translations, references: one a sentence.
        source_lengths: tokens of each source.

    Raises:
        ValueError: there is no sentence.
    """
    blue = functools.partial(bleu, tokenizer=bleu_tokenizer(references))
    overlap, characters = blue(translations, references), chrf(translations, references)
    columns = (translations, references, source_lengths, EDGES)
    groups = zip(by_length(blue, *columns), by_length(exact_match, *columns), strict=True)
    return {
        "sentences": len(translations),
        "bleu": overlap.score,
        "chrf": characters.score,
        "exact_match": exact_match(translations, references),
        "bleu_signature": overlap.signature,
        "chrf_signature": characters.signature,
        "by_source_length": [
            {
                "from": part.first,
                "to": part.last,
                "sentences": part.size,
                "bleu": part.value.score,
                "exact_match": exact.value,
            }
            for part, exact in groups
        ],
    }
