"""The documentation site: its pages and links, and its build without warnings and network."""

from __future__ import annotations

import fnmatch
import os
import re
import runpy
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import unquote

import pytest

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
INTERFACE = ROOT / "tests" / "golden" / "interface.txt"
PAGES = [
    *DOCS.glob("*.md"),
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "models/README.md")),
    *ROOT.glob("models/*/*/README.md"),
]
LINK = re.compile(r"(?<!\\)\[[^\]]*\]\(([^)\s]+)\)")


@pytest.fixture(scope="module")
def reference() -> Any:
    """Return the module that generates the API reference."""
    return SimpleNamespace(**runpy.run_path(str(DOCS / "make_reference.py")))


def test_every_public_name_is_in_the_api_reference(reference: Any) -> None:
    pages = reference.format_api_pages()
    documented = {
        f"attention_zoo.{name.removesuffix('.md')}".replace("zoo.attention_zoo", "zoo")
        + f".{item.rpartition('.')[2]}"
        for name, text in pages.items()
        for item in re.findall(r"^(?:\.\. [\w:]+:: |- \[)([\w.]+)", text, re.M)
    }
    lines = INTERFACE.read_text("utf-8").splitlines()
    public = {line.partition("(")[0] for line in lines if line.startswith("attention_zoo.")}
    methods = {name for name in public if name.rpartition(".")[0] in public}
    assert sorted(public - methods - documented) == []
    assert all(name in pages["index.md"] for name in pages if name != "index.md")


def test_constants_are_documented(reference: Any) -> None:
    entry = re.compile(r"^\.\. py:data:: METHODS\n\n(.*?)^\.\. ", re.M | re.S)
    (text,) = entry.findall(reference.format_api_pages()["decoding.md"])
    assert "Search methods by name" in text
    assert "- `sampling`" in text


@pytest.mark.full
def test_generated_pages_are_up_to_date(reference: Any) -> None:
    for path, text in reference.format_committed_pages().items():
        assert path.read_text("utf-8") == text, f"{path.name} is out of date: run `make docs`"


def anchors(text: str) -> set[str]:
    """Return the anchors of a page's headings, as GitHub computes them."""
    text = re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S)
    headings = [heading.lower() for heading in re.findall(r"^#+ (.+)$", text, re.M)]
    return {re.sub(r"[^\w -]", "", heading).replace(" ", "-") for heading in headings}


def broken_links(page: Path) -> list[str]:
    """Return the links of a page to missing files and headings."""
    problems = []
    text = page.read_text("utf-8")
    for link in LINK.findall(re.sub(r"^```.*?^```$|`[^`\n]*`", "", text, flags=re.M | re.S)):
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        if re.match(r"\w+:", link):
            continue
        if not target.exists() or (anchor and anchor not in anchors(target.read_text("utf-8"))):
            problems.append(link)
    return problems


def test_links_of_pages_resolve(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# One, two: `three_four`\n[a](#one-two-three_four) [b](page.md) [c](no.md) [d](#no)\n"
        "`[e](no.md)` \\[f](no.md) [g](https://example.org)\n```sh\n# no\n[h](no.md)\n```\n"
    )
    assert broken_links(page) == ["no.md", "#no"]
    problems = {path.relative_to(ROOT): broken_links(path) for path in PAGES}
    assert {path: links for path, links in problems.items() if links} == {}


def test_every_page_is_in_the_table_of_contents() -> None:
    text = (DOCS / "index.md").read_text("utf-8")
    entries = re.findall(r"^(?![:`])(\S+)$", "\n".join(re.findall(r"```.*?```", text, re.S)), re.M)
    pages = {path.stem for path in DOCS.glob("*.md")} - {"index"}
    missing = [name for name in pages if not any(fnmatch.fnmatch(name, e) for e in entries)]
    assert missing == []
    assert {"../models/README", "../notebooks/*", "api/index"} <= set(entries)


def test_every_card_is_listed() -> None:
    zoo = ROOT / "models"
    listed = set(LINK.findall((zoo / "README.md").read_text("utf-8")))
    cards = {path.relative_to(zoo).as_posix() for path in zoo.glob("*/*/README.md")}
    assert cards
    assert cards - listed == set()


class Page(HTMLParser):
    """Links, identifiers and loaded files of an HTML page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.names: set[str] = {""}
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.names |= {given.get("id", ""), given.get("name", "")}
        if tag == "a":
            self.links += [given["href"]] if "href" in given else []
        else:
            self.loaded += [given[name] for name in ("src", "href") if name in given]


def find_site_problems(site: Path) -> list[str]:
    """Return the broken links of a site, and the files that it loads from elsewhere."""
    pages = {path: Page(path.read_text("utf-8")) for path in site.rglob("*.html")}
    problems = []
    for path, page in pages.items():
        for link in page.links + page.loaded:
            file, _, anchor = unquote(link).partition("#")
            target = (path.parent / file.partition("?")[0]).resolve() if file else path
            if re.match(r"\w+:|//", link):
                is_broken = link in page.loaded
            else:
                is_broken = not target.exists() or (
                    target in pages and anchor not in pages[target].names
                )
            if is_broken:
                problems.append(f"{path.relative_to(site)}: {link}")
    return problems


def test_problems_of_a_site_are_found(tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text(
        '<link href="style.css?v=1"><h1 id="a">A</h1><a href="#a">1</a><a href="page.html#b">2</a>'
        '<a href="https://example.org">3</a><img src="https://example.org/x.png"><a href="no">4</a>'
    )
    (tmp_path / "style.css").touch()
    expected = ["page.html#b", "no", "https://example.org/x.png"]
    assert find_site_problems(tmp_path) == [f"page.html: {link}" for link in expected]


@pytest.mark.slow
def test_the_site_is_built_without_warnings(tmp_path: Path) -> None:
    site = tmp_path / "site"
    options = ["-W", "--keep-going", "-q", "-c", "docs", "-d", str(tmp_path / "cache")]
    command = [sys.executable, "-m", "sphinx", *options, ".", str(site)]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert (site / "docs" / "api" / "layers.html").is_file()
    assert (site / "models/translation/rnnsearch_small.dates_en_fr/README.html").is_file()
    assert len(list((site / "notebooks").glob("*.html"))) >= 5
    assert find_site_problems(site) == []
