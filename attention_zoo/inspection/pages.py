"""What the HTML pages share: they stand alone, and nothing in an answer is taken for markup.

A page has no scripts and nothing from outside, follows the reader's choice of a light or a dark
screen, and lets each text run in its own direction.
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
    """Writes a page over what is there.

    Args:
        path: the file.
        title: of the page, as plain text.
        style: CSS beside what all pages share.
        body: HTML below the title, its texts `clean`.
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
    """The text as HTML shows it; characters that it may not hold as U+FFFD."""
    return escape(_CONTROLS.sub("\ufffd", text), quote=True)


def percent(share: float) -> str:
    """A share of 1 as a reader wants to see it."""
    return f"{100 * share:.1f} %"
