"""Sphinx: the source folder is the repository, so that pages link to cards and recipes.

make docs    # writes the site to docs/_build/site
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import jupytext
from docutils import nodes
from myst_parser.sphinx_ import Parser
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform
from sphinx.util import inspect

import attention_zoo

sys.path.insert(0, str(Path(__file__).parent))
import make_reference

project = "attention_zoo"
copyright = "the authors of attention_zoo"
release = version = attention_zoo.__version__
root_doc = "docs/index"
include_patterns = ["docs/*.md", "docs/api/*.md", "models/*.md", "models/*/*/README.md"]
include_patterns += ["notebooks/*.py", "CONTRIBUTING.md", "CHANGELOG.md"]
exclude_patterns = [".*", "attention_zoo", "benchmarks", "build", "dist", "docs/_build", "runs"]
exclude_patterns += ["tests", "training"]
source_suffix = {".md": "markdown", ".py": "notebook"}
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]

html_theme = "furo"
html_title = f"attention_zoo {release}"
html_extra_path = ["site"]
html_copy_source = False

myst_heading_anchors = 4
myst_links_external_new_tab = False

add_module_names = False
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_default_options = {"members": True}
default_role = "code"  # docstrings write code in single backticks
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True
napoleon_use_rtype = False
napoleon_custom_sections = [
    ("Call arguments", "params_style"),
    "Returns",
    "Weights",
    "Masking",
    "Cost",
    "Formula",
    "Source",
    "Reference",
]

nitpicky = True
suppress_warnings = ["ref.python"]  # fields of the same name in several classes
nitpick_ignore_regex = [("py:class", ".*"), ("py:.*", r"(?!attention_zoo\.).*")]
"""Annotations may have types that are not public; other packages need a network."""

ZOO = "models/README"
NOTE = """*This page shows the code and the text of `{}.py`. It trains models for some
minutes, so the page has no outputs: open the file as a notebook in Jupyter (with jupytext).*"""
LITERAL = re.compile(r"`[^`]*`")
MARKUP = re.compile(r"([*|\\]|_(?!\w))")
ENTRY = re.compile(r" {4}\w[\w, ]*: ")
NAMES = {one.path for group in make_reference.list_names().values() for one in group}
ARXIV = re.compile(r"arXiv (\d{4}\.\d{4,5})")


class NotebookParser(Parser):
    """Show a notebook (a Python file in jupytext's percent format) as Markdown.

    The build does not run notebooks: they train models, for minutes.
    """

    supported = ("notebook",)

    def parse(self, inputstring: str, document: nodes.document) -> None:
        notebook = jupytext.reads(inputstring, fmt="py:percent")
        notebook.metadata = {"jupytext": {"notebook_metadata_filter": "-all"}}
        note = NOTE.format(self.env.docname)
        text = jupytext.writes(notebook, fmt="md")
        title, _, rest = text.partition("\n")
        super().parse(f"{title}\n\n{note}\n{rest}", document)


def list_entries(lines: list[str]) -> list[str]:
    """Turn the entries `name: text` of the section "Returns" into a list."""
    result: list[str] = []
    in_returns = is_list = False
    for number, line in enumerate(lines):
        if line and not line.startswith(" "):
            in_returns = line == "Returns:"
            following = lines[number + 1 : number + 2]
            is_list = in_returns and bool(following) and bool(ENTRY.match(following[0]))
        elif is_list and line:
            line = f"    - {line.strip()}" if ENTRY.match(line) else f"      {line.strip()}"
        result.append(line)
    return result


def prepare_docstring(
    app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]
) -> None:
    """Escape what is no markup in docstrings, and link arXiv numbers."""
    lines[:] = list_entries(lines)
    is_code = False
    for number, line in enumerate(lines):
        is_code = line.lstrip().startswith(">>>") or (is_code and bool(line.strip()))
        if not is_code and not re.match(r" *\*+\w+: ", line):
            parts = re.split(f"({LITERAL.pattern})", line)
            parts[::2] = [MARKUP.sub(r"\\\1", part) for part in parts[::2]]
            line = ARXIV.sub(r"`arXiv \1 <https://arxiv.org/abs/\1>`__", "".join(parts))
            lines[number] = line


def show_constructor(
    app: Sphinx, what: str, name: str, obj: Any, options: Any, signature: str, returned: str
) -> tuple[str, str] | None:
    """Replace the signature of Keras's `__new__` by that of the constructor."""
    if what != "class" or signature != "(*args, **kwargs)":
        return None
    constructor = inspect.signature(obj.__init__, bound_method=True)
    return inspect.stringify_signature(constructor, unqualified_typehints=True), returned


def add_cards(app: Sphinx, docname: str, content: list[str]) -> None:
    """Add all cards to the table of contents of the zoo's page."""
    if docname == ZOO:
        content[0] += "\n```{toctree}\n:glob:\n:hidden:\n\n*/*/README\n```\n"


class LinkNames(SphinxTransform):
    """Link code such as `layers.Attention(units)` to the API reference."""

    default_priority = 400

    def apply(self, **kwargs: Any) -> None:
        for literal in list(self.document.findall(nodes.literal)):
            name = re.fullmatch(
                r"(?:az\.|attention_zoo\.)?(\w+\.[\w.]+)(?:\(.*\))?", literal.astext()
            )
            is_free = isinstance(literal.parent, (nodes.paragraph, nodes.entry, nodes.emphasis))
            if name and is_free and (path := f"attention_zoo.{name[1]}") in NAMES:
                link = pending_xref("", refdomain="py", reftype="obj", reftarget=path, refwarn=True)
                link["refexplicit"] = True
                literal.replace_self(link)
                link += literal


def setup(app: Sphinx) -> None:
    """Write the API reference before the pages are read."""
    app.connect("builder-inited", lambda app: make_reference.write_api())
    app.connect("autodoc-process-docstring", prepare_docstring, priority=400)
    app.connect("autodoc-process-signature", show_constructor)
    app.connect("source-read", add_cards)
    app.add_source_parser(NotebookParser)
    app.add_transform(LinkNames)
