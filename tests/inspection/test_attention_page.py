"""The page of attention weights: its elements, its data, and what is refused."""

from __future__ import annotations

import base64
import html
import io
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from attention_zoo.inspection.attention_data import (
    AttentionMap,
    ImageOverlay,
    TokenAttribution,
    label_token,
)
from attention_zoo.inspection.attention_page import show_attention, write_attention_page
from attention_zoo.inspection.attribution_bars import plot_attributions
from attention_zoo.inspection.head_view import plot_head_view
from attention_zoo.inspection.labels import find_gaps
from tests.inspection.html import Page
from tests.refusals import refuses

TARGETS, SOURCES = ["▁le", "▁chat", "</s>"], ["▁the", "▁cat", ".", "</s>"]
EVIL = "</script><img src=x onerror=alert(1)>\u2028'\"&\x07"
IMAGE = np.arange(2 * 5 * 3, dtype="uint8").reshape(2, 5, 3)


def make_weights(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).dirichlet(np.ones(shape[-1]), shape[:-1])


def make_map(name: str = "decoder/attention", heads: int = 2) -> AttentionMap:
    return AttentionMap(name, make_weights(heads, 3, 4), TARGETS, SOURCES)


def write(folder: Path, *maps: AttentionMap, **more: Any) -> tuple[Page, str]:
    """Return the page as elements and as text."""
    write_attention_page(maps, folder / "page.html", **more)
    text = (folder / "page.html").read_text(encoding="utf-8")
    return Page(text), text


def read_data(page: Page) -> dict[str, Any]:
    (script,) = [one for one in page.all("script") if one.attrs.get("id") == "attention-data"]
    data: dict[str, Any] = json.loads(script.text)
    return data


def decode(layer: dict[str, Any], shape: tuple[int, ...]) -> np.ndarray:
    """Return weights as the script decodes them."""
    levels = np.frombuffer(base64.b64decode(layer["weights"]), "uint8").reshape(shape)
    return levels * np.reshape(layer["largest"], (-1, 1, 1)) / 255


def find_ids(page: Page) -> set[str]:
    return {one.attrs["id"] for one in page.elements if "id" in one.attrs}


def find_headings(page: Page) -> list[str]:
    return [one.text for one in page.all("h2")]


def test_sections_without_data_are_absent(tmp_path: Path) -> None:
    page, _ = write(tmp_path, make_map())
    assert find_headings(page) == ["Layer and heads", "Head view", "Token view", "Model view"]
    attribution = TokenAttribution("occlusion", SOURCES, [1, -2, 0, 0.5])
    page, _ = write(tmp_path, attributions=[attribution])
    assert find_headings(page) == ["Attributions"]
    assert not page.all("script") + page.all("noscript")
    page, _ = write(tmp_path, hypotheses=[("le chat", -0.25)])
    assert find_headings(page) == ["Hypotheses"]
    page, _ = write(tmp_path, images=[ImageOverlay(IMAGE, ["a"], [[[1.0]]])])
    assert find_headings(page) == ["Image overlay"]


def test_elements_of_the_script_exist(tmp_path: Path) -> None:
    page, text = write(tmp_path, make_map())
    used = set(re.findall(r'byId\("([\w-]+)"\)', text)) - {""}
    assert used
    assert used <= find_ids(page)
    labelled = {one.attrs.get("aria-labelledby") for one in page.elements} - {None}
    assert labelled <= find_ids(page)
    assert "need JavaScript" in page.all("noscript")[0].text
    hidden = [one for one in page.elements if "data-script" in one.attrs]
    assert hidden
    assert all("hidden" in one.attrs for one in hidden)


def test_weights_are_within_a_255th_of_the_largest(tmp_path: Path) -> None:
    first = make_map("encoder", heads=3)
    second = first._replace(name="decoder", weights=5 * make_weights(1, 3, 4))
    zeros = first._replace(name="zeros", weights=np.zeros((1, 3, 4)))
    page, _ = write(tmp_path, first, second, zeros)
    layers = read_data(page)["layers"]
    assert [layer["name"] for layer in layers] == ["encoder", "decoder", "zeros"]
    for layer, given in zip(layers, (first, second, zeros), strict=True):
        weights = np.asarray(given.weights)
        largest = weights.max(axis=(1, 2), keepdims=True)
        error = np.abs(decode(layer, weights.shape) - weights)
        assert (error <= 0.5 / 255 * largest + 1e-12).all()


def test_texts_are_stored_once_with_their_gaps(tmp_path: Path) -> None:
    self_attention = AttentionMap("encoder", make_weights(1, 4, 4), SOURCES, SOURCES)
    page, _ = write(tmp_path, self_attention, make_map())
    data = read_data(page)
    assert [(one["targets"], one["sources"]) for one in data["layers"]] == [(0, 0), (1, 0)]
    assert data["texts"] == [
        {"labels": ["the", "cat", ".", "</s>"], "gaps": [0, 1, 0, 0], "special": [0, 0, 0, 1]},
        {"labels": ["le", "chat", "</s>"], "gaps": [0, 1, 0], "special": [0, 0, 1]},
    ]


def test_chinese_has_no_gaps_and_arabic_punctuation_none_before_it() -> None:
    tokens = ["[CLS]", "我", "用", "GPU", "，", "2021", "年", "[SEP]", "a", "b"]
    assert find_gaps(tokens) == [False, True, False, False, False, False, False, True, True, True]
    assert find_gaps(["ثم", "عاد", "،", "نعم"]) == [False, True, False, True]
    assert find_gaps(["東京", "へ", "행", "복"]) == [False, False, False, True]


@pytest.mark.parametrize(
    ("token", "label"),
    [("▁the", "the"), ("##ing", "ing"), ("▁", "▁"), ("a\u202eb", "a\ufffdb"), ("\ud800", "\ufffd")],
)
def test_labels_are_never_empty(token: str, label: str) -> None:
    assert label_token(token) == label


def test_hostile_texts_are_escaped(tmp_path: Path) -> None:
    page, text = write(
        tmp_path,
        AttentionMap(EVIL, [[[1.0]]], [EVIL], [EVIL]),
        title=EVIL,
        text=EVIL,
        attributions=[TokenAttribution(EVIL, [EVIL], [1.0])],
        images=[ImageOverlay(IMAGE, [EVIL], [[[1.0]]])],
        hypotheses=[(EVIL, 0.0)],
    )
    assert len(page.all("script")) == 2
    assert [one.attrs["alt"] for one in page.all("img")] == ["Input image"]
    assert text.count("</script>") == 2
    assert "\u2028" not in page.all("script")[0].text
    clean = EVIL.replace("\x07", "\ufffd").replace("\u2028", "\ufffd")
    data = read_data(page)
    assert data["layers"][0]["name"] == clean
    assert data["texts"][0]["labels"] == [clean]
    (cell,) = [one for one in page.all("td") if one.attrs.get("dir") == "auto"]
    assert cell.text == EVIL.replace("\x07", "\ufffd")


def test_page_makes_no_request(tmp_path: Path) -> None:
    page, text = write(
        tmp_path,
        make_map(),
        attributions=[TokenAttribution("occlusion", SOURCES, np.ones(4))],
        images=[ImageOverlay(IMAGE, ["a"], [[[1.0]]])],
    )
    assert "http" not in text
    assert not {"link", "iframe", "object", "embed"} & {one.tag for one in page.elements}
    assert not {"href", "srcset", "action"} & {name for one in page.elements for name in one.attrs}
    sources = [one.attrs["src"] for one in page.elements if "src" in one.attrs]
    assert [source[:22] for source in sources] == ["data:image/png;base64,"]
    assert not re.search(r"url\(|@import|fetch\(|XMLHttpRequest|import\(", text)


def test_144_heads_of_60_tokens_are_below_3_megabytes(tmp_path: Path) -> None:
    tokens = [f"token{n}" for n in range(60)]
    weights = make_weights(12, 60, 60)
    maps = [AttentionMap(f"encoder/layer_{n}", weights, tokens, tokens) for n in range(12)]
    write(tmp_path, *maps)
    assert (tmp_path / "page.html").stat().st_size < 800_000


def test_attributions_have_signed_bars(tmp_path: Path) -> None:
    tokens = ["not", "bad", "."]
    page, _ = write(
        tmp_path,
        attributions=[
            TokenAttribution("occlusion", tokens, [-2.0, 1.0, 0.0]),
            TokenAttribution("zeros", tokens, np.zeros(3)),
        ],
    )
    bars = [one.attrs for one in page.all("td") if "bar" in one.attrs.get("class", "")]
    assert [one["class"] for one in bars[:3]] == ["bar negative", "bar positive", "bar positive"]
    assert [one["style"] for one in bars[:3]] == ["--a: 1.000", "--a: 0.500", "--a: 0.000"]
    numbers = [one.text for one in page.all("td") if "class" not in one.attrs]
    assert numbers == ["-2", "1", "0", "0", "0", "0"]
    assert [one.text for one in page.all("h3")] == ["occlusion", "zeros"]
    texts = [one.text for one in page.all("p") if one.attrs.get("class") == "text"]
    assert texts == ["not bad.", "not bad."]
    assert "Largest absolute score: 2" in [one.text for one in page.all("p")]


def test_overlays_have_one_scale_and_the_pixels_of_the_image(tmp_path: Path) -> None:
    weights = np.array([[[0.2, 0.0, 0.1]], [[0.0, 0.05, 0.4]]])
    page, _ = write(tmp_path, images=[ImageOverlay(IMAGE, ["a", "b"], weights)])
    (data,) = read_data(page)["images"]
    assert (data["rows"], data["columns"], data["largest"]) == (1, 3, 0.4)
    assert [*base64.b64decode(data["weights"])] == [128, 0, 64, 0, 32, 255]
    (image,) = page.all("img")
    pixels = Image.open(io.BytesIO(base64.b64decode(image.attrs["src"].split(",")[1])))
    np.testing.assert_array_equal(np.asarray(pixels), IMAGE)
    photo = [one.attrs["style"] for one in page.all("div") if one.attrs.get("class") == "photo"]
    assert photo == ["--width: 5; --height: 2"]


def test_hypotheses_are_a_table(tmp_path: Path) -> None:
    page, _ = write(tmp_path, hypotheses=[("le chat", -0.25), ("قط", float("-inf"))])
    cells = [one.text for one in page.all("td")]
    assert cells == ["1", "-0.250", "le chat", "2", "-inf", "قط"]
    assert [one.text for one in page.all("th")] == ["Rank", "Score", "Text"]


def test_notebooks_show_the_same_page_in_a_frame(tmp_path: Path) -> None:
    shown = show_attention([make_map()], title="a <b>", text="x")
    assert repr(shown) == "NotebookPage('a <b>')"
    _, text = write(tmp_path, make_map(), title="a <b>", text="x")
    assert shown.html == text
    frame = Page(shown._repr_html_()).all("iframe")[0]
    assert frame.attrs["srcdoc"] == text
    assert frame.attrs["title"] == "a <b>"
    assert frame.attrs["sandbox"] == "allow-scripts"
    assert html.escape(text) in shown._repr_html_()


ROW = [[[0.5, 0.5]]]
LAYER = r"weights of layer 'a'"
TWO = ["b", "c"]


@refuses(
    ({}, "maps, attributions, images and hypotheses must not all be empty"),
    (
        {"maps": [AttentionMap("a", ROW, TWO, TWO)]},
        rf"{LAYER} must be \(H, 2, 2\) for 2 targets and 2 sources, got shape \(1, 1, 2\)",
    ),
    ({"maps": [AttentionMap("a", ROW[0], ["b"], TWO)]}, r"got shape \(1, 2\)"),
    ({"maps": [AttentionMap("a", np.zeros((0, 1, 2)), ["b"], TWO)]}, r"shape \(0, 1, 2\)"),
    ({"maps": [AttentionMap("a", np.zeros((1, 0, 2)), [], TWO)]}, r"shape \(1, 0, 2\)"),
    (
        {"maps": [AttentionMap("a", [[[0.5, np.nan]]], ["b"], TWO)]},
        f"{LAYER} must be finite and at least 0, got nan",
    ),
    ({"maps": [AttentionMap("a", [[[np.inf, 0.5]]], ["b"], TWO)]}, "at least 0, got inf"),
    ({"maps": [AttentionMap("a", [[[-1.0, 0.5]]], ["b"], TWO)]}, "at least 0, got -1.0"),
    (
        {"attributions": [TokenAttribution("m", TWO, [1.0])]},
        r"scores of attribution 'm' must be \(2,\) for 2 tokens, got shape \(1,\)",
    ),
    ({"attributions": [TokenAttribution("m", [], [])]}, r"must be \(0,\) for 0 tokens"),
    ({"attributions": [TokenAttribution("m", ["b"], [np.nan])]}, "must be finite, got nan"),
    (
        {"images": [ImageOverlay(IMAGE / 255, ["b"], ROW)]},
        r"image 1 must be \(H, W, 3\) of dtype uint8, got shape \(2, 5, 3\) of dtype float64",
    ),
    ({"images": [ImageOverlay(IMAGE[0], ["b"], ROW)]}, r"got shape \(5, 3\)"),
    (
        {"images": [ImageOverlay(IMAGE, TWO, ROW)]},
        r"weights of image 1 must be \(2, rows, columns\) for 2 tokens, got shape \(1, 1, 2\)",
    ),
    ({"images": [ImageOverlay(IMAGE, ["b"], [[[-1.0]]])]}, "image 1 must be finite and at least 0"),
    ({"hypotheses": [("b", 0.0), ("c", np.nan)]}, "score of hypothesis 2 must be a number"),
)
def test_bad_input_is_refused(arguments: dict[str, Any], tmp_path: Path) -> None:
    write_attention_page(**{"maps": [], "path": tmp_path / "page.html", **arguments})


def test_nothing_is_written_for_bad_input(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="must not all be empty"):
        write_attention_page([], tmp_path / "page.html")
    assert not list(tmp_path.iterdir())


def test_head_view_plot_has_a_line_for_each_weight(tmp_path: Path) -> None:
    weights = np.array([[0.8, 0.2, 0.0, 0.0], [0.0, 0.4, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]])
    figure = plot_head_view(weights, TARGETS, SOURCES, tmp_path / "a.svg", title="head 1")
    axes = figure.axes[0]
    labels = [text.get_text() for text in axes.texts]
    assert labels == ["le", "chat", "</s>", "the", "cat", ".", "</s>"]
    (lines,) = axes.collections
    ends = [segment[:, 1].tolist() for segment in lines.get_segments()]
    assert ends == [[0, 1], [1, 1], [0, 0]]  # the largest weight last
    np.testing.assert_allclose(lines.get_colors()[:, 3], [0.25, 0.5, 1.0])
    assert axes.get_xlabel() == "largest weight 0.8"
    assert (tmp_path / "a.svg").read_bytes().startswith(b"<?xml")
    plot_head_view(np.zeros((1, 1)), ["a"], ["b"], tmp_path / "a.png")
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


def test_labels_of_the_head_view_plot_are_inside_the_figure() -> None:
    tokens = [f"a long token number {n}" for n in range(30)]
    figure = plot_head_view(make_weights(30, 30), tokens, tokens, title="title")
    figure.canvas.draw()
    boxes = [text.get_window_extent() for text in figure.axes[0].texts]
    assert all(figure.bbox.x0 <= box.x0 and box.x1 <= figure.bbox.x1 for box in boxes)
    assert boxes[0].y0 >= boxes[1].y1


@refuses(
    (np.ones((4, 3)), r"must be \(3, 4\) for 3 targets and 4 sources, got shape \(4, 3\)"),
    (np.ones((1, 3, 4)), r"got shape \(1, 3, 4\)"),
    (np.full((3, 4), np.nan), "weights must be finite and at least 0, got nan"),
    (-np.ones((3, 4)), "weights must be finite and at least 0, got -1.0"),
)
def test_invalid_weights_of_the_head_view_plot_are_refused(weights: np.ndarray) -> None:
    plot_head_view(weights, TARGETS, SOURCES)


def test_attribution_plot_has_a_panel_for_each_method(tmp_path: Path) -> None:
    attributions = [
        TokenAttribution("occlusion", ["not", "bad", "</s>"], [-2.0, 1.0, 0.0]),
        TokenAttribution("zeros", ["a"], [0.0]),
    ]
    figure = plot_attributions(attributions, tmp_path / "a.png", title="scores")
    first, second = figure.axes
    assert [bar.get_width() for bar in first.patches] == [-2.0, 1.0, 0.0]
    colours = [bar.get_facecolor() for bar in first.patches]
    assert colours[0] != colours[1] == colours[2]
    assert [label.get_text() for label in first.get_yticklabels()] == ["not", "bad", "</s>"]
    assert first.get_xlim()[0] == -first.get_xlim()[1]
    assert (first.get_title(), second.get_title()) == ("occlusion", "zeros")
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    plot_attributions(attributions, tmp_path / "a.svg")
    assert (tmp_path / "a.svg").read_bytes().startswith(b"<?xml")


@refuses(
    ([], "attributions must not be empty: pass at least one"),
    ([TokenAttribution("m", ["a"], [1.0, 2.0])], r"must be \(1,\) for 1 tokens"),
)
def test_invalid_attributions_of_the_plot_are_refused(
    attributions: list[TokenAttribution],
) -> None:
    plot_attributions(attributions)
