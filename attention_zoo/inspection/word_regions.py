"""The picture of Lee et al. 2018 (arXiv:1803.08024), figure 1: words and regions that match."""

from __future__ import annotations

import os
from typing import Any

from attention_zoo.inspection.canvas import headline, new_figure, save
from attention_zoo.inspection.caption_overlay import SIDE, TITLE, checked, draw_words, table
from attention_zoo.inspection.fonts import families_for
from attention_zoo.tasks import RetrievalResult

_HEAD = 0.4  # inches
_NAME = 18  # characters of an image's name


def plot_word_regions(
    answer: RetrievalResult, path: str | os.PathLike[str] | None = None, title: str | None = None
) -> Any:
    """Each image that a text found, and for each word the image again, lit where they match.

    The images stand below each other, the best first, each with its name, of a long one the end,
    and how well it matches the text. The region that matches a word best has all its light, one
    that has no part in it a quarter of it.

    Args:
        answer: of `tasks.Retrieval.predict`; its alternatives are drawn too.
        path: where to write it, in the format of the suffix (`.png`, `.svg`, `.pdf`); None for no
            file.
        title: above the picture; the text without.

    Returns:
        A matplotlib `Figure`: of each image its own axes, then one for each word.

    Raises:
        ValueError: no image, attention that is none of the words, weights that are no weights.
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
