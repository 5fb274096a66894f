"""BLEU and chrF as computed by sacrebleu, with the signature for reproducibility."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from attention_zoo.extras import explain_missing_package
from attention_zoo.metrics.check import check_same_length


class Score(NamedTuple):
    """A score and how it was computed.

    Attributes:
        score: 0 to 100.
        signature: sacrebleu's signature, to be reported with the score.
    """

    score: float
    signature: str


def bleu(
    hypotheses: Sequence[str], references: Sequence[str], tokenizer: str | None = None
) -> Score:
    """Compute corpus BLEU of detokenized, cased text, with one reference per sentence.

    Args:
        hypotheses, references: one per sentence.
        tokenizer: name of a sacrebleu tokenizer; `bleu_tokenizer(references)` if None.

    Papineni et al. 2002, as implemented by Post 2018 (arXiv:1804.08771).

    Raises:
        ValueError: if the lists are empty or differ in length.
    """
    with explain_missing_package():
        from sacrebleu.metrics import BLEU

    check_same_length(hypotheses=hypotheses, references=references)
    metric = BLEU(tokenize=tokenizer or bleu_tokenizer(references), lowercase=False)
    metric_score = metric.corpus_score(hypotheses, [references])
    return Score(float(metric_score.score), str(metric.get_signature()))


def bleu_tokenizer(references: Sequence[str]) -> str:
    """Return the name of sacrebleu's tokenizer for the language of the references.

    This is "zh", with one token per Chinese character, if more than half of the letters are Chinese
    characters, since Chinese has no spaces between words; else "13a".
    """
    letters = [letter for text in references for letter in text if letter.isalpha()]
    num_chinese = sum("\u4e00" <= letter <= "\u9fff" for letter in letters)
    return "zh" if 2 * num_chinese > len(letters) else "13a"


def chrf(hypotheses: Sequence[str], references: Sequence[str]) -> Score:
    """Compute corpus chrF2 with one reference per sentence.

    It uses character n-grams up to 6, and recall weighs twice as much as precision. Popovic 2015,
    "chrF: character n-gram F-score for automatic MT evaluation".

    Raises:
        ValueError: if the lists are empty or differ in length.
    """
    with explain_missing_package():
        from sacrebleu.metrics import CHRF

    check_same_length(hypotheses=hypotheses, references=references)
    metric = CHRF()
    metric_score = metric.corpus_score(hypotheses, [references])
    return Score(float(metric_score.score), str(metric.get_signature()))
