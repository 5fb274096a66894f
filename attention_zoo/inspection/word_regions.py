"""Matching words and image regions, as in Lee et al. 2018 (arXiv:1803.08024), figure 1."""

from __future__ import annotations

import os
from typing import Any

from attention_zoo.inspection.canvas import headline, new_figure, save
from attention_zoo.inspection.caption_overlay import SIDE, TITLE, checked, draw_words, table
from attention_zoo.inspection.fonts import families_for

_HEAD = 0.4  # inches
_NAME = 18  # characters of an image's name


def plot_word_regions(
    answer: Any, path: str | os.PathLike[str] | None = None, title: str | None = None
) -> Any:
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
    found = (answer, *answer.alternatives)
    parts = [checked(one.image, one.attention, one.tokens) for one in found]
    title = answer.source if title is None else title
    rows, columns = table(len(answer.tokens) + 1)
    whole = rows * len(found)
    figure = new_figure(columns * SIDE, _HEAD + whole * (SIDE + TITLE))
    family = families_for([*answer.tokens, *(one.text for one in found), title])
    for number, (one, part) in enumerate(zip(found, parts, strict=True)):
        place = whole, columns, number * rows * columns + 1
        axes = draw_words(figure, place, *part, one.tokens, family)
        name = one.text if len(one.text) <= _NAME else f"…{one.text[1 - _NAME :]}"
        label = axes.set_title(f"{name}\n{one.score:.3f}", size=9, family=family)
        label.set_parse_math(False)
    headline(figure, title, family)
    save(figure, path)
    return figure
