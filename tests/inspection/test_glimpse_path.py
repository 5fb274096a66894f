from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from attention_zoo.inspection import plot_glimpse_path, write_glimpse_gif
from tests.refusals import refuses

IMAGE = np.arange(12 * 10, dtype="uint8").reshape(12, 10) * 2
PLACES = np.array([[0.0, 0.0], [-0.5, 0.2], [1.0, -1.0]])


def test_plot_shows_squares_and_patches(tmp_path: Path) -> None:
    answers = ["a", "b $5", "c"]
    figure = plot_glimpse_path(
        IMAGE, PLACES, 4, 2, tmp_path / "path.png", answers, title="a 7 of $5"
    )
    whole, *patches = figure.axes
    np.testing.assert_array_equal(whole.images[0].get_array(), IMAGE)
    squares = [(x.get_x(), x.get_y(), x.get_width(), x.get_height()) for x in whole.patches]
    assert len(squares) == 6
    assert squares[0] == (2.5, 3.5, 4, 4)  # its pixels are 3 to 6 across, 4 to 7 down
    assert squares[1] == (0.5, 1.5, 8, 8)
    assert squares[4] == (-2.5, 9.5, 4, 4)
    assert [text.get_text() for text in whole.texts] == ["1", "2", "3"]
    assert len(patches) == 6
    np.testing.assert_array_equal(patches[0].images[0].get_array(), IMAGE[4:8, 3:7])
    corner = patches[2].images[0].get_array()
    np.testing.assert_array_equal(corner[:2, 2:], IMAGE[10:, :2])
    assert not corner[2:].any()
    assert [axes.get_title() for axes in patches] == ["1", "2", "3", "", "", ""]
    assert [axes.get_xlabel() for axes in patches] == ["", "", "", *answers]
    assert figure.get_suptitle() == "a 7 of $5"
    assert (tmp_path / "path.png").read_bytes().startswith(b"\x89PNG")


def test_long_predictions_do_not_overlap() -> None:
    answers = ["golden retriever", "german shepherd", "Xoloitzcuintle of Mexico"]
    figure = plot_glimpse_path(IMAGE, PLACES, 4, 1, answers=answers)
    figure.canvas.draw()
    extents = [axes.xaxis.label.get_window_extent() for axes in figure.axes[1:]]
    assert all(one.x1 < other.x0 for one, other in pairwise(extents))
    assert min(one.y0 for one in extents) >= 0
    shown = ["".join(axes.get_xlabel().split()) for axes in figure.axes[1:]]
    assert shown == ["".join(answer.split()) for answer in answers]


def test_colours_and_floats_are_shown_unchanged() -> None:
    image = np.random.default_rng(0).uniform(0, 255, (9, 9, 3))
    figure = plot_glimpse_path(image, PLACES[:1], 3)
    shown = figure.axes[0].images[0].get_array()
    np.testing.assert_array_equal(shown, np.rint(image).astype("uint8"))
    np.testing.assert_array_equal(figure.axes[1].images[0].get_array(), shown[3:6, 3:6])


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), 656, "long"])
def test_frame_duration_has_limits(seconds: Any, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="seconds must be above 0 and at most 655, got"):
        write_glimpse_gif(IMAGE, PLACES, 4, 2, path=tmp_path / "path.gif", seconds=seconds)
    assert not list(tmp_path.iterdir())


def test_animation_has_a_frame_for_each_glimpse(tmp_path: Path) -> None:
    path = tmp_path / "path.gif"
    write_glimpse_gif(IMAGE, PLACES, 4, 2, path=path, answers=["a", "b", "c"], seconds=0.5)
    with Image.open(path) as animation:
        assert (animation.format, animation.n_frames) == ("GIF", 3)
        assert animation.info["duration"] == 500
        assert animation.info["loop"] == 0
        frames = []
        for n in range(3):
            animation.seek(n)
            frames.append(np.asarray(animation.convert("RGB"), "int32"))
    right = frames[0].shape[1] * 87 // 100
    changes = [np.abs(b - a).max(axis=(0, 2)) > 50 for a, b in pairwise(frames)]
    assert all(change.any() for change in changes)
    assert not changes[0][right:].any(), "the third glimpse is not there yet"
    assert changes[1][right:].any()


@refuses(
    ({"image": IMAGE[0]}, r"image must be \(H, W\).*got shape \(10,\)"),
    ({"image": np.zeros((3, 3, 4))}, r"got shape \(3, 3, 4\)"),
    ({"image": np.zeros((0, 3))}, r"got shape \(0, 3\)"),
    ({"locations": PLACES[0]}, r"locations must be \(glimpses, 2\), got shape \(2,\)"),
    ({"locations": PLACES[:0]}, r"locations must be \(glimpses, 2\), got shape \(0, 2\)"),
    ({"locations": PLACES * np.nan}, "must be finite"),
    ({"answers": ["a"]}, "one prediction per glimpse, got 1 for 3 glimpses"),
    ({"glimpse_size": 0}, "size must be at least 1"),
)
def test_invalid_arguments_raise(given: dict[str, Any]) -> None:
    plot_glimpse_path(**{"image": IMAGE, "locations": PLACES, "glimpse_size": 4, **given})
