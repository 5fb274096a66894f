"""HTML page of captions: each image with its caption and the attention weights of each word.

`pages` has the common parts of all pages. Images are embedded. Each word has an overlay image with
one pixel for each cell of the attention grid; it darkens cells with small weights. CSS, without
scripts, shows the overlay of the word under the pointer.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from attention_zoo.inspection.caption_overlay import check_image, check_overlay, overlay_opacity
from attention_zoo.inspection.pages import (
    STATES,
    alternatives,
    clean,
    paragraph,
    selectable_words,
    write_page,
)

_STYLE = """
article { display: flex; flex-wrap: wrap; gap: .4rem 1.2rem; }
article > div { flex: 1 1 16rem; min-width: 0; }
.image { position: relative; flex: none; width: 14rem; max-width: 100%; align-self: flex-start; }
.image img { display: block; width: 100%; }
.image img.overlay { position: absolute; inset: 0; height: 100%; visibility: hidden; }
.word { padding: .1em 0; }
"""
_HINT = (
    "Hover over a word of a caption, or select it, to see its attention weights over the image: "
    "the brighter a region, the larger its weight."
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
    articles = [_article(number, answer) for number, answer in enumerate(answers, 1)]
    longest = max((len(answer.tokens) for answer in answers), default=0)
    has_attention = any(answer.attention is not None for answer in answers)
    style = "\n".join([_STYLE.strip(), *_rules(longest)])
    write_page(path, title, style, articles, "No captions.", _HINT if has_attention else "")


def _rules(words: int) -> Iterable[str]:
    """Yield CSS rules that show the overlay of the selected word, numbered from 0."""
    for state in STATES:
        yield f"article:has(label.word{state}) .image .overlay {{ visibility: hidden; }}"
        for n in range(words):
            yield f"article:has(.s{n}{state}) .image .l{n} {{ visibility: visible; }}"


def _article(number: int, answer: Any) -> str:
    """Return the HTML of an image with its caption and alternatives."""
    image, overlays, group = check_image(answer.image), np.zeros((0, 1, 1)), None
    if answer.attention is not None and len(answer.tokens):
        image, overlays = check_overlay(image, answer.attention, answer.tokens)
        group = f"answer{number}"
    shown = [
        "<article>",
        f'<div class="image">{_picture(image, clean(answer.text))}',
        *(_overlay(n, overlays[n]) for n in range(len(overlays))),
        "</div>",
        f"<div><h2>{number} · {_heading(answer)}</h2>",
        paragraph(selectable_words(answer.tokens, group, "image")),
        *alternatives(
            "captions",
            [(_heading(n), selectable_words(n.tokens, None, "")) for n in answer.alternatives],
        ),
    ]
    return "\n".join([*shown, "</div></article>"])


def _heading(answer: Any) -> str:
    """Return the score of a caption, and whether it is truncated."""
    return f"score {answer.score:.3f}" + " · truncated at maximum length" * bool(answer.truncated)


def _picture(image: np.ndarray, text: str) -> str:
    """Return the HTML of the image itself."""
    return f'<img src="{_png(np.rint(image).astype("uint8"))}" alt="{text}">'


def _overlay(number: int, weights: np.ndarray) -> str:
    """Return the overlay of word `number`: black, more transparent for larger weights."""
    black = np.zeros((*weights.shape, 4), "uint8")
    black[..., 3] = np.rint(255 * overlay_opacity(weights))
    return f'<img class="overlay l{number}" src="{_png(black)}" alt="">'


def _png(pixels: np.ndarray) -> str:
    """Return an image as a data URL."""
    from PIL import Image

    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG", optimize=True)
    return f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}"
