"""Count code lines of the package, in total and per sub-package.

Docstrings of modules, classes and functions, blank lines, comments and import statements are not
counted.

    python benchmarks/count_code_lines.py [FOLDER]
"""

from __future__ import annotations

import argparse
import ast
import io
import tokenize
from collections import Counter
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "attention_zoo"
LAYOUT_TOKENS = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}


def count_code_lines(source: str) -> int:
    """Count the lines of a module without docstrings, blank lines, comments and imports."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in LAYOUT_TOKENS:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(source)):
        skipped = node if isinstance(node, ast.Import | ast.ImportFrom) else docstring(node)
        if skipped is not None:
            lines.difference_update(range(skipped.lineno, (skipped.end_lineno or 0) + 1))
    return len(lines)


def docstring(node: ast.AST) -> ast.stmt | None:
    """Return the docstring of a module, class or function as a statement; None without one."""
    documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    if isinstance(node, documented) and ast.get_docstring(node, clean=False) is not None:
        return node.body[0]
    return None


def count_package(folder: Path) -> Counter[str]:
    """Count the code lines of a folder by sub-package; "." is the folder's own modules."""
    counts: Counter[str] = Counter()
    for path in sorted(folder.rglob("*.py")):
        inside = path.relative_to(folder)
        name = inside.parts[0] if len(inside.parts) > 1 else "."
        counts[name] += count_code_lines(path.read_text("utf-8"))
    return counts


def main() -> None:
    """Print the counts."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", nargs="?", type=Path, default=PACKAGE)
    counts = count_package(parser.parse_args().folder)
    for name, count in [*counts.most_common(), ("total", counts.total())]:
        print(f"{name:<12} {count:>6,}")


if __name__ == "__main__":
    main()
