"""Attention of a summary over its article, as in See et al. 2017 (arXiv:1704.04368), figure 1.

The article is running text, shaded by the attention weights of the summary. Copied words are framed
in the article. A bar below each word of the summary shows its copy probability.
"""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import wrap
from typing import Any

import numpy as np

from attention_zoo.inspection.canvas import OutputPath, finish, make_figure
from attention_zoo.inspection.fonts import find_families
from attention_zoo.inspection.labels import find_gaps, make_readable
from attention_zoo.inspection.summary_parts import SummaryParts, check_summary

_WIDTH, _MARGIN, _LINE, _SPACE = 8.0, 0.25, 0.27, 0.055  # inches
_SIZE, _SMALL = 10.0, 8.0  # points
_COPY, _FAINT, _NONE = "#c2410c", "0.45", "0.88"


def plot_summary_heat(
    answer: Any, path: OutputPath = None, title: str | None = None, word: int | None = None
) -> Any:
    """Plot the source as running text, shaded by attention weights, above its summary.

    The lightest blue is 0 and the darkest 1. Copied words are framed in the source. The length of
    the bar below each word of the summary is its copy probability.

    Args:
        answer: a `tasks.Summary` from `tasks.Summarization.predict`.
        path: output file; its suffix is the format (`.png`, `.svg`, `.pdf`). None for no file.
        title: title of the figure.
        word: index of the summary token whose attention weights are shown; None for the sum over
            all tokens, at most 1.

    Returns:
        A matplotlib `Figure`.

    Raises:
        ValueError: if attention, copy probabilities or origins do not fit the tokens, the source is
            empty, there is no attention, or `word` is out of range.
    """
    parts = check_summary(answer)
    heat = _get_heat(answer, parts, word)
    chosen = range(len(answer.tokens)) if word is None else [word]
    framed = {int(parts.origins[n]) for n in chosen}
    page = _Page([*answer.source_tokens, *answer.tokens, title or ""])
    if title is not None:
        page.add_heading(title, 12.0, "black")
    words = "all words of the summary"
    if word is not None:
        words = f"“{make_readable(answer.tokens[word])}”"
    page.add_heading(f"attention weights of {words}: white is 0, dark blue is 1", _SMALL, _FAINT)
    page.add_shaded_text(answer.source_tokens, heat, framed)
    legend = "the summary; the bar is the probability that a word was copied"
    page.add_heading(legend, _SMALL, _FAINT)
    page.add_barred_text(answer.tokens, parts.copied, set() if word is None else {word})
    page.fit_height()
    return finish(page.figure, path)


def _get_heat(answer: Any, parts: SummaryParts, word: int | None) -> np.ndarray:
    """Return the weights that shade the source, `(S,)`."""
    if parts.attention is None or not parts.attention.shape[1]:
        raise ValueError("answer has no attention weights over its source: nothing to plot")
    if word is None:
        return np.minimum(parts.attention.sum(axis=0), 1.0)
    if not 0 <= word < len(answer.tokens):
        raise ValueError(f"word={word}: the summary has words 0 to {len(answer.tokens) - 1}")
    return parts.attention[word]


class _Page:
    """A figure with lines of text; its height follows the text.

    Args:
        texts: all texts of the page, for the choice of fonts.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        self.figure = make_figure(_WIDTH, 1.0)
        self.figure.set_layout_engine("none")
        self.axes = self.figure.add_axes((0.0, 0.0, 1.0, 1.0))
        self.axes.set_axis_off()
        self.family = find_families(texts)
        self.top = _MARGIN

    def add_heading(self, text: str, size: float, colour: str) -> None:
        """Add a text of one colour, wrapped to the width of the page."""
        letters = int((_WIDTH - 2 * _MARGIN) / (size * 0.0085))
        for line in [part for row in text.splitlines() for part in wrap(row, letters)]:
            self._write(line, size, color=colour)
            self.top += _LINE * size / _SIZE

    def add_shaded_text(self, tokens: Sequence[str], heat: np.ndarray, framed: set[int]) -> None:
        """Add running text with each token shaded by its weight, and some tokens framed."""
        import matplotlib

        colours = matplotlib.colormaps["Blues"](heat)
        styles = [{"color": "white" if weight > 0.6 else "black"} for weight in heat]
        for index, (left, top, width) in enumerate(self._write_tokens(tokens, _LINE, styles)):
            edge = _COPY if index in framed else "none"
            shade = {"facecolor": colours[index], "edgecolor": edge}
            self._draw_box(left, top + 0.02, width, _LINE - 0.05, **shade)

    def add_barred_text(self, tokens: Sequence[str], shares: np.ndarray, bold: set[int]) -> None:
        """Add running text with a bar below each token."""
        styles = [{"weight": "bold" if n in bold else "normal"} for n in range(len(tokens))]
        boxes = self._write_tokens(tokens, _LINE + 0.1, styles)
        for (left, top, width), share in zip(boxes, shares, strict=True):
            for part, colour in ((1.0, _NONE), (share, _COPY)):
                self._draw_box(left, top + _LINE - 0.02, part * width, 0.045, facecolor=colour)

    def fit_height(self) -> None:
        """Fit the height of the figure to its content."""
        height = self.top + _MARGIN
        self.figure.set_figheight(height)
        self.axes.set(xlim=(0.0, _WIDTH), ylim=(height, 0.0))

    def _write_tokens(
        self, tokens: Sequence[str], line: float, styles: Sequence[dict[str, str]]
    ) -> list[tuple[float, float, float]]:
        """Write running text; return the offsets (left, top) and the width of each token.

        The unit is inches. `top` moves below the text.
        """
        boxes, left = [], _MARGIN
        renderer = self.figure.canvas.get_renderer()
        for gap, token, style in zip(find_gaps(tokens), tokens, styles, strict=True):
            text = self._write(make_readable(token), _SIZE, **style)
            width = text.get_window_extent(renderer).width / self.figure.dpi
            left += _SPACE if gap else 0.0
            if left + width > _WIDTH - _MARGIN and left > _MARGIN:
                left, self.top = _MARGIN, self.top + line
            text.set_position((left, self.top + 0.5 * _LINE))
            boxes.append((left, self.top, width))
            left += width
        self.top += line + 0.1
        return boxes

    def _write(self, text: str, size: float, **style: Any) -> Any:
        """Write a line of text at `top`."""
        middle = self.top + 0.5 * _LINE * size / _SIZE
        style = {"family": self.family, "parse_math": False, "va": "center_baseline", **style}
        return self.axes.text(_MARGIN, middle, text, size=size, **style)

    def _draw_box(self, left: float, top: float, width: float, height: float, **style: Any) -> None:
        from matplotlib.patches import Rectangle

        self.axes.add_patch(Rectangle((left, top), width, height, zorder=0, **style))
