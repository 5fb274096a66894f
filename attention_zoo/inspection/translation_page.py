"""HTML page of translations: the attention of each token over its source, and other hypotheses.

`pages` has the common parts of all pages. The page follows the pointer by CSS, without scripts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from attention_zoo.inspection.pages import (
    clean_text,
    format_percent,
    make_alternatives,
    make_articles,
    make_paragraph,
    make_selectable_words,
    make_selection_rules,
    make_shaded_tokens,
    write_page,
)
from attention_zoo.inspection.summary_parts import check_probabilities

_HINT = (
    "Hover over a token of a translation, or select it, to see its attention weights over the "
    "source: the stronger the shade, the larger. Source tokens that are unknown to the model are "
    "dotted."
)
_RULES = (
    "article:has(.all$on) .source > span { --a: var(--all, 0); }",
    "article:has(.s$n$on) .source > span { --a: var(--w$n, 0); }",
)


def write_translation_page(
    results: Sequence[Any], path: str | Path, title: str = "Translations"
) -> None:
    """Write a page of translations with their sources.

    For a token under the pointer, or selected by a click or the arrow keys, the source is shaded by
    the token's attention weights, 0 to 1. Without a selection, it is shaded by the sum over all
    tokens, at most 1. The tooltip of a token has its probability. Other hypotheses are below.

    Args:
        results: `tasks.TranslationResult` results of `tasks.Translation.predict`.
        path: output file; an existing file is overwritten.
        title: title of the page.

    Raises:
        ValueError: if attention weights are not `(T, S)` for the tokens of a result, from 0 to 1.
    """
    articles = make_articles(results, _make_article)
    rules = make_selection_rules(results, *_RULES)
    write_page(path, title, "translations", articles, make_paragraph(_HINT, "hint"), rules)


def _make_article(number: int, result: Any) -> str:
    """Return the HTML of a source with its translation and the other hypotheses."""
    sizes = len(result.tokens), len(result.source_tokens)
    attention = result.attention
    if attention is not None:
        attention = check_probabilities("attention", attention, sizes)
    group = None if attention is None else f"result{number}"
    source = make_shaded_tokens(
        result.source_tokens, attention, [()] * len(result.source_tokens), result.unknown
    )
    others = [(_make_heading(other), clean_text(other.text)) for other in result.alternatives]
    return "\n".join(
        [
            "<article>",
            f"<h2>{number} · {_make_heading(result)}</h2>",
            make_paragraph(_make_tokens(result, group)),
            make_paragraph(source, "text source"),
            *make_alternatives("hypotheses", others),
            "</article>",
        ]
    )


def _make_heading(result: Any) -> str:
    notes = [f"score {result.score:.3f}"]
    return " · ".join(notes + ["truncated at maximum length"] * result.truncated)


def _make_tokens(result: Any, group: str | None) -> str:
    """Return the HTML of the tokens with their probabilities; with a group, they are selectable."""

    def decorate(number: int, token: str) -> tuple[str, str]:
        if number >= len(result.token_scores):
            return "", ""
        probability = format_percent(math.exp(result.token_scores[number]))
        return f' title="{token}: {probability}"', ""

    return make_selectable_words(result.tokens, group, "all tokens", decorate)
