"""Metrics by input length, as in Cho et al. 2014 (arXiv:1409.1259), figure 4."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import cycle
from typing import Any

from attention_zoo.inspection.canvas import OutputPath, finish, make_figure
from attention_zoo.inspection.fonts import find_families


def plot_length_curve(
    curves: Mapping[str, Mapping[float, float]],
    path: OutputPath = None,
    ylabel: str = "exact match (%)",
    *,
    xlabel: str = "source length",
    longest_trained: float | None = None,
) -> Any:
    """Plot a metric against the input length, with a line for each model.

    Args:
        curves: model -> length -> value, for instance `{"RNNSearch": {5: 99.5, 10: 99.1}}`.
        path: output file; its suffix is the format. None for no file.
        ylabel: label of the values. The axis starts at 0.
        xlabel: label of the lengths.
        longest_trained: the largest length in training, marked by a vertical line.

    Returns:
        A matplotlib `Figure`.

    Raises:
        ValueError: if there is no curve, or a curve has no points.
    """
    empty = [name for name, curve in curves.items() if not curve]
    if empty or not curves:
        names = ", ".join(empty) or "any model"
        raise ValueError(f"curves must have at least one point each, got none for {names}")
    figure = make_figure(6.0, 4.0)
    axes = figure.add_subplot()
    family = find_families([*curves, ylabel, xlabel])
    for (name, curve), marker in zip(curves.items(), cycle("osD^vP*X"), strict=False):
        lengths = sorted(curve)
        axes.plot(lengths, [curve[n] for n in lengths], marker=marker, markersize=5, label=name)
    if longest_trained is not None:
        axes.axvline(longest_trained, color="0.4", linestyle="--", linewidth=1)
        at = (longest_trained, 0.02)
        axes.text(*at, " longest in training", transform=axes.get_xaxis_transform(), color="0.4")
    axes.set_ylim(bottom=0)
    axes.set_xlabel(xlabel, family=family, parse_math=False)
    axes.set_ylabel(ylabel, family=family, parse_math=False)
    axes.grid(color="0.9")
    axes.spines[["top", "right"]].set_visible(False)
    for text in axes.legend(frameon=False, prop={"family": family}).get_texts():
        text.set_parse_math(False)
    return finish(figure, path)
