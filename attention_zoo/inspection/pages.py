"""Common parts of the HTML pages: template, style, selectable words and escaping.

Pages are self-contained: no external resources, and no scripts except in the attention page. They
follow the browser's light or dark mode and the writing direction of each text. Text in results is
escaped. `page.html` is the
template and `page.css` the common style; each kind of page adds a style of its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

import numpy as np

from attention_zoo.inspection.labels import find_gaps, strip_prefix

_LEAST = 0.005  # smaller weights are invisible, so they are omitted
_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


def write_page(
    path: str | Path,
    title: str,
    kind: str,
    articles: Sequence[str],
    intro: str = "",
    rules: Iterable[str] = (),
) -> None:
    """Write a page; an existing file is overwritten.

    Args:
        path: output file.
        title: title of the page, as plain text.
        kind: plural noun for the results, and name of the page's style file.
        articles: HTML of each result, with its texts escaped by `clean_text`.
        intro: HTML above the articles.
        rules: further CSS rules.
    """
    page = make_page(title, kind, articles, intro, rules)
    Path(path).write_text(page, encoding="utf-8")


def make_page(
    title: str, kind: str, articles: Sequence[str], intro: str = "", rules: Iterable[str] = ()
) -> str:
    """Return the HTML of a page; arguments as in `write_page`."""
    body = "\n".join([intro, *articles] if articles else [f"<p>No {kind}.</p>"])
    style = "\n".join([read_part("page.css"), read_part(f"{kind}.css"), *rules])
    template = Template(read_part("page.html"))
    return template.substitute(title=clean_text(title), style=style, body=body)


def read_part(name: str) -> str:
    """Return the text of a template, style or script of this package."""
    return (files("attention_zoo.inspection") / name).read_text("utf-8")


def make_articles(results: Iterable[Any], make_article: Callable[[int, Any], str]) -> list[str]:
    """Return one HTML article per result, numbered from 1.

    The article of a failed result shows its error.
    """
    return [
        make_article(number, result) if result.ok else _make_failed_article(number, result)
        for number, result in enumerate(results, 1)
    ]


def _make_failed_article(number: int, result: Any) -> str:
    """Return the article of a failed result, with its error."""
    error = make_paragraph(clean_text(result.error))
    return f"<article>\n<h2>{number} · no prediction</h2>\n{error}\n</article>"


def make_selection_rules(results: Sequence[Any], reset: str, *chosen: str) -> Iterator[str]:
    """Yield CSS rules that depend on the selected word of an article.

    The word under the pointer comes last, so that it overrides the word that is checked.

    Args:
        results: the results; the longest determines the number of rules.
        reset: rule of a selection; $on is the state of the selected element.
        chosen: rules of word $n.
    """
    words = range(max((len(result.tokens) for result in results), default=0))
    for state in (" :checked", ":hover"):
        yield Template(reset).substitute(on=state)
        for n in words:
            yield from (Template(rule).substitute(on=state, n=n) for rule in chosen)


def make_paragraph(html: str, kind: str = "text") -> str:
    """Return a paragraph of a text, which has its own writing direction."""
    return f'<p class="{kind}" dir="auto">{html}</p>'


def make_details(summary: str, parts: Iterable[str]) -> list[str]:
    """Return parts that are collapsed below a summary."""
    return [f"<details><summary>{summary}</summary>", *parts, "</details>"]


def make_alternatives(name: str, answers: Iterable[tuple[str, str]]) -> list[str]:
    """Return collapsed paragraphs, each with its heading; nothing if there are none."""
    parts = [f"<h2>{heading}</h2>\n{make_paragraph(html)}" for heading, html in answers]
    return make_details(f"Other {name}: {len(parts)}", parts) if parts else []


def make_selectable_words(
    tokens: Sequence[str],
    group: str | None,
    everything: str,
    decorate: Callable[[int, str], tuple[str, str]] = lambda number, word: ("", ""),
) -> str:
    """Return the words of a text, each a radio button of class `s0`, `s1`, ...

    Args:
        tokens: the words.
        group: name of the radio buttons; None for words that cannot be selected.
        everything: label of the first button, for no single word.
        decorate: returns the attributes of a word's element, and the HTML behind the word.
    """
    tag, button, parts = "span", "", []
    if group is not None:
        tag, button = "label", f'<input type="radio" name="{group}">'
        parts.append(f'<label class="word all">{button[:-1]} checked>{everything}</label>')
    for number, (gap, token) in enumerate(zip(find_gaps(tokens), tokens, strict=True)):
        word = clean_text(strip_prefix(token))
        attributes, behind = decorate(number, word)
        names = "word" if group is None else f"word s{number}"
        opening = f'{" " * gap}<{tag} class="{names}"{attributes}>'
        parts.append(f"{opening}{button}{word}{behind}</{tag}>")
    return "".join(parts)


def make_shaded_tokens(
    tokens: Sequence[str],
    attention: np.ndarray | None,
    classes: Sequence[Sequence[str]],
    unknown: Sequence[int],
) -> str:
    """Return the HTML of source tokens with the attention weights of all words as CSS variables.

    Args:
        tokens: the S tokens.
        attention: weights `(T, S)` of the T words; None for none.
        classes: further classes of each token's element.
        unknown: positions of unknown tokens.
    """
    parts = []
    for position, (gap, token) in enumerate(zip(find_gaps(tokens), tokens, strict=True)):
        names = [*classes[position], *(["unknown"] if position in unknown else [])]
        attributes = f' class="{" ".join(names)}"' if names else ""
        if attention is not None:
            attributes += f' style="{_format_weights(attention[:, position])}"'
        word = clean_text(strip_prefix(token))
        parts.append(f"{' ' * gap}<span{attributes}>{word}</span>")
    return "".join(parts)


def _format_weights(column: np.ndarray) -> str:
    """Return CSS variables: the sum of a source token's weights, and each visible weight."""
    total = [f"--all: {min(float(column.sum()), 1.0):.3f}"]
    visible = np.flatnonzero(column >= _LEAST)
    return "; ".join([*total, *(f"--w{n}: {column[n]:.3f}" for n in visible)])


def clean_text(text: str) -> str:
    """Escape a text for HTML, with control characters and surrogates replaced by U+FFFD."""
    return escape(_CONTROLS.sub("\ufffd", text))


def clean_lines(text: str) -> str:
    """Escape a text for HTML, as `clean_text` does, but with its line ends and tabs."""
    lines = re.split("\r\n?|\n", text)
    return "\n".join("\t".join(map(clean_text, line.split("\t"))) for line in lines)


def format_percent(share: float) -> str:
    """Format a fraction from 0 to 1 as a percentage."""
    return f"{100 * share:.1f} %"
