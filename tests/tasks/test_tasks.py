"""All tasks: predictions are independent of the batch, and files keep all settings."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from attention_zoo import tasks
from attention_zoo.data.tokenizers.vocabulary import END
from attention_zoo.decoding import AllowedTokens
from attention_zoo.tasks import SearchOptions
from tests.tasks import (
    test_captioning,
    test_glimpses,
    test_language_modeling,
    test_masked_language_modeling,
    test_retrieval,
    test_summarization,
    test_tagging,
    test_translation,
)
from tests.tasks.retrievers import SCENES


class Case(NamedTuple):
    """A task with random weights, and different inputs of `predict`."""

    make: Callable[[], Any]
    inputs: list[Any]
    options: dict[str, Any] = {}  # noqa: RUF012


MASK = test_masked_language_modeling.MASK
CASES = {
    "translation": Case(
        test_translation.translator, [*test_translation.SOURCES, "the cat"], {"max_length": 9}
    ),
    "summarization": Case(test_summarization.summarizer, [*test_summarization.TEXTS, "no fire"]),
    "language_modeling": Case(
        test_language_modeling.make_task,
        [*test_language_modeling.TEXTS, "the cat"],
        {"max_length": 9},
    ),
    "masked_language_modeling": Case(
        test_masked_language_modeling.make_task,
        [*test_masked_language_modeling.MASKED, f"{' '.join(['cat'] * 12)} {MASK}"],
    ),
    "tagging": Case(
        lambda: test_tagging.tagger(characters=True, attention=True, scheme="BIO", max_length=30),
        ["York", "Ida Lamp saw New York . " * 2, "no lamps"],
    ),
    "captioning": Case(test_captioning.captioner, test_captioning.IMAGES),
    # float64, as each glimpse amplifies rounding errors, which depend on the batch size.
    "glimpses": Case(lambda: test_glimpses.task_of(dtype="float64"), list(test_glimpses.images())),
    "retrieval": Case(
        lambda: test_retrieval.TASK, test_retrieval.TEXTS[::8][:3], {"index": test_retrieval.INDEX}
    ),
}
SEARCHING = ("translation", "summarization", "language_modeling")


def mark_slow_cases(*slow: str) -> list[Any]:
    """Return the names of all cases; mark these for the full tier."""
    return [pytest.param(name, marks=[pytest.mark.full] * (name in slow)) for name in CASES]


def assert_close(one: Any, other: Any, tolerance: float = 1e-4) -> None:
    """Assert that predictions are equal, up to an absolute tolerance (at most 1e-5 in arrays)."""
    if dataclasses.is_dataclass(one):
        one, other = ([getattr(x, f.name) for f in dataclasses.fields(one)] for x in (one, other))
    if isinstance(one, list | tuple):
        assert len(one) == len(other)
        for a, b in zip(one, other, strict=True):
            assert_close(a, b, tolerance)
    elif isinstance(one, dict):
        assert list(one) == list(other)
        assert_close(list(one.values()), list(other.values()), tolerance)
    elif isinstance(one, float | np.floating):
        assert one == pytest.approx(other, abs=tolerance)
    elif isinstance(one, np.ndarray):
        np.testing.assert_allclose(one, other, atol=min(tolerance, 1e-5))
    else:
        assert one == other


@pytest.mark.parametrize("name", mark_slow_cases(*SEARCHING, "captioning", "tagging"))
def test_predictions_keep_the_order_and_do_not_depend_on_the_batch(name: str) -> None:
    make, inputs, options = CASES[name]
    task = make()
    together = task.predict([*inputs, *reversed(inputs)], batch_size=3, **options)
    assert len({round(answer.score, 4) for answer in together}) == len(inputs)
    for one, answer in zip([*inputs, *reversed(inputs)], together, strict=True):
        assert_close(task.predict([one], **options), [answer])


@pytest.mark.parametrize("name", CASES)
def test_no_inputs(name: str) -> None:
    make, _, options = CASES[name]
    assert make().predict([], **options) == []


@pytest.mark.parametrize(
    "name", ["translation", "language_modeling", pytest.param("captioning", marks=pytest.mark.full)]
)
def test_rules_apply_to_all_inputs(name: str) -> None:
    make, inputs, _ = CASES[name]
    task = make()
    tokenizer = task.target_tokenizer if name == "translation" else task.tokenizer
    allowed = np.isin(np.arange(tokenizer.vocabulary_size), [END, 5, 6])
    answers = task.predict(inputs, rules=[AllowedTokens(allowed)], max_length=4, min_length=3)
    words = set(tokenizer.tokens([5, 6]))
    assert all(set(answer.tokens) <= words for answer in answers)
    assert all(answer.tokens for answer in answers)


@pytest.mark.parametrize("name", mark_slow_cases(*SEARCHING, "tagging"))
def test_results_as_json_values(name: str) -> None:
    make, inputs, options = CASES[name]
    (result,) = make().predict(inputs[:1], **options)
    content = json.loads(json.dumps(result.as_dict()))
    assert_same_content(content, result)
    assert type(result).__name__ in repr(result)
    assert f"score={result.score:.4f}" in repr(result)
    assert len(repr(result)) < 300
    assert "\n" not in str(result)


def assert_same_content(content: Any, value: Any) -> None:
    """Compare JSON values with the value that they describe, in all fields and elements."""
    if dataclasses.is_dataclass(value):
        assert list(content) == [field.name for field in dataclasses.fields(value)]
        for name, item in content.items():
            assert_same_content(item, getattr(value, name))
    elif isinstance(value, np.ndarray):
        np.testing.assert_allclose(content, value, rtol=1e-6)
    elif isinstance(value, tuple | list):
        assert len(content) == len(value)
        for item, expected in zip(content, value, strict=True):
            assert_same_content(item, expected)
    else:
        assert content == (pytest.approx(value) if isinstance(value, float) else value)


def test_earlier_names_in_a_task_file_are_accepted(tmp_path: Path) -> None:
    task = CASES["summarization"].make()
    options = task.options | {"truncate_source": True}
    content = {"task": "summarization", "search": task.search.as_dict(), **options}
    content["cut_source"] = content.pop("truncate_source")
    (tmp_path / "task.json").write_text(json.dumps(content))
    expected = options | task.get_saved_fields() | {"search": task.search}
    assert type(task).read_options(tmp_path) == expected


def settings_of(task: Any) -> dict[str, Any]:
    plain = (str, int, tuple, list, type(None), SearchOptions)
    return {k: v for k, v in vars(task).items() if k[0] != "_" and isinstance(v, plain)}


@pytest.mark.parametrize("name", mark_slow_cases(*SEARCHING, "tagging"))
def test_save_and_load(name: str, tmp_path: Path) -> None:
    make, inputs, options = CASES[name]
    task = make()
    task.save(tmp_path)
    again = tasks.load(tmp_path)
    assert type(again) is type(task)
    assert settings_of(again) == settings_of(task)
    assert_close(*(one.predict(inputs[:2], **options) for one in (again, task)), tolerance=1e-5)
    if name == "retrieval":
        np.testing.assert_array_equal(
            again.build_index(SCENES).regions, task.build_index(SCENES).regions
        )


@pytest.mark.parametrize("name", CASES)
def test_damaged_task_file_raises(name: str, tmp_path: Path) -> None:
    task = CASES[name].make()
    task.save(tmp_path)
    path = tmp_path / "task.json"
    good = json.loads(path.read_text())
    bad = [good | {"search": {"beam": 3}}] if "search" in good else []
    damaged = (([], {}), r".*[Uu]se another checkpoint")
    outdated = (({"task": name}, {"task": name, "max_length": 3}, *bad), "outdated or edited")
    for contents, problem in (damaged, outdated):
        for text in map(json.dumps, contents):
            path.write_text(text)
            with pytest.raises(ValueError, match=rf"task\.json: {problem}"):
                type(task).load(tmp_path)
    path.write_text("{")
    with pytest.raises(ValueError, match=r"task\.json: damaged .*; use another checkpoint"):
        type(task).load(tmp_path)
    path.unlink()
    with pytest.raises(ValueError, match=r"task\.json: no such file"):
        type(task).load(tmp_path)
