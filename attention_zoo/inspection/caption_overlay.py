"""The picture of Xu et al. 2015 (arXiv:1502.03044), figure 3: word by word over the image."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from attention_zoo.inspection.canvas import headline, new_figure, save
from attention_zoo.inspection.fonts import families_for
from attention_zoo.inspection.labels import readable

SIDE, TITLE = 1.5, 0.35
"""Of a panel, in inches."""
_COLUMNS = 6
_DIMMED = 0.25  # what is left of the light where nobody looks


def plot_caption_overlay(
    image: Any,
    attention: Any,
    tokens: Sequence[str],
    path: str | os.PathLike[str] | None = None,
    title: str | None = None,
) -> Any:
    """An image, and for each word of its caption the image again, lit where the word looked.

    The place of a word that was looked at most has all its light, one that was not looked at a
    quarter of it. Between the middles of the grid's cells the light changes evenly.

    Args:
        image: `(H, W, 3)`, from 0 to 255.
        attention: `(T, h, w)`, of a grid over the image.
        tokens: the T words.
        path: where to write it, in the format of the suffix (`.png`, `.svg`, `.pdf`); None for no
            file.
        title: above the picture.

    Returns:
        A matplotlib `Figure`: its first axes are the image, then comes one for each word.

    Raises:
        ValueError: no image, attention that is none of the words, weights that are no weights.
    """
    image, attention = checked(image, attention, tokens)
    rows, columns = table(len(tokens) + 1)
    figure = new_figure(columns * SIDE, rows * (SIDE + TITLE))
    family = families_for([*tokens, title or ""])
    draw_words(figure, (rows, columns, 1), image, attention, tokens, family)
    if title is not None:
        headline(figure, title, family)
    save(figure, path)
    return figure


def table(panels: int) -> tuple[int, int]:
    """The rows and columns that so many panels are put in."""
    columns = min(panels, _COLUMNS)
    return math.ceil(panels / columns), columns


def draw_words(
    figure: Any,
    place: tuple[int, int, int],
    image: np.ndarray,
    attention: np.ndarray,
    tokens: Sequence[str],
    family: list[str],
) -> Any:
    """Draw an image and the words over it, from a place on: rows, columns, number from 1.

    Returns the axes of the image itself.
    """
    rows, columns, first = place
    for number in range(len(tokens) + 1):
        axes = figure.add_subplot(rows, columns, first + number)
        light = 1.0 if not number else _light(attention[number - 1], image.shape[:2])
        axes.imshow(np.rint(image * light).astype("uint8"))
        axes.set_axis_off()
        if number:
            label = axes.set_title(readable(tokens[number - 1]), size=9, family=family)
            label.set_parse_math(False)
        else:
            plain = axes
    return plain


def checked(image: Any, attention: Any, tokens: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Image and attention as arrays; ValueError if they are none."""
    image, attention = checked_image(image), np.asarray(attention, "float64")
    if attention.ndim != 3 or len(attention) != len(tokens) or not attention.size:
        raise ValueError(
            f"attention has shape {attention.shape}: expected ({len(tokens)}, h, w) of"
            f" {len(tokens)} words"
        )
    if not (np.isfinite(attention).all() and (attention >= 0).all()):
        raise ValueError("attention must be of finite weights that are not negative")
    return image, attention


def checked_image(image: Any) -> np.ndarray:
    """The image as an array of floats; ValueError if it is none."""
    image = np.asarray(image, "float64")
    if image.ndim != 3 or image.shape[-1] != 3 or not image.size:
        raise ValueError(f"image must be (H, W, 3), got shape {image.shape}")
    if not (image >= 0).all() or image.max() > 255:
        raise ValueError("image must be of numbers from 0 to 255")
    return image


def _light(weights: np.ndarray, sides: tuple[int, int]) -> np.ndarray:
    """How much light each pixel keeps, `(H, W, 1)`."""
    down, across = (_between(size, cells) for size, cells in zip(sides, weights.shape, strict=True))
    return 1 - (down @ darkened(weights) @ across.T)[..., None]


def darkened(weights: np.ndarray) -> np.ndarray:
    """How much light each cell of a grid `(h, w)` loses, 0 to 1."""
    return (1 - _DIMMED) * (1 - weights / max(weights.max(), 1e-12))


def _between(pixels: int, cells: int) -> np.ndarray:
    """`(pixels, cells)`: which part each pixel has of the two cells that its middle is between."""
    places = np.clip((np.arange(pixels) + 0.5) * cells / pixels - 0.5, 0, cells - 1)
    return np.maximum(0.0, 1.0 - np.abs(places[:, None] - np.arange(cells)))
