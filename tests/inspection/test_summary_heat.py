"""What stands in the picture of a summary over its source."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.colors import to_rgba

from attention_zoo.inspection import plot_summary_heat
from tests.inspection.summaries import SOURCE, SUMMARY, summary
from tests.refusals import refuses

BLUES = matplotlib.colormaps["Blues"]
COPY = to_rgba("#c2410c")


def texts(figure: Any) -> dict[str, list[Any]]:
    """Texts of the figure by colour and size."""
    all_texts = figure.axes[0].texts
    return {
        "faint": [one for one in all_texts if one.get_color() == "0.45"],
        "words": [one for one in all_texts if one.get_fontsize() == 10],
        "title": [one for one in all_texts if one.get_fontsize() == 12],
    }


def boxes(figure: Any) -> tuple[list[Any], list[Any]]:
    """Those behind the source, and the bars of the summary."""
    patches = figure.axes[0].patches
    return patches[: len(SOURCE)], patches[len(SOURCE) :]


def test_source_is_shaded_and_summary_has_bars(tmp_path: Path) -> None:
    answer = summary()
    figure = plot_summary_heat(answer, tmp_path / "a.png", title="costs $5 or $6")
    assert [one.get_text() for one in texts(figure)["words"]] == SOURCE + SUMMARY
    assert [one.get_text() for one in texts(figure)["title"]] == ["costs $5 or $6"]
    shades, bars = boxes(figure)
    heat = np.minimum(answer.attention.sum(0), 1)
    for box, expected in zip(shades, heat, strict=True):
        np.testing.assert_allclose(box.get_facecolor(), BLUES(expected))
    framed = [n for n, box in enumerate(shades) if box.get_edgecolor()[3]]
    assert framed == [1, 3]
    whole, parts = bars[::2], bars[1::2]
    shares = [part.get_width() / all_.get_width() for part, all_ in zip(parts, whole, strict=True)]
    np.testing.assert_allclose(shares, answer.copied)
    assert all(part.get_facecolor() == COPY for part in parts)
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


def test_attention_of_one_word(tmp_path: Path) -> None:
    answer = summary()
    figure = plot_summary_heat(answer, tmp_path / "a.svg", word=2)
    shades, _ = boxes(figure)
    for box, expected in zip(shades, answer.attention[2], strict=True):
        np.testing.assert_allclose(box.get_facecolor(), BLUES(expected))
    assert [n for n, box in enumerate(shades) if box.get_edgecolor()[3]] == [3]
    assert "“1”" in texts(figure)["faint"][0].get_text()
    bold = [one for one in texts(figure)["words"] if one.get_fontweight() == "bold"]
    assert [one.get_text() for one in bold] == ["1"]
    assert (tmp_path / "a.svg").read_text().count("<svg")
    own = plot_summary_heat(answer, word=1)
    assert not [box for box in boxes(own)[0] if box.get_edgecolor()[3]], "it was not copied"


def test_long_articles_stay_on_the_page() -> None:
    tokens = [f"word{n}" for n in range(300)] + ["x" * 30]
    answer = summary(
        source_tokens=tokens, attention=np.full((5, 301), 1 / 301), tokens=["a" * 24] * 5
    )
    figure = plot_summary_heat(answer, title="a title that is much longer than a line " * 5)
    figure.canvas.draw()
    lines: dict[float, list[Any]] = {}
    for text in figure.axes[0].texts:
        box = text.get_window_extent()
        assert figure.bbox.x0 <= box.x0
        assert box.x1 <= figure.bbox.x1
        assert figure.bbox.y0 <= box.y0
        assert box.y1 <= figure.bbox.y1
        lines.setdefault(text.get_position()[1], []).append(box)
    assert len(lines) > 20
    for line in lines.values():
        assert all(left.x1 <= right.x0 + 1 for left, right in pairwise(line))
    heights = sorted(lines)
    assert all(below - above > 0.15 for above, below in pairwise(heights))


def test_empty_summary() -> None:
    nothing = summary(tokens=(), copied=[], origins=[], attention=np.zeros((0, 12)))
    shades, bars = boxes(plot_summary_heat(nothing))
    assert {box.get_facecolor() for box in shades} == {BLUES(0.0)}
    assert not bars


@refuses(
    ({"attention": None}, None, "no attention weights over its source"),
    ({"source_tokens": (), "attention": np.zeros((5, 0)), "origins": [-1] * 5}, None, "no att"),
    ({}, 5, r"word=5: the summary has words 0 to 4"),
    ({}, -1, r"word=-1: the summary has"),
    ({"copied": [0.5]}, None, r"copied must have shape \(5,\) .* got \(1,\)"),
)
def test_invalid_summaries_raise(given: dict[str, Any], word: int | None) -> None:
    plot_summary_heat(summary(**given), word=word)
