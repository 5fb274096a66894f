"""What stands in the pictures: labels, values, files, fonts, and what is refused."""

from __future__ import annotations

import math
import subprocess
import sys
import warnings
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from fontTools.fontBuilder import FontBuilder
from fontTools.pens.ttGlyphPen import TTGlyphPen

from attention_zoo.inspection import fonts, pixels, plot_alignment, plot_heads, plot_length_curve
from attention_zoo.inspection.labels import LONGEST, is_special, make_readable
from tests.refusals import refuses

SOURCE = ["▁the", "▁fif", "th", "▁of", "▁March", "</s>"]
TARGET = ["▁le", "##5", "▁mars", "</s>"]


def labels(axis) -> list[str]:
    return [label.get_text() for label in axis.get_ticklabels()]


@pytest.mark.parametrize(
    ("token", "expected"),
    [
        ("▁March", "March"),
        ("March", "March"),
        ("##ing", "ing"),
        ("##", "##"),
        ("▁##", "##"),
        ("▁", ""),
        ("$x$", "$x$"),
        ("a\tb\n", r"a\tb\n"),
        ("五月", "五月"),
        ("</s>", "</s>"),
        ("x" * 99, "x" * (LONGEST - 1) + "…"),
    ],
)
def test_tokens_are_readable(token: str, expected: str) -> None:
    assert make_readable(token) == expected


def test_special_tokens_are_known() -> None:
    for token in ("<pad>", "<unk>", "<s>", "</s>", "[SEP]"):
        assert is_special(token)
    for token in ("<", "a<b>", "< s >", "[1]", "s"):
        assert not is_special(token)


def test_alignment_shows_every_weight_and_token(tmp_path: Path) -> None:
    weights = np.random.default_rng(0).dirichlet(np.ones(6), size=4)
    figure = plot_alignment(weights, TARGET, SOURCE, tmp_path / "a.png", title="costs $5 or $6")
    axes = figure.axes[0]
    assert labels(axes.yaxis) == ["le", "5", "mars", "</s>"]
    assert labels(axes.xaxis) == ["the", "fif", "th", "of", "March", "</s>"]
    np.testing.assert_array_equal(axes.images[0].get_array(), weights)
    assert axes.images[0].get_clim() == (0.0, 1.0)
    assert figure.get_suptitle() == "costs $5 or $6"
    colors = [label.get_color() for label in axes.get_yticklabels()]
    assert colors[:3] == ["black"] * 3
    assert colors[3] != "black"
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("layers", [(), (2,)])
def test_heads_show_every_weight_and_the_tokens_once(layers: tuple, tmp_path: Path) -> None:
    weights = np.random.default_rng(0).dirichlet(np.ones(6), size=(*layers, 3, 4))
    figure = plot_heads(weights, TARGET, SOURCE, tmp_path / "heads.png", title="costs $5 or $6")
    panels = figure.axes[: 3 * math.prod(layers)]
    for axes, expected in zip(panels, weights.reshape(-1, 4, 6), strict=True):
        np.testing.assert_array_equal(axes.images[0].get_array(), expected)
    assert labels(panels[0].yaxis) == ["le", "5", "mars", "</s>"]
    assert labels(panels[0].xaxis) == ["the", "fif", "th", "of", "March", "</s>"]
    assert not [axes for axes in panels[1:3] if labels(axes.yaxis)]
    assert not [axes for axes in panels[3:] if labels(axes.xaxis)]
    names = [axes.get_xlabel() for axes in panels]
    assert names[:2] == (["layer 1, head 1", "layer 1, head 2"] if layers else ["head 1", "head 2"])
    assert (tmp_path / "heads.png").read_bytes().startswith(b"\x89PNG")


@refuses(
    (np.zeros((4, 6)), r"must be \(heads, 4, 6\) for .* tokens, got shape \(4, 6\)"),
    (np.zeros((2, 6, 4)), r"tokens, got shape \(2, 6, 4\)"),
    (np.zeros((0, 4, 6)), "weights must not be empty"),
)
def test_heads_with_wrong_shapes_raise(weights: np.ndarray) -> None:
    plot_heads(weights, TARGET, SOURCE)


def test_formats_follow_the_suffix(tmp_path: Path) -> None:
    for suffix, head in ((".svg", b"<?xml"), (".pdf", b"%PDF")):
        plot_alignment(np.eye(2), ["a", "b"], ["c", "d"], tmp_path / f"a{suffix}")
        assert (tmp_path / f"a{suffix}").read_bytes().startswith(head)
    svg = (tmp_path / "a.svg").read_text()
    assert "<svg" in svg


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (2, 30), (40, 3), (220, 1)])
def test_labels_fit(rows: int, columns: int) -> None:
    targets, sources = ([f"word{n}" for n in range(size)] for size in (rows, columns))
    title = "a title of more words than a small picture is wide, so that it takes lines"
    figure = plot_alignment(np.zeros((rows, columns)), targets, sources, title=title)
    figure.canvas.draw()
    assert max(figure.get_size_inches()) < 62
    axes = figure.axes[0]
    across = [label.get_window_extent() for label in axes.get_xticklabels()]
    down = [label.get_window_extent() for label in axes.get_yticklabels()]
    assert all(left.x1 <= right.x0 for left, right in pairwise(across))
    assert all(low.y1 <= high.y0 for high, low in pairwise(down))
    heading = figure.texts[0].get_window_extent()
    assert all(box.y1 <= heading.y0 for box in across)
    for box in (*across, *down, heading):
        assert figure.bbox.x0 <= box.x0
        assert box.x1 <= figure.bbox.x1
        assert box.y1 <= figure.bbox.y1


@refuses(
    (np.zeros((3, 4)), r"\(4, 6\) for 4 target tokens and 6 source tokens, got .* \(3, 4\)"),
    (np.zeros((6, 4)), r"got shape \(6, 4\)"),
    (np.zeros((1, 4, 6)), r"got shape \(1, 4, 6\)"),
    (np.full((4, 6), np.nan), "NaN"),
)
def test_invalid_alignment_raises(weights: np.ndarray) -> None:
    plot_alignment(weights, TARGET, SOURCE)


def test_empty_alignment_raises() -> None:
    with pytest.raises(ValueError, match="weights must not be empty"):
        plot_alignment(np.zeros((0, 6)), [], SOURCE)


def make_font(path: Path, characters: str) -> str:
    """A font that draws each of the characters as the same square."""
    pen = TTGlyphPen(None)
    pen.moveTo((0, 0))
    for corner in ((0, 800), (800, 800), (800, 0)):
        pen.lineTo(corner)
    pen.closePath()
    names = [".notdef", *(f"uni{ord(c):04X}" for c in characters)]
    font = FontBuilder(1000, isTTF=True)
    font.setupGlyphOrder(names)
    font.setupCharacterMap({ord(c): name for c, name in zip(characters, names[1:], strict=True)})
    font.setupGlyf(dict.fromkeys(names, pen.glyph()))
    font.setupHorizontalMetrics(dict.fromkeys(names, (1000, 0)))
    font.setupHorizontalHeader(ascent=800, descent=-200)
    font.setupNameTable({"familyName": path.stem, "styleName": "Regular"})
    font.setupOS2()
    font.setupPost()
    font.save(path)
    return str(path)


def test_chinese_is_drawn_with_a_font_that_covers_it(tmp_path: Path, monkeypatch) -> None:
    useless = make_font(tmp_path / "AnyCJK.ttf", "猫")
    useful = make_font(tmp_path / "Square Font.ttf", "五月日年")
    broken = tmp_path / "Broken.ttf"
    broken.write_bytes(b"no font")
    monkeypatch.setattr(fonts, "list_fonts", lambda: [str(broken), useless, useful])
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # matplotlib warns of every missing glyph
        figure = plot_alignment(np.eye(2), ["五月", "</s>"], ["2021年", "日"])
        figure.canvas.draw()
    label = figure.axes[0].get_yticklabels()[0]
    assert label.get_fontfamily() == ["DejaVu Sans", "Square Font"]
    assert label.get_text() == "五月"


def test_chinese_without_a_font_is_one_warning(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(fonts, "list_fonts", list)
    with pytest.warns(UserWarning, match="no installed font") as caught:
        plot_alignment(np.eye(2), ["五月", "</s>"], ["May", "</s>"], tmp_path / "a.png")
    assert len(caught) == 1
    message = str(caught[0].message)
    assert "五月" in message
    assert "install" in message
    assert "\n" not in message
    assert (tmp_path / "a.png").exists()


def test_latin_text_searches_no_fonts(monkeypatch) -> None:
    monkeypatch.setattr(fonts, "list_fonts", lambda: pytest.fail("fonts were searched"))
    plot_alignment(np.eye(1), ["Žluťoučký"], ["крупный"], title="two\nlines")


def test_fonts_for_many_scripts_come_first(monkeypatch) -> None:
    from matplotlib import font_manager

    paths = ["/f/Aaa.ttf", "/f/NotoSansCJK-Bold.ttc", "/f/NotoSansCJK-Regular.ttc", "/f/simhei.ttf"]
    monkeypatch.setattr(font_manager, "findSystemFonts", lambda: list(paths))
    assert fonts.list_fonts() == [paths[2], paths[3], paths[1], paths[0]]


def test_length_curve_shows_every_point(tmp_path: Path) -> None:
    curves = {"RNNSearch": {30: 80.0, 10: 99.0}, "Seq2Seq $": {10: 98.0, 20: 50.0, 30: 4.0}}
    figure = plot_length_curve(curves, tmp_path / "c.png", "exact (%)", longest_trained=15)
    axes = figure.axes[0]
    first, second, trained = axes.lines
    assert first.get_xydata().tolist() == [[10, 99], [30, 80]]
    assert second.get_xydata().tolist() == [[10, 98], [20, 50], [30, 4]]
    assert first.get_marker() != second.get_marker()
    assert set(trained.get_xdata()) == {15}
    assert [text.get_text() for text in axes.get_legend().get_texts()] == list(curves)
    assert (axes.get_ylabel(), axes.get_xlabel()) == ("exact (%)", "source length")
    assert axes.get_ylim()[0] == 0
    assert (tmp_path / "c.png").read_bytes().startswith(b"\x89PNG")


def test_empty_length_curve_raises() -> None:
    with pytest.raises(ValueError, match="one point each, got none for any model"):
        plot_length_curve({})
    with pytest.raises(ValueError, match="one point each, got none for Seq2Seq"):
        plot_length_curve({"RNNSearch": {1: 2.0}, "Seq2Seq": {}})


@pytest.mark.full
def test_needs_no_display(tmp_path: Path) -> None:
    code = (
        "import sys; from attention_zoo.inspection import plot_alignment;"
        "plot_alignment([[1.0]], ['a'], ['b'], sys.argv[1])"
    )
    environment = {"MPLBACKEND": "TkAgg", "PATH": "", "TF_CPP_MIN_LOG_LEVEL": "3"}
    command = [sys.executable, "-c", code, str(tmp_path / "a.png")]
    subprocess.run(command, check=True, env=environment, cwd=Path(__file__).parents[2])
    assert (tmp_path / "a.png").stat().st_size > 1000


def test_pixels_have_the_resolution() -> None:
    figure = plot_alignment(np.eye(2), ["a", "b"], ["c", "d"])
    small, large = (pixels(figure, dpi) for dpi in (50, 100))
    assert (small.dtype, small.shape[2]) == (np.uint8, 4)
    assert large.shape[0] == pytest.approx(2 * small.shape[0], abs=2)
    assert small[..., :3].std() > 10
