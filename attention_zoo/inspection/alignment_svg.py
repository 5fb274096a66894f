"""Alignment of two texts as a compact picture in an HTML page."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from attention_zoo.inspection.labels import get_max_width
from attention_zoo.inspection.pages import clean_text

_CELL, _LETTER, _MARGIN, _TITLE = 15, 6.5, 6, 18  # pixels; widths of a letter and of an axis title
_LEAST = 0.01  # smaller shares of the largest weight are invisible, so they are omitted


def draw_alignment(
    weights: np.ndarray, row_names: Sequence[str], column_names: Sequence[str]
) -> str:
    """Return weights as an SVG heat map with labelled rows and columns.

    A cell has a fixed size, so the labels are readable at any size of the alignment. The largest
    weight has full colour, which the page's style defines.

    Args:
        weights: `(S, T)`, at least 0.
        row_names: names of the S tokens of the first text.
        column_names: names of the T tokens of the second text.
    """
    rows, columns = weights.shape
    left = _TITLE + get_max_width(row_names) * _LETTER + _MARGIN
    top = _TITLE + get_max_width(column_names) * _LETTER + _MARGIN
    width, height = left + _CELL * columns + 1, top + _CELL * rows + 1
    middle = (np.arange(max(rows, columns)) + 0.5) * _CELL
    parts = [
        f'<svg class="alignment" role="img" width="{width:g}" height="{height:g}"'
        f' viewBox="0 0 {width:g} {height:g}" aria-label="Alignment of {rows} tokens of the first'
        f' text and {columns} tokens of the second text">',
        f'<text class="title" x="{left:g}" y="12">second text</text>',
        f'<text class="title" transform="translate(12 {top:g}) rotate(-90)"'
        ' text-anchor="end">first text</text>',
    ]
    for y, name in zip(top + middle, row_names, strict=False):
        parts.append(
            f'<text class="row" x="{left - _MARGIN:g}" y="{y:g}">{clean_text(name)}</text>'
        )
    for x, name in zip(left + middle, column_names, strict=False):
        transform = f"translate({x:g} {top - _MARGIN:g}) rotate(-90)"
        parts.append(f'<text class="column" transform="{transform}">{clean_text(name)}</text>')
    parts.append(f'<g transform="translate({left:g} {top:g}) scale({_CELL})">')
    shares = weights / max(weights.max(), 1e-9)
    for row, column in np.argwhere(shares >= _LEAST):
        shade = f'fill-opacity="{shares[row, column]:.2f}"'
        parts.append(f'<rect x="{column}" y="{row}" width="1" height="1" {shade}/>')
    lines = [f"M0 {row}H{columns}" for row in range(rows + 1)]
    lines += [f"M{column} 0V{rows}" for column in range(columns + 1)]
    return "\n".join([*parts, f'<path d="{"".join(lines)}"/></g></svg>'])
