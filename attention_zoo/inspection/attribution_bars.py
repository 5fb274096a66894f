"""Attribution scores of tokens as signed bars, side by side for several methods."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from attention_zoo.inspection.attention_data import TokenAttribution, check_attributions
from attention_zoo.inspection.canvas import OutputPath, finish, make_figure
from attention_zoo.inspection.fonts import find_families
from attention_zoo.inspection.labels import get_max_width, is_special, make_readable

_ROW, _LETTER, _BARS, _MARGIN, _LARGEST = 0.22, 0.09, 2.0, 0.8, 60.0  # inches
_POSITIVE, _NEGATIVE = "#1d4ed8", "#c2410c"


def plot_attributions(
    attributions: Sequence[TokenAttribution], path: OutputPath = None, title: str | None = None
) -> Any:
    """Plot signed attribution scores of tokens, a panel for each method.

    Positive bars are blue and extend to the right, negative ones are orange and extend to the
    left. Each panel has its own scale, because methods have different units; 0 is in the middle.

    Args:
        attributions: at least one.
        path: output file; its suffix is the format (`.png`, `.svg`, `.pdf`). None for no file.
        title: title of the figure.

    Returns:
        A matplotlib `Figure`, with an axes for each method.

    Raises:
        ValueError: if there are no attributions, or scores do not fit the tokens or are not finite.

    Example:
        >>> from attention_zoo.inspection.attention_data import TokenAttribution
        >>> from attention_zoo.inspection.attribution_bars import plot_attributions
        >>> occlusion = TokenAttribution("occlusion", ["not", "bad"], [-0.2, 1.5])
        >>> figure = plot_attributions([occlusion])
        >>> [float(bar.get_width()) for bar in figure.axes[0].patches]
        [-0.2, 1.5]

    Reference: this library.
    """
    scores = check_attributions(attributions)
    if not scores:
        raise ValueError("attributions must not be empty: pass at least one")
    labels = [[make_readable(token) for token in one.tokens] for one in attributions]
    names = [one.name for one in attributions]
    rows = max(map(len, labels))
    row = min(_ROW, _LARGEST / rows)
    widths = [_BARS + _LETTER * get_max_width([*side, "."]) for side in labels]
    figure = make_figure(sum(widths), row * rows + _MARGIN)
    family = find_families([*(label for side in labels for label in side), *names, title or ""])
    grid = figure.subplots(1, len(labels), squeeze=False, width_ratios=widths)[0]
    for axes, one, values, side in zip(grid, attributions, scores, labels, strict=True):
        colours = np.where(values < 0, _NEGATIVE, _POSITIVE)
        axes.barh(range(len(values)), values, height=0.7, color=colours)
        axes.set_yticks(range(len(side)), side, family=family, size=45 * row, parse_math=False)
        for label, token in zip(axes.get_yticklabels(), one.tokens, strict=True):
            label.set_color("0.55" if is_special(token) else "black")
        largest = np.abs(values).max() or 1.0
        axes.set_xlim(-1.05 * largest, 1.05 * largest)
        axes.set_ylim(rows - 0.5, -0.5)
        axes.axvline(0, color="0.7", linewidth=0.8, zorder=0)
        axes.tick_params(axis="y", length=0)
        axes.tick_params(axis="x", labelsize=8)
        axes.locator_params(axis="x", nbins=5)
        axes.spines[["top", "right", "left"]].set_visible(False)
        axes.set_title(make_readable(one.name), size=10, family=family, parse_math=False)
    return finish(figure, path, title, family)
