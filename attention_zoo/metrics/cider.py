"""CIDEr-D: n-gram similarity of captions to references, weighted by TF-IDF."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import NamedTuple

from attention_zoo.metrics.check import check_same_length, listed
from attention_zoo.metrics.wording import caption_words

LONGEST = 4  # maximum n of the n-grams
SIGMA = 6.0  # of the Gaussian penalty on the difference in length

Ngram = tuple[str, ...]


class Weighed(NamedTuple):
    """The TF-IDF weighted n-gram vectors of a text.

    Attributes:
        parts: for each n from 1 to 4, the weights of the n-grams, without zero weights.
        norms: Euclidean norm of each part.
        length: in words.
    """

    parts: list[dict[Ngram, float]]
    norms: list[float]
    length: int


def cider(captions: Sequence[str], references: Sequence[str | Sequence[str]]) -> float:
    """Compute CIDEr-D of captions, 0 to 1000: 100 times the value of COCO's evaluation.

    `g(w) = h(w) log(N / max(1, d(w)))` is the weight of an n-gram that occurs h times in a text and
    in the references of d of the N images. With `g` of a caption and `r` of a reference,

        `s_n = sum(min(g, r) r) / (|g| |r|) exp(-(l_g - l_r)^2 / (2 * 6^2))`,

    where `l` is the length in words. The score of a caption is the mean over its references and
    over n from 1 to 4. Papers report CIDEr on this scale, like BLEU in percent; COCO's program
    reports 10 for the maximum, and 1.1 where papers report 110.

    N-grams in the references of all images have weight 0. So a single image has score 0 for any
    caption, and scores on different sets of images are not comparable. Even a caption that equals
    its only reference scores at most 250 n if it has n < 4 words.

    Args:
        captions: one per image.
        references: one caption or several per image.

    Reference:
        Vedantam, Zitnick, Parikh 2015, "CIDEr: consensus-based image description evaluation",
        arXiv:1411.5726: the weights of equation 1 without the division by the sum of the counts
        (as in COCO's program), and the variant that the paper calls CIDEr-D.

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
    """Return weighted vectors of n-gram counts; `unknown` is the IDF of n-grams in no reference."""
    parts: list[dict[Ngram, float]] = [{} for _ in range(LONGEST)]
    for ngram, count in counts.items():
        if weight := count * rarity.get(ngram, unknown):
            parts[len(ngram) - 1][ngram] = weight
    norms = [math.hypot(*part.values()) for part in parts]
    return Weighed(parts, norms, sum(n for ngram, n in counts.items() if len(ngram) == 1))


def _score(caption: Weighed, references: list[Weighed]) -> float:
    """Return the score of one image, 0 to 1."""
    return fmean(_alike(caption, reference) for reference in references)


def _alike(caption: Weighed, reference: Weighed) -> float:
    """Return the similarity of a caption and a reference, 0 to 1, averaged over n."""
    shared = 0.0
    for own, other, *norms in zip(
        caption.parts, reference.parts, caption.norms, reference.norms, strict=True
    ):
        both = own.keys() & other.keys()
        products = sum(min(own[ngram], other[ngram]) * other[ngram] for ngram in sorted(both))
        shared += products / math.prod(norms) if both else 0.0
    apart = caption.length - reference.length
    return shared / LONGEST * math.exp(-(apart**2) / (2 * SIGMA**2))
