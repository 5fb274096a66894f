"""`predict_iter`: results in order, in chunks, with the errors and options of `predict`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.tasks import retrievers
from tests.tasks.test_masked_language_modeling import MASK
from tests.tasks.test_predict_inputs import GOOD, MAKERS, NAMES, make_tagger, make_translator

WITHOUT_ARRAYS = ("masked_language_modeling", "language_modeling", "tagging")
"""Tasks whose results, with the models of this file, have no arrays."""
SOURCES = ["a cat", "the dog", "a dog", "the cat", "cat"]
MASKED = [f"a {MASK}", f"{MASK} dog", MASK, f"the {MASK}", "a cat", MASK]
"""Texts to fill; that with number 4 has no mask."""


def make_options(task: Any) -> dict[str, Any]:
    """Return options of `predict` that make it fast."""
    if task.name == "retrieval":
        return {"index": task.build_index(iter(retrievers.SCENES.images))}
    return {"max_length": 1} if hasattr(task, "search_options") else {}


@pytest.mark.parametrize("name", NAMES)
def test_results_equal_those_of_predict(name: str) -> None:
    task, inputs = MAKERS[name](), [*GOOD[name], GOOD[name][0]]
    options = make_options(task)
    expected = task.predict(inputs, **options)
    results = list(task.predict_iter(iter(inputs), chunk_size=2, **options))
    assert [one.text for one in results] == [one.text for one in expected]
    scores = [one.score for one in results]
    np.testing.assert_allclose(scores, [one.score for one in expected], rtol=1e-3)
    assert list(task.predict_iter([], **options)) == []


@pytest.mark.parametrize("name", NAMES)
def test_results_keep_no_array_of_their_batch(name: str) -> None:
    task = MAKERS[name]()
    results = task.predict(GOOD[name] * 2, **make_options(task))
    arrays = [
        value
        for result in results
        for one in (result, *result.alternatives)
        for field, value in vars(one).items()
        if isinstance(value, np.ndarray) and (name, field) != ("retrieval", "image")
    ]
    assert bool(arrays) == (name not in WITHOUT_ARRAYS)
    for array in arrays:
        assert array.base is None or array.base.nbytes == array.nbytes


def test_errors_name_images_by_their_paths() -> None:
    images = MAKERS["glimpses"]().predict_iter(iter([b"GIF8", "no.png"]))
    with pytest.raises(ValueError, match=r"^image 0: is GIF; "):
        next(images)
    with pytest.raises(ValueError, match=r"^no\.png: No such file or directory"):
        next(MAKERS["glimpses"]().predict_iter(["no.png"]))


def test_inputs_of_unknown_number() -> None:
    class Inputs(list[str]):
        def __len__(self) -> int:
            raise TypeError("The length is unknown.")

    task = MAKERS["masked_language_modeling"]()
    assert len([*task.predict_iter(Inputs(MASKED[:4]), chunk_size=3)]) == 4


def test_inputs_are_read_when_the_results_before_them_are_consumed() -> None:
    read_texts: list[str] = []

    def read() -> Iterator[str]:
        for text in MASKED[:4]:
            read_texts.append(text)
            yield text

    results = MAKERS["masked_language_modeling"]().predict_iter(read(), chunk_size=2)
    assert read_texts == []
    next(results)
    next(results)
    assert read_texts == MASKED[:2]
    next(results)
    assert read_texts == MASKED[:4]


def test_errors_name_the_input_and_come_after_the_results_before_it() -> None:
    task = MAKERS["masked_language_modeling"]()
    results = task.predict_iter(MASKED, chunk_size=3)
    assert all(next(results).ok for _ in range(4))
    with pytest.raises(ValueError, match=rf"^source 4: has no {re.escape(MASK)}; put it"):
        next(results)
    skipped = [*task.predict_iter(MASKED, chunk_size=3, on_error="skip")]
    assert [result.ok for result in skipped] == [True, True, True, True, False, True]


@pytest.mark.full
def test_options_with_one_entry_for_each_input() -> None:
    task, prefixes = make_translator(), ["cat", "", "the dog", "", "a"]
    options: dict[str, Any] = {"max_length": 3}
    expected = task.predict(SOURCES, prefixes=prefixes, **options)
    streamed = task.predict_iter(SOURCES, chunk_size=2, prefixes=iter(prefixes), **options)
    assert [one.text for one in streamed] == [one.text for one in expected]
    for given, message in (
        (prefixes[:3], r"^prefixes must have one entry for each input, got 3 for at least 4 inp"),
        ([*prefixes, ""], r"^prefixes must have one entry for each of the 5 inputs, got more$"),
        ("cat", r"^prefixes must be a list of texts, got 'cat'"),
    ):
        with pytest.raises(ValueError, match=message):
            list(task.predict_iter(SOURCES, chunk_size=2, prefixes=given, **options))


def test_invalid_arguments_raise_before_the_first_result() -> None:
    task = make_tagger()
    message = r"^predict_iter takes an iterable of (text|image)s, got \w+; write predict_iter\(\["
    images = MAKERS["glimpses"]()
    for single_task, single in ((task, "a cat"), (images, GOOD["glimpses"][0]), (images, Path())):
        with pytest.raises(ValueError, match=message):
            single_task.predict_iter(single)
    with pytest.raises(ValueError, match="chunk_size must be at least 1, got 0"):
        task.predict_iter(SOURCES, chunk_size=0)
    with pytest.raises(ValueError, match="on_error: unknown value 'drop'"):
        task.predict_iter(SOURCES, on_error="drop")
    with pytest.raises(ValueError, match=r"^search option beam_width has no effect in task"):
        next(task.predict_iter(SOURCES, beam_width=2))
