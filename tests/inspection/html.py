"""A page as a browser reads it."""

from __future__ import annotations

from html.parser import HTMLParser
from types import SimpleNamespace
from typing import Any

VOID = {"meta", "input", "img"}


class Page(HTMLParser):
    """Every element with its attributes and all text within it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[SimpleNamespace] = []
        self._open: list[SimpleNamespace] = []
        self.feed(text)
        self.close()
        assert not self._open, self._open

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        within = [one.tag for one in self._open]
        element = SimpleNamespace(tag=tag, attrs=dict(attrs), text="", within=within)
        self.elements.append(element)
        if tag not in VOID:
            self._open.append(element)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop().tag == tag

    def handle_data(self, data: str) -> None:
        for element in self._open:
            element.text += data

    def all(self, tag: str) -> list[SimpleNamespace]:
        return [element for element in self.elements if element.tag == tag]


def stands_alone(page: Page) -> None:
    """No script, and nothing that a browser would fetch: images are in the page itself."""
    assert not {"link", "script", "iframe"} & {one.tag for one in page.elements}
    assert not any({"href", "srcset"} & set(one.attrs) for one in page.elements)
    sources = [one.attrs["src"] for one in page.elements if "src" in one.attrs]
    assert all(source.startswith("data:image/png;base64,") for source in sources)
    style = page.all("style")[0].text
    assert "url(" not in style
    assert "@import" not in style
