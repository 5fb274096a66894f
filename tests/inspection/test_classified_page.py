"""The page of classified texts, read as a browser reads it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attention_zoo.inspection import write_classified_page
from attention_zoo.inspection.classified_parts import check_classified
from tests.inspection.classified import FAILED, SOURCE, TOKENS, classified, document
from tests.inspection.html import Page, stands_alone
from tests.refusals import refuses


def page(folder: Path, *results: Any) -> Page:
    write_classified_page(results, folder / "page.html", title="Reviews & more")
    return Page((folder / "page.html").read_text(encoding="utf-8"))


def with_class(html: Page, name: str) -> list[Any]:
    return [one for one in html.elements if one.attrs.get("class") == name]


def read_variable(element: Any) -> float:
    """Return the number of an element's only CSS variable."""
    return float(element.attrs["style"].split(": ")[1])


def test_words_are_shaded_by_their_weights(tmp_path: Path) -> None:
    html = page(tmp_path, classified())
    words = with_class(html, "word")
    assert [one.text for one in words] == list(TOKENS)
    assert [read_variable(one) for one in words] == [0.4, 1.0, 0.1, 0.5, 0.0]
    assert [one.attrs["title"] for one in words][:2] == ["20.0 %", "50.0 %"]
    (source,) = with_class(html, "text source")
    assert source.text == SOURCE
    assert source.attrs["dir"] == "auto"
    assert not with_class(html, "sentence")
    assert with_class(html, "hint")
    assert html.all("h1")[0].text == "Reviews & more"
    stands_alone(html)
    assert "prefers-color-scheme: dark" in html.all("style")[0].text


def test_classes_are_listed_by_probability(tmp_path: Path) -> None:
    two = classified(text="neutral, negative", labels=("neutral", "negative"))
    html = page(tmp_path, classified(), two, classified(text="", labels=()))
    items = html.all("li")
    expected = ["positive70.0 %", "negative25.0 %", "neutral5.0 %"]
    assert [item.text for item in items] == expected * 3
    bars = [read_variable(one) for one in html.all("i")]
    assert bars == [0.7, 0.25, 0.05] * 3
    predicted = [n for n, item in enumerate(items) if item.attrs.get("class") == "predicted"]
    assert predicted == [0, 4, 5]
    headings = [one.text for one in html.all("h2")]
    assert headings == ["1 · positive", "2 · neutral, negative", "3 · no class"]


def test_unlikely_classes_are_collapsed(tmp_path: Path) -> None:
    names = tuple(f"class {n}" for n in range(9))
    shares = (0.3, 0.2, 0.15, 0.1, 0.08, 0.07, 0.05, 0.04, 0.01)
    predicted = {"text": "class 0, class 7", "labels": ("class 0", "class 7")}
    html = page(tmp_path, classified(classes=names, probabilities=shares, **predicted))
    collapsed = ["details" in item.within for item in html.all("li")]
    assert collapsed == [False] * 6 + [True] * 3
    assert [item.text.split("  ")[0][:7] for item in html.all("li")][5] == "class 7"
    assert html.all("summary")[0].text == "Other classes: 3"
    assert not page(tmp_path, classified()).all("details")


def test_class_names_may_have_commas(tmp_path: Path) -> None:
    names = ("Paris", "Paris, Texas", "Texas")
    html = page(tmp_path, classified(classes=names, text=names[1], labels=names[1:2]))
    assert [item.text for item in with_class(html, "predicted")] == ["Paris, Texas70.0 %"]


def test_sentences_have_lines_of_their_own(tmp_path: Path) -> None:
    """The shades of words are sqrt(p_s) p_w: 0.6 of "dull", then 0.8 (0.1, 0.5, 0.1, 0.2, 0.1)."""
    html = page(tmp_path, document())
    sentences = with_class(html, "sentence")
    assert [one.text for one in sentences] == ["So dull!", "A joy\nto see."]
    assert [read_variable(one) for one in sentences] == pytest.approx([0.36 / 0.64, 1], abs=6e-4)
    assert [one.attrs["title"] for one in sentences] == ["sentence 36.0 %", "sentence 64.0 %"]
    words = with_class(html, "word")
    expected = np.array([0, 0.6, 0, 0.08, 0.4, 0.08, 0.16, 0.08]) / 0.6
    np.testing.assert_allclose([read_variable(one) for one in words], expected, atol=6e-4)
    assert words[1].attrs["title"] == "100.0 %"
    assert all("span" in one.within for one in words)
    assert with_class(html, "text source")[0].text == "So dull!A joy\nto see."


def test_sentences_without_weights(tmp_path: Path) -> None:
    html = page(tmp_path, document(sentence_attention=None), document(attention=None, tokens=None))
    assert [one.text for one in with_class(html, "sentence")] == ["So dull!", "A joy\nto see."] * 2
    assert "style" not in with_class(html, "sentence")[0].attrs
    assert len(with_class(html, "word")) == 8
    assert read_variable(with_class(html, "word")[4]) == 0.5


def test_text_outside_of_the_sentences_is_shown(tmp_path: Path) -> None:
    """Of a truncated document, for instance."""
    given = {"sentences": ((11, 24),), "sentence_attention": (1.0,)}
    html = page(tmp_path, document(**given))
    assert with_class(html, "text source")[0].text == "So dull!A joy\nto see."
    words = with_class(html, "word")
    assert [one.text for one in words] == ["A", "joy", "to", "see", "."]
    html = page(tmp_path, document(sentences=((0, 8),), sentence_attention=(1.0,)))
    assert with_class(html, "text source")[0].text == "So dull!A joy\nto see."
    assert [one.text for one in with_class(html, "word")] == ["So", "dull", "!"]


def test_without_attention(tmp_path: Path) -> None:
    html = page(tmp_path, classified(attention=None, tokens=(), offsets=()))
    assert not with_class(html, "word") + with_class(html, "hint")
    assert with_class(html, "text source")[0].text == SOURCE


def test_texts_are_escaped(tmp_path: Path) -> None:
    evil = '"><img onload=x>'
    source = f"<script>\x07 {evil}"
    result = classified(
        source=source,
        classes=(evil, "</li>"),
        probabilities=(0.9, 0.1),
        text=evil,
        labels=(evil,),
        tokens=("<script>\x07", evil),
        offsets=((0, 9), (10, 26)),
        attention=(0.5, 0.5),
        sentences=((0, 26),),
        sentence_attention=(1.0,),
    )
    html = page(tmp_path, result, FAILED)
    assert not html.all("script") + html.all("img") + html.all("blank")
    assert [one.text for one in with_class(html, "word")] == ["<script>\ufffd", evil]
    assert [item.text for item in html.all("li")] == [f"{evil}90.0 %", "</li>10.0 %"]
    assert html.all("h2")[0].text == f"1 · {evil}"
    assert html.all("h2")[1].text == "2 · no prediction"
    assert html.all("p")[-1].text == FAILED.error


def test_line_ends_are_kept(tmp_path: Path) -> None:
    html = page(tmp_path, classified(source="a\r\nb\rc\td", attention=None))
    assert with_class(html, "text source")[0].text == "a\nb\nc\td"
    assert "pre-line" in html.all("style")[0].text


def test_tokens_that_share_characters_become_one(tmp_path: Path) -> None:
    """Special tokens have no characters; three bytes of an emoji share one."""
    result = classified(
        source="so 😀!",
        tokens=("[CLS]", "so", "a", "b", "c", "!", "[SEP]"),
        offsets=((0, 0), (0, 2), (3, 4), (3, 4), (3, 4), (4, 5), (0, 0)),
        attention=(0.3, 0.1, 0.05, 0.1, 0.15, 0.2, 0.1),
    )
    words = with_class(page(tmp_path, result), "word")
    assert [(one.text, one.attrs["title"]) for one in words] == [
        ("so", "10.0 %"),
        ("😀", "30.0 %"),
        ("!", "20.0 %"),
    ]


def test_tokens_are_restricted_to_their_sentences() -> None:
    """The token of "▁A" may include the white space before it, in front of its sentence."""
    offsets = ((0, 2), (2, 7), (7, 9), (9, 12), (12, 16), (16, 19), (19, 23), (23, 25))
    tokens = check_classified(document(offsets=offsets)).tokens
    spans = [(0, 2), (2, 7), (7, 8), (11, 12), (12, 16), (16, 19), (19, 23), (23, 24)]
    assert [token[:2] for token in tokens] == spans
    assert [token.sentence for token in tokens] == [0] * 3 + [1] * 5


def test_no_results_and_zero_weights(tmp_path: Path) -> None:
    assert page(tmp_path).all("p")[0].text == "No texts."
    html = page(tmp_path, FAILED)
    assert not with_class(html, "hint")
    zeros = document(attention=(0.0,) * 8, sentence_attention=(0.0, 0.0))
    html = page(tmp_path, zeros, classified(source="", tokens=(), offsets=(), attention=()))
    assert {read_variable(one) for one in with_class(html, "word")} == {0.0}


@refuses(
    ({"probabilities": (1.0,)}, r"probabilities must have one number .* 3 classes, got shape \(1,"),
    ({"probabilities": (0.5, 1.2, 0)}, "probabilities must be from 0 to 1, got values from 0.0 to"),
    (
        {"attention": (1.0,)},
        r"attention must have one number for each of 5 tokens, got shape \(1,\)",
    ),
    ({"attention": (np.nan,) * 5}, "attention must be from 0 to 1, got values from nan"),
    (
        {"attention": (-0.1, 0.4, 0.4, 0.3, 0)},
        "attention must be from 0 to 1, got values from -0.1",
    ),
    ({"offsets": ((0, 3),)}, "offsets must have one span for each of 5 tokens, got 1"),
    ({"source": "Not bad"}, r"offsets must be spans in order .* 7 characters .* \(7, 8\) after 7"),
    ({"sentences": ((0, 8), (7, 16))}, r"sentences must be spans in order .* \(7, 16\) after 8"),
    ({"sentences": ((0, 99),)}, r"sentences must be spans .* got \(0, 99\) after 0"),
    (
        {"sentence_attention": (1.0,)},
        "sentence_attention must have one number for each of 0 sentences",
    ),
)
def test_invalid_results_raise(given: dict[str, Any]) -> None:
    check_classified(classified(**given))


def test_offsets_out_of_order_raise() -> None:
    offsets = ((4, 7), (0, 3), (7, 8), (9, 15), (15, 16))
    with pytest.raises(ValueError, match=r"offsets must be spans in order .* \(0, 3\) after 7"):
        check_classified(classified(offsets=offsets))
