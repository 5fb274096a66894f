"""The page of matched pairs of texts, as a browser reads it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from attention_zoo.data import split_words
from attention_zoo.inspection import write_matched_page
from tests.inspection.html import Page, stands_alone
from tests.refusals import refuses

CLASSES = ("contradiction", "entailment")


def result(first: str, second: str, weights: Any = None, **more: Any) -> Any:
    """Return what a task of class labels predicts."""
    words = [split_words(text) for text in (first, second)]
    tokens = [tuple(word.text for word in one) for one in words]
    offsets = [tuple((word.start, word.end) for word in one) for one in words]
    settings = {
        "ok": True,
        "text": "entailment",
        "label": "entailment",
        "score": -0.25,
        "classes": CLASSES,
        "probabilities": (0.2212, 0.7788),
        "first": first,
        "second": second,
        "tokens": tokens[0],
        "source_tokens": tokens[1],
        "first_offsets": offsets[0],
        "second_offsets": offsets[1],
        "attention": None if weights is None else np.array(weights),
        "unknown": (),
        "truncated": False,
    }
    return SimpleNamespace(**settings | more)


def page(folder: Path, *results: Any) -> Page:
    write_matched_page(results, folder / "page.html", title="Claims")
    return Page((folder / "page.html").read_text(encoding="utf-8"))


def texts(html: Page) -> list[str]:
    return [p.text for p in html.all("p") if p.attrs["class"].startswith("text")]


def shades(html: Page) -> list[tuple[str, float, str]]:
    """Return text, shade and tooltip of each shaded token."""
    tokens = [one for one in html.all("span") if "title" in one.attrs]
    return [(x.text, float(x.attrs["style"].split()[1]), x.attrs["title"]) for x in tokens]


def hints(html: Page) -> list[str]:
    return [p.text for p in html.all("p") if p.attrs["class"] == "hint"]


ROWS = [[0.9, 0.1, 0.0], [0.2, 0.2, 0.6]]
"""Weights of two tokens over three: row maxima 0.9 and 0.6, column sums 1.1, 0.3 and 0.6."""


def test_words_have_the_weights_of_the_alignment(tmp_path: Path) -> None:
    html = page(tmp_path, result("Ida left", "Ida  went home.", np.c_[ROWS, [0, 0]]))
    assert texts(html) == ["Ida left", "Ida  went home."]
    assert shades(html) == [
        ("Ida", 1.0, "0.900"),
        ("left", 0.667, "0.600"),
        ("Ida", 1.0, "1.100"),
        ("went", 0.273, "0.300"),
        ("home", 0.545, "0.600"),
        (".", 0.0, "0.000"),
    ]
    assert "of the first text, the largest weight of its row; of a word of" in hints(html)[1]
    assert hints(html)[1].endswith("Largest weight: 0.900.")


def test_words_of_weights_over_the_first_text(tmp_path: Path) -> None:
    """Columns that sum to 1 or, where one token attends, to 0."""
    weights = [[0.9, 0.2, 0.0], [0.1, 0.8, 0.0]]
    html = page(tmp_path, result("a b", "c d e", weights))
    assert [hint for *_, hint in shades(html)] == ["1.100", "0.900", "0.900", "0.800", "0.000"]
    assert "of the first text, the sum of its row, the attention that it receives" in hints(html)[1]


def test_the_alignment_is_a_picture(tmp_path: Path) -> None:
    html = page(tmp_path, result("Ida left", "Ida went home", ROWS))
    (svg,) = html.all("svg")
    labels = [(one.attrs["class"], one.text) for one in html.all("text")]
    assert labels == [
        ("title", "second text"),
        ("title", "first text"),
        ("row", "Ida"),
        ("row", "left"),
        ("column", "Ida"),
        ("column", "went"),
        ("column", "home"),
    ]
    cells = {
        (int(one.attrs["y"]), int(one.attrs["x"])): float(one.attrs["fill-opacity"])
        for one in html.all("rect")
    }
    expected = {(0, 0): 1, (0, 1): 0.11, (1, 0): 0.22, (1, 1): 0.22, (1, 2): 0.67}
    assert cells == expected  # the cell without weight is omitted
    assert html.all("path")[0].attrs["d"] == "M0 0H3M0 1H3M0 2H3M0 0V2M1 0V2M2 0V2M3 0V2"
    heights = [float(one.attrs["y"]) for one in html.all("text") if one.attrs["class"] == "row"]
    assert heights[1] - heights[0] == 15  # the size of a cell
    assert float(svg.attrs["height"]) == heights[1] + 15 / 2 + 1


def test_pictures_of_long_texts_are_compact(tmp_path: Path) -> None:
    text = " ".join(f"word{number}" for number in range(60))
    weights = np.random.default_rng(0).dirichlet(np.ones(60), 60)
    html = page(tmp_path, result(text, text, weights))
    assert len([one for one in html.all("text") if one.attrs["class"] != "title"]) == 120
    assert float(html.all("svg")[0].attrs["width"]) < 1000
    assert (tmp_path / "page.html").stat().st_size < 600_000


def test_the_alignment_is_a_table(tmp_path: Path) -> None:
    html = page(tmp_path, result("Ida left", "Ida went home", ROWS))
    (table,) = html.all("table")
    assert "details" in table.within
    cells = [one.text for one in html.all("td")]
    assert cells == ["", "0.900", "0.100", "", "0.200", "0.200", "0.600"]
    assert [one.text for one in html.all("th")] == ["Ida", "went", "home", "Ida", "left"]
    assert [one.attrs.get("style") for one in html.all("td")][1:4] == [
        "--a: 1.00",
        "--a: 0.11",
        None,
    ]


def test_classes_have_bars(tmp_path: Path) -> None:
    html = page(tmp_path, result("a", "b", truncated=True))
    items = html.all("li")
    assert [item.text for item in items] == ["contradiction  22.1 %", "entailment  77.9 %"]
    assert [item.attrs.get("class") for item in items] == [None, "best"]
    bars = [one.attrs["style"] for one in html.all("span") if "style" in one.attrs]
    assert bars == ["--p: 0.221", "--p: 0.779"]
    heading = html.all("h2")[0].text
    assert heading == "1 · log probability -0.250 · texts truncated"
    assert [p.text for p in html.all("p") if p.attrs["class"] == "prediction"] == ["entailment"]


def test_numbers_and_relevance(tmp_path: Path) -> None:
    none: dict[str, Any] = {"label": "", "classes": ()}
    number = result("a", "b", text="3.42", score=3.42, probabilities=(), **none)
    ranked = result("a", "b", text="0.9300", probabilities=(0.93,), **none)
    html = page(tmp_path, number, ranked)
    assert [one.text for one in html.all("h2")] == ["1", "2 · log probability -0.250"]
    assert [one.text for one in html.all("li")] == ["relevant  93.0 %"]
    predictions = [p.text for p in html.all("p") if p.attrs["class"] == "prediction"]
    assert predictions == ["3.42", "0.9300"]


def test_texts_without_attention(tmp_path: Path) -> None:
    html = page(tmp_path, result("a b", "c", unknown=(0,)))
    assert texts(html) == ["a b", "c"]
    assert not shades(html)
    assert not html.all("svg") + html.all("table")
    assert [one.text for one in html.all("span") if one.attrs.get("class") == "unknown"] == ["c"]


def test_results_without_prediction_show_their_error(tmp_path: Path) -> None:
    failed = SimpleNamespace(ok=False, error="the first text is <empty>")
    html = page(tmp_path, failed, result("a", "b"))
    assert html.all("h2")[0].text == "1 · no prediction"
    assert html.all("p")[1].text == "the first text is <empty>"
    assert page(tmp_path).all("p")[0].text == "No pairs."


def test_texts_are_escaped(tmp_path: Path) -> None:
    evil = '<script>"&</script>\x07'
    own = {"text": evil, "label": evil, "classes": (evil, "x"), "probabilities": (0.5, 0.5)}
    size = len(split_words(evil))
    html = page(tmp_path, result(evil, evil, np.eye(size), **own))
    assert not html.all("script")
    clean = evil.replace("\x07", "\ufffd")
    assert texts(html) == [clean, clean]
    assert html.all("li")[0].text.startswith(clean)
    joined = "".join(one.text for one in html.all("text") if one.attrs["class"] == "row")
    assert joined.startswith('<script>"&</script>')
    stands_alone(html)


def test_lines_and_characters_between_tokens_are_kept(tmp_path: Path) -> None:
    """Tokens may overlap, and the rest of a truncated text follows."""
    own = {"first_offsets": ((0, 1), (3, 5), (4, 5)), "tokens": ("a", "bc", "c")}
    html = page(tmp_path, result("a\r\nbc\tdropped", "x", np.ones((3, 1)), **own))
    assert texts(html)[0] == "a\nbc\tdropped"
    second = {"first_offsets": ((0, 1), (1, 3), (2, 4)), "tokens": ("a", "bc", "cd")}
    assert texts(page(tmp_path, result("abcd e", "x", np.ones((3, 1)), **second)))[0] == "abcd e"


@refuses(
    (
        np.ones((1, 2)),
        r"attention must be \(2, 1\) for texts of 2 and 1 tokens, got shape \(1, 2\)",
    ),
    (np.full((2, 1), np.nan), "attention must be finite and at least 0, got nan"),
    (-np.ones((2, 1)), "attention must be finite and at least 0, got -1.0"),
)
def test_invalid_weights_are_refused(weights: Any, tmp_path: Path) -> None:
    page(tmp_path, result("a b", "c", weights))


@pytest.mark.parametrize("attention", [np.zeros((1, 1)), np.zeros((1, 0))])
def test_weights_without_a_largest(attention: np.ndarray, tmp_path: Path) -> None:
    tokens = ("c",) * attention.shape[1]
    own = {"source_tokens": tokens, "second_offsets": ((0, 1),) * len(tokens)}
    html = page(tmp_path, result("a", "c", attention, **own))
    assert [share for _, share, _ in shades(html)] == [0.0, 0.0] * len(tokens)
