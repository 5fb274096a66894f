"""One row per retrieved image: the image with its name, and an overlay for each word."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from attention_zoo.inspection import plot_word_regions
from attention_zoo.tasks import RetrievalResult
from tests.refusals import refuses

WORDS = ("a", "red", "dog", "in", "$x$", "big", "snow")
WEIGHTS = np.full((7, 1, 2), 0.5)
WEIGHTS[2] = [[1.0, 0.0]]
SECOND = RetrievalResult(
    text="b.png",
    score=0.25,
    number=1,
    source=" ".join(WORDS),
    source_tokens=WORDS,
    tokens=WORDS,
    attention=WEIGHTS,
    image=np.full((4, 4, 3), 100, "uint8"),
)
FIRST = replace(
    SECOND, text="a.png", score=0.5, image=np.full((4, 8, 3), 200, "uint8"), alternatives=(SECOND,)
)


def test_every_image_and_word_has_a_panel(tmp_path: Path) -> None:
    figure = plot_word_regions(FIRST, tmp_path / "plot.png")
    assert (tmp_path / "plot.png").stat().st_size > 1000
    titles = [axes.get_title() for axes in figure.axes]
    assert titles == ["a.png\n0.500", *WORDS, "b.png\n0.250", *WORDS]
    assert figure._suptitle.get_text() == FIRST.source
    positions = [axes.get_subplotspec().num1 for axes in figure.axes]
    assert positions == [*range(8), *range(12, 20)]  # of 6 columns: two rows for each image


def test_only_the_end_of_a_long_name_is_shown() -> None:
    named = replace(FIRST, text="photos/of/2020/holidays/2187503678_fd743e0a00.jpg")
    figure = plot_word_regions(named)
    assert figure.axes[0].get_title() == "…78_fd743e0a00.jpg\n0.500"
    figure.draw_without_rendering()
    title, image = figure.axes[0].title.get_window_extent(), figure.axes[0].get_window_extent()
    assert title.width <= image.width * 1.05
    above = figure._suptitle.get_window_extent()
    assert title.y1 < above.y0


def test_brightness_follows_the_regions_of_a_word() -> None:
    figure = plot_word_regions(FIRST, title="which?")
    assert figure._suptitle.get_text() == "which?"
    shown = [np.asarray(axes.images[0].get_array()) for axes in figure.axes]
    for first, value in ((0, 200), (8, 100)):
        assert (shown[first] == value).all()
        assert (shown[first + 2] == value).all()  # all regions match alike
        dog = shown[first + 3]
        assert (dog[:, 0] == value).all()
        assert (dog[:, -1] == value // 4).all()


@refuses(
    ({"attention": WEIGHTS[:2]}, r"must be \(7, h, w\) for 7 words, got shape \(2, 1, 2\)"),
    ({"attention": -WEIGHTS}, "attention must be finite and non-negative"),
    ({"image": np.zeros((4, 4))}, r"image must be \(H, W, 3\)"),
)
def test_invalid_arguments_raise(given: dict) -> None:
    plot_word_regions(replace(SECOND, **given))
