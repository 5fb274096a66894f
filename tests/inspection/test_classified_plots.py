"""What stands in the pictures of classified texts and of confusion matrices."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attention_zoo.inspection import plot_classified, plot_confusion_matrix
from tests.inspection.classified import FAILED, TOKENS, classified, document
from tests.refusals import refuses


def labels(axis: Any) -> list[str]:
    return [label.get_text() for label in axis.get_ticklabels()]


def widths(axes: Any) -> list[float]:
    return [bar.get_width() for bar in axes.patches]


def test_bars_have_probabilities_and_weights(tmp_path: Path) -> None:
    result = classified()
    figure = plot_classified(result, tmp_path / "bars.png", title="costs $5 or $6")
    classes, words = figure.axes
    assert labels(classes.yaxis) == ["positive", "negative", "neutral"]
    assert widths(classes) == [0.7, 0.25, 0.05]
    colours = [bar.get_facecolor() for bar in classes.patches]
    assert colours[0] != colours[1] == colours[2]
    assert classes.get_xlim() == (0, 1)
    assert labels(words.yaxis) == list(TOKENS)
    assert widths(words) == list(result.attention)
    assert [axes.get_ylim()[0] > axes.get_ylim()[1] for axes in figure.axes] == [True, True]
    assert (classes.get_xlabel(), words.get_xlabel()) == ("probability", "attention weight")
    assert figure.get_suptitle() == "costs $5 or $6"
    assert (tmp_path / "bars.png").read_bytes().startswith(b"\x89PNG")


def test_weights_of_documents_are_products() -> None:
    words = plot_classified(document()).axes[1]
    expected = [0, 0.36, 0, 0.064, 0.32, 0.064, 0.128, 0.064]
    np.testing.assert_allclose(widths(words), expected)


def test_long_texts_show_the_largest_weights_in_order() -> None:
    tokens = tuple(f"w{n}" for n in range(100))
    source = " ".join(tokens)
    offsets = tuple((source.index(one), source.index(one) + len(one)) for one in tokens[10:])
    weights = np.arange(90) % 3 / 90
    names = tuple(f"class {n}" for n in range(12))
    shares = tuple(np.arange(1, 13) / 78)
    figure = plot_classified(
        classified(
            source=source,
            tokens=tokens[10:],
            offsets=offsets,
            attention=weights,
            classes=names,
            probabilities=shares,
            labels=("class 11", "class 9"),
        )
    )
    assert labels(figure.axes[1].yaxis) == [f"w{n}" for n in range(12, 100, 3)]
    assert labels(figure.axes[0].yaxis) == [f"class {n}" for n in range(11, 1, -1)]
    colours = [bar.get_facecolor() for bar in figure.axes[0].patches]
    assert [n for n, colour in enumerate(colours) if colour != colours[1]] == [0, 2]


def test_without_attention_only_classes_are_plotted() -> None:
    assert len(plot_classified(classified(attention=None)).axes) == 1


def test_failed_result_raises() -> None:
    with pytest.raises(ValueError, match="result must be a prediction, got the error 'text 3 is"):
        plot_classified(FAILED)


def test_confusion_matrix_shows_counts_and_shares(tmp_path: Path) -> None:
    matrix = [[8, 2, 0], [1, 1, 2], [0, 0, 0]]
    names = ["costs $5", "Žluť", "x" * 40]
    figure = plot_confusion_matrix(matrix, names, tmp_path / "matrix.png", "$test$")
    axes, colorbar = figure.axes
    shown = {(text.get_position()[1], text.get_position()[0]): text for text in axes.texts}
    assert {at: text.get_text() for at, text in shown.items()} == {
        (0, 0): "8",
        (0, 1): "2",
        (1, 0): "1",
        (1, 1): "1",
        (1, 2): "2",
    }
    expected = [[0.8, 0.2, 0], [0.25, 0.25, 0.5], [0, 0, 0]]
    np.testing.assert_allclose(axes.images[0].get_array(), expected)
    assert axes.images[0].get_clim() == (0, 1)
    assert shown[0, 0].get_color() == "white"
    assert shown[0, 1].get_color() == "black"
    assert labels(axes.xaxis) == labels(axes.yaxis) == ["costs $5", "Žluť", "x" * 23 + "…"]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("predicted class", "reference class")
    assert colorbar.get_ylabel() == "share of the row"
    assert figure.get_suptitle() == "$test$"
    assert (tmp_path / "matrix.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("size", [1, 2, pytest.param(50, marks=pytest.mark.full)])
def test_labels_and_counts_fit(size: int) -> None:
    counts = np.full((size, size), 88888)
    names = [f"class number {n}" for n in range(size)]
    figure = plot_confusion_matrix(counts, names, title="test")
    figure.canvas.draw()
    axes, colorbar = figure.axes
    down = [label.get_window_extent() for label in axes.get_yticklabels()]
    across = [label.get_window_extent() for label in axes.get_xticklabels()]
    assert all(low.y1 <= high.y0 for high, low in pairwise(down))
    assert all(left.x1 <= right.x0 for left, right in pairwise(across))
    cells = [text.get_window_extent() for text in axes.texts[:size]]
    assert all(left.x1 < right.x0 for left, right in pairwise(cells))
    assert axes.texts[0].get_fontsize() > 6
    boxes = [*down, *across, colorbar.yaxis.label.get_window_extent()]
    for box in (*boxes, axes.xaxis.label.get_window_extent()):
        assert figure.bbox.x0 <= box.x0
        assert box.x1 <= figure.bbox.x1
        assert figure.bbox.y0 <= box.y0
        assert box.y1 <= figure.bbox.y1


@pytest.mark.full
def test_figures_of_many_classes_have_a_limit() -> None:
    names = [f"c{n}" for n in range(300)]
    figure = plot_confusion_matrix(np.eye(300, dtype=int), names)
    assert max(figure.get_size_inches()) < 62


@refuses(
    ([[1, 2]], ["a", "b"], r"matrix must be \(2, 2\) for 2 classes, .*, got shape \(1, 2\)"),
    ([], [], r"matrix must be \(0, 0\) for 0 classes, at least one, got shape \(0,\)"),
    ([[1, -1], [0, 1]], ["a", "b"], "matrix must have counts, whole numbers of at least 0, got -1"),
    ([[0.5, 1], [0, 1]], ["a", "b"], "at least 0, got 0.5"),
    ([[np.nan, 1], [0, 1]], ["a", "b"], "at least 0, got nan"),
    ([[np.inf, 1], [0, 1]], ["a", "b"], "at least 0, got inf"),
)
def test_invalid_matrices_raise(matrix: list, classes: list[str]) -> None:
    plot_confusion_matrix(matrix, classes)
