"""HTML page of tagged sentences: coloured spans, tags below words, attention tables.

`pages` has the common parts of all pages.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np

from attention_zoo.inspection.pages import (
    alternatives,
    clean,
    details,
    paragraph,
    percent,
    write_page,
)

OUTSIDE = "O"

_STYLE = """
ul.legend { display: flex; flex-wrap: wrap; gap: .5rem; list-style: none; padding: 0;
  margin: 0 0 1.5rem; font-size: .85rem; }
mark, li.label { background: hsl(var(--hue) var(--depth) var(--tint)); color: inherit;
  border-bottom: 2px solid hsl(var(--hue) var(--depth) var(--edge)); border-radius: .3rem;
  padding: .12em .35em; unicode-bidi: isolate; }
mark small { margin-inline-start: .45em; font-size: .62em; font-weight: 650;
  letter-spacing: .04em; color: hsl(var(--hue) var(--depth) var(--edge)); vertical-align: .12em; }
span.word { display: inline-flex; flex-direction: column; align-items: center;
  line-height: 1.35; margin: .2rem .1rem; padding: 0 .2rem; vertical-align: top; }
span.word small { font-size: .62em; font-weight: 600; border-top: 2px solid
  hsl(var(--hue) var(--depth) var(--edge));
  color: hsl(var(--hue) var(--depth) var(--edge)); padding: 0 .2em;
  min-width: 100%; text-align: center; }
div.scroll { overflow-x: auto; }
table { border-collapse: separate; border-spacing: 1px; margin: .6rem 0; font-size: .75rem; }
caption { text-align: start; color: var(--faint); padding-bottom: .3rem; }
thead th { writing-mode: vertical-rl; transform: rotate(180deg); text-align: start;
  vertical-align: bottom; padding: .2rem 0; }
th { font-weight: 400; white-space: nowrap; max-width: 12rem; overflow: hidden;
  text-overflow: ellipsis; }
tbody th { text-align: end; padding-inline-end: .4rem; }
tbody td { width: 1.3rem; min-width: 1.3rem; height: 1.3rem; border-radius: 2px;
  background: rgba(var(--heat), var(--a)); outline: 1px solid var(--line);
  outline-offset: -1px; }
"""


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
    articles = [_article(number, answer) for number, answer in enumerate(answers, 1)]
    write_page(path, title, _STYLE, [*_legend(answers), *articles], "No sentences.")


def _hue(label: str) -> str:
    """Return the colour of a label as an HTML attribute, derived from a hash of the label."""
    digest = hashlib.sha256(label.encode()).digest()
    hue, depth = int.from_bytes(digest[:4], "big") % 360, (30, 60, 90)[digest[4] % 3]
    return f'style="--hue: {hue}; --depth: {depth}%"'


def _labels(answer: Any) -> list[str]:
    """Return the coloured labels of a result: those of its spans, or its tags except "O"."""
    spans = [span.label for span in answer.spans]
    return spans or [tag for tag in answer.tags if tag != OUTSIDE]


def _legend(answers: Iterable[Any]) -> list[str]:
    counts = Counter(label for answer in answers for label in _labels(answer))
    items = [
        f'<li class="label" {_hue(label)}>{_label_text(label)} {counts[label]}</li>'
        for label in sorted(counts)
    ]
    return ['<ul class="legend">', *items, "</ul>"] if items else []


def _label_text(label: str) -> str:
    return clean(label) or "(span)"


def _article(number: int, answer: Any) -> str:
    """Return the HTML of a sentence with its score, alternatives and attention."""
    others = [(_heading(other), _sentence(other)) for other in answer.alternatives]
    parts = [
        "<article>",
        f"<h2>{number} · {_heading(answer)}</h2>",
        paragraph(_sentence(answer)),
        *alternatives("tag sequences", others),
    ]
    if answer.attention is not None:
        parts += _attention(np.asarray(answer.attention, "float64"), answer.source_tokens)
    return "\n".join([*parts, "</article>"])


def _heading(answer: Any) -> str:
    return f"log-probability {answer.score:.3f}"


def _sentence(answer: Any) -> str:
    has_spans = answer.spans or not _labels(answer)
    return _words_with_spans(answer) if has_spans else _words_with_tags(answer)


def _words_with_spans(answer: Any) -> str:
    """Return the HTML of the words, with spans in `<mark>` elements."""
    opens = {span.start: span for span in answer.spans}
    closes = {span.end: span for span in answer.spans}
    parts: list[str] = []
    for gap, word, (start, end) in _words_with_gaps(answer):
        parts.append(gap)
        if start in opens:
            span = opens[start]
            hint = f"{span.label} {percent(span.probability)}".strip()
            parts.append(f'<mark {_hue(span.label)} title="{clean(hint)}">')
        parts.append(clean(word))
        if end in closes:
            parts.append(f"<small>{_label_text(closes[end].label)}</small></mark>")
    return "".join(parts)


def _words_with_tags(answer: Any) -> str:
    """Return the HTML of the words, each with its tag below."""
    parts: list[str] = []
    columns = zip_longest(_words_with_gaps(answer), answer.tags, answer.probabilities)
    for (gap, word, _), tag, probability in columns:
        hint = clean(f"{tag} {percent(probability)}")
        below = f"<small>{clean(tag)}</small>"
        parts.append(f'{gap}<span class="word" {_hue(tag)} title="{hint}">{clean(word)}{below}')
        parts.append("</span>")
    return "".join(parts)


def _words_with_gaps(answer: Any) -> Iterable[tuple[str, str, tuple[int, int]]]:
    """Yield for each word the gap before it (" " or ""), the word, and its offsets."""
    last = None
    for word, (start, end) in zip(answer.words, answer.offsets, strict=True):
        yield " " if last is not None and start > last else "", word, (start, end)
        last = end


def _attention(weights: np.ndarray, tokens: Sequence[str]) -> list[str]:
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
    parts = [_table(f"Mean of {layers} layers of {heads} heads", weights.mean((0, 1)), tokens)]
    for number, layer in enumerate(weights.mean(1) if layers > 1 else [], 1):
        table = _table(f"Layer {number}, mean of {heads} heads", layer, tokens)
        parts += details(f"Layer {number}", [table])
    return details("Attention", parts)


def _table(caption: str, weights: np.ndarray, tokens: Sequence[str]) -> str:
    """Return a table with a row for each query token; the largest weight has full colour."""
    names = [clean(token) for token in tokens]
    largest = max(float(weights.max()), 1e-9)
    head = "".join(f'<th scope="col" dir="auto">{name}</th>' for name in names)
    rows = []
    for name, row in zip(names, weights, strict=True):
        cells = "".join(
            f'<td style="--a: {weight / largest:.3f}" title="{name} → {other}: {percent(weight)}">'
            "</td>"
            for other, weight in zip(names, row, strict=True)
        )
        rows.append(f'<tr><th scope="row" dir="auto">{name}</th>{cells}</tr>')
    return (
        f'<div class="scroll"><table><caption>{caption}: rows are queries, columns keys</caption>'
        f"<thead><tr><td></td>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
    )
