"""BLEU, ROUGE-L and CIDEr-D of image captions, with several references per image."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from statistics import fmean
from typing import NamedTuple

from attention_zoo.extras import explain_missing_package
from attention_zoo.metrics.check import as_reference_lists, check_same_length
from attention_zoo.metrics.cider import MAX_NGRAM, cider
from attention_zoo.metrics.summarization import caption_words

BETA = 1.2  # weight of recall in ROUGE-L


class CaptionScores(NamedTuple):
    """Scores of captions against human captions of the images.

    Attributes:
        bleu1, bleu2, bleu3, bleu4: 0 to 100, of n-grams up to that n.
        rouge_l: 0 to 100.
        cider: CIDEr-D, 0 to 1000, see `cider`.
        bleu_signature: sacrebleu's signature, to be reported with the scores.
    """

    bleu1: float
    bleu2: float
    bleu3: float
    bleu4: float
    rouge_l: float
    cider: float
    bleu_signature: str


def caption_scores(
    captions: Sequence[str], references: Sequence[str | Sequence[str]]
) -> CaptionScores:
    """Compute BLEU-1 to 4, ROUGE-L and CIDEr-D as in COCO's caption evaluation.

    All scores use lower-case words without punctuation; contractions are two words ("it s").

    BLEU is corpus BLEU as in sacrebleu. The count of an n-gram is clipped to its maximum count in
    one reference of the image. The brevity penalty uses the reference closest in length. There is
    no smoothing, so the score is 0 if no n-gram of some order matches.

    ROUGE-L is the mean over images of `(1 + b^2) P R / (R + b^2 P)` with b = 1.2. P and R are the
    length of the longest common subsequence divided by the length of the caption and of the
    reference; each is the maximum over the references. The variant in `rouge`, used in papers on
    summarization, has b = 1 and takes P and R from the same reference.

    Args:
        captions: one per image.
        references: one caption or several per image; their number may differ between images.

    Example:
        >>> from attention_zoo.metrics import caption_scores
        >>> scores = caption_scores(
        ...     ["A dog runs.", "A red cat sleeps."],
        ...     [["a dog runs", "the dog is running"], ["a black cat sleeps"]],
        ... )
        >>> round(scores.bleu1, 1), round(scores.rouge_l, 1)
        (85.7, 87.5)

    Reference:
        Papineni et al. 2002; Lin 2004; Vedantam et al. 2015; combined by Chen et al. 2015,
        "Microsoft COCO captions: data collection and evaluation server", arXiv:1504.00325,
        section 3.

    Raises:
        ValueError: if the lists are empty or differ in length, or an image has no reference.
    """
    check_same_length(captions=captions, references=references)
    caption_tokens = [caption_words(caption) for caption in captions]
    reference_tokens = [
        [caption_words(text) for text in image_references]
        for image_references in as_reference_lists(references)
    ]
    bleus, signature = _compute_bleu(caption_tokens, reference_tokens)
    rouge_l = 100 * fmean(map(_compute_rouge_l, caption_tokens, reference_tokens))
    bleu1, bleu2, bleu3, bleu4 = bleus
    cider_d = cider(captions, references)
    return CaptionScores(bleu1, bleu2, bleu3, bleu4, rouge_l, cider_d, signature)


def _compute_bleu(
    captions: list[list[str]], references: list[list[list[str]]]
) -> tuple[list[float], str]:
    """Return BLEU-1 to 4, and the signature."""
    with explain_missing_package():
        from sacrebleu.metrics import BLEU

    metric = BLEU(lowercase=True, tokenize="none", smooth_method="none", max_ngram_order=MAX_NGRAM)
    texts = [" ".join(words) for words in captions]
    reference_texts = [map(" ".join, image_references) for image_references in references]
    total = metric.corpus_score(texts, [*zip_longest(*reference_texts)])
    lengths = total.sys_len, total.ref_len
    scores = [
        metric.compute_bleu(total.counts[:n], total.totals[:n], *lengths, max_ngram_order=n)
        for n in range(1, MAX_NGRAM + 1)
    ]
    return [float(score.score) for score in scores], str(metric.get_signature())


def _compute_rouge_l(caption: list[str], references: list[list[str]]) -> float:
    """Return ROUGE-L of one image, 0 to 1."""
    common_lengths = [_compute_lcs_length(caption, reference) for reference in references]
    if not any(common_lengths):
        return 0.0
    precision = max(common_lengths) / len(caption)
    pairs = zip(common_lengths, references, strict=True)
    recall = max(length / len(reference) for length, reference in pairs if reference)
    return (1 + BETA**2) * precision * recall / (recall + BETA**2 * precision)


def _compute_lcs_length(words: list[str], other_words: list[str]) -> int:
    """Return the length of the longest common subsequence of two word lists."""
    lengths = [0] * (len(other_words) + 1)
    for word in words:
        diagonal = 0  # result for the words before `word` and before `other_word`
        for index, other_word in enumerate(other_words, start=1):
            above = lengths[index]
            lengths[index] = diagonal + 1 if word == other_word else max(above, lengths[index - 1])
            diagonal = above
    return lengths[-1]
