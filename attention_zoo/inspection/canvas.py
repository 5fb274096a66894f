"""Matplotlib figures without a display and without pyplot."""

from __future__ import annotations

import os
import textwrap
import warnings
from typing import Any

import numpy as np

from attention_zoo.extras import explain_missing_package
from attention_zoo.inspection.labels import get_max_width

_LETTERS, _LINE = 9.5, 0.22  # characters of a title per inch, and its line height in inches
OutputPath = str | os.PathLike[str] | None


def make_figure(width: float, height: float) -> Any:
    """Return a matplotlib Figure of this size in inches, with constrained layout."""
    with explain_missing_package():
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def pixels(figure: Any, dpi: float = 75.0) -> np.ndarray:
    """Render the figure as an RGBA array `(height, width, 4)` of bytes."""
    figure.set_dpi(dpi)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        figure.canvas.draw()
    return np.asarray(figure.canvas.buffer_rgba())


def finish(
    figure: Any, path: OutputPath, title: str | None = None, family: list[str] | None = None
) -> Any:
    """Add a title above all axes, if there is one; save and return the figure.

    The title is wrapped to the width of the figure. The format is that of the path's suffix; None
    for no file. Characters without a font are drawn as boxes. Matplotlib's warning is suppressed,
    because `find_families` has already warned.
    """
    if title is not None:
        letters = int(figure.get_figwidth() * _LETTERS * len(title) / get_max_width([title, "."]))
        lines = textwrap.wrap(title, max(letters, 1)) or [""]
        figure.set_figheight(figure.get_figheight() + _LINE * (len(lines) - 1))
        figure.suptitle("\n".join(lines), size=12, family=family, parse_math=False)
    if path is not None:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Glyph .* missing from")
            figure.savefig(path)
    return figure
