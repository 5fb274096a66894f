"""Common parts of the HTML pages: template, style, selectable words and escaping.

Pages are self-contained: no scripts and no external resources. They follow the browser's light or
dark mode and the writing direction of each text. Text in results is escaped.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from html import escape
from pathlib import Path

from attention_zoo.inspection.labels import gaps, plain

_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f]")

_STYLE = """
:root { color-scheme: light dark; --paper: #fcfcfa; --ink: #1d1f23; --faint: #6b7078;
  --line: #dcdcd6; --card: #fff; --heat: 29, 78, 216; --tint: 87%; --edge: 33%; }
@media (prefers-color-scheme: dark) { :root { --paper: #17181b; --ink: #e6e6e3;
  --faint: #9a9fa8; --line: #34363c; --card: #1f2125; --heat: 96, 165, 250; --tint: 24%;
  --edge: 68%; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 64rem; padding: 2rem 1.25rem; background: var(--paper);
  color: var(--ink); font: 1rem/1.5 system-ui, "Segoe UI", Roboto, "Noto Sans", sans-serif; }
h1 { font-size: 1.35rem; margin: 0 0 1rem; }
h2 { font-size: .8rem; font-weight: 500; color: var(--faint); margin: 0; }
article { background: var(--card); border: 1px solid var(--line); border-radius: .6rem;
  padding: .9rem 1.1rem; margin: 0 0 1rem; }
p.text { font-size: 1.1rem; line-height: 2.1; margin: .35rem 0 0; overflow-wrap: anywhere; }
details { margin-top: .7rem; font-size: .85rem; }
summary { cursor: pointer; color: var(--faint); }
details p.text { font-size: .95rem; }
p.hint { color: var(--faint); font-size: .85rem; margin: 0 0 1.25rem; }
.word { border-radius: .2rem; }
label.word { position: relative; cursor: pointer; }
label.word:hover, label.word:has(:checked) { background: rgba(var(--heat), .25); }
label.word:has(:focus-visible) { outline: 2px solid rgba(var(--heat), 1); }
.word input { position: absolute; opacity: 0; margin: 0; }
label.all { color: var(--faint); font-size: .8rem; align-self: center; margin-inline-end: .6rem; }
""".strip()


STATES = " :checked", ":hover"
"""States of a selectable word in CSS; the last one overrides the first."""


def write_page(
    path: str | Path, title: str, style: str, body: Sequence[str], empty: str, hint: str = ""
) -> None:
    """Write a page; an existing file is overwritten.

    Args:
        path: output file.
        title: title of the page, as plain text.
        style: CSS of this page, after the common CSS.
        body: HTML below the title, with its texts escaped by `clean`.
        empty: text of a page without a body.
        hint: text above the body.
    """
    page = [
        "<!DOCTYPE html>",
        '<html lang="und">',
        '<head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{clean(title)}</title>",
        f"<style>\n{_STYLE}\n{style.strip()}\n</style></head>",
        "<body>",
        f'<h1 dir="auto">{clean(title)}</h1>',
        *([f'<p class="hint">{hint}</p>'] if body and hint else []),
        *(body or [f"<p>{empty}</p>"]),
        "</body></html>",
    ]
    Path(path).write_text("\n".join(page) + "\n", encoding="utf-8")


def paragraph(html: str, kind: str = "text") -> str:
    """Return a paragraph of a text, which has its own writing direction."""
    return f'<p class="{kind}" dir="auto">{html}</p>'


def details(summary: str, parts: Iterable[str]) -> list[str]:
    """Return parts that are collapsed below a summary."""
    return [f"<details><summary>{summary}</summary>", *parts, "</details>"]


def alternatives(name: str, answers: Iterable[tuple[str, str]]) -> list[str]:
    """Return collapsed paragraphs, each with its heading; nothing if there are none."""
    parts = [f"<h2>{heading}</h2>\n{paragraph(html)}" for heading, html in answers]
    return details(f"Other {name}: {len(parts)}", parts) if parts else []


def selectable_words(
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
    button = f'<input type="radio" name="{group}">'
    first = f'<label class="word all">{button[:-1]} checked>{everything}</label>'
    shown = [] if group is None else [first]
    for number, (gap, token) in enumerate(zip(gaps(tokens), tokens, strict=True)):
        word = clean(plain(token))
        attributes, behind = decorate(number, word)
        shown.append(" " if gap else "")
        if group is None:
            shown.append(f'<span class="word"{attributes}>{word}{behind}</span>')
        else:
            label = f'<label class="word s{number}"{attributes}>'
            shown.append(f"{label}{button}{word}{behind}</label>")
    return "".join(shown)


def clean(text: str) -> str:
    """Escape a text for HTML, with control characters replaced by U+FFFD."""
    return escape(_CONTROLS.sub("\ufffd", text), quote=True)


def percent(share: float) -> str:
    """Format a fraction from 0 to 1 as a percentage."""
    return f"{100 * share:.1f} %"
