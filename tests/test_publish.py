"""The script that publishes zoo entries: measured numbers, and pictures that may be published."""

from __future__ import annotations

import functools
import json
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import attention_zoo as az
from attention_zoo.data import generate_scenes
from attention_zoo.files import find_damage
from attention_zoo.models import RecurrentAttentionModel
from attention_zoo.tasks import (
    Glimpses,
    Retrieval,
    SearchOptions,
    Translation,
    TranslationResult,
)
from attention_zoo.tasks.glimpses.corpora import GeneratedDigits
from tests.layers.running import randomise
from tests.scripts import load_script
from tests.tasks import captioners, retrievers
from tests.tasks.test_classification import CORPUS as TEXTS
from tests.tasks.test_classification import classifier as make_classifier
from tests.tasks.test_matching import CORPUS as PAIRS
from tests.tasks.test_matching import matcher as make_matcher
from tests.test_house import unfounded

SCENES = generate_scenes(3, "test").resize(captioners.SIDE)
DIGITS = GeneratedDigits(image_size=28, test_size=3).read("test")


@functools.cache
def captioner(attention: str = "soft") -> Any:
    return captioners.make_untrained_task(attention=attention, search=SearchOptions(min_length=2))


@functools.cache
def classifier() -> Glimpses:
    model = RecurrentAttentionModel(
        (28, 28, 1), 10, glimpse_size=4, glimpses=2, glimpse_units=4, units=8
    )
    randomise(model)
    return Glimpses(model, DIGITS.classes)


@functools.cache
def retriever() -> Retrieval:
    task = retrievers.make_untrained_task()
    return Retrieval(task.model, task.tokenizer, image_size=captioners.SIDE)


def text_classifier() -> Any:
    return make_classifier()


def matcher() -> Any:
    return make_matcher()


@functools.cache
def translator() -> Any:
    """A translation task with a fixed result."""
    result = TranslationResult(
        text="à 17:04.",
        score=0.0,
        tokens=("à", "17:04."),
        token_scores=(0.0, 0.0),
        source_tokens=("at", "5:04"),
        attention=np.eye(2),
    )
    metrics = {"sentences": 3, "bleu": 1.25, "chrf": 9.5, "exact_match": 0.0}

    class FixedTranslation(Translation):
        def predict(self, texts: Any, **options: Any) -> Any:
            return [result]

        def evaluate(self, examples: Any, **options: Any) -> Any:
            return metrics

    return FixedTranslation(None, None, None)


@functools.cache
def measure(make: Any, arguments: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return the metrics of a task on one example, as `training.evaluate` writes them."""
    task, examples = make(*arguments), EXAMPLES.get(make().name, SCENES).take([0])
    if task.name == "captioning":  # what it says is there, as a trained one's would be
        (answer,) = task.predict(examples.images)
        boxes = dict.fromkeys(answer.tokens, (0.0, 0.0, 0.5, 1.0))
        examples = replace(examples, boxes=[boxes])
    split = {"split": "test", "data": examples.origin, "search": asdict(task.search)}
    split["overrides"] = ["data.split=test", "data.test_size=1"]
    return {**split, "metrics": task.evaluate(examples)}


EXAMPLES: dict[str, Any] = {"classification": TEXTS, "glimpses": DIGITS, "matching": PAIRS}
"""Of each task its examples; those of the others are scenes."""
DATA = {
    "captioning": "data: {corpus: scenes, test_size: 3, image_size: 12}",
    "classification": "data: {corpus: reviews, test_size: 3}",
    "glimpses": "data: {corpus: digits, test_size: 3}",
    "matching": "data: {corpus: claims, test_size: 3}",
    "retrieval": "data: {corpus: scenes, test_size: 3, image_size: 12}",
    "translation": "data: {corpus: dates}",
}
PHOTOGRAPHS = "data: {corpus: captions, train: no.jsonl, validation: no.jsonl}"
WRITTEN = "data: {corpus: npz, train: no.npz, held_out: 3, image_size: 28}"
MAKERS = {
    "captioning": captioner,
    "classification": text_classifier,
    "glimpses": classifier,
    "matching": matcher,
    "retrieval": retriever,
    "translation": translator,
}


@pytest.fixture
def zoo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that publishes a task like a run; it returns the card and the folder."""
    module = load_script("publish")
    monkeypatch.setattr(module, "ZOO", tmp_path / "models")

    def publish(
        name: str, *words: str, data: str = "", arguments: Any = (), begin_options: Any = ()
    ) -> tuple[str, Path]:
        task, run = MAKERS[name](*arguments), tmp_path / "small.data"
        load = module.az.load
        monkeypatch.setattr(module.az, "load", lambda x: task if x == run else load(x))
        run.mkdir(exist_ok=True)
        page = f"task: {name}\n{data or DATA[name]}\nmodel: {{preset: x}}\n"
        (run / "recipe.yaml").write_text(page)
        results = {
            "task": name,
            "preset": "small",
            "parameters": 1234,
            "step": 5,
            "seed": 1,
            "training_seconds": 60.0,
            "machine": "a test",
            "evaluations": [measure(MAKERS[name], arguments)],
            **dict(begin_options),
        }
        (run / "results.json").write_text(json.dumps(results))
        monkeypatch.setattr(sys, "argv", ["publish.py", str(run), *words])
        module.main()
        entry = tmp_path / "models" / name / run.name
        card = (entry / "README.md").read_text("utf-8")
        results = json.loads((entry / "results.json").read_text("utf-8"))
        for text in (card, (tmp_path / "models" / "README.md").read_text("utf-8")):
            assert unfounded(text, results) == []
        return card, entry

    return publish


def cells(card: str) -> dict[str, str]:
    """Return the first row of a card's table by column heading."""
    rows = [line.strip("| ").split(" | ") for line in card.splitlines() if line.startswith("|")]
    heading, _, row, *_ = rows
    return dict(zip(heading, row, strict=True))


EXPECTED_CELLS = {
    "captioning": ("attention mass in boxes", "{mass_in_boxes:.2f}"),
    "classification": ("accuracy, %", "{accuracy:.1f}"),
    "glimpses": ("error, %", "{error:.2f}"),
    "matching": ("accuracy, %", "{accuracy:.1f}"),
    "retrieval": (
        "text retrieval, R@1 / 5 / 10",
        "{text_recall1:.1f} / {text_recall5:.1f} / {text_recall10:.1f}",
    ),
    "translation": ("BLEU", "{bleu:.1f}"),
}
"""Of each task a column, and what stands there of its metrics."""
PAIR = ("Ann saw a lamp.", "The lamp is red.")
EXAMPLE_OPTIONS = {
    "classification": ["--sentence", "The food was good."],
    "matching": ["--pair", *PAIR],
    "translation": ["--sentence", "at 5:04 PM."],
}


@pytest.mark.full
@pytest.mark.parametrize("name", MAKERS)
def test_published_entry(name: str, zoo: Any) -> None:
    card, entry = zoo(name, *EXAMPLE_OPTIONS.get(name, []))
    row, (column, template) = cells(card), EXPECTED_CELLS[name]
    assert row[column] == template.format(**measure(MAKERS[name])["metrics"])
    assert "-" not in row.values(), "every number in the card is measured"
    assert "1,234 parameters, 5 steps" in card
    assert "![attention weights](attention.png)" in card
    assert (entry / "attention.png").read_bytes().startswith(b"\x89PNG")
    assert " -> " in card
    assert f"## {name.capitalize()}" in (entry.parents[1] / "README.md").read_text("utf-8")
    assert "to keep it small; `attention-zoo train small.data` trains the model" in card
    assert not (entry / "task.json").exists()


@pytest.mark.full
def test_card_of_a_pair_quotes_both_texts_and_has_no_empty_columns(zoo: Any) -> None:
    card, entry = zoo("matching", "--pair", *PAIR)
    (result,) = matcher().predict([PAIR])
    assert f'"{PAIR[0]}", "{PAIR[1]}" -> "{result.text}"' in card
    assert list(cells(card)) == ["split", "pairs", "accuracy, %", "macro F1, %"]
    front = (entry.parents[1] / "README.md").read_text("utf-8")
    assert "Pearson" not in front


@pytest.mark.full
def test_requested_picture_is_published(zoo: Any) -> None:
    card, entry = zoo("captioning", "--picture", "2")
    (answer,) = captioner().predict([SCENES.images[2]])
    line = f'Image 2 of scenes test (seed 1): "{SCENES.captions[2][0]}" -> "{answer.text}"'
    assert line in card
    first, _ = zoo("captioning", "--weights")
    assert "Image 0 of " in first
    assert "`attention-zoo predict small.data` load it; the weights are stored in float16" in first
    assert find_damage(entry) is None
    results = json.loads((entry / "results.json").read_text("utf-8"))
    assert results["weights_dtype"] == "float16"
    assert results["evaluations"][0]["metrics"]["images"] == 1
    weights = az.load(entry).model.get_weights()
    np.testing.assert_array_equal(weights[0], weights[0].astype("float16"))
    with pytest.raises(SystemExit, match=r"--picture 3: scenes test \(seed 1\) has 0 to 2"):
        zoo("captioning", "--picture", "3")


def test_row_describes_the_options_of_a_generated_split(
    zoo: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    all_of_it, two = measure(captioner, ("pooled",)), {**measure(captioner, ("pooled",))}
    two["data"] = generate_scenes(1, "test", min_things=2, max_things=2).origin
    monkeypatch.setattr(sys.modules[__name__], "measure", lambda make, arguments: two)
    card, entry = zoo("captioning", arguments=("pooled",))
    front = (entry.parents[1] / "README.md").read_text("utf-8")
    assert all_of_it["data"] != two["data"]
    assert "| test, 2 things |" in card
    assert "| test, 2 things |" in front


def test_model_without_attention_has_no_picture(zoo: Any) -> None:
    card, entry = zoo("captioning", arguments=("pooled",))
    assert "Image 0 of" in card
    assert "attention mass in boxes" not in cells(card), "no column is empty"
    assert not (entry / "attention.png").exists()


@pytest.mark.parametrize("name", ["captioning", "retrieval"])
def test_photographs_are_not_published(name: str, zoo: Any, tmp_path: Path) -> None:
    """An earlier picture is removed, and no file of the photographs is opened."""
    entry = tmp_path / "models" / name / "small.data"
    entry.mkdir(parents=True)
    (entry / "attention.png").touch()
    card, _ = zoo(name, data=PHOTOGRAPHS)
    assert sorted(path.name for path in entry.iterdir()) == ["README.md", "results.json"]
    assert "->" not in card
    assert "Image " not in card
    assert "because no licence of the data permits it" in card


def test_generated_digits_replace_handwritten_ones(zoo: Any) -> None:
    card, entry = zoo("glimpses", data=WRITTEN)
    assert f'Image 1 of {DIGITS.origin}: "{DIGITS.classes[DIGITS.labels[0]]}" -> ' in card
    assert (entry / "attention.png").exists()


@pytest.mark.parametrize(
    ("name", "words", "message"),
    [
        (
            "matching",
            ("--sentence", "x"),
            "--sentence does not apply to a model of the task matching",
        ),
        ("matching", (), "--pair is required for a model of the task matching"),
        ("classification", ("--pair", *PAIR), "--sentence is required for"),
        ("translation", (), "--sentence is required for a model of the task translation"),
        (
            "glimpses",
            ("--sentence", "at 5:04 PM."),
            "--sentence does not apply to a model of the task glimpses",
        ),
    ],
)
def test_missing_example_option_raises(
    name: str, words: tuple[str, ...], message: str, zoo: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        zoo(name, *words)
    assert message in capsys.readouterr().err


def test_card_of_a_run_from_scratch_has_no_initial_weights(zoo: Any) -> None:
    card, _ = zoo("captioning")
    assert "Fine-tuned" not in card


def test_card_names_a_public_checkpoint_and_its_licence(zoo: Any) -> None:
    card, _ = zoo("captioning", begin_options={"init": "data/minilm_l6"})
    assert "Fine-tuned from all-MiniLM-L6-v2, licence: Apache-2.0." in card


def test_card_names_the_initial_weights(zoo: Any) -> None:
    encoder = {"filters": [4, 6], "weights": "runs/found"}
    begin_options = {"init": "runs/soft", "model": {"encoder": encoder}, "monitor": "bleu4"}
    card, _ = zoo("captioning", begin_options=begin_options)
    for line in (
        "Fine-tuned from `runs/soft`",
        "initialized with the weights of `runs/found`",
        "validation bleu4",
    ):
        assert line in card
