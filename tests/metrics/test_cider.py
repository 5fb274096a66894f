"""CIDEr-D by hand, and against its equations written out with arrays."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest

from attention_zoo.metrics import cider


def test_rare_words_weigh_more() -> None:
    """Of 4 images, red is said of 2 and weighs log 2; cat, dog, fish and bird weigh twice that, and
    so do pairs. The first caption shares red alone: log(2)^2 / ((1 + 4) log(2)^2) of the words,
    nothing of the pairs. The others are equal, of 2 words (half of the four n), of 1 (a quarter),
    and none."""
    references = [["red cat"], ["red fish"], ["dog"], ["bird"]]
    found = cider(["Red dog.", "red fish", "dog", ""], references)
    assert found == pytest.approx(1000 * (1 / 5 / 4 + 1 / 2 + 1 / 4 + 0) / 4)


def test_what_is_said_of_every_image_weighs_nothing() -> None:
    """That of both images: "a". Of the second one's words and pairs nothing else is right."""
    assert cider(["a dog", "a dog"], [["a dog"], ["a cat"]]) == pytest.approx(
        1000 * (2 / 4 + 0) / 2
    )
    assert cider(["a", "a"], [["a dog"], ["a cat"]]) == 0


def test_repeating_does_not_pay() -> None:
    """min(2, 1) * 1 / (2 * 1) of the words, a pair that is wrong, and a word too many."""
    once = np.exp(-1 / 72) / 2 / 4
    assert cider(["dog dog", "x"], [["dog"], ["cat"]]) == pytest.approx(1000 * once / 2)


def test_references_are_averaged_and_images_counted_once() -> None:
    """Dog is said of one image of two, however often: log 2, as all the others. The caption is
    equal to one reference, has half of the next one's words (1 / (1 sqrt(2))) and is one shorter,
    and nothing of the third."""
    references = [["dog", "dog runs", "cat"], ["bird"]]
    parts = 1 / 4 + np.exp(-1 / 72) / np.sqrt(2) / 4 + 0
    assert cider(["dog", "fish"], references) == pytest.approx(1000 * parts / 3 / 2)


def test_the_best_and_the_worst() -> None:
    texts = ["a red cat sleeps", "two dogs run fast"]
    assert cider(texts, texts) == pytest.approx(1000)
    assert cider(texts[::-1], texts) == 0
    assert cider(["", "..."], texts) == 0
    assert cider(texts, ["", ""]) == 0


def test_one_image_alone_has_nothing_that_others_have_not() -> None:
    assert cider(["a dog runs fast"], [["a dog runs fast"]]) == 0


def as_written(captions: list[str], references: list[list[str]]) -> float:
    """The equations, over every n-gram that can be."""

    def counts(text: str, n: int) -> np.ndarray:
        words = text.split()
        found = [tuple(words[at : at + n]) for at in range(len(words) - n + 1)]
        return np.array([found.count(ngram) for ngram in itertools.product("abc", repeat=n)])

    total = 0.0
    for n in range(1, 5):
        said = [np.array([counts(text, n) for text in of_image]) for of_image in references]
        images = sum((of_image.any(axis=0).astype(int) for of_image in said), 0)
        idf = np.log(len(captions) / np.maximum(1, images))
        for caption, of_image, texts in zip(captions, said, references, strict=True):
            own = counts(caption, n) * idf
            for text, theirs in zip(texts, of_image * idf, strict=True):
                apart = len(caption.split()) - len(text.split())
                norms = np.linalg.norm(own) * np.linalg.norm(theirs)
                product = np.minimum(own, theirs) @ theirs
                cosine = product / norms if norms else 0.0
                total += cosine * np.exp(-(apart**2) / 72) / len(texts)
    return 1000 * total / 4 / len(captions)


def test_it_is_what_the_equations_say() -> None:
    draw = random.Random(4)

    def text() -> str:
        return " ".join(draw.choices("abc", k=draw.randint(1, 8)))

    captions = [text() for _ in range(12)]
    references = [[text() for _ in range(draw.randint(1, 4))] for _ in captions]
    found = cider(captions, references)
    assert found == pytest.approx(as_written(captions, references))
    assert found > 10
