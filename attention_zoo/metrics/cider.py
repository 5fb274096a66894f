"""CIDEr-D: how much captions say of what people say of this image, and not of every image."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import NamedTuple

from attention_zoo.metrics.check import check_same_length, listed
from attention_zoo.metrics.wording import caption_words

LONGEST = 4  # words of an n-gram
SIGMA = 6.0  # of the penalty for a caption longer or shorter than a reference

Ngram = tuple[str, ...]


class Weighed(NamedTuple):
    """A text as vectors of n-grams, each weighed by how few images it is said of.

    Attributes:
        parts: of each n from 1 to 4, the weights of the n-grams; those of weight 0 are left out.
        norms: of each part.
        length: in words.
    """

    parts: list[dict[Ngram, float]]
    norms: list[float]
    length: int


def cider(captions: Sequence[str], references: Sequence[str | Sequence[str]]) -> float:
    """CIDEr-D of captions, 0 to 1000: a hundred times what COCO's evaluation gives.

    `g(w) = h(w) log(N / max(1, d(w)))` weighs an n-gram that a text has h times and that stands in
    references of d of the N images. With `g` of a caption and `r` of a reference,

        `s_n = sum(min(g, r) r) / (|g| |r|) exp(-(l_g - l_r)^2 / (2 * 6^2))`,

    `l` the lengths in words, and a caption's score is the mean over its references and over n from
    1 to 4. Tables show CIDEr as here, as they show BLEU in percent; COCO's own programme writes 10
    for the best, 1.1 where tables have 110.

    What every image's references say weighs nothing. So a single image has score 0 whatever its
    caption, figures of different sets of images cannot be compared, and even a caption equal to its
    only reference has 250 n at most, where its words are n < 4.

    Args:
        captions: one an image.
        references: of each image one caption, or some.

    Reference:
        Vedantam, Zitnick, Parikh 2015, "CIDEr: consensus-based image description evaluation",
        arXiv:1411.5726: the weights of equation 1, but for the division by the sum of the counts
        (as COCO's programme has them), and what the paper calls CIDEr-D.

    Raises:
        ValueError: if the lists are empty or differ in length, or an image has no reference.
    """
    check_same_length(captions=captions, references=references)
    given = [[_counts(text) for text in of_image] for of_image in listed(references)]
    images = Counter(ngram for of_image in given for ngram in set().union(*of_image))
    rarity = {ngram: math.log(len(given) / count) for ngram, count in images.items()}

    def weighed(counts: Counter[Ngram]) -> Weighed:
        return _weighed(counts, rarity, math.log(len(given)))

    return 1000 * fmean(
        _score(weighed(_counts(caption)), [weighed(counts) for counts in of_image])
        for caption, of_image in zip(captions, given, strict=True)
    )


def _counts(text: str) -> Counter[Ngram]:
    words = caption_words(text)
    return Counter(
        tuple(words[at : at + n]) for n in range(1, LONGEST + 1) for at in range(len(words) - n + 1)
    )


def _weighed(counts: Counter[Ngram], rarity: Mapping[Ngram, float], unknown: float) -> Weighed:
    """Counts as vectors; `unknown` weighs what no reference has."""
    parts: list[dict[Ngram, float]] = [{} for _ in range(LONGEST)]
    for ngram, count in counts.items():
        if weight := count * rarity.get(ngram, unknown):
            parts[len(ngram) - 1][ngram] = weight
    norms = [math.hypot(*part.values()) for part in parts]
    return Weighed(parts, norms, sum(n for ngram, n in counts.items() if len(ngram) == 1))


def _score(caption: Weighed, references: list[Weighed]) -> float:
    """0 to 1, of one image."""
    return fmean(_alike(caption, reference) for reference in references)


def _alike(caption: Weighed, reference: Weighed) -> float:
    """0 to 1, the mean over n."""
    shared = 0.0
    for own, other, *norms in zip(
        caption.parts, reference.parts, caption.norms, reference.norms, strict=True
    ):
        both = own.keys() & other.keys()
        products = sum(min(own[ngram], other[ngram]) * other[ngram] for ngram in sorted(both))
        shared += products / math.prod(norms) if both else 0.0
    apart = caption.length - reference.length
    return shared / LONGEST * math.exp(-(apart**2) / (2 * SIGMA**2))
