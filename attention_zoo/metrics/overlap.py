"""BLEU and chrF as sacrebleu computes them, with the signature that lets others repeat them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from attention_zoo.metrics.check import check_same_length


class Score(NamedTuple):
    """A figure and how it was made.

    Attributes:
        score: 0 to 100.
        signature: sacrebleu's, to be quoted with the score.
    """

    score: float
    signature: str


def bleu(
    hypotheses: Sequence[str], references: Sequence[str], tokenizer: str | None = None
) -> Score:
    """Corpus BLEU of detokenised, cased text, one reference each.

    Args:
        hypotheses, references: one a sentence.
        tokenizer: sacrebleu's name of it; `bleu_tokenizer(references)` if None.

    Papineni et al. 2002, in the form of Post 2018 (arXiv:1804.08771).

    Raises:
        ValueError: if the lists are empty or differ in length.
    """
    from sacrebleu.metrics import BLEU

    check_same_length(hypotheses=hypotheses, references=references)
    metric = BLEU(tokenize=tokenizer or bleu_tokenizer(references), lowercase=False)
    metric_score = metric.corpus_score(hypotheses, [references])
    return Score(float(metric_score.score), str(metric.get_signature()))


def bleu_tokenizer(references: Sequence[str]) -> str:
    """sacrebleu's tokenizer of the references' language: "zh", one token a sign, where more than
    half of the letters are Chinese signs, which have no spaces between words; else "13a"."""
    letters = [letter for text in references for letter in text if letter.isalpha()]
    signs = sum("\u4e00" <= letter <= "\u9fff" for letter in letters)
    return "zh" if 2 * signs > len(letters) else "13a"


def chrf(hypotheses: Sequence[str], references: Sequence[str]) -> Score:
    """Corpus chrF2 (characters up to 6-grams, recall twice as heavy), one reference each.

    Popovic 2015, "chrF: character n-gram F-score for automatic MT evaluation".

    Raises:
        ValueError: if the lists are empty or differ in length.
    """
    from sacrebleu.metrics import CHRF

    check_same_length(hypotheses=hypotheses, references=references)
    metric = CHRF()
    metric_score = metric.corpus_score(hypotheses, [references])
    return Score(float(metric_score.score), str(metric.get_signature()))
