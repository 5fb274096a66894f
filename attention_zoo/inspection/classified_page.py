"""HTML page of classified texts: probabilities, and words and sentences shaded by their weights.

`pages` has the common parts of all pages.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from attention_zoo.inspection.classified_parts import (
    ClassifiedParts,
    WeightedSpan,
    check_classified,
)
from attention_zoo.inspection.pages import (
    clean_lines,
    clean_text,
    format_percent,
    make_articles,
    make_details,
    make_paragraph,
    write_page,
)

_FIRST = 5  # number of classes that are not collapsed
_HINT = (
    "The stronger the colour of a word, the larger its attention weight. The bar of a sentence has"
    " the colour of its attention weight. Hover over a word or a sentence to see the weight."
)


def write_classified_page(
    results: Sequence[Any], path: str | Path, title: str = "Classified texts"
) -> None:
    """Write a page of classified texts.

    Classes are listed by probability, each with a bar; those after the fifth that are not predicted
    are collapsed. Words are shaded by their attention weights; the largest weight of a text has
    full colour. A document with sentences has a line for each, with a bar that is shaded by the
    weight p_s of the sentence. Its words are shaded by `sqrt(p_s) p_w`, where p_w is the weight of
    a word within its sentence, so that words of unimportant sentences stay visible. The tooltips
    show the weights.

    Args:
        results: results of `tasks.Classification.predict`, with `ok`, `error`, `text` (the
            predicted class, or several joined by ", "), `labels` (the predicted classes),
            `classes`, `probabilities`, `source`, `tokens`, `offsets` (character span of each
            token), `attention` (of each token; None for none), `sentences` (character spans, or
            empty) and `sentence_attention` (or None).
        path: output file; an existing file is overwritten.
        title: title of the page.

    Raises:
        ValueError: if the parts of a result do not fit each other, see `check_classified`.

    Reference:
        Yang et al. 2016, "Hierarchical attention networks for document classification".
    """
    articles = make_articles(results, _make_article)
    has_weights = any(result.ok and result.attention is not None for result in results)
    intro = make_paragraph(_HINT, "hint") if has_weights else ""
    write_page(path, title, "texts", articles, intro)


def _make_article(number: int, result: Any) -> str:
    """Return the HTML of a text with its classes."""
    parts = check_classified(result)
    heading = clean_text(result.text) or "no class"
    shown = [
        f"<article>\n<h2>{number} · {heading}</h2>",
        *_make_classes(result),
        make_paragraph(_make_source(result, parts), "text source"),
        "</article>",
    ]
    return "\n".join(shown)


def _make_classes(result: Any) -> list[str]:
    """Return the list of classes by probability; unlikely ones of many are collapsed."""
    order = np.argsort(-np.asarray(result.probabilities), kind="stable")
    first: list[str] = []
    others: list[str] = []
    for rank, index in enumerate(order):
        name, share = result.classes[index], result.probabilities[index]
        marked = ' class="predicted"' if name in result.labels else ""
        item = (
            f'<li{marked}><span dir="auto">{clean_text(name)}</span>'
            f'<i style="--p: {share:.3f}"></i><small>{format_percent(share)}</small></li>'
        )
        (first if rank < _FIRST or marked else others).append(item)
    lists = [_make_list(first)]
    if others:
        lists += make_details(f"Other classes: {len(others)}", [_make_list(others)])
    return lists


def _make_list(items: Sequence[str]) -> str:
    return "\n".join(['<ul class="classes">', *items, "</ul>"])


def _make_source(result: Any, parts: ClassifiedParts) -> str:
    """Return the HTML of the source: its words, within its sentences if there are any."""
    source, sentence_weights = result.source, parts.sentence_weights
    shades = [np.sqrt(parts.get_sentence_weight(token)) * token.weight for token in parts.tokens]
    largest = max(shades, default=0.0) or 1.0
    words: dict[int, list[tuple[WeightedSpan, float]]] = {}
    for token, shade in zip(parts.tokens, shades, strict=True):
        words.setdefault(token.sentence, []).append((token, shade / largest))
    if not result.sentences:
        return _mark_words(source, (0, len(source)), words.get(0, []))
    shown, last = [], 0
    for index, (start, end) in enumerate(result.sentences):
        attributes = ""
        if sentence_weights is not None:
            weight = sentence_weights[index]
            shade = weight / (sentence_weights.max() or 1.0)
            attributes = f' style="--s: {shade:.3f}" title="sentence {format_percent(weight)}"'
        shown.append(clean_lines(source[last:start].strip()))
        inside = _mark_words(source, (start, end), words.get(index, []))
        shown.append(f'<span class="sentence"{attributes}>{inside}</span>')
        last = end
    return "".join([*shown, clean_lines(source[last:].strip())])


def _mark_words(
    source: str, span: tuple[int, int], words: Sequence[tuple[WeightedSpan, float]]
) -> str:
    """Return the HTML of a part of the source, with its words shaded."""
    shown, last = [], span[0]
    for (start, end, weight, _), shade in words:
        shown.append(clean_lines(source[last:start]))
        attributes = f'style="--a: {shade:.3f}" title="{format_percent(weight)}"'
        shown.append(f'<span class="word" {attributes}>{clean_lines(source[start:end])}</span>')
        last = end
    return "".join([*shown, clean_lines(source[last : span[1]])])
