"""The picture of Bahdanau et al. 2015 (arXiv:1409.0473), figure 3: who looked where."""

from __future__ import annotations

import os
from collections.abc import Sequence
from textwrap import fill
from typing import Any

import numpy as np

from attention_zoo.inspection.canvas import new_figure, save
from attention_zoo.inspection.fonts import families_for
from attention_zoo.inspection.labels import is_special, longest, readable

_CELL, _LETTER, _TITLE_LETTER, _LARGEST = 0.3, 0.09, 0.12, 60.0  # inches
_INK = {False: "black", True: "0.65"}  # of a token, by whether it is a special one


def plot_alignment(
    weights: Any,
    target_tokens: Sequence[str],
    source_tokens: Sequence[str],
    path: str | os.PathLike[str] | None = None,
    title: str | None = None,
) -> Any:
    """A heat map of attention weights: a row for each target token, a column for each source token.

    The lightest blue is 0 and the darkest 1 in every picture, so that pictures can be compared.
    Tokens are shown as text; special ones in grey.

    Args:
        weights: `(T, S)`, finite.
        target_tokens: T labels.
        source_tokens: S labels.
        path: where to write it, in the format of the suffix (`.png`, `.svg`, `.pdf`); None for no
            file.
        title: above the picture.

    Returns:
        A matplotlib `Figure`.

    Raises:
        ValueError: if the shape is not (T, S), a size is 0, or a weight is not finite.
    """
    weights = np.asarray(weights, dtype="float64")
    shape = (len(target_tokens), len(source_tokens))
    if weights.shape != shape:
        raise ValueError(
            f"weights are of shape {weights.shape} but there are {shape[0]} target tokens and "
            f"{shape[1]} source tokens: {shape} is needed"
        )
    if not weights.size:
        raise ValueError(f"weights are of shape {shape}: there is nothing to draw")
    if not np.isfinite(weights).all():
        raise ValueError("weights hold NaN or infinity: give finite ones")
    targets, sources = map(readable, target_tokens), map(readable, source_tokens)
    figure = _draw(weights, list(targets), list(sources), title)
    _grey_out(figure.axes[0], target_tokens, source_tokens)
    save(figure, path)
    return figure


def _draw(weights: np.ndarray, targets: list[str], sources: list[str], title: str | None) -> Any:
    """The heat map with its labels and a scale beside it; its size follows the tokens."""
    rows, columns = weights.shape
    margins = _LETTER * longest(targets) + 1.4, _LETTER * longest(sources) + 0.8
    cell = min(_CELL, (_LARGEST - max(margins)) / max(rows, columns))
    figure = new_figure(max(cell * columns, 1.0) + margins[0], max(cell * rows, 1.0) + margins[1])
    axes = figure.add_subplot()
    image = axes.imshow(weights, cmap="Blues", vmin=0.0, vmax=1.0)
    text = {"family": families_for([*targets, *sources, title or ""]), "size": 30 * cell}
    turn = 0 if longest(sources) <= 3 else 90
    axes.set_xticks(range(columns), sources, rotation=turn, parse_math=False, **text)
    axes.set_yticks(range(rows), targets, parse_math=False, **text)
    axes.tick_params(top=True, labeltop=True, bottom=False, labelbottom=False, length=0)
    axes.set_xticks(np.arange(columns + 1) - 0.5, minor=True)
    axes.set_yticks(np.arange(rows + 1) - 0.5, minor=True)
    axes.grid(which="minor", color="0.9", linewidth=0.5)
    axes.tick_params(which="minor", length=0)
    figure.colorbar(image, ax=axes, shrink=min(1.0, 3.0 / (cell * rows)), aspect=15).set_label(
        "weight"
    )
    if title is not None:
        title = fill(title, int(figure.get_figwidth() / _TITLE_LETTER))
        figure.set_figheight(figure.get_figheight() + 0.25 * (1 + title.count("\n")))
        figure.suptitle(title, size=12, family=text["family"]).set_parse_math(False)
    return figure


def _grey_out(axes: Any, target_tokens: Sequence[str], source_tokens: Sequence[str]) -> None:
    """Special tokens step back behind the text."""
    for labels, tokens in (
        (axes.get_yticklabels(), target_tokens),
        (axes.get_xticklabels(), source_tokens),
    ):
        for label, token in zip(labels, tokens, strict=True):
            label.set_color(_INK[is_special(token)])
