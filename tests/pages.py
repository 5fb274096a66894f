"""Code blocks of Markdown pages, and a function that runs all blocks of a page.

A block is run by its language:

- `python`: with the other Python blocks of the page, in one namespace.
- `sh`: by bash, with `attention-zoo` on the path. A recipe of the repository trains 4 steps.
- `text`: lines that the block before prints, with any numbers; `...` stands for other lines.
- `yaml`: a recipe, or a part without data, which is read; if it begins with a comment with its
  name, it is saved.
- `json`: it is parsed.

A block after `<!-- no-run: REASON -->` is not run.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

from attention_zoo.training import read_recipe

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"^(?:<!-- no-run: (.+?) -->\n+)?```(\S*)\n(.*?)^```$", re.M | re.S)
COMMAND = f"""\
#!/bin/bash
case "$1 $2 $*" in
  *training.steps=*) ;;
  "train training/"* | "train rnnsearch_small."*)
    set -- "$@" training.steps=4 training.evaluate_every=4 ;;
esac
exec {sys.executable} -m attention_zoo "$@"
"""


class Block(NamedTuple):
    """A code block; `reason` says why it is not run."""

    line: int
    language: str
    text: str
    reason: str | None


def read_blocks(page: Path) -> list[Block]:
    """Return the code blocks of a page, without directives of the site (`{toctree}`)."""
    text = page.read_text("utf-8")
    blocks = [
        Block(text[: match.start(3)].count("\n") + 1, match[2], match[3], match[1])
        for match in BLOCK.finditer(text)
    ]
    return [block for block in blocks if not block.language.startswith("{")]


def run_page(page: Path, folder: Path, /, **names: Any) -> dict[str, Any]:
    """Run the blocks of a page in a folder and return the names of its Python code."""
    prepare_folder(folder)
    blocks, output = read_blocks(page), ""
    with contextlib.chdir(folder):
        for block in blocks:
            if block.reason is None:
                where = f"{page.name}:{block.line}"
                output = RUNNERS[block.language](block.text, where, names, output)
    return names


def prepare_folder(folder: Path) -> None:
    """Add the folders of the repository that pages name, and the command `attention-zoo`."""
    for name in ("models", "training"):
        (folder / name).symlink_to(ROOT / name)
    # A tiny public checkpoint, in place of those that pages name.
    for name in ("bert-base-cased", "bert-base-uncased"):
        (folder / name).symlink_to(ROOT / "tests" / "golden" / "bert")
    command = folder / ".bin" / "attention-zoo"
    command.parent.mkdir()
    command.write_text(COMMAND)
    command.chmod(0o755)


def run_python(text: str, where: str, names: dict[str, Any], output: str) -> str:
    """Run Python code and return what it prints."""
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(compile(text, where, "exec"), names)
    return printed.getvalue()


def run_shell(text: str, where: str, names: dict[str, Any], output: str) -> str:
    """Run commands and return what they print."""
    environment = os.environ | {
        "PATH": f"{Path.cwd() / '.bin'}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
    }
    command = ["bash", "-euo", "pipefail", "-c", text]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, f"{where}: {done.stderr}"
    return done.stdout


def mask_numbers(line: str) -> str:
    """Return a line without the values of its numbers and the units of the time left."""
    return re.sub(r"(# (s|min|h) )+left", "# left", re.sub(r"\d[\d,.]*", "#", line)).strip()


def check_output(text: str, where: str, names: dict[str, Any], output: str) -> str:
    """Check that the block before printed these lines, in this order."""
    printed = iter([mask_numbers(line) for line in output.splitlines()])
    for line in text.splitlines():
        if line.strip() not in ("", "..."):
            assert mask_numbers(line) in printed, f"{where}: not printed: {line}\n{output}"
    return output


def read_yaml(text: str, where: str, names: dict[str, Any], output: str) -> str:
    """Check the keys of a recipe, and save it under the name in its first line."""
    name = re.match(r"# (\S+\.yaml)\n", text)
    path = Path(name[1] if name else "unnamed.yaml")
    path.write_text(text, "utf-8")
    read_recipe(path, [] if "corpus:" in text else ["data.corpus=dates"])
    return output


def read_json(text: str, where: str, names: dict[str, Any], output: str) -> str:
    """Check that the text is JSON."""
    json.loads(text)
    return output


RUNNERS = {
    "python": run_python,
    "sh": run_shell,
    "text": check_output,
    "yaml": read_yaml,
    "json": read_json,
}
