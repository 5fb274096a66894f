"""CIDEr-D computed by hand, and compared with its equations on arrays."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest

from attention_zoo.metrics import cider


def test_rare_words_weigh_more() -> None:
    """ "red" is in the references of 2 of 4 images and has IDF log 2; the other words and all pairs
    have twice that. The first caption shares only "red": log(2)^2 / ((1 + 4) log(2)^2) for words,
    0 for pairs. The next two equal their references of 2 words (half of the four n) and of 1 word
    (a quarter). The last one is empty."""
    references = [["red cat"], ["red fish"], ["dog"], ["bird"]]
    score = cider(["Red dog.", "red fish", "dog", ""], references)
    assert score == pytest.approx(1000 * (1 / 5 / 4 + 1 / 2 + 1 / 4 + 0) / 4)


def test_ngrams_of_all_images_have_weight_zero() -> None:
    """Both images have "a"; nothing else of the second caption matches."""
    assert cider(["a dog", "a dog"], [["a dog"], ["a cat"]]) == pytest.approx(
        1000 * (2 / 4 + 0) / 2
    )
    assert cider(["a", "a"], [["a dog"], ["a cat"]]) == 0


def test_repetition_is_clipped() -> None:
    """min(2, 1) * 1 / (2 * 1) for words, no matching pair, and one word more than the reference."""
    expected = np.exp(-1 / 72) / 2 / 4
    assert cider(["dog dog", "x"], [["dog"], ["cat"]]) == pytest.approx(1000 * expected / 2)


def test_references_are_averaged_and_images_counted_once() -> None:
    """All n-grams are in the references of one of two images: IDF log 2. The caption equals the
    first reference, has half of the words of the second (1 / (1 sqrt(2))) and is one word shorter,
    and shares nothing with the third."""
    references = [["dog", "dog runs", "cat"], ["bird"]]
    parts = 1 / 4 + np.exp(-1 / 72) / np.sqrt(2) / 4 + 0
    assert cider(["dog", "fish"], references) == pytest.approx(1000 * parts / 3 / 2)


def test_maximum_and_minimum_score() -> None:
    texts = ["a red cat sleeps", "two dogs run fast"]
    assert cider(texts, texts) == pytest.approx(1000)
    assert cider(texts[::-1], texts) == 0
    assert cider(["", "..."], texts) == 0
    assert cider(texts, ["", ""]) == 0


def test_single_image_scores_zero() -> None:
    assert cider(["a dog runs fast"], [["a dog runs fast"]]) == 0


def reference_cider(captions: list[str], references: list[list[str]]) -> float:
    """Compute CIDEr-D by its equations, over all possible n-grams."""

    def counts(text: str, n: int) -> np.ndarray:
        words = text.split()
        score = [tuple(words[start : start + n]) for start in range(len(words) - n + 1)]
        return np.array([score.count(ngram) for ngram in itertools.product("abc", repeat=n)])

    total = 0.0
    for n in range(1, 5):
        reference_counts = [
            np.array([counts(text, n) for text in image_counts]) for image_counts in references
        ]
        images = sum((image_counts.any(axis=0).astype(int) for image_counts in reference_counts), 0)
        idf = np.log(len(captions) / np.maximum(1, images))
        for caption, image_counts, texts in zip(
            captions, reference_counts, references, strict=True
        ):
            caption_vector = counts(caption, n) * idf
            for text, reference_vector in zip(texts, image_counts * idf, strict=True):
                length_difference = len(caption.split()) - len(text.split())
                norms = np.linalg.norm(caption_vector) * np.linalg.norm(reference_vector)
                product = np.minimum(caption_vector, reference_vector) @ reference_vector
                cosine = product / norms if norms else 0.0
                total += cosine * np.exp(-(length_difference**2) / 72) / len(texts)
    return 1000 * total / 4 / len(captions)


def test_cider_equals_its_equations() -> None:
    rng = random.Random(4)

    def text() -> str:
        return " ".join(rng.choices("abc", k=rng.randint(1, 8)))

    captions = [text() for _ in range(12)]
    references = [[text() for _ in range(rng.randint(1, 4))] for _ in captions]
    score = cider(captions, references)
    assert score == pytest.approx(reference_cider(captions, references))
    assert score > 10
