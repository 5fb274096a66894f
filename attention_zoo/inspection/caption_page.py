"""HTML page of captions: each image with its caption and the attention weights of each word.

`pages` has the common parts of all pages. Images are embedded. Each word has an overlay image with
one pixel for each cell of the attention grid; it darkens cells with small weights. CSS, without
scripts, shows the overlay of the word under the pointer.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from attention_zoo.inspection.caption_overlay import check_image, check_overlay, compute_opacity
from attention_zoo.inspection.pages import (
    clean_text,
    make_alternatives,
    make_articles,
    make_paragraph,
    make_selectable_words,
    make_selection_rules,
    write_page,
)

_HINT = (
    "Hover over a word of a caption, or select it, to see its attention weights over the image: "
    "the brighter a region, the larger its weight, on one scale for all words."
)
# `:where` keeps the first rule from being more specific than the second, which has to override it.
_RULES = (
    "article:has(:where(label).word$on) .image .overlay { visibility: hidden; }",
    "article:has(.s$n$on) .image .l$n { visibility: visible; }",
)


def write_caption_page(answers: Sequence[Any], path: str | Path, title: str = "Captions") -> None:
    """Write a page of images with their captions.

    For a word under the pointer, or selected by a click or the arrow keys, the image is darkened
    where attention weights are small, as in `plot_caption_overlay`. Other captions of the same
    image are listed below. Images are the resized inputs of the model.

    Args:
        answers: `tasks.Caption` results of `tasks.Captioning.predict`.
        path: output file; an existing file is overwritten.
        title: title of the page.

    Raises:
        ValueError: if the image is invalid, attention does not fit the words, or a weight is
            negative or not finite.
    """
    articles = make_articles(answers, _make_article)
    has_attention = any(answer.attention is not None for answer in answers)
    intro = make_paragraph(_HINT, "hint") if has_attention else ""
    write_page(path, title, "captions", articles, intro, make_selection_rules(answers, *_RULES))


def _make_article(number: int, answer: Any) -> str:
    """Return the HTML of an image with its caption and alternatives."""
    image, overlays, group = check_image(answer.image), np.zeros((0, 1, 1)), None
    if answer.attention is not None and len(answer.tokens):
        image, overlays = check_overlay(image, answer.attention, answer.tokens)
        group = f"answer{number}"
    others = [
        (_make_heading(one), make_selectable_words(one.tokens, None, ""))
        for one in answer.alternatives
    ]
    text = clean_text(answer.text)
    parts = [
        '<article>\n<div class="figure">',
        f'<div class="image"><img src="{_encode_png(image)}" alt="{text}">',
        *(_make_overlay(n, one, overlays.max()) for n, one in enumerate(overlays)),
        "</div>",
        *([_make_colorbar(overlays.max())] if overlays.any() else []),
        f"</div>\n<div><h2>{number} · {_make_heading(answer)}</h2>",
        make_paragraph(make_selectable_words(answer.tokens, group, "image")),
        *make_alternatives("captions", others),
        "</div></article>",
    ]
    return "\n".join(parts)


def _make_heading(answer: Any) -> str:
    """Return the score of a caption, and whether it is truncated."""
    return f"score {answer.score:.3f}" + " · truncated at maximum length" * bool(answer.truncated)


def _make_overlay(number: int, weights: np.ndarray, largest: float) -> str:
    """Return the overlay of word `number`: black, more transparent for larger weights.

    It is transparent at the largest weight of all words.
    """
    black = np.zeros((*weights.shape, 4))
    black[..., 3] = 255 * compute_opacity(weights, largest)
    return f'<img class="overlay l{number}" src="{_encode_png(black)}" alt="">'


def _make_colorbar(largest: float) -> str:
    """Return the HTML of a colorbar of brightness, from weight 0 to the largest."""
    darkest = f"rgb(0 0 0 / {compute_opacity(np.zeros(()), largest):.2f})"
    return (
        f'<div class="scale" style="--darkest: {darkest}"><span>weight 0</span><i></i>'
        f"<span>{largest:.2g}</span></div>"
    )


def _encode_png(pixels: np.ndarray) -> str:
    """Return an image as a data URL."""
    from PIL import Image

    file = io.BytesIO()
    Image.fromarray(np.rint(pixels).astype("uint8")).save(file, "PNG", optimize=True)
    return f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}"
