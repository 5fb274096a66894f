"""Attention over an image, word by word, as in Xu et al. 2015 (arXiv:1502.03044), figure 3."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from attention_zoo.inspection.canvas import OutputPath, finish, make_figure
from attention_zoo.inspection.fonts import find_families
from attention_zoo.inspection.labels import make_readable

SIDE, TITLE = 1.5, 0.35
"""Side of a panel and height of its title, in inches."""
_COLORBAR = 0.5  # height of the colorbar, in inches
_COLUMNS = 6
_DIMMED = 0.25  # relative brightness at weight 0


def plot_caption_overlay(
    image: Any,
    attention: Any,
    tokens: Sequence[str],
    path: OutputPath = None,
    title: str | None = None,
) -> Any:
    """Plot an image, and a copy for each word of its caption with attention weights as brightness.

    The scale, that of the colorbar, is common to all words: a cell with the largest weight of all
    has full brightness, a cell with weight 0 a quarter of it. Brightness is interpolated linearly
    between the centres of cells.

    Args:
        image: `(H, W, 3)`, from 0 to 255.
        attention: `(T, h, w)`, attention weights over the image grid.
        tokens: the T words.
        path: output file; its suffix is the format (`.png`, `.svg`, `.pdf`). None for no file.
        title: title of the figure.

    Returns:
        A matplotlib `Figure`. The first axes contain the image, the next ones a word each, and the
        last ones the colorbar, unless all weights are 0.

    Raises:
        ValueError: if the image is invalid, attention does not fit the words, or a weight is
            negative or not finite.
    """
    image, attention = check_overlay(image, attention, tokens)
    rows, columns = arrange_panels(len(tokens) + 1)
    figure = make_figure(columns * SIDE, rows * (SIDE + TITLE) + _COLORBAR)
    family = find_families([*tokens, title or ""])
    titles = ["", *map(make_readable, tokens)]
    draw_words(figure, (rows, columns, 1), image, attention, titles, family, attention.max())
    if attention.any():
        _draw_colorbar(figure, attention.max())
    return finish(figure, path, title, family)


def arrange_panels(panels: int) -> tuple[int, int]:
    """Return the numbers of rows and columns for these panels."""
    columns = min(panels, _COLUMNS)
    return math.ceil(panels / columns), columns


def draw_words(
    figure: Any,
    subplot: tuple[int, int, int],
    image: np.ndarray,
    attention: np.ndarray,
    titles: Sequence[str],
    family: list[str],
    largest: float | None = None,
) -> None:
    """Draw an image and its attention for each word, below the titles of image and words.

    `subplot` is the position of the image: rows, columns, index from 1. The words follow it.
    `largest` is the weight of full brightness; None for the largest of each word.
    """
    rows, columns, first = subplot
    scales = [one.max() if largest is None else largest for one in attention]
    pairs = zip(attention, scales, strict=True)
    lights = [1.0, *(_compute_brightness(*pair, image.shape[:2]) for pair in pairs)]
    for number, (light, title) in enumerate(zip(lights, titles, strict=True), first):
        axes = figure.add_subplot(rows, columns, number)
        axes.imshow(np.rint(image * light).astype("uint8"))
        axes.set_axis_off()
        axes.set_title(title, size=9, family=family, parse_math=False)


def _draw_colorbar(figure: Any, largest: float) -> None:
    """Draw a colorbar of brightness below all panels."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import LinearSegmentedColormap, Normalize

    colors = LinearSegmentedColormap.from_list("brightness", [str(_DIMMED), "1"])
    scale = ScalarMappable(Normalize(0, largest), colors)
    options = {"location": "bottom", "fraction": 0.05, "aspect": 30, "pad": 0.02, "format": "%.2g"}
    options["ticks"] = np.linspace(0, largest, 3)
    bar = figure.colorbar(scale, ax=figure.axes, **options)
    bar.set_label("weight", size=9)
    bar.ax.tick_params(labelsize=8)


def check_overlay(
    image: Any, attention: Any, tokens: Sequence[str]
) -> tuple[np.ndarray, np.ndarray]:
    """Return image and attention as arrays; raise ValueError if they are invalid."""
    image, attention = check_image(image), np.asarray(attention, "float64")
    if attention.ndim != 3 or len(attention) != len(tokens) or not attention.size:
        raise ValueError(
            f"attention must be ({len(tokens)}, h, w) for {len(tokens)} words, got shape"
            f" {attention.shape}"
        )
    if not (np.isfinite(attention).all() and (attention >= 0).all()):
        raise ValueError("attention must be finite and non-negative")
    return image, attention


def check_image(image: Any) -> np.ndarray:
    """Return the image as an array of floats; raise ValueError if it is invalid."""
    image = np.asarray(image, "float64")
    if image.ndim != 3 or image.shape[-1] != 3 or not image.size:
        raise ValueError(f"image must be (H, W, 3), got shape {image.shape}")
    if not (image >= 0).all() or image.max() > 255:
        raise ValueError("image must have values from 0 to 255")
    return image


def _compute_brightness(weights: np.ndarray, largest: float, sides: tuple[int, int]) -> np.ndarray:
    """Return the relative brightness of each pixel, `(H, W, 1)`."""
    from PIL import Image

    opacity = Image.fromarray(compute_opacity(weights, largest).astype("float32"))
    smooth = opacity.resize(sides[::-1], Image.Resampling.BILINEAR)
    return 1 - np.asarray(smooth)[..., None]


def compute_opacity(weights: np.ndarray, largest: float) -> np.ndarray:
    """Return the opacity of a black overlay for each cell of a grid `(h, w)`, 0 to 0.75.

    `largest` is the weight of opacity 0.
    """
    return (1 - _DIMMED) * (1 - weights / max(largest, 1e-12))
