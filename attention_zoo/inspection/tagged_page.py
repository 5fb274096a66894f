"""HTML page of tagged sentences: coloured spans, tags below words, attention tables.

`pages` has the common parts of all pages.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from attention_zoo.inspection.pages import (
    clean_text,
    format_percent,
    make_alternatives,
    make_articles,
    make_details,
    make_paragraph,
    write_page,
)

OUTSIDE = "O"


def write_tagged_page(
    answers: Sequence[Any], path: str | Path, title: str = "Tagged sentences"
) -> None:
    """Write a page of tagged sentences.

    Spans are coloured and labelled; a tooltip shows the probability. A sentence without spans has
    its tags below the words, unless all tags are "O". If a result has attention weights, a table
    shows their mean over all layers and heads. With several layers, a further table for each layer
    shows the mean over its heads. Rows are query tokens and columns are key tokens. A label has the
    same colour on every page.

    Args:
        answers: `tasks.TaggingResult` results of `tasks.Tagging.predict`.
        path: output file; an existing file is overwritten.
        title: title of the page.

    Raises:
        ValueError: if attention weights are not `(L, H, T, T)` for the T tokens of a result.
    """
    articles = make_articles(answers, _make_article)
    write_page(path, title, "sentences", articles, _make_legend(answers))


def _make_colour(label: str) -> str:
    """Return the colour of a label as an HTML attribute, derived from a hash of the label."""
    digest = hashlib.sha256(label.encode()).digest()
    hue, depth = int.from_bytes(digest[:4], "big") % 360, (30, 60, 90)[digest[4] % 3]
    return f'style="--hue: {hue}; --depth: {depth}%"'


def _get_labels(answer: Any) -> list[str]:
    """Return the coloured labels of a result: those of its spans, or its tags except "O"."""
    spans = [span.label for span in answer.spans]
    return spans or [tag for tag in answer.tags if tag != OUTSIDE]


def _make_legend(answers: Sequence[Any]) -> str:
    counts = Counter(label for answer in answers for label in _get_labels(answer))
    items = [
        f'<li class="label" {_make_colour(label)}>{_format_label(label)} {count}</li>'
        for label, count in sorted(counts.items())
    ]
    return "\n".join(['<ul class="legend">', *items, "</ul>"]) if items else ""


def _format_label(label: str) -> str:
    return clean_text(label) or "(span)"


def _make_article(number: int, answer: Any) -> str:
    """Return the HTML of a sentence with its score, alternatives and attention."""
    others = [(_make_heading(other), _make_sentence(other)) for other in answer.alternatives]
    parts = [
        f"<article>\n<h2>{number} · {_make_heading(answer)}</h2>",
        make_paragraph(_make_sentence(answer)),
        *make_alternatives("tag sequences", others),
    ]
    if answer.attention is not None:
        parts += _make_tables(np.asarray(answer.attention, "float64"), answer.source_tokens)
    return "\n".join([*parts, "</article>"])


def _make_heading(answer: Any) -> str:
    return f"log probability {answer.score:.3f}"


def _make_sentence(answer: Any) -> str:
    has_spans = answer.spans or not _get_labels(answer)
    return "".join(_mark_spans(answer) if has_spans else _add_tags(answer))


def _mark_spans(answer: Any) -> Iterator[str]:
    """Yield the HTML of the words, with spans in `<mark>` elements."""
    opens = {span.start: span for span in answer.spans}
    closes = {span.end: span for span in answer.spans}
    for gap, word, (start, end) in _find_words(answer):
        yield gap
        if start in opens:
            span = opens[start]
            hint = f"{span.label} {format_percent(span.probability)}".strip()
            yield f'<mark {_make_colour(span.label)} title="{clean_text(hint)}">'
        yield clean_text(word)
        if end in closes:
            yield f"<small>{_format_label(closes[end].label)}</small></mark>"


def _add_tags(answer: Any) -> Iterator[str]:
    """Yield the HTML of the words, each with its tag below."""
    words = _find_words(answer)
    for (gap, word, _), tag, share in zip(words, answer.tags, answer.probabilities, strict=True):
        hint = clean_text(f"{tag} {format_percent(share)}")
        yield f'{gap}<span class="word" {_make_colour(tag)} title="{hint}">{clean_text(word)}'
        yield f"<small>{clean_text(tag)}</small></span>"


def _find_words(answer: Any) -> Iterator[tuple[str, str, tuple[int, int]]]:
    """Yield for each word the gap before it (" " or ""), the word, and its offsets."""
    last = answer.offsets[0][0] if answer.offsets else 0
    for word, (start, end) in zip(answer.words, answer.offsets, strict=True):
        yield " " * (start > last), word, (start, end)
        last = end


def _make_tables(weights: np.ndarray, tokens: Sequence[str]) -> list[str]:
    """Return collapsible tables: the mean over all layers, and one for each of several layers."""
    length = len(tokens)
    if weights.ndim != 4 or weights.shape[2:] != (length, length):
        raise ValueError(
            f"attention of shape {weights.shape} over {length} tokens; expected (layers, heads,"
            f" {length}, {length})"
        )
    layers, heads = weights.shape[:2]
    if not weights.size:
        return []
    parts = [_make_table(f"Mean of {layers} layers of {heads} heads", weights.mean((0, 1)), tokens)]
    for number, layer in enumerate(weights.mean(1) if layers > 1 else [], 1):
        table = _make_table(f"Layer {number}, mean of {heads} heads", layer, tokens)
        parts += make_details(f"Layer {number}", [table])
    return make_details("Attention", parts)


def _make_table(caption: str, weights: np.ndarray, tokens: Sequence[str]) -> str:
    """Return a table with a row for each query token; the largest weight has full colour."""
    names = [clean_text(token) for token in tokens]
    head = "".join(f'<th scope="col" dir="auto">{name}</th>' for name in names)
    rows, largest = [], max(weights.max(initial=0), 1e-9)
    for name, row in zip(names, weights, strict=True):
        rows.append(f'<tr><th scope="row" dir="auto">{name}</th>')
        for other, weight in zip(names, row, strict=True):
            hint = f"{name} → {other}: {format_percent(weight)}"
            rows.append(f'<td style="--a: {weight / largest:.3f}" title="{hint}"></td>')
        rows.append("</tr>")
    return (
        f'<div class="scroll"><table><caption>{caption}: rows are queries, columns keys</caption>'
        f"<thead><tr><td></td>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
    )
