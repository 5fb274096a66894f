"""HTML page of summaries: the attention of each word over its source, and copied words.

`pages` has the common parts of all pages. The page follows the pointer by CSS, without scripts.
Each source token has the attention weights of all summary words as CSS variables, and the rules of
word n use variable n.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from attention_zoo.inspection.pages import (
    format_percent,
    make_alternatives,
    make_articles,
    make_paragraph,
    make_selectable_words,
    make_selection_rules,
    make_shaded_tokens,
    write_page,
)
from attention_zoo.inspection.summary_parts import SummaryParts, check_summary

_HINT = (
    "Hover over a word of a summary, or select it, to see its attention weights: the stronger the "
    "colour, the larger. The bar below a word is its copy probability, and the source word that it "
    "was copied from is framed. Source words that are unknown to the model and cannot be copied are"
    " dotted."
)
_RULES = (
    "article:has(.all$on) .source > span { --a: var(--all, 0); --o: 0; }",
    "article:has(.s$n$on) .source > span { --a: var(--w$n, 0); --o: 0; }",
    "article:has(.s$n$on) .source > span:where(.o$n) { --o: 1; }",
)


def write_summary_page(answers: Sequence[Any], path: str | Path, title: str = "Summaries") -> None:
    """Write a page of summaries with their sources.

    The length of the bar below each word of a summary is its copy probability. For a word under the
    pointer, or selected by a click or the arrow keys, the source is shaded by the word's attention
    weights, 0 to 1, and the token it was copied from is framed. Without a selection, the source is
    shaded by the sum over all words, at most 1. Other summaries of the same source are below.

    Args:
        answers: `tasks.Summary` results of `tasks.Summarization.predict`.
        path: output file; an existing file is overwritten.
        title: title of the page.

    Raises:
        ValueError: if attention, copy probabilities or origins do not fit the tokens.
    """
    articles = make_articles(answers, _make_article)
    rules = make_selection_rules(answers, *_RULES)
    write_page(path, title, "summaries", articles, make_paragraph(_HINT, "hint"), rules)


def _make_article(number: int, answer: Any) -> str:
    """Return the HTML of a source with its summary and alternatives."""
    parts = check_summary(answer)
    group = None if parts.attention is None else f"answer{number}"
    checked = [(other, check_summary(other)) for other in answer.alternatives]
    others = [(_make_heading(*one), _make_summary(*one, None)) for one in checked]
    shown = [
        "<article>",
        f"<h2>{number} · {_make_heading(answer, parts)}</h2>",
        make_paragraph(_make_summary(answer, parts, group)),
        make_paragraph(_make_source(answer, parts), "text source"),
        *make_alternatives("summaries", others),
        "</article>",
    ]
    return "\n".join(shown)


def _make_heading(answer: Any, parts: SummaryParts) -> str:
    """Return the score of a summary, its number of copied words, and any truncation."""
    notes = [
        f"score {answer.score:.3f}",
        f"{int((parts.origins >= 0).sum())} of {len(answer.tokens)} words copied",
    ]
    notes += ["truncated at maximum length"] if answer.truncated else []
    notes += ["source truncated"] if answer.source_truncated else []
    return " · ".join(notes)


def _make_summary(answer: Any, parts: SummaryParts, group: str | None) -> str:
    """Return the HTML of the words with their bars; with a group, a word can be selected."""

    def decorate(number: int, word: str) -> tuple[str, str]:
        share = float(parts.copied[number])
        bar = f'<small style="--c: {share:.3f}"></small>'
        return f' title="{word}: copied {format_percent(share)}"', bar

    return make_selectable_words(answer.tokens, group, "all words", decorate)


def _make_source(answer: Any, parts: SummaryParts) -> str:
    """Return the HTML of the source tokens with the attention weights of all summary words."""
    classes = [
        [f"o{n}" for n in np.flatnonzero(parts.origins == position)]
        for position in range(len(answer.source_tokens))
    ]
    return make_shaded_tokens(answer.source_tokens, parts.attention, classes, answer.unknown)
