"""Matching words and image regions, as in Lee et al. 2018 (arXiv:1803.08024), figure 1."""

from __future__ import annotations

from typing import Any

from attention_zoo.inspection.canvas import OutputPath, finish, make_figure
from attention_zoo.inspection.caption_overlay import (
    SIDE,
    TITLE,
    arrange_panels,
    check_overlay,
    draw_words,
)
from attention_zoo.inspection.fonts import find_families
from attention_zoo.inspection.labels import make_readable

_HEAD = 0.4  # inches
_NAME = 18  # characters of an image's name


def plot_word_regions(answer: Any, path: OutputPath = None, title: str | None = None) -> Any:
    """Plot each image retrieved for a text, and a copy for each word with weights as brightness.

    Images are below each other, the best first, each with its name and its similarity to the text.
    Only the end of a long name is shown. A region with the largest weight of a word has full
    brightness, a region with weight 0 a quarter of it.

    Args:
        answer: a result of `tasks.Retrieval.predict`; its alternatives are plotted too.
        path: output file; its suffix is the format (`.png`, `.svg`, `.pdf`). None for no file.
        title: title of the figure; by default the query text.

    Returns:
        A matplotlib `Figure`, with axes for each image, followed by axes for each of its words.

    Raises:
        ValueError: if the image is invalid, attention does not fit the words, or a weight is
            negative or not finite.
    """
    results = (answer, *answer.alternatives)
    parts = [check_overlay(result.image, result.attention, result.tokens) for result in results]
    title = answer.source if title is None else title
    rows, columns = arrange_panels(len(answer.tokens) + 1)
    total_rows = rows * len(results)
    figure = make_figure(columns * SIDE, _HEAD + total_rows * (SIDE + TITLE))
    family = find_families([*answer.tokens, *(result.text for result in results), title])
    for number, (result, part) in enumerate(zip(results, parts, strict=True)):
        subplot = total_rows, columns, number * rows * columns + 1
        name = result.text if len(result.text) <= _NAME else f"…{result.text[1 - _NAME :]}"
        titles = [f"{name}\n{result.score:.3f}", *map(make_readable, result.tokens)]
        draw_words(figure, subplot, *part, titles, family)
    return finish(figure, path, title, family)
