"""The page of translations, read as a browser reads it."""

from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

import attention_zoo as az
from attention_zoo.inspection import write_translation_page
from tests.inspection.html import Page, stands_alone
from tests.refusals import refuses

SOURCE, TARGET = ("▁le", "▁train", "▁<b>"), ("▁the", "▁tra", "in")


def translation(**more: Any) -> Any:
    settings = {
        "ok": True,
        "score": -0.5,
        "text": "the train",
        "tokens": TARGET,
        "token_scores": (math.log(0.9), math.log(0.5), 0.0, 0.0),
        "source_tokens": SOURCE,
        "attention": np.array([[0.9, 0.1, 0.0], [0.0, 0.996, 0.004], [0.0, 0.5, 0.5]]),
        "truncated": False,
        "unknown": (2,),
        "alternatives": (),
    }
    return SimpleNamespace(**settings | more)


def page(folder: Path, *results: Any) -> Page:
    write_translation_page(results, folder / "page.html", title="French & English")
    return Page((folder / "page.html").read_text(encoding="utf-8"))


def words(html: Page) -> list[Any]:
    return [one for one in html.elements if one.attrs.get("class", "").startswith("word s")]


def test_tokens_have_probabilities_and_can_be_selected(tmp_path: Path) -> None:
    html = page(tmp_path, translation(), translation(truncated=True))
    assert [word.text for word in words(html)] == ["the", "tra", "in"] * 2
    titles = [word.attrs["title"] for word in words(html)[:3]]
    assert titles == ["the: 90.0 %", "tra: 50.0 %", "in: 100.0 %"]
    assert [one.attrs["name"] for one in html.all("input")] == ["result1"] * 4 + ["result2"] * 4
    headings = [h.text for h in html.all("h2")]
    assert headings == ["1 · score -0.500", "2 · score -0.500 · truncated at maximum length"]
    assert html.all("h1")[0].text == "French & English"
    stands_alone(html)


def test_source_has_the_weights_of_each_token(tmp_path: Path) -> None:
    html = page(tmp_path, translation())
    spans = [one for one in html.all("span") if "p" in one.within]
    assert [one.text for one in spans] == ["le", "train", "<b>"]
    assert [one.attrs["style"] for one in spans] == [
        "--all: 0.900; --w0: 0.900",
        "--all: 1.000; --w0: 0.100; --w1: 0.996; --w2: 0.500",
        "--all: 0.504; --w2: 0.500",
    ]
    assert spans[2].attrs["class"] == "unknown"


def test_results_without_attention_and_failed_ones(tmp_path: Path) -> None:
    failed = SimpleNamespace(ok=False, error="source 2 is empty", tokens=())
    other = translation(text="a <train>", score=-2.0)
    html = page(tmp_path, translation(attention=None, alternatives=(other,)), failed)
    assert html.all("input") == []
    texts = [p.text for p in html.all("p")]
    assert "a <train>" in texts
    assert "source 2 is empty" in texts


@refuses(
    (np.zeros((2, 3)), r"attention must have shape \(3, 3\) to match the tokens, got \(2, 3\)"),
    (np.full((3, 3), np.nan), "attention must be probabilities from 0 to 1"),
)
def test_invalid_weights(attention: Any, tmp_path: Path) -> None:
    page(tmp_path, translation(attention=attention))


def test_page_of_a_trained_translator(tmp_path: Path) -> None:
    task = az.load("rnnsearch_small.dates_en_fr")
    results = task.predict(["the fifth of March 2021"], n_best=2, beam_width=2)
    task.write_report(results, tmp_path / "page.html")
    html = Page((tmp_path / "page.html").read_text(encoding="utf-8"))
    assert len(words(html)) == len(results[0].tokens)
    assert [one.text for one in html.all("summary")] == ["Other hypotheses: 1"]
