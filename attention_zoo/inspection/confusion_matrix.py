"""Confusion matrices of predicted classes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from attention_zoo.inspection.canvas import OutputPath, finish, make_figure
from attention_zoo.inspection.fonts import find_families
from attention_zoo.inspection.labels import get_max_width, make_readable

_CELL, _DIGIT, _LETTER, _TITLE, _LARGEST = 0.3, 0.07, 0.09, 0.25, 60.0  # inches
_SIZE = 8.0  # points
_DARK = 0.6  # share from which the text of a cell is white


def plot_confusion_matrix(
    matrix: ArrayLike, classes: Sequence[str], path: OutputPath = None, title: str | None = None
) -> Any:
    """Plot a confusion matrix with reference classes as rows, predicted classes as columns.

    Cells show counts; 0 is blank. The colour is the share of the row, the examples of a reference
    class: white is 0, the darkest blue 1. So on the diagonal, it is the recall.

    Args:
        matrix: `(K, K)` counts, such as `metrics.ClassScores.confusion`.
        classes: K class names.
        path: output file; its suffix is the format (`.png`, `.svg`, `.pdf`). None for no file.
        title: title of the figure.

    Returns:
        A matplotlib `Figure`.

    Raises:
        ValueError: if the shape is not (K, K), K is 0, or the matrix has a value that is no count.
    """
    counts = _check_counts(matrix, len(classes))
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    names = [make_readable(name) for name in classes]
    family = find_families([*names, title or ""])
    margin = _LETTER * get_max_width(names) + 1.0
    wanted = max(_CELL, _DIGIT * (len(str(counts.max())) + 1.5))
    cell = min(wanted, (_LARGEST - margin - 1.0) / len(names))
    side = max(cell * len(names), 1.5)
    figure = make_figure(side + margin + 1.0, side + margin + _TITLE * (title is not None))
    axes = figure.add_subplot()
    image = axes.imshow(shares, cmap="Blues", vmin=0.0, vmax=1.0)
    size = _SIZE * cell / wanted
    for (row, column), count in np.ndenumerate(counts):
        if count:
            colour = "white" if shares[row, column] > _DARK else "black"
            axes.text(column, row, str(count), ha="center", va="center", size=size, color=colour)
    style = {"family": family, "size": size * 1.1, "parse_math": False}
    axes.set_xticks(range(len(names)), names, rotation=90, **style)
    axes.set_yticks(range(len(names)), names, **style)
    edges = np.arange(len(names) + 1) - 0.5
    axes.set_xticks(edges, minor=True)
    axes.set_yticks(edges, minor=True)
    axes.grid(which="minor", color="0.9", linewidth=0.5)
    axes.tick_params(which="both", length=0)
    axes.tick_params(top=True, labeltop=True, bottom=False, labelbottom=False)
    axes.set_xlabel("predicted class")
    axes.set_ylabel("reference class")
    axes.xaxis.set_label_position("top")
    colorbar = figure.colorbar(image, ax=axes, shrink=min(1.0, 3.0 / side), aspect=15)
    colorbar.set_label("share of the row")
    return finish(figure, path, title, family)


def _check_counts(matrix: ArrayLike, size: int) -> np.ndarray:
    """Return the matrix as integers; raise ValueError if it is invalid."""
    array = np.asarray(matrix)
    if not size or array.shape != (size, size):
        raise ValueError(
            f"matrix must be ({size}, {size}) for {size} classes, at least one, got shape"
            f" {array.shape}"
        )
    counts = np.asarray(array, np.float64)
    is_count = np.isfinite(counts) & (counts >= 0) & (counts == counts.round())
    if not is_count.all():
        wrong = counts[~is_count][0]
        raise ValueError(f"matrix must have counts, whole numbers of at least 0, got {wrong:g}")
    return counts.astype(np.int64)
