"""Bars of the class probabilities and attention weights of a classified text."""

from __future__ import annotations

from typing import Any

import numpy as np

from attention_zoo.inspection.canvas import OutputPath, finish, make_figure
from attention_zoo.inspection.classified_parts import check_classified
from attention_zoo.inspection.fonts import find_families
from attention_zoo.inspection.labels import get_max_width, make_readable

_BAR, _AXIS, _WIDTH, _LETTER, _TITLE = 0.22, 0.6, 4.0, 0.09, 0.25  # inches
_MOST_CLASSES, _MOST_WORDS = 10, 30
_COLOUR, _FAINT = "#1d4ed8", "0.75"


def plot_classified(result: Any, path: OutputPath = None, title: str | None = None) -> Any:
    """Plot class probabilities and attention weights of a text as horizontal bars.

    The ten most probable classes are at the top, predicted ones in blue. Below are the 30 words
    with the largest weights, in the order of the text. In a document with sentence weights,
    the weight of a word is the product of its weight within the sentence and that of the sentence.
    A model without attention weights has only the classes.

    Args:
        result: a result of `tasks.Classification.predict`, see `write_classified_page`.
        path: output file; its suffix is the format (`.png`, `.svg`, `.pdf`). None for no file.
        title: title of the figure.

    Returns:
        A matplotlib `Figure`, with axes for the classes, followed by axes for the words.

    Raises:
        ValueError: if the parts of the result do not fit each other, or it is a failed result.
    """
    if not result.ok:
        raise ValueError(f"result must be a prediction, got the error {result.error!r}")
    parts = check_classified(result)
    probabilities = np.asarray(result.probabilities, np.float64)
    best = np.argsort(-probabilities, kind="stable")[:_MOST_CLASSES]
    names = [make_readable(result.classes[index]) for index in best]
    colours = [_COLOUR if result.classes[index] in result.labels else _FAINT for index in best]
    panels = [("probability", names, probabilities[best], colours)]
    if parts.tokens:
        weights = np.array([parts.get_sentence_weight(one) * one.weight for one in parts.tokens])
        largest = np.sort(np.argsort(-weights, kind="stable")[:_MOST_WORDS])
        spans = [parts.tokens[index] for index in largest]
        words = [make_readable(result.source[start:end]) for start, end, *_ in spans]
        panels.append(("attention weight", words, weights[largest], [_COLOUR] * len(words)))
    labels = [label for _, texts, *_ in panels for label in texts]
    sizes = [len(texts) for _, texts, *_ in panels]
    height = _BAR * sum(sizes) + _AXIS * len(panels) + _TITLE * (title is not None)
    figure = make_figure(_WIDTH + _LETTER * get_max_width(labels), height)
    family = find_families([*labels, title or ""])
    ratios = {"height_ratios": sizes}
    grid = figure.subplots(len(panels), 1, squeeze=False, gridspec_kw=ratios)[:, 0]
    for axes, (xlabel, texts, values, bar_colours) in zip(grid, panels, strict=True):
        axes.barh(range(len(texts)), values, color=bar_colours, height=0.75)
        axes.set_yticks(range(len(texts)), texts, family=family, size=9, parse_math=False)
        axes.set_ylim(len(texts) - 0.5, -0.5)
        axes.set_xlabel(xlabel)
        axes.tick_params(axis="y", length=0)
        axes.spines[["top", "right"]].set_visible(False)
    grid[0].set_xlim(0, 1)
    return finish(figure, path, title, family)
