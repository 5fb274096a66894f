"""`predict_iter`: results in order, in chunks, with the errors and options of `predict`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tests.tasks import retrievers
from tests.tasks.test_masked_language_modeling import MASK
from tests.tasks.test_predict_inputs import GOOD, MAKERS, NAMES, make_tagger, make_translator

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
    for result in task.predict(GOOD[name], **make_options(task)):
        arrays = [value for value in vars(result).values() if isinstance(value, np.ndarray)]
        for array in arrays if name != "retrieval" else arrays[:1]:  # images are the index's
            owner = array if array.base is None else array.base
            assert owner.nbytes <= 2 * array.nbytes


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
        (prefixes[:3], r"^prefixes must have one text for each of the 2 texts, got 1$"),
        ([*prefixes, ""], "^prefixes has more entries than there are inputs$"),
        ("cat", r"^prefixes must be a list of texts, got 'cat'"),
    ):
        with pytest.raises(ValueError, match=message):
            list(task.predict_iter(SOURCES, chunk_size=2, prefixes=given, **options))


def test_invalid_arguments_raise_before_the_first_result() -> None:
    task = make_tagger()
    with pytest.raises(ValueError, match=r"^predict_iter takes an iterable of texts, got str$"):
        task.predict_iter("a cat")
    with pytest.raises(ValueError, match="chunk_size must be at least 1, got 0"):
        task.predict_iter(SOURCES, chunk_size=0)
    with pytest.raises(ValueError, match="on_error: unknown value 'drop'"):
        task.predict_iter(SOURCES, on_error="drop")
    with pytest.raises(ValueError, match=r"^search option beam_width has no effect in task"):
        next(task.predict_iter(SOURCES, beam_width=2))
