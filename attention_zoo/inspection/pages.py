"""Common parts of the HTML pages: template, style and escaping.

Pages are self-contained: no scripts and no external resources. They follow the browser's light or
dark mode and the writing direction of each text. Text in results is escaped.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from html import escape
from pathlib import Path

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
""".strip()


def write_page(path: str | Path, title: str, style: str, body: Iterable[str]) -> None:
    """Write a page; an existing file is overwritten.

    Args:
        path: output file.
        title: title of the page, as plain text.
        style: CSS of this page, after the common CSS.
        body: HTML below the title, with its texts escaped by `clean`.
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
        *body,
        "</body></html>",
    ]
    Path(path).write_text("\n".join(page) + "\n", encoding="utf-8")


def clean(text: str) -> str:
    """Escape a text for HTML, with control characters replaced by U+FFFD."""
    return escape(_CONTROLS.sub("\ufffd", text), quote=True)


def percent(share: float) -> str:
    """Format a fraction from 0 to 1 as a percentage."""
    return f"{100 * share:.1f} %"
