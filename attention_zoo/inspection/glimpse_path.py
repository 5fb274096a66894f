"""Paths of glimpses over an image, as in Mnih et al. 2014 (arXiv:1406.6247), figure 3."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from keras import ops

from attention_zoo.inspection.canvas import OutputPath, finish, make_figure, pixels
from attention_zoo.inspection.fonts import find_families
from attention_zoo.inspection.labels import make_readable
from attention_zoo.layers import GlimpseSensor
from attention_zoo.ops import number as as_number

_IMAGE, _PATCH, _MARGIN = 3.2, 0.9, 0.7  # inches
_LETTERS = 11  # characters of a line below a patch
_DPI = 100.0
_LONGEST = 655  # duration of a GIF frame, in seconds
_WHITE, _LATER = 255.0, "0.75"


class _Glimpses(NamedTuple):
    """The data of a plot: an image, glimpse locations and size, their patches, and predictions."""

    image: np.ndarray
    locations: np.ndarray
    size: int
    patches: np.ndarray
    answers: list[str]


def plot_glimpse_path(
    image: Any,
    locations: Any,
    glimpse_size: int,
    glimpse_scales: int = 1,
    path: OutputPath = None,
    answers: Sequence[str] | None = None,
    title: str | None = None,
) -> Any:
    """Plot an image with the numbered squares of its glimpses, beside the patches of each glimpse.

    Args:
        image: `(H, W)`, `(H, W, 1)` or `(H, W, 3)`, from 0 to 255.
        locations: `(G, 2)`, the `locations` of a `models.GlimpsePath` for one image.
        glimpse_size, glimpse_scales: as in the model.
        path: output file; its suffix is the format (`.png`, `.svg`, `.pdf`). None for no file.
        answers: the prediction after each glimpse; None for no predictions.
        title: title of the figure.

    Returns:
        A matplotlib `Figure`. Its first axes are the image; the patches follow, scale by scale.

    Raises:
        ValueError: if the image or the locations have a wrong shape or are not finite, or the
            number of answers is not G.
    """
    glimpses = _check_glimpses(image, locations, glimpse_size, glimpse_scales, answers)
    return _plot(glimpses, len(glimpses.locations), path, title)


def write_glimpse_gif(
    image: Any,
    locations: Any,
    glimpse_size: int,
    glimpse_scales: int = 1,
    *,
    path: str | os.PathLike[str],
    answers: Sequence[str] | None = None,
    title: str | None = None,
    seconds: float = 0.8,
) -> None:
    """Write the plot of `plot_glimpse_path` as an animated GIF that adds glimpses one by one.

    The animation repeats forever.

    Args:
        image, locations, glimpse_size, glimpse_scales, answers, title: as in `plot_glimpse_path`.
        path: output file; an existing file is overwritten.
        seconds: duration of each frame.

    Raises:
        ValueError: as in `plot_glimpse_path`, or if a GIF frame cannot have this duration.
    """
    from PIL import Image

    if not 0 < as_number(seconds) <= _LONGEST:
        raise ValueError(f"seconds must be above 0 and at most {_LONGEST}, got {seconds!r}")
    glimpses = _check_glimpses(image, locations, glimpse_size, glimpse_scales, answers)
    counts = range(1, len(glimpses.locations) + 1)
    figures = (_plot(glimpses, shown, None, title) for shown in counts)
    frames = [Image.fromarray(pixels(figure, _DPI)[..., :3]) for figure in figures]
    options: dict[str, Any] = {"duration": round(1000 * seconds), "loop": 0}
    frames[0].save(path, format="GIF", save_all=True, append_images=frames[1:], **options)


def _check_glimpses(
    image: Any, locations: Any, size: int, scales: int, answers: Sequence[str] | None
) -> _Glimpses:
    """Return the data of a plot as arrays; raise ValueError for invalid arguments."""
    shown, points = np.asarray(image, "float32"), np.asarray(locations, "float32")
    shown = shown[..., None] if shown.ndim == 2 else shown
    if shown.ndim != 3 or shown.shape[-1] not in (1, 3) or not shown.size:
        raise ValueError(
            f"image must be (H, W), (H, W, 1) or (H, W, 3), got shape {np.shape(image)}"
        )
    if points.ndim != 2 or points.shape[1] != 2 or not len(points):
        raise ValueError(f"locations must be (glimpses, 2), got shape {points.shape}")
    if not (np.isfinite(shown).all() and np.isfinite(points).all()):
        raise ValueError("image and locations must be finite")
    if answers is not None and len(answers) != len(points):
        raise ValueError(
            f"answers must have one prediction per glimpse, got {len(answers)} for {len(points)}"
            " glimpses"
        )
    sensor = GlimpseSensor(size, scales, dtype="float32")
    patches = ops.convert_to_numpy(sensor(np.repeat(shown[None], len(points), axis=0), points))
    labels = [""] * len(points) if answers is None else [*map(make_readable, answers)]
    return _Glimpses(shown, points, size, patches, labels)


def _plot(glimpses: _Glimpses, shown: int, path: OutputPath, title: str | None) -> Any:
    """Plot the first `shown` glimpses of a path, with space for the later ones."""
    count, scales = glimpses.patches.shape[:2]
    figure = make_figure(_IMAGE + count * _PATCH, max(_IMAGE, scales * _PATCH) + _MARGIN)
    import matplotlib

    grid = figure.add_gridspec(scales, count + 1, width_ratios=[_IMAGE / _PATCH] + [1.0] * count)
    family = find_families([*glimpses.answers, title or ""])
    axes = figure.add_subplot(grid[:, 0])
    _show_image(axes, glimpses.image)
    colours = matplotlib.colormaps["plasma"](np.linspace(0.3, 1.0, count))
    for n in range(shown):
        _draw_squares(axes, glimpses, n, colours[n], faint=n + 1 < shown)
    for scale, n in np.ndindex(scales, count):
        axes, later = figure.add_subplot(grid[scale, n + 1]), n >= shown
        patch = glimpses.patches[n, scale]
        _show_image(axes, np.full_like(patch, _WHITE) if later else patch)
        axes.spines[:].set(visible=not later, color=colours[n], linewidth=2)
        if scale == 0:
            axes.set_title(str(n + 1), size=9, color=_LATER if later else "black")
        if scale == scales - 1 and not later:
            label = textwrap.fill(glimpses.answers[n], _LETTERS)
            axes.set_xlabel(label, size=9, family=family, parse_math=False)
    return finish(figure, path, title, family)


def _show_image(axes: Any, image: np.ndarray) -> None:
    """Draw an image without ticks."""
    levels = np.clip(np.rint(image), 0, _WHITE).astype("uint8")
    grey = levels.shape[-1] == 1
    axes.imshow(levels[..., 0] if grey else levels, cmap="gray", vmin=0, vmax=_WHITE)
    axes.set(xticks=[], yticks=[])


def _draw_squares(axes: Any, glimpses: _Glimpses, n: int, colour: Any, faint: bool) -> None:
    """Draw the squares of a glimpse, with its number in the visible corner of the smallest."""
    from matplotlib.patches import Rectangle

    sides = np.array(glimpses.image.shape[:2])
    middle = (glimpses.locations[n] + 1) * sides / 2 - 0.5
    for scale in range(glimpses.patches.shape[1]):
        side = glimpses.size * 2**scale
        top, left = middle - side / 2
        square = Rectangle((left, top), side, side, fill=False, edgecolor=colour)
        square.set(linewidth=1.0 if scale or faint else 2.0, alpha=0.5 if scale else 1.0)
        axes.add_patch(square)
    top, left = np.clip(middle - glimpses.size / 2, -0.5, sides - 1.5)
    number = axes.text(left, top, str(n + 1), color=colour, size=9, weight="bold", va="top")
    number.set_clip_on(True)
