"""Figures that need no display and no pyplot."""

from __future__ import annotations

import os
import textwrap
import warnings
from typing import Any

import numpy as np

from attention_zoo.inspection.labels import longest

_LETTERS, _LINE = 9.5, 0.22
"""Letters of a title to an inch, and inches of a line."""


def new_figure(width: float, height: float) -> Any:
    """A matplotlib Figure of that size in inches, with room made for its labels."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def headline(figure: Any, title: str, family: list[str]) -> None:
    """A title above all axes, in as many lines as the figure's width asks for."""
    letters = int(figure.get_figwidth() * _LETTERS * len(title) / longest([title, "."]))
    lines = textwrap.wrap(title, max(letters, 1)) or [""]
    figure.set_figheight(figure.get_figheight() + _LINE * (len(lines) - 1))
    figure.suptitle("\n".join(lines), size=12, family=family).set_parse_math(False)


def pixels(figure: Any, dpi: float = 75.0) -> np.ndarray:
    """The figure as `(height, width, 4)` of bytes: red, green, blue, alpha."""
    figure.set_dpi(dpi)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        figure.canvas.draw()
    return np.asarray(figure.canvas.buffer_rgba())


def save(figure: Any, path: str | os.PathLike[str] | None) -> None:
    """Writes the figure in the format of the suffix, if there is a path.

    A character without a font is drawn as a box; `families_for` has said so once already.
    """
    if path is None:
        return
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        figure.savefig(path)
