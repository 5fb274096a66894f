"""Overlays of a caption: attention weights as brightness of the image."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attention_zoo.inspection import plot_caption_overlay
from tests.refusals import refuses

IMAGE = np.random.default_rng(0).integers(1, 256, (8, 12, 3), np.uint8)
WEIGHTS = np.zeros((7, 2, 3))
WEIGHTS[range(7), [0, 0, 0, 1, 1, 1, 0], [0, 1, 2, 0, 1, 2, 0]] = 0.6
WEIGHTS[0, 1, 2] = 0.4
WORDS = ("a", "dog", "$5", "▁run", "##s", "x" * 30, ".")


def test_brightness_follows_the_attention_of_each_word(tmp_path: Path) -> None:
    figure = plot_caption_overlay(IMAGE, WEIGHTS, WORDS, tmp_path / "a.png", title="a dog, $5 $6")
    whole, *panels, scale = figure.axes
    assert scale.get_xlim() == (0, 0.6)
    assert scale.get_xlabel() == "weight"
    np.testing.assert_array_equal(whole.images[0].get_array(), IMAGE)
    titles = [axes.get_title() for axes in panels]
    assert titles == ["a", "dog", "$5", "run", "s", "x" * 23 + "…", "."]
    assert figure.get_suptitle() == "a dog, $5 $6"
    shown = panels[0].images[0].get_array() / IMAGE
    half = 0.501 / IMAGE  # pixels are rounded
    assert (abs(shown - 1) <= half)[:2, :2].all(), "the corner with the largest weight"
    assert (abs(shown - 0.25) <= half)[6:, :2].all(), "a corner with weight 0"
    assert (abs(shown - 0.75) <= half)[6:, 10:].all(), "one with two thirds of that"
    down = 0.25 + 0.75 * np.array([7, 5, 3, 1]) / 8  # between the middles of cells of 4 pixels
    np.testing.assert_allclose(shown[2:6, 0], np.repeat(down[:, None], 3, 1), atol=half.max())
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


def test_scale_is_common_to_all_words() -> None:
    weights = np.zeros((2, 1, 2))
    weights[0, 0], weights[1, 0] = (0.8, 0.2), (0.4, 0.6)
    axes = plot_caption_overlay(np.full((2, 4, 3), 200.0), weights, ["a", "dog"]).axes[1:3]
    shown = [one.images[0].get_array()[0, [0, 3], 0] / 200 for one in axes]
    expected = 0.25 + 0.75 * weights[:, 0] / 0.8
    np.testing.assert_allclose(shown, expected, atol=0.003)


@pytest.mark.parametrize("title", ["a red square and " * 12, "方" * 90], ids=["Latin", "wide"])
@pytest.mark.parametrize("count", [1, 7])
def test_long_title_fits(title: str, count: int) -> None:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r"no installed font|Glyph")
        figure = plot_caption_overlay(IMAGE, WEIGHTS[:count], WORDS[:count], title=title)
        figure.canvas.draw()
    heading, whole_figure = figure._suptitle.get_window_extent(), figure.bbox
    assert "".join(figure.get_suptitle().split()) == "".join(title.split())
    assert whole_figure.x0 <= heading.x0 < heading.x1 <= whole_figure.x1
    assert heading.y1 <= whole_figure.y1
    assert all(axes.title.get_window_extent().y1 < heading.y0 for axes in figure.axes[1:])


def test_uniform_attention_has_full_brightness() -> None:
    figure = plot_caption_overlay(IMAGE.astype("float32"), np.full((1, 3, 3), 1 / 9), ["a"])
    np.testing.assert_array_equal(figure.axes[1].images[0].get_array(), IMAGE)
    nowhere = plot_caption_overlay(IMAGE, np.zeros((1, 2, 2)), ["a"])
    dark = nowhere.axes[1].images[0].get_array()
    np.testing.assert_array_equal(dark, np.rint(IMAGE * 0.25))


@refuses(
    ({"image": IMAGE[0]}, r"image must be \(H, W, 3\), got shape \(12, 3\)"),
    ({"image": IMAGE[:0]}, r"got shape \(0, 12, 3\)"),
    ({"image": IMAGE - 300.0}, "image must have values from 0 to 255"),
    ({"attention": WEIGHTS[:3]}, r"must be \(7, h, w\) for 7 words, got shape \(3, 2, 3\)"),
    ({"attention": None}, r"attention must be .*, got shape \(\)"),
    ({"attention": WEIGHTS[:0], "tokens": ()}, r"got shape \(0, 2, 3\)"),
    ({"attention": WEIGHTS - 1}, "attention must be finite and non-negative"),
    ({"attention": WEIGHTS * np.nan}, "attention must be finite and non-negative"),
)
def test_invalid_arguments_raise(given: dict[str, Any]) -> None:
    plot_caption_overlay(**{"image": IMAGE, "attention": WEIGHTS, "tokens": WORDS, **given})
