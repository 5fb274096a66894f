"""Inputs of `predict` of every task: iterables, invalid rows, NaN, unused options, warm-up."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from attention_zoo.tasks import Glimpses, Tagging, Task
from attention_zoo.tasks.base import SEARCH_OPTIONS
from tests.refusals import refuses
from tests.tasks import captioners, retrievers, summarizers, test_glimpses, translators
from tests.tasks.test_language_modeling import make_task as make_language_model
from tests.tasks.test_masked_language_modeling import MASK
from tests.tasks.test_masked_language_modeling import make_task as make_masked_language_model
from tests.tasks.test_tagging import tagger
from tests.tiers import mark_full

TEXTS = ["a cat", "the dog"]
IMAGES = [captioners.picture(0), captioners.picture(1)]
GLIMPSES = list(test_glimpses.images(2))
LONG = " ".join(["cat"] * 30)


def make_translator() -> Any:
    return translators.make_untrained_task("rnnsearch_small", TEXTS, TEXTS, max_source_length=9)


def make_summarizer() -> Any:
    return summarizers.make_untrained_task(TEXTS, max_source_length=9, max_target_length=4)


def make_tagger() -> Tagging:
    return tagger("word", max_length=9)


MAKERS: dict[str, Callable[[], Task]] = {
    "translation": make_translator,
    "summarization": make_summarizer,
    "language_modeling": make_language_model,
    "masked_language_modeling": make_masked_language_model,
    "tagging": make_tagger,
    "captioning": captioners.make_untrained_task,
    "glimpses": test_glimpses.task_of,
    "retrieval": retrievers.make_untrained_task,
}
GOOD: dict[str, list[Any]] = {
    **dict.fromkeys(MAKERS, TEXTS),
    "masked_language_modeling": [f"a {MASK}", f"{MASK} dog"],
    "captioning": IMAGES,
    "glimpses": GLIMPSES,
    "retrieval": retrievers.TEXTS[:2],
}
EMPTY = "the text is empty. Remove it or write a sentence."
BAD: dict[str, dict[Any, str]] = {
    "translation": {"": EMPTY, LONG: "30 tokens, the limit is 9;"},
    "summarization": {" ": EMPTY, LONG: "30 tokens, the limit is 9;"},
    "language_modeling": {LONG: "30 tokens and the start token, the limit is 20;"},
    "masked_language_modeling": {"a cat": f"has no {MASK}; put it at each token to predict"},
    "tagging": {"": EMPTY, LONG: "30 words, the limit is 9;"},
    "captioning": {"no.png": "No such file or directory", b"GIF8": "is GIF; give a JPEG, PNG or"},
    "glimpses": {"no.png": "No such file or directory", b"": "is empty; give a JPEG, PNG or"},
    "retrieval": {" ": "has no words, got ' '; write at least one word"},
}
WRONG_TYPES = {None: "None", 3: "3", b"x": r"b'x'; decode it, such as text.decode('utf-8')"}
for name in BAD:
    if name not in ("captioning", "glimpses"):
        BAD[name] |= {value: f"expected a str, got {shown}" for value, shown in WRONG_TYPES.items()}
        BAD[name]["\ud800"] = "is not valid Unicode: a lone surrogate at character 0;"


def predict(task: Any, inputs: Any, **options: Any) -> Any:
    if task.name == "retrieval":
        options["index"] = task.build_index(iter(retrievers.SCENES.images))
    elif hasattr(task, "search_options"):
        options["max_length"] = 1
    return task.predict(inputs, **options)


FAST = ("masked_language_modeling", "glimpses")
NAMES = [name if name in FAST else mark_full(name) for name in MAKERS]


@pytest.mark.parametrize("name", NAMES)
def test_bad_rows_have_a_status_and_do_not_affect_the_others(name: str) -> None:
    task, good, bad = MAKERS[name](), GOOD[name], BAD[name]
    rows = [good[0], *bad, good[1]]
    expected = predict(task, iter(good))
    assert [result.ok for result in expected] == [True, True]
    results = predict(task, (row for row in rows), on_error="skip")
    assert [result.ok for result in results] == [True, *[False] * len(bad), True]
    assert [results[0].text, results[-1].text] == [result.text for result in expected]
    for result, message in zip(results[1:-1], bad.values(), strict=True):
        assert message in result.error
        assert (result.text, result.score) == ("", -np.inf)
        json.dumps(result.as_dict())
    for row, message in bad.items():
        with pytest.raises(ValueError, match=r"\d: |^no\.png: ") as caught:
            predict(task, [good[0], row])
        assert message in str(caught.value)
    assert predict(task, []) == predict(task, [], on_error="skip") == []


@pytest.mark.parametrize("name", MAKERS)
def test_wrong_arguments_raise(name: str) -> None:
    task = MAKERS[name]()
    for single in (GOOD[name][0], None, 3, {"a": 1}, np.array("x")):
        with pytest.raises(
            ValueError, match=r"^predict takes a list of (text|image)s, got \w+; write pre"
        ):
            predict(task, single)
    with pytest.raises(ValueError, match="on_error: unknown value 'drop'"):
        predict(task, GOOD[name], on_error="drop")
    for option in {"beam_width", "min_length", "replace_unknown", *SEARCH_OPTIONS[-2:]}:
        if option in task.used_search_options:
            continue
        with pytest.raises(ValueError, match=f"^search option {option} has no effect in task"):
            predict(task, GOOD[name], **{option: 1})


@pytest.mark.parametrize("name", NAMES)
def test_nan_logits_are_named(name: str) -> None:
    task = MAKERS[name]()
    model: Any = task.model
    with keras.device("cpu"):
        weights = [keras.ops.convert_to_numpy(weight) for weight in model.trainable_weights]
    try:
        for weight in model.trainable_weights:
            weight.assign(np.full(weight.shape, np.nan))
        results = predict(task, GOOD[name], on_error="skip")
        assert [result.ok for result in results] == [False, False]
        message = (
            "the model returned NaN features"
            if name == "retrieval"
            else "the model returned NaN or "
        )
        assert results[0].error.startswith(message)
        with pytest.raises(ValueError, match=f"0: {message}"):
            predict(task, GOOD[name])
    finally:
        for weight, value in zip(model.trainable_weights, weights, strict=True):
            weight.assign(value)


@pytest.mark.parametrize(
    "name", ["tagging", "retrieval", "language_modeling", "masked_language_modeling"]
)
def test_evaluation_without_a_search_takes_only_a_batch_size(name: str) -> None:
    for option in ("n_best", "beam_width"):
        with pytest.raises(ValueError, match=f"^search option {option} has no effect in "):
            MAKERS[name]().evaluate(None, **{option: 2})


@refuses(
    ({"min_length": None}, "^min_length must be an integer of at least 0, got None"),
    ({"method": "sampling", "seed": None}, "^seed must be an integer of at least 0, got None"),
    ({"prefixes": 5}, "^prefixes must be a list of texts, got 5"),
    ({"prefixes": {"a": 1}}, "^prefixes must be a list of texts, got {'a': 1}"),
)
def test_options_of_wrong_types_raise(options: dict[str, Any]) -> None:
    make_translator().predict(TEXTS, **options)


@pytest.mark.parametrize("name", MAKERS)
def test_failed_results_are_reported_with_their_error(name: str, tmp_path: Path) -> None:
    task = MAKERS[name]()
    failed = task.result_class.failed("bad <row>")
    assert repr(failed).endswith("error='bad <row>'>")
    with pytest.raises(ValueError, match=r"^the result has no prediction to plot: bad <row>"):
        task.plot(failed)
    with pytest.raises(ValueError, match=r"^the result has no attention weights to plot"):
        task.plot(replace(failed, ok=True))
    if task.has_report():
        task.write_report([failed], tmp_path / "page.html")
        assert "bad &lt;row&gt;" in (tmp_path / "page.html").read_text("utf-8")


def test_n_best_alone_is_enough_without_a_beam() -> None:
    (result,) = tagger("word").predict(["no York lamps"], n_best=np.int64(3))
    assert len({result.tags, *(other.tags for other in result.alternatives)}) == 3


def test_text_is_normalized() -> None:
    text = "dîner à Łódź"
    decomposed = unicodedata.normalize("NFD", text)
    assert decomposed != text
    for kind in ("word", "subword", "character"):
        task: Any = translators.make_untrained_task("rnnsearch_small", [text], [text], kind=kind)
        assert task.encode_sources([decomposed]) == task.encode_sources([text])
        assert not task.find_unknown_characters(decomposed)
        other: Any = translators.make_untrained_task(
            "rnnsearch_small", [decomposed], [decomposed], kind=kind
        )
        assert other.source_tokenizer.vocabulary == task.source_tokenizer.vocabulary


@pytest.mark.full
@pytest.mark.parametrize(
    "name", ["translation", "summarization", "language_modeling", "captioning"]
)
def test_warm_up_compiles_the_search(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    task: Any = MAKERS[name]()
    task.warm_up()
    monkeypatch.setattr(task.model, "start_decoding", None)  # called only while tracing
    for count in (1, 2):
        assert len(task.predict(GOOD[name][:count])) == count
    assert len(task.predict(GOOD[name][:1], max_length=3)) == 1


@pytest.mark.parametrize("length", [{"max_length": 20}, {"max_length_ratio": 3.0}])
def test_warm_up_leaves_positions(length: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    task: Any = MAKERS["language_modeling"]()
    monkeypatch.setattr(task, "search", task.search.override(**length))
    sources: list[Any] = []
    monkeypatch.setattr(task, "_run_search", lambda source, options: sources.append(source))
    task.warm_up(batch_sizes=[1], lengths=[8, 40])
    for source in sources:
        task.model.check_search(source, task.search_options())
    assert len(sources) == 2


def test_warm_up_without_a_search_does_nothing() -> None:
    task: Glimpses = test_glimpses.task_of()
    task.warm_up()
