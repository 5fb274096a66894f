"""Attention weights as lines between tokens, as in Vig 2019 (arXiv:1906.05714), figure 1."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from attention_zoo.inspection.attention_data import check_nonnegative
from attention_zoo.inspection.canvas import OutputPath, finish, make_figure
from attention_zoo.inspection.fonts import find_families
from attention_zoo.inspection.labels import get_max_width, is_special, make_readable

_ROW, _LETTER, _LINES, _TITLE, _LARGEST = 0.22, 0.09, 2.2, 0.5, 60.0  # inches
_COLOUR = "#1d4ed8"


def plot_head_view(
    weights: ArrayLike,
    targets: Sequence[str],
    sources: Sequence[str],
    path: OutputPath = None,
    title: str | None = None,
) -> Any:
    """Plot attention weights as lines from target tokens (left) to source tokens (right).

    The opacity of a line is its weight, relative to the largest weight, which is printed below.

    Args:
        weights: `(T, S)` of one head, or the mean of several; finite and at least 0.
        targets: T labels.
        sources: S labels.
        path: output file; its suffix is the format (`.png`, `.svg`, `.pdf`). None for no file.
        title: title of the figure.

    Returns:
        A matplotlib `Figure`.

    Raises:
        ValueError: if the shape is not (T, S), a size is 0, or a weight is negative or not finite.

    Example:
        >>> from attention_zoo.inspection.head_view import plot_head_view
        >>> figure = plot_head_view([[0.9, 0.1], [0.2, 0.8]], ["le", "chat"], ["the", "cat"])
        >>> [text.get_text() for text in figure.axes[0].texts]
        ['le', 'chat', 'the', 'cat']

    Reference: Vig 2019, arXiv 1906.05714, figure 1 (attention-head view).
    """
    array = np.asarray(weights, "float64")
    if array.shape != (len(targets), len(sources)) or not array.size:
        raise ValueError(
            f"weights must be ({len(targets)}, {len(sources)}) for {len(targets)} targets and "
            f"{len(sources)} sources, got shape {array.shape}"
        )
    check_nonnegative("weights", array)
    labels = [[make_readable(token) for token in side] for side in (targets, sources)]
    rows = max(array.shape)
    row = min(_ROW, _LARGEST / rows)
    widths = [_LETTER * get_max_width([*side, "."]) for side in labels]
    figure = make_figure(_LINES + sum(widths), row * rows + _TITLE)
    family = find_families([*labels[0], *labels[1], title or ""])
    axes = figure.add_subplot()
    _draw_lines(axes, array)
    style = {"family": family, "size": 45 * row, "va": "center", "parse_math": False}
    for x, align, side, tokens in zip(
        (-0.02, 1.02), ("right", "left"), labels, (targets, sources), strict=True
    ):
        for y, (label, token) in enumerate(zip(side, tokens, strict=True)):
            colour = "0.55" if is_special(token) else "black"
            axes.text(x, y, label, ha=align, color=colour, **style)
    axes.set_xlim(0, 1)
    axes.set_ylim(rows - 0.5, -0.5)
    axes.set_xticks([])
    axes.set_yticks([])
    axes.spines[:].set_visible(False)
    axes.set_xlabel(f"largest weight {array.max():.3g}", size=8, color="0.4")
    return finish(figure, path, title, family)


def _draw_lines(axes: Any, weights: np.ndarray) -> None:
    """Draw a line for each weight above 0, the largest weights last."""
    from matplotlib.collections import LineCollection
    from matplotlib.colors import to_rgba

    targets, sources = np.nonzero(weights)
    shares = weights[targets, sources] / (weights.max() or 1)
    order = np.argsort(shares, kind="stable")
    ends = np.stack([targets, sources], axis=1)[order]
    lines = [[(0, target), (1, source)] for target, source in ends]
    colours = [to_rgba(_COLOUR, share) for share in shares[order]]
    axes.add_collection(LineCollection(lines, colors=colours, linewidths=1.4), autolim=False)
