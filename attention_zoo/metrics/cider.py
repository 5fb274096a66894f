"""CIDEr-D: n-gram similarity of captions to references, weighted by TF-IDF."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from statistics import fmean
from typing import NamedTuple

from attention_zoo.metrics.check import as_reference_lists, check_same_length
from attention_zoo.metrics.summarization import caption_words

MAX_NGRAM = 4  # maximum n of the n-grams
SIGMA = 6.0  # of the Gaussian penalty on the difference in length

Ngram = tuple[str, ...]


class TfIdfVectors(NamedTuple):
    """The TF-IDF weighted n-gram vectors of a text.

    Attributes:
        vectors: for each n from 1 to 4, the weights of the n-grams, without zero weights.
        norms: Euclidean norm of each part.
        length: in words.
    """

    vectors: list[dict[Ngram, float]]
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
    reference_counts = [
        [_count_ngrams(text) for text in image_counts]
        for image_counts in as_reference_lists(references)
    ]
    num_images = len(reference_counts)
    document_counts = Counter(
        ngram for image_counts in reference_counts for ngram in set().union(*image_counts)
    )
    idf = {ngram: math.log(num_images / count) for ngram, count in document_counts.items()}
    compute_vectors = partial(_compute_vectors, idf=idf, unknown=math.log(num_images))
    scores = []
    for caption, image_counts in zip(captions, reference_counts, strict=True):
        vectors = compute_vectors(_count_ngrams(caption))
        scores.append(
            fmean(_compute_similarity(vectors, compute_vectors(counts)) for counts in image_counts)
        )
    return 1000 * fmean(scores)


def _count_ngrams(text: str) -> Counter[Ngram]:
    words = caption_words(text)
    return Counter(
        tuple(words[start : start + n])
        for n in range(1, MAX_NGRAM + 1)
        for start in range(len(words) - n + 1)
    )


def _compute_vectors(
    counts: Counter[Ngram], idf: Mapping[Ngram, float], unknown: float
) -> TfIdfVectors:
    """Return weighted vectors of n-gram counts; `unknown` is the IDF of n-grams in no reference."""
    vectors: list[dict[Ngram, float]] = [{} for _ in range(MAX_NGRAM)]
    for ngram, count in counts.items():
        if weight := count * idf.get(ngram, unknown):
            vectors[len(ngram) - 1][ngram] = weight
    norms = [math.hypot(*vector.values()) for vector in vectors]
    return TfIdfVectors(vectors, norms, sum(n for ngram, n in counts.items() if len(ngram) == 1))


def _compute_similarity(caption: TfIdfVectors, reference: TfIdfVectors) -> float:
    """Return the similarity of a caption and a reference, 0 to 1, averaged over n."""
    similarity = 0.0
    for caption_vector, reference_vector, *norms in zip(
        caption.vectors, reference.vectors, caption.norms, reference.norms, strict=True
    ):
        common = caption_vector.keys() & reference_vector.keys()
        products = sum(
            min(caption_vector[ngram], reference_vector[ngram]) * reference_vector[ngram]
            for ngram in sorted(common)
        )
        similarity += products / math.prod(norms) if common else 0.0
    length_difference = caption.length - reference.length
    return similarity / MAX_NGRAM * math.exp(-(length_difference**2) / (2 * SIGMA**2))
