"""Heat maps of attention weights, as in Bahdanau et al. 2015 (arXiv:1409.0473), figure 3."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from attention_zoo.inspection.canvas import OutputPath, finish, make_figure
from attention_zoo.inspection.fonts import find_families
from attention_zoo.inspection.labels import get_max_width, is_special, make_readable

_CELL, _LETTER, _TITLE, _LARGEST = 0.3, 0.09, 0.25, 60.0  # inches
Sides = tuple[Sequence[str], Sequence[str]]  # target tokens and source tokens


def plot_alignment(
    weights: Any,
    target_tokens: Sequence[str],
    source_tokens: Sequence[str],
    path: OutputPath = None,
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
    return _plot(weights, (2,), (target_tokens, source_tokens), path, title)


def plot_heads(
    weights: Any,
    target_tokens: Sequence[str],
    source_tokens: Sequence[str],
    path: OutputPath = None,
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
    return _plot(weights, (3, 4), (target_tokens, source_tokens), path, title)


def _check_weights(weights: Any, tokens: Sides, ranks: tuple[int, ...]) -> np.ndarray:
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


def _plot(
    weights: Any, ranks: tuple[int, ...], tokens: Sides, path: OutputPath, title: str | None
) -> Any:
    """Plot the heat maps of weights with one of these ranks; their labels determine the size."""
    checked = _check_weights(weights, tokens, ranks)
    maps = checked.reshape((1, 1, *checked.shape)[-4:])
    layers, heads, rows, columns = maps.shape
    targets, sources = ([make_readable(token) for token in side] for side in tokens)
    margins = _LETTER * get_max_width(targets) + 1.4, _LETTER * get_max_width(sources) + 0.8
    cell = min(_CELL, (_LARGEST - max(margins)) / max(heads * columns, layers * rows))
    width = max(cell * columns, 1.0) * heads + margins[0]
    height = max(cell * rows, 1.0) * layers + margins[1] + _TITLE * (title is not None)
    figure = make_figure(width, height)
    family = find_families([*targets, *sources, title or ""])
    style = {"family": family, "size": 30 * cell, "parse_math": False}
    turn = 0 if get_max_width(sources) <= 3 else 90
    grid = figure.subplots(layers, heads, squeeze=False)
    for (layer, head), axes in np.ndenumerate(grid):
        image = axes.imshow(maps[layer, head], cmap="Blues", vmin=0.0, vmax=1.0)
        axes.set_xticks(np.arange(columns + 1) - 0.5, minor=True)
        axes.set_yticks(np.arange(rows + 1) - 0.5, minor=True)
        axes.grid(which="minor", color="0.9", linewidth=0.5)
        _label_ticks(axes.xaxis, tokens[1] if layer == 0 else [], rotation=turn, **style)
        _label_ticks(axes.yaxis, tokens[0] if head == 0 else [], **style)
        axes.tick_params(which="both", length=0)
        axes.tick_params(top=True, labeltop=True, bottom=False, labelbottom=False)
        if checked.ndim > 2:
            prefix = f"layer {layer + 1}, " if checked.ndim == 4 else ""
            axes.set_xlabel(f"{prefix}head {head + 1}")
    shrink = min(1.0, 3.0 / (cell * rows * layers))
    figure.colorbar(image, ax=grid, shrink=shrink, aspect=15).set_label("weight")
    return finish(figure, path, title, family)


def _label_ticks(axis: Any, tokens: Sequence[str], **style: Any) -> None:
    """Label the ticks of an axis with readable tokens; special tokens are grey."""
    axis.set_ticks(range(len(tokens)), [make_readable(token) for token in tokens], **style)
    for label, token in zip(axis.get_ticklabels(), tokens, strict=True):
        label.set_color("0.65" if is_special(token) else "black")
