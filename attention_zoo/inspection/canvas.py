"""Matplotlib figures without a display and without pyplot."""

from __future__ import annotations

import os
import textwrap
import warnings
from typing import Any

import numpy as np

from attention_zoo.inspection.labels import longest

_LETTERS, _LINE = 9.5, 0.22
"""Characters of a title per inch, and its line height in inches."""


def new_figure(width: float, height: float) -> Any:
    """Return a matplotlib Figure of this size in inches, with constrained layout."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def headline(figure: Any, title: str, family: list[str]) -> None:
    """Add a title above all axes, wrapped to the width of the figure."""
    letters = int(figure.get_figwidth() * _LETTERS * len(title) / longest([title, "."]))
    lines = textwrap.wrap(title, max(letters, 1)) or [""]
    figure.set_figheight(figure.get_figheight() + _LINE * (len(lines) - 1))
    figure.suptitle("\n".join(lines), size=12, family=family).set_parse_math(False)


def pixels(figure: Any, dpi: float = 75.0) -> np.ndarray:
    """Render the figure as an RGBA array `(height, width, 4)` of bytes."""
    figure.set_dpi(dpi)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        figure.canvas.draw()
    return np.asarray(figure.canvas.buffer_rgba())


def save(figure: Any, path: str | os.PathLike[str] | None) -> None:
    """Save the figure in the format of the path's suffix, if there is a path.

    Characters without a font are drawn as boxes. Matplotlib's warning is suppressed, because
    `families_for` has already warned.
    """
    if path is None:
        return
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        figure.savefig(path)
