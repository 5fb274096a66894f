"""Heat maps of attention weights, as in Bahdanau et al. 2015 (arXiv:1409.0473), figure 3."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from attention_zoo.inspection.canvas import headline, new_figure, save
from attention_zoo.inspection.fonts import families_for
from attention_zoo.inspection.labels import is_special, longest, readable

_CELL, _LETTER, _TITLE, _LARGEST = 0.3, 0.09, 0.25, 60.0  # inches
Sides = tuple[Sequence[str], Sequence[str]]  # target tokens and source tokens
_INK = {False: "black", True: "0.65"}  # colour of a label, by whether the token is special


def plot_alignment(
    weights: Any,
    target_tokens: Sequence[str],
    source_tokens: Sequence[str],
    path: str | os.PathLike[str] | None = None,
    title: str | None = None,
) -> Any:
    """Plot attention weights as a heat map with target tokens as rows, source tokens as columns.

    The lightest blue is 0 and the darkest 1 in all figures, so that figures can be compared.
    Tokens are shown as text; special tokens are grey.

    Args:
        weights: `(T, S)`, finite.
        target_tokens: T labels.
        source_tokens: S labels.
        path: output file; its suffix is the format (`.png`, `.svg`, `.pdf`). None for no file.
        title: title of the figure.

    Returns:
        A matplotlib `Figure`.

    Raises:
        ValueError: if the shape is not (T, S), a size is 0, or a weight is not finite.
    """
    tokens = target_tokens, source_tokens
    figure, _ = _draw(_checked(weights, tokens, ranks=(2,))[None, None], tokens, title)
    save(figure, path)
    return figure


def plot_heads(
    weights: Any,
    target_tokens: Sequence[str],
    source_tokens: Sequence[str],
    path: str | os.PathLike[str] | None = None,
    title: str | None = None,
) -> Any:
    """Plot a heat map for each head, side by side, with layers one below the other.

    Args:
        weights: `(H, T, S)` of one layer, or `(N, H, T, S)` of N layers, finite.
        target_tokens, source_tokens, path, title: as in `plot_alignment`; for self-attention, both
            are the same tokens.

    Returns:
        A matplotlib `Figure`. Its first axes are the heat maps, layer by layer.

    Raises:
        ValueError: if the shape is not (H, T, S) or (N, H, T, S), a size is 0, or a weight is not
            finite.
    """
    tokens = target_tokens, source_tokens
    checked = _checked(weights, tokens, ranks=(3, 4))
    figure, grid = _draw(checked[None] if checked.ndim == 3 else checked, tokens, title)
    for (layer, head), axes in np.ndenumerate(grid):
        prefix = f"layer {layer + 1}, " if checked.ndim == 4 else ""
        axes.set_xlabel(f"{prefix}head {head + 1}")
    save(figure, path)
    return figure


def _checked(weights: Any, tokens: Sides, ranks: tuple[int, ...]) -> np.ndarray:
    """Return weights as an array; raise ValueError if they are invalid or do not fit the tokens."""
    array = np.asarray(weights, dtype="float64")
    shape = (len(tokens[0]), len(tokens[1]))
    if array.ndim not in ranks or array.shape[-2:] != shape:
        heads = "heads, " if 3 in ranks else ""
        raise ValueError(
            f"weights must be ({heads}{shape[0]}, {shape[1]}) for {shape[0]} target tokens and"
            f" {shape[1]} source tokens, got shape {array.shape}"
        )
    if not array.size:
        raise ValueError(f"weights must not be empty, got shape {array.shape}")
    if not np.isfinite(array).all():
        raise ValueError("weights must be finite, got NaN or infinity")
    return array


def _draw(weights: np.ndarray, tokens: Sides, title: str | None) -> tuple[Any, np.ndarray]:
    """Draw heat maps of `(N, H, T, S)` with a colour bar; return the figure and axes `(N, H)`.

    The size of the figure depends on the tokens.
    """
    targets, sources = ([readable(token) for token in side] for side in tokens)
    layers, heads, rows, columns = weights.shape
    margins = _LETTER * longest(targets) + 1.4, _LETTER * longest(sources) + 0.8
    cell = min(_CELL, (_LARGEST - max(margins)) / max(heads * columns, layers * rows))
    sizes = (
        max(cell * columns, 1.0) * heads + margins[0],
        max(cell * rows, 1.0) * layers + margins[1] + _TITLE * (title is not None),
    )
    figure = new_figure(*sizes)
    text = {"family": families_for([*targets, *sources, title or ""]), "size": 30 * cell}
    grid = figure.subplots(layers, heads, squeeze=False)
    for (layer, head), axes in np.ndenumerate(grid):
        image = _heat_map(axes, weights[layer, head])
        turn = 0 if longest(sources) <= 3 else 90
        shown = sources if layer == 0 else []
        axes.set_xticks(range(len(shown)), shown, rotation=turn, parse_math=False, **text)
        shown = targets if head == 0 else []
        axes.set_yticks(range(len(shown)), shown, parse_math=False, **text)
        axes.tick_params(top=True, labeltop=True, bottom=False, labelbottom=False, length=0)
        _grey_out(axes, *tokens)
    shrink = min(1.0, 3.0 / (cell * rows * layers))
    figure.colorbar(image, ax=grid, shrink=shrink, aspect=15).set_label("weight")
    if title is not None:
        headline(figure, title, text["family"])
    return figure, grid


def _heat_map(axes: Any, weights: np.ndarray) -> Any:
    image = axes.imshow(weights, cmap="Blues", vmin=0.0, vmax=1.0)
    rows, columns = weights.shape
    axes.set_xticks(np.arange(columns + 1) - 0.5, minor=True)
    axes.set_yticks(np.arange(rows + 1) - 0.5, minor=True)
    axes.grid(which="minor", color="0.9", linewidth=0.5)
    axes.tick_params(which="minor", length=0)
    return image


def _grey_out(axes: Any, target_tokens: Sequence[str], source_tokens: Sequence[str]) -> None:
    """Colour the labels of special tokens grey."""
    for labels, tokens in (
        (axes.get_yticklabels(), target_tokens),
        (axes.get_xticklabels(), source_tokens),
    ):
        for label, token in zip(labels, tokens, strict=False):  # inner axes have no labels
            label.set_color(_INK[is_special(token)])
