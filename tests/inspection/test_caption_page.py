"""The page of captions, read as a browser reads it."""

from __future__ import annotations

import base64
import io
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from PIL import Image

from attention_zoo.inspection import write_caption_page
from tests.inspection.html import Page, stands_alone

IMAGE = np.random.default_rng(0).integers(0, 256, (6, 8, 3), np.uint8)
WEIGHTS = np.array([[[0.6, 0.4], [0.0, 0.0]], [[0.0, 0.0], [0.0, 1.0]], [[0.25, 0.25]] * 2])


def caption(**more: Any) -> Any:
    settings = {
        "ok": True,
        "text": "a dog.",
        "score": -1.5,
        "tokens": ("a", "dog", "."),
        "attention": WEIGHTS,
        "truncated": False,
        "image": IMAGE,
        "alternatives": (),
    }
    return SimpleNamespace(**settings | more)


def page(folder: Path, *answers: Any) -> Page:
    write_caption_page(answers, folder / "page.html", title="Dogs & more")
    return Page((folder / "page.html").read_text(encoding="utf-8"))


def pixels(element: Any) -> np.ndarray:
    head, content = element.attrs["src"].split(",")
    assert head == "data:image/png;base64"
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(content))))


def test_images_are_beside_their_captions(tmp_path: Path) -> None:
    other = caption(tokens=("two", "dogs"), score=-2.0, truncated=True)
    html = page(tmp_path, caption(), caption(alternatives=(other,), attention=None))
    assert [p.text for p in html.all("p")][1:] == ["imagea dog.", "a dog.", "two dogs"]
    headings = [
        "1 · score -1.500",
        "2 · score -1.500",
        "score -2.000 · truncated at maximum length",
    ]
    assert [h.text for h in html.all("h2")] == headings
    assert html.all("h1")[0].text == "Dogs & more"
    first, second = (one for one in html.all("img") if one.attrs["alt"])
    for one in (first, second):
        np.testing.assert_array_equal(pixels(one), IMAGE)
        assert one.attrs["alt"] == "a dog."
    stands_alone(html)


def test_overlay_darkens_positions_with_small_weights(tmp_path: Path) -> None:
    html = page(tmp_path, caption(), caption())
    overlays = [one for one in html.all("img") if one.attrs.get("class", "").startswith("overlay")]
    assert [one.attrs["class"] for one in overlays] == [
        "overlay l0",
        "overlay l1",
        "overlay l2",
    ] * 2
    black = pixels(overlays[0])
    assert not black[..., :3].any()
    assert black[..., 3].tolist() == [[77, 115], [191, 191]]
    assert 0 in pixels(overlays[1])[..., 3], "the largest weight of all words"
    assert np.unique(pixels(overlays[2])[..., 3]).size == 1, "uniform weights"
    scales = [one for one in html.all("div") if one.attrs.get("class") == "scale"]
    assert [one.text for one in scales] == [f"weight 0{WEIGHTS.max():.2g}"] * 2
    assert scales[0].attrs["style"] == "--darkest: rgb(0 0 0 / 0.75)"
    words = [one for one in html.all("label") if one.attrs["class"].startswith("word s")]
    assert [one.text for one in words] == ["a", "dog", "."] * 2
    names = [one.attrs["name"] for one in html.all("input")]
    assert names == ["answer1"] * 4 + ["answer2"] * 4
    style = html.all("style")[0].text
    rules = re.findall(r"^article:has\((\S+?)( :checked|:hover)\) (.*) {.*: (\w+); }$", style, re.M)
    for state in (" :checked", ":hover"):
        effects = {word: (what, how) for word, when, what, how in rules if when == state}
        shown = {f".s{n}": (f".image .l{n}", "visible") for n in range(3)}
        # `:where` adds no specificity, so that the later rules win.
        assert effects == {":where(label).word": (".image .overlay", "hidden"), **shown}
    order = [(when, how == "visible") for _, when, _, how in rules]  # the last of a kind wins
    one = [(" :checked", False), *[(" :checked", True)] * 3]
    assert order == [*one, *[(":hover", effects) for _, effects in one]]


def test_texts_are_escaped(tmp_path: Path) -> None:
    evil = ('"><script>alert(1)</script>', "<b>", "\x07")
    html = page(tmp_path, caption(tokens=evil, text=" ".join(evil)))
    assert not html.all("script") + html.all("b")
    words = [one.text for one in html.all("label")]
    assert words == ["image", *evil[:2], "\ufffd"]
    assert html.all("img")[0].attrs["alt"] == f"{evil[0]} {evil[1]} \ufffd"


def test_edges(tmp_path: Path) -> None:
    assert [p.text for p in page(tmp_path).all("p")] == ["No captions."]
    nothing = page(tmp_path, caption(tokens=(), text="", attention=WEIGHTS[:0]))
    assert len(nothing.all("img")) == 1
    assert not nothing.all("input")
    assert "weight 0" not in nothing.all("body")[0].text
    for wrong in ({"attention": WEIGHTS[:2]}, {"attention": -WEIGHTS}, {"image": IMAGE[0]}):
        with pytest.raises(ValueError, match=r"attention|image must be"):
            page(tmp_path, caption(**wrong))
