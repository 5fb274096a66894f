"""HTML page of summaries: the attention of each word over its source, and copied words.

`pages` has the common parts of all pages. The page follows the pointer by CSS, without scripts.
Each source token has the attention weights of all summary words as CSS variables, and the rules of
word n use variable n.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from attention_zoo.inspection.labels import gaps, plain
from attention_zoo.inspection.pages import clean, percent, write_page
from attention_zoo.inspection.summary_parts import SummaryParts, summary_parts

_LEAST = 0.005  # smaller weights are invisible, so they are omitted
_STATES = " :checked", ":hover"  # of a word; :hover is last, to override :checked
_STYLE = """
:root { --copy: 194, 65, 12; }
@media (prefers-color-scheme: dark) { :root { --copy: 251, 146, 60; } }
p.hint { color: var(--faint); font-size: .85rem; margin: 0 0 1.25rem; }
p.source { font-size: 1rem; line-height: 1.8; }
p.source span { background: rgba(var(--heat), calc(.7 * var(--a))); --a: var(--all, 0); --o: 0;
  outline: 2px solid rgba(var(--copy), var(--o)); border-radius: .2rem; padding: .1em 0; }
p.source span.unknown { text-decoration: underline dotted; text-underline-offset: .25em; }
.word { position: relative; display: inline-flex; flex-direction: column; line-height: 1.35;
  vertical-align: top; border-radius: .2rem; }
label.word { cursor: pointer; }
label.word:hover, label.word:has(:checked) { background: rgba(var(--heat), .25); }
label.word:has(:focus-visible) { outline: 2px solid rgba(var(--heat), 1); }
.word input { position: absolute; opacity: 0; margin: 0; }
.word small { height: .25rem; min-width: .6rem; border-radius: .1rem;
  background: linear-gradient(to right, rgba(var(--copy), 1) calc(100% * var(--c)),
  var(--line) 0); }
label.all { color: var(--faint); font-size: .8rem; align-self: center;
  margin-inline-end: .6rem; }
"""
_HINT = (
    "Hover over a word of a summary, or select it, to see its attention weights: the darker, the "
    "larger. The bar below a word is its copy probability, and the source word that it was copied "
    "from is framed. Source words that are unknown to the model and cannot be copied are dotted."
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
    articles = [_article(number, answer) for number, answer in enumerate(answers, 1)]
    most = max((len(answer.tokens) for answer in answers), default=0)
    hint = [f'<p class="hint">{_HINT}</p>'] if articles else ["<p>No summaries.</p>"]
    write_page(path, title, "\n".join([_STYLE.strip(), *_rules(most)]), [*hint, *articles])


def _rules(words: int) -> Iterable[str]:
    """Yield CSS rules that shade and frame the source for the selected word, numbered from 0."""
    for state in _STATES:
        yield f"article:has(.all{state}) .source > span {{ --a: var(--all, 0); --o: 0; }}"
        for n in range(words):
            chosen = f"article:has(.s{n}{state}) .source"
            yield f"{chosen} > span {{ --a: var(--w{n}, 0); --o: 0; }}"
            yield f"{chosen} > span:where(.o{n}) {{ --o: 1; }}"


def _article(number: int, answer: Any) -> str:
    """Return the HTML of a source with its summary and alternatives."""
    parts = summary_parts(answer)
    group = None if parts.attention is None else f"answer{number}"
    shown = [
        "<article>",
        f"<h2>{number} · {_told(answer, parts)}</h2>",
        f'<p class="text" dir="auto">{_summary(answer, parts, group)}</p>',
        f'<p class="text source" dir="auto">{_source(answer, parts)}</p>',
    ]
    if answer.alternatives:
        shown.append(f"<details><summary>Other summaries: {len(answer.alternatives)}</summary>")
        for other in answer.alternatives:
            other_parts = summary_parts(other)
            shown += [
                f"<h2>{_told(other, other_parts)}</h2>",
                f'<p class="text" dir="auto">{_summary(other, other_parts, None)}</p>',
            ]
        shown.append("</details>")
    return "\n".join([*shown, "</article>"])


def _told(answer: Any, parts: SummaryParts) -> str:
    """Return the score of a summary, its number of copied words, and any truncation."""
    notes = [
        f"score {answer.score:.3f}",
        f"{int((parts.origins >= 0).sum())} of {len(answer.tokens)} words copied",
    ]
    notes += ["truncated at maximum length"] if answer.truncated else []
    notes += ["source truncated"] if answer.source_truncated else []
    return " · ".join(notes)


def _summary(answer: Any, parts: SummaryParts, group: str | None) -> str:
    """Return the HTML of the words with their bars; with a group, a word can be selected."""
    choice = f'<input type="radio" name="{group}">'
    shown = []
    if group is not None:
        whole = choice.replace(">", " checked>")
        shown.append(f'<label class="word all">{whole}all words</label>')
    for n, (gap, token) in enumerate(zip(gaps(answer.tokens), answer.tokens, strict=True)):
        word = clean(plain(token))
        share = float(parts.copied[n])
        hint = f'title="{word}: copied {percent(share)}"'
        bar = f'{word}<small style="--c: {share:.3f}"></small>'
        shown.append(" " if gap else "")
        if group is None:
            shown.append(f'<span class="word" {hint}>{bar}</span>')
        else:
            shown.append(f'<label class="word s{n}" {hint}>{choice}{bar}</label>')
    return "".join(shown)


def _source(answer: Any, parts: SummaryParts) -> str:
    """Return the HTML of the source tokens with the attention weights of all summary words."""
    unknown = set(answer.unknown)
    shown = []
    tokens = answer.source_tokens
    for place, (gap, token) in enumerate(zip(gaps(tokens), tokens, strict=True)):
        names = [f"o{n}" for n in np.flatnonzero(parts.origins == place)]
        names += ["unknown"] if place in unknown else []
        given = f' class="{" ".join(names)}"' if names else ""
        if parts.attention is not None:
            given += f' style="{_weights(parts.attention[:, place])}"'
        shown.append(f"{' ' if gap else ''}<span{given}>{clean(plain(token))}</span>")
    return "".join(shown)


def _weights(weights_row: np.ndarray) -> str:
    """Return CSS variables: the sum of a source token's weights, and each visible weight."""
    whole = [f"--all: {min(float(weights_row.sum()), 1.0):.3f}"]
    seen = np.flatnonzero(weights_row >= _LEAST)
    return "; ".join([*whole, *(f"--w{n}: {weights_row[n]:.3f}" for n in seen)])
