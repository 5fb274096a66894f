"""HTML page of matched pairs of texts: highlighted words, alignment, and prediction.

`pages` has the common parts of all pages, `alignment_svg` the picture of the alignment.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from attention_zoo.inspection.alignment_svg import draw_alignment
from attention_zoo.inspection.labels import make_readable
from attention_zoo.inspection.pages import (
    clean_lines,
    clean_text,
    format_percent,
    make_articles,
    make_details,
    make_paragraph,
    write_page,
)

_LEAST = 0.0005  # smaller weights are 0.000 in the table, so their cells are empty
_HINT = (
    "The stronger the colour of a word or a cell, the larger its weight, relative to the largest of"
    " the text or of the alignment. Rows of an alignment are tokens of the first text, columns are"
    " those of the second one. Tokens of the second text that are unknown to the model are dotted."
)
_BY_ROWS = (
    "Shades: of a word of the first text, the largest weight of its row; of a word of the second "
    "text, the sum of its column, the attention that it receives."
)
_BY_COLUMNS = (
    "Shades: of a word of the first text, the sum of its row, the attention that it receives; of a "
    "word of the second text, the largest weight of its column."
)


def write_matched_page(
    results: Sequence[Any], path: str | Path, title: str = "Matched texts"
) -> None:
    """Write a page of pairs of texts with their alignment.

    Each pair has its predicted class with the probabilities of all classes, its number, or its
    relevance. If a result has attention weights, the alignment of the texts is shown as a heat map
    and as a table, and the words of the texts are shaded. If each token of the first text
    distributes weights over the second text, a word of the first text is shaded by the maximum of
    its row, and a word of the second text by the sum of its column, the attention that it receives.
    If the weights of each column sum to 1 (or are all 0), it is the other way round.

    Args:
        results: `tasks.MatchingResult` results of `tasks.Matching.predict`.
        path: output file; an existing file is overwritten.
        title: title of the page.

    Raises:
        ValueError: if attention weights are not `(S, T)` for the S and T tokens of the texts,
            finite and at least 0.
    """
    articles = make_articles(results, _make_article)
    write_page(path, title, "pairs", articles, make_paragraph(_HINT, "hint"))


def _make_article(number: int, result: Any) -> str:
    """Return the HTML of a pair with its prediction and its alignment."""
    weights = _check_weights(result)
    notes = [f"log probability {result.score:.3f}"] if result.probabilities else []
    notes += ["texts truncated"] if result.truncated else []
    shares, explanation = _measure_words(weights)
    first = _mark_tokens(result.first, result.first_offsets, shares[0], ())
    second = _mark_tokens(result.second, result.second_offsets, shares[1], result.unknown)
    return "\n".join(
        [
            f"<article>\n<h2>{' · '.join([str(number), *notes])}</h2>",
            make_paragraph(clean_text(result.text), "prediction"),
            *_make_bars(result),
            make_paragraph("".join(first), "text first"),
            make_paragraph("".join(second), "text second"),
            *_show_alignment(weights, result, explanation),
            "</article>",
        ]
    )


def _check_weights(result: Any) -> np.ndarray | None:
    """Return the alignment `(S, T)`, or None; raise ValueError if it is invalid."""
    if result.attention is None:
        return None
    shape = len(result.tokens), len(result.source_tokens)
    weights = np.asarray(result.attention, "float64")
    if weights.shape != shape:
        raise ValueError(
            f"attention must be {shape} for texts of {shape[0]} and {shape[1]} tokens, got shape"
            f" {weights.shape}"
        )
    is_valid = np.isfinite(weights) & (weights >= 0)
    if not is_valid.all():
        wrong = weights[~is_valid][0]
        raise ValueError(f"attention must be finite and at least 0, got {wrong}")
    return weights if weights.size else None


def _measure_words(weights: np.ndarray | None) -> tuple[list[Any], str]:
    """Return the weights of the tokens of each text, and what they are."""
    if weights is None:
        return [None, None], ""
    sums = weights.sum(axis=0)
    if np.all((np.abs(sums - 1) < 0.01) | (sums < 0.01)):
        return [weights.sum(axis=1), weights.max(axis=0)], _BY_COLUMNS
    return [weights.max(axis=1), sums], _BY_ROWS


def _make_bars(result: Any) -> Iterator[str]:
    """Yield a list of probabilities with their bars, if the result has any."""
    if not result.probabilities:
        return
    yield '<ul class="bars">'
    names = result.classes or ("relevant",)
    for name, share in zip(names, result.probabilities, strict=True):
        best = ' class="best"' if name == result.label else ""
        bar = f'<span style="--p: {share:.3f}"></span>'
        yield f"<li{best}>{clean_text(name)} {bar} {format_percent(share)}</li>"
    yield "</ul>"


def _mark_tokens(
    text: str, offsets: Sequence[tuple[int, int]], shares: np.ndarray | None, unknown: Sequence[int]
) -> Iterator[str]:
    """Yield the HTML of a text, with its tokens in elements that have their weights.

    Args:
        text: the text.
        offsets: start and end of each token.
        shares: weight of each token; the largest has full colour. None for texts without shades.
        unknown: numbers of unknown tokens.
    """
    position, largest = 0, 1.0 if shares is None else max(shares.max(), 1e-9)
    for number, (start, end) in enumerate(offsets):
        yield clean_lines(text[position:start])
        attributes = ' class="unknown"' if number in unknown else ""
        if shares is not None:
            share = shares[number]
            attributes += f' style="--a: {share / largest:.3f}" title="{share:.3f}"'
        yield f"<span{attributes}>{clean_lines(text[max(position, start) : end])}</span>"
        position = max(position, end)
    yield clean_lines(text[position:])


def _show_alignment(weights: np.ndarray | None, result: Any, explanation: str) -> Iterator[str]:
    """Yield the alignment as a picture and, collapsed, as a table."""
    if weights is None:
        return
    names = [list(map(make_readable, tokens)) for tokens in (result.tokens, result.source_tokens)]
    yield make_paragraph(f"{explanation} Largest weight: {weights.max():.3f}.", "hint")
    yield f'<div class="scroll">{draw_alignment(weights, *names)}</div>'
    yield from make_details("Table of the alignment", _make_table(weights, *names))


def _make_table(
    weights: np.ndarray, row_names: Sequence[str], column_names: Sequence[str]
) -> Iterator[str]:
    """Yield a table of the weights; cells with weights that are rounded to 0 are empty."""
    head = "".join(f'<th scope="col" dir="auto">{clean_text(name)}</th>' for name in column_names)
    largest = max(weights.max(), 1e-9)
    yield '<div class="scroll"><table class="weights">'
    yield "<caption>Rows: tokens of the first text; columns: tokens of the second text</caption>"
    yield f"<thead><tr><td></td>{head}</tr></thead><tbody>"
    for name, row in zip(row_names, weights, strict=True):
        cells = (
            f'<td style="--a: {weight / largest:.2f}">{weight:.3f}</td>'
            if weight >= _LEAST
            else "<td></td>"
            for weight in row
        )
        yield f'<tr><th scope="row" dir="auto">{clean_text(name)}</th>{"".join(cells)}</tr>'
    yield "</tbody></table></div>"
