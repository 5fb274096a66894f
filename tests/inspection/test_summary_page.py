"""The page of summaries, read as a browser reads it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attention_zoo.inspection import write_summary_page
from attention_zoo.inspection.labels import find_gaps
from tests.inspection.html import Page, stands_alone
from tests.inspection.summaries import SOURCE, SUMMARY, summary
from tests.refusals import refuses


def page(folder: Path, *answers: Any) -> Page:
    write_summary_page(answers, folder / "page.html", title="Reports & more")
    return Page((folder / "page.html").read_text(encoding="utf-8"))


def words(html: Page) -> list[Any]:
    return [one for one in html.elements if one.attrs.get("class", "").startswith("word s")]


def source_words(html: Page) -> list[Any]:
    return [one for one in html.all("span") if "p" in one.within]


@pytest.mark.parametrize(
    ("tokens", "text"),
    [
        ("On 3 May , 1 2 . 5 tons ( 7 % ) .", "On 3 May, 12.5 tons (7%)."),
        ("in 1 9 . It ' s well - known , at $ 4 : 1 0", "in 19. It's well-known, at $4:10"),
        ("1 a 2 2 b . 3", "1 a 22 b. 3"),
        ("room B2 : 3", "room B2:3"),
        ("▁the ▁fif th ▁2 ▁1", "the fifth 2 1"),
        ("play ##ing on", "playing on"),
        ("", ""),
    ],
)
def test_tokens_are_joined(tokens: str, text: str) -> None:
    given = tokens.split()
    shown = [token.removeprefix("▁").removeprefix("##") for token in given]
    parts = [" " * gap + one for gap, one in zip(find_gaps(given), shown, strict=True)]
    assert "".join(parts) == text


def test_page_has_summary_and_source(tmp_path: Path) -> None:
    html = page(tmp_path, summary(), summary(truncated=True, source_truncated=True))
    source = "Ida Vorb paid 12.5 crowns (green)."
    assert [p.text for p in html.all("p")][1:3] == ["all wordsVorb paid 12.", source]
    assert [h.text for h in html.all("h2")] == [
        "1 · score -1.500 · 2 of 5 words copied",
        "2 · score -1.500 · 2 of 5 words copied · truncated at maximum length · source truncated",
    ]
    assert html.all("h1")[0].text == "Reports & more"
    stands_alone(html)


def test_every_word_has_its_copy_probability_and_can_be_selected(tmp_path: Path) -> None:
    html = page(tmp_path, summary(), summary())
    assert [word.text for word in words(html)] == SUMMARY * 2
    assert words(html)[0].attrs["title"] == "Vorb: copied 98.7 %"
    bars = [one.attrs["style"] for one in html.all("small")]
    assert bars[:5] == [f"--c: {share:.3f}" for share in (0.987, 0.25, 0.75, 0, 0)]
    names = [one.attrs["name"] for one in html.all("input")]
    assert names == ["answer1"] * 6 + ["answer2"] * 6
    assert [n for n, one in enumerate(html.all("input")) if "checked" in one.attrs] == [0, 6]
    assert {one.within[-1] for one in html.all("input")} == {"label"}


def test_source_has_every_visible_weight(tmp_path: Path) -> None:
    attention = summary().attention
    attention[0, 0], attention[0, 1] = 0.004, 0.696
    spans = source_words(page(tmp_path, summary(attention=attention)))
    assert [one.text for one in spans] == SOURCE
    for position, one in enumerate(spans):
        held = dict(re.findall(r"--(\w+): ([\d.]+)", one.attrs["style"]))
        weights = attention[:, position]
        assert float(held.pop("all")) == pytest.approx(min(weights.sum(), 1), abs=6e-4)
        assert {int(key[1:]): float(value) for key, value in held.items()} == {
            n: pytest.approx(weight, abs=6e-4)
            for n, weight in enumerate(weights)
            if weight >= 0.005
        }
    assert spans[1].attrs["class"] == "o0 unknown"
    assert spans[3].attrs["class"] == "o2"
    assert not any("class" in spans[position].attrs for position in (0, 2, 4, 11))


def test_selected_word_shades_and_frames_the_source(tmp_path: Path) -> None:
    style = page(tmp_path, summary()).all("style")[0].text
    rules = re.findall(r"^article:has\(\.(\w+)( :checked|:hover)\) .*?{ (.*) }$", style, re.M)
    for name in ("s0", "s4"):
        number = name[1:]
        for state in (" :checked", ":hover"):
            own = [text for word, when, text in rules if (word, when) == (name, state)]
            assert own == [f"--a: var(--w{number}, 0); --o: 0;", "--o: 1;"]
    assert "s5" not in {word for word, _, _ in rules}
    states = [when for _, when, _ in rules]
    assert states == sorted(states, key=[" :checked", ":hover"].index), "the pointer wins"
    assert ".s2:hover) .source > span:where(.o2)" in style


def test_words_of_alternatives_cannot_be_selected(tmp_path: Path) -> None:
    other = summary(tokens=("Ida",), copied=[0.5], origins=[0], attention=np.zeros((1, 12)))
    html = page(tmp_path, summary(alternatives=(other,)))
    assert html.all("p")[3].text == "Ida"
    assert len(html.all("input")) == 6
    assert [h.text for h in html.all("h2")][1] == "score -1.500 · 1 of 1 words copied"


def test_summary_without_attention(tmp_path: Path) -> None:
    html = page(tmp_path, summary(attention=None))
    assert not html.all("input")
    assert len(html.all("small")) == 5
    assert not any("style" in one.attrs for one in source_words(html))


def test_texts_are_escaped(tmp_path: Path) -> None:
    evil = ['"><script>alert(1)</script>', "<b>", "&amp;", "\x07", "'"]
    html = page(tmp_path, summary(tokens=evil, source_tokens=evil * 2 + ["<p>", "<i>"]))
    assert not html.all("script") + html.all("b") + html.all("i")
    expected = [*evil[:3], "\ufffd", "'"]
    assert [word.text for word in words(html)] == expected
    assert [one.text for one in source_words(html)][:5] == expected
    assert words(html)[0].attrs["title"] == f"{evil[0]}: copied 98.7 %"
    assert set(words(html)[0].attrs) == {"class", "title"}


def test_edges(tmp_path: Path) -> None:
    assert [p.text for p in page(tmp_path).all("p")] == ["No summaries."]
    nothing = summary(tokens=(), copied=[], origins=[], attention=np.zeros((0, 12)))
    html = page(tmp_path, nothing)
    assert not words(html)
    assert len(source_words(html)) == 12


@refuses(
    ({"attention": np.zeros((12, 5))}, r"attention must have shape \(5, 12\) .* got \(12, 5\)"),
    (
        {"attention": np.full((5, 12), np.nan)},
        "attention must be probabilities from 0 to 1, got values from nan",
    ),
    ({"copied": [0.5]}, r"copied must have shape \(5,\) .* got \(1,\)"),
    ({"copied": [2.0] * 5}, "copied must be probabilities from 0 to 1, got values from 2.0 to 2.0"),
    ({"origins": [0, 1, 2, 3, 12]}, r"origins must be .* below 12, .* got \[0, 1, 2, 3, 12\]"),
    ({"origins": [-2] * 5}, "or -1, one for each of 5 tokens"),
)
def test_invalid_summaries_raise(wrong: dict[str, Any], tmp_path: Path) -> None:
    page(tmp_path, summary(**wrong))
