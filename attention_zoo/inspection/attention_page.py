"""HTML page of attention weights: head view, model view and token view of all layers, attributions,
image overlays and hypotheses.

`pages` has the common parts of all pages, `attention_data` the data and its encoding,
`attention.js` the interactive views and `attention.html` their elements.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path
from typing import NamedTuple

import numpy as np

from attention_zoo.inspection.attention_data import (
    AttentionMap,
    ImageOverlay,
    TokenAttribution,
    check_attributions,
    check_hypotheses,
    check_maps,
    check_overlays,
    encode_data,
    label_token,
)
from attention_zoo.inspection.labels import find_gaps
from attention_zoo.inspection.pages import (
    clean_lines,
    clean_text,
    make_page,
    make_paragraph,
    read_part,
)

_HEIGHT = 720  # of the page in a notebook, in pixels
_NO_SCRIPT = (
    '<noscript><p class="hint">The head view, token view, model view and image overlays need '
    "JavaScript.</p></noscript>"
)
_OVERLAY_HINT = (
    "Hover over a word or select it to see its attention weights over the image. The colour scale "
    "is the same for all words; it ends at the largest weight of all."
)


def write_attention_page(
    maps: Sequence[AttentionMap],
    path: str | Path,
    title: str = "Attention",
    text: str = "",
    attributions: Sequence[TokenAttribution] = (),
    images: Sequence[ImageOverlay] = (),
    hypotheses: Sequence[tuple[str, float]] = (),
) -> None:
    """Write a self-contained HTML page of the attention weights of a model for one example.

    The page has these views; those without data are absent:

    - Head view: targets and sources with a line for each weight, by layer and head.
    - Token view: the text, shaded by the weights of a selected word, mean of the selected heads.
    - Model view: a heat map for each head of each layer.
    - Attributions: signed scores of tokens, a group for each method.
    - Image overlays: a heat map over the image for each output token, with a common colour scale.
    - Hypotheses of a search, with their scores.

    It needs JavaScript for the interactive views, makes no request, follows the browser's dark or
    light mode, and is usable by keyboard. Weights are rounded to 1/255 of the largest weight of
    their head (of an overlay: of all words).

    Args:
        maps: the layers, in the order of the model.
        path: output file; an existing file is overwritten.
        title: title of the page.
        text: text above the views, such as the input of the model.
        attributions: scores of tokens by several methods.
        images: images with the weights of output tokens.
        hypotheses: pairs of text and score, best first.

    Raises:
        ValueError: if weights or scores do not fit the tokens, are not finite or, of weights,
            negative; if an image is not `(H, W, 3)` of dtype uint8; if there is nothing to show.

    Example:
        >>> import numpy as np, os, tempfile
        >>> from attention_zoo.inspection.attention_page import AttentionMap, write_attention_page
        >>> weights = np.random.default_rng(0).dirichlet(np.ones(3), (8, 2))  # (H, T, S)
        >>> layer = AttentionMap("decoder/attention", weights, ["le", "chat"], ["the", "cat", "."])
        >>> path = os.path.join(tempfile.mkdtemp(), "attention.html")
        >>> write_attention_page([layer], path, text="the cat.")
        >>> os.path.getsize(path) < 50_000
        True

    Reference: Vig 2019, arXiv 1906.05714 (head view and model view).
    """
    page = _make_page(maps, title, text, attributions, images, hypotheses)
    Path(path).write_text(page, encoding="utf-8")


def show_attention(
    maps: Sequence[AttentionMap],
    title: str = "Attention",
    text: str = "",
    attributions: Sequence[TokenAttribution] = (),
    images: Sequence[ImageOverlay] = (),
    hypotheses: Sequence[tuple[str, float]] = (),
) -> NotebookPage:
    """Show the page of `write_attention_page` in a notebook.

    Args:
        maps, title, text, attributions, images, hypotheses: as in `write_attention_page`.

    Returns:
        `NotebookPage`, which a notebook displays as an inline frame.

    Raises:
        ValueError: as in `write_attention_page`.

    Example:
        >>> from attention_zoo.inspection.attention_page import AttentionMap, show_attention
        >>> show_attention([AttentionMap("attention", [[[0.5, 0.5]]], ["a"], ["b", "c"])])
        NotebookPage('Attention')

    Reference: Vig 2019, arXiv 1906.05714 (head view and model view).
    """
    page = _make_page(maps, title, text, attributions, images, hypotheses)
    return NotebookPage(title, page)


class NotebookPage(NamedTuple):
    """A page that a notebook displays inline.

    Attributes:
        title: its title.
        html: the whole page.
    """

    title: str
    html: str

    def __repr__(self) -> str:
        return f"NotebookPage({self.title!r})"

    def _repr_html_(self) -> str:
        """Return the page in a frame; its script cannot reach the notebook."""
        return (
            f'<iframe title="{escape(self.title)}" srcdoc="{escape(self.html)}" width="100%" '
            f'height="{_HEIGHT}" sandbox="allow-scripts" style="border: 0"></iframe>'
        )


def _make_page(
    maps: Sequence[AttentionMap],
    title: str,
    text: str,
    attributions: Sequence[TokenAttribution],
    images: Sequence[ImageOverlay],
    hypotheses: Sequence[tuple[str, float]],
) -> str:
    """Return the HTML of the page; raise ValueError if an argument is invalid."""
    maps, images = list(maps), list(images)
    weights, scores = check_maps(maps), check_attributions(attributions)
    overlays, ranked = check_overlays(images), check_hypotheses(hypotheses)
    if not (weights or scores or overlays or ranked):
        raise ValueError(
            "maps, attributions, images and hypotheses must not all be empty. Pass at least one."
        )
    parts = [_NO_SCRIPT] if maps or images else []
    parts += _make_hypotheses(ranked)
    parts += [read_part("attention.html")] if maps else []
    parts += _make_attributions(attributions, scores)
    parts += [_make_overlay(n, pixels) for n, (pixels, _) in enumerate(overlays)]
    if maps or images:
        data = encode_data(maps, weights, images, [grid for _, grid in overlays])
        parts.append(f'<script type="application/json" id="attention-data">{data}</script>')
        parts.append(f"<script>\n{read_part('attention.js')}</script>")
    return make_page(title, "attention", parts, make_paragraph(clean_lines(text)) if text else "")


def _make_hypotheses(hypotheses: Sequence[tuple[str, float]]) -> Iterator[str]:
    """Yield a table of texts and scores."""
    if not hypotheses:
        return
    yield '<section class="card hypotheses" aria-labelledby="hypotheses-title">'
    yield '<h2 id="hypotheses-title">Hypotheses</h2><div class="scroll"><table><thead><tr>'
    yield '<th scope="col">Rank</th><th scope="col">Score</th><th scope="col">Text</th>'
    yield "</tr></thead><tbody>"
    for rank, (text, score) in enumerate(hypotheses, 1):
        cells = f'<td>{rank}</td><td>{score:.3f}</td><td dir="auto">{clean_lines(text)}</td>'
        yield f"<tr>{cells}</tr>"
    yield "</tbody></table></div></section>"


def _make_attributions(
    attributions: Sequence[TokenAttribution], scores: Sequence[np.ndarray]
) -> Iterator[str]:
    """Yield the attributions of each method as a shaded text and as bars."""
    if not scores:
        return
    yield '<section class="card attributions" aria-labelledby="attributions-title">'
    yield '<h2 id="attributions-title">Attributions</h2>'
    yield make_paragraph(
        'Scores are signed: <span class="swatch positive">positive</span> tokens increase the '
        'output, <span class="swatch negative">negative</span> tokens decrease it. Shades and '
        "bars are relative to the largest absolute score of the method.",
        "hint",
    )
    yield '<div class="methods">'
    for number, (one, values) in enumerate(zip(attributions, scores, strict=True)):
        yield from _make_method(number, one, values)
    yield "</div></section>"


def _make_method(number: int, one: TokenAttribution, scores: np.ndarray) -> Iterator[str]:
    """Yield the attributions of one method."""
    largest = np.abs(scores).max()
    labels = [clean_text(label_token(token)) for token in one.tokens]
    kinds = ["negative" if score < 0 else "positive" for score in scores]
    shares = np.abs(scores) / (largest or 1)
    rows = list(zip(labels, kinds, scores, shares, strict=True))
    words = (
        f'{" " * gap}<span class="{kind}" style="--a: {share:.3f}" title="{score:.3g}">{label}'
        "</span>"
        for gap, (label, kind, score, share) in zip(find_gaps(one.tokens), rows, strict=True)
    )
    name = f"method-{number}"
    yield f'<article aria-labelledby="{name}"><h3 id="{name}">{clean_text(one.name)}</h3>'
    yield f'<p class="hint">Largest absolute score: {largest:.3g}</p>'
    yield make_paragraph("".join(words))
    yield f'<div class="scroll" tabindex="0" role="region" aria-labelledby="{name}"><table><tbody>'
    for label, kind, score, share in rows:
        bar = f'<td class="bar {kind}" style="--a: {share:.3f}"><i></i></td>'
        yield f'<tr><th scope="row"><bdi>{label}</bdi></th>{bar}<td>{score:.3g}</td></tr>'
    yield "</tbody></table></div></article>"


def _make_overlay(number: int, image: np.ndarray) -> str:
    """Return the elements of an image; the script adds its words and their overlays."""
    from PIL import Image

    file = io.BytesIO()
    Image.fromarray(image).save(file, "PNG", optimize=True)
    source = f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}"
    height, width = image.shape[:2]
    title = f"overlay-{number}"
    return (
        f'<section class="card overlay" aria-labelledby="{title}" data-image="{number}">'
        f'<h2 id="{title}">Image overlay</h2><p class="hint">{_OVERLAY_HINT}</p>'
        f'<div class="image-view"><div class="photo" '
        f'style="--width: {width}; --height: {height}">'
        f'<img src="{source}" width="{width}" height="{height}" alt="Input image"></div>'
        f'<div class="details" data-script hidden></div></div>'
        f'<div class="gallery" data-script hidden></div></section>'
    )
