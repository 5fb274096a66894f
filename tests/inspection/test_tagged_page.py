"""The page of tagged sentences, read as a browser reads it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from attention_zoo.data import split_words
from attention_zoo.inspection import write_tagged_page
from tests.inspection.html import Page, stands_alone


def answer(text: str, tags: str = "", spans: Any = (), **more: Any) -> Any:
    """What a task answers; spans are (first word, word after the last, label)."""
    words = split_words(text)
    marked = [
        SimpleNamespace(label=label, start=words[a].start, end=words[b - 1].end, probability=0.876)
        for a, b, label in spans
    ]
    settings = {
        "ok": True,
        "words": tuple(word.text for word in words),
        "tags": tuple(tags.split()) or ("O",) * len(words),
        "offsets": tuple((word.start, word.end) for word in words),
        "spans": tuple(marked),
        "probabilities": (0.5,) * len(words),
        "source_tokens": tuple(word.text for word in words),
        "score": -1.5,
        "alternatives": (),
        "attention": None,
    }
    return SimpleNamespace(**settings | more)


def page(folder: Path, *answers: Any) -> Page:
    write_tagged_page(answers, folder / "page.html", title="Orders")
    return Page((folder / "page.html").read_text(encoding="utf-8"))


def test_spans_are_marked(tmp_path: Path) -> None:
    one = answer("Send 4  lamps to Ida Lamp.", spans=[(1, 2, "QUANTITY"), (4, 6, "PER")])
    two = answer("Ida left", spans=[(0, 1, "PER")])
    html = page(tmp_path, one, two)
    assert [mark.text for mark in html.all("mark")] == ["4QUANTITY", "Ida LampPER", "IdaPER"]
    assert [mark.attrs["title"] for mark in html.all("mark")][:2] == [
        "QUANTITY 87.6 %",
        "PER 87.6 %",
    ]
    lines = [p for p in html.all("p") if p.attrs.get("class") == "text"]
    assert lines[0].text == "Send 4QUANTITY lamps to Ida LampPER."
    assert {p.attrs["dir"] for p in lines} == {"auto"}
    assert [item.text for item in html.all("li")] == ["PER 2", "QUANTITY 1"]
    legend = {item.text.split()[0]: item.attrs["style"] for item in html.all("li")}
    for mark in html.all("mark"):
        assert mark.attrs["style"] == legend[mark.attrs["title"].split()[0]]
    assert len(set(legend.values())) == 2
    assert [heading.text for heading in html.all("h1")] == ["Orders"]


def test_labels_have_the_same_colour_on_every_page(tmp_path: Path) -> None:
    pages = [
        page(tmp_path, answer("a b c", spans=[(n, n + 1, label) for n, label in enumerate(labels)]))
        for labels in (["X", "Y"], ["Z", "Y", "X"])
    ]
    colours = [
        {mark.attrs["title"][0]: mark.attrs["style"] for mark in one.all("mark")} for one in pages
    ]
    assert colours[0]["X"] == colours[1]["X"] != colours[0]["Y"] == colours[1]["Y"]


def test_tags_are_below_words(tmp_path: Path) -> None:
    html = page(tmp_path, answer("Dogs bark.", "NOUN VERB PUNCT"), answer("so what"))
    words = [one for one in html.all("span") if one.attrs.get("class") == "word"]
    assert [one.text for one in words] == ["DogsNOUN", "barkVERB", ".PUNCT"]
    assert words[0].attrs["title"] == "NOUN 50.0 %"
    assert not html.all("mark")
    assert [p.text for p in html.all("p")][-1] == "so what"
    assert [item.text for item in html.all("li")] == ["NOUN 1", "PUNCT 1", "VERB 1"]


def test_texts_are_escaped(tmp_path: Path) -> None:
    text = '<script>alert("x")</script> & \x07'
    evil = '"><img onload=x>'
    weights = np.ones((1, 1, 2, 2)) / 2
    html = page(
        tmp_path,
        answer(text, spans=[(0, 2, evil)]),
        answer("a b", f"{evil.replace(' ', '_')} O"),
        answer("a b", attention=weights, source_tokens=("</table><script>", "<b>")),
    )
    assert not html.all("script") + html.all("img") + html.all("b")
    (mark,) = html.all("mark")
    assert mark.attrs["title"] == f"{evil} 87.6 %"
    assert html.all("p")[0].text.startswith(f'<script{evil}>alert("x")</script> &')
    assert [th.text for th in html.all("th")][:2] == ["</table><script>", "<b>"]
    assert set(mark.attrs) == {"style", "title"}


def test_page_is_self_contained(tmp_path: Path) -> None:
    html = page(tmp_path, answer("a b", spans=[(0, 1, "X")]))
    stands_alone(html)
    assert "prefers-color-scheme: dark" in html.all("style")[0].text


def test_attention_is_a_table_of_tokens(tmp_path: Path) -> None:
    weights = np.random.default_rng(0).dirichlet(np.ones(3), (2, 4, 3))
    html = page(tmp_path, answer("a bb c", attention=weights))
    tables = html.all("table")
    assert len(tables) == 3  # the mean, and two layers
    cells = [one for one in html.all("td") if "style" in one.attrs]
    assert len(cells) == 3 * 9
    assert [th.text for th in html.all("th") if th.attrs["scope"] == "row"] == ["a", "bb", "c"] * 3
    for table, expected in enumerate([weights.mean((0, 1)), *weights.mean(1)]):
        shades = [float(one.attrs["style"].split()[1]) for one in cells[9 * table : 9 * table + 9]]
        np.testing.assert_allclose(shades, (expected / expected.max()).ravel(), atol=6e-4)
    share = weights.mean((0, 1))[1, 2]
    assert cells[5].attrs["title"] == f"bb → c: {100 * share:.1f} %"


def test_alternatives_are_listed(tmp_path: Path) -> None:
    other = answer("Ida", spans=[(0, 1, "LOC")], score=-2.25)
    html = page(tmp_path, answer("Ida", spans=[(0, 1, "PER")], alternatives=(other,)))
    assert [mark.text for mark in html.all("mark")] == ["IdaPER", "IdaLOC"]
    assert "details" in html.all("mark")[1].within
    assert [h2.text for h2 in html.all("h2")] == [
        "1 · log probability -1.500",
        "log probability -2.250",
    ]


def test_spans_without_label_have_a_name(tmp_path: Path) -> None:
    html = page(tmp_path, answer("a b", spans=[(0, 2, "")]))
    assert [mark.text for mark in html.all("mark")] == ["a b(span)"]
    assert html.all("mark")[0].attrs["title"] == "87.6 %"


def test_edges(tmp_path: Path) -> None:
    assert page(tmp_path).all("p")[0].text == "No sentences."
    assert not page(tmp_path, answer("a", attention=np.zeros((0, 0, 1, 1)))).all("table")
    with pytest.raises(ValueError, match=r"attention of shape \(1, 2, 2\) over 1 tokens; expected"):
        page(tmp_path, answer("a", attention=np.zeros((1, 2, 2))))
