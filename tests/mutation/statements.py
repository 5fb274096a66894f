"""Mutation operators on statements, calls and slices, and the walk that finds what to mutate."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.mutation.operators import Replacements, Site, Source, operator

IGNORED_KEYWORDS = {"encoding", "strict", "stacklevel", "help", "metavar", "description"}
IGNORED_CALLS = {"print", "warn", "TypeVar", "ParamSpec", "TypeVarTuple"}
IGNORED_CONDITIONS = {"TYPE_CHECKING", "typing.TYPE_CHECKING", "__name__ == '__main__'"}
IGNORED_NODES = (
    ast.Import
    | ast.ImportFrom
    | ast.Assert
    | ast.JoinedStr
    | ast.Global
    | ast.Nonlocal
    | ast.match_case
)


@operator(ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Expr, ast.Raise)
def deleted_statement(source: Source, site: Site) -> Iterator[Replacements]:
    """`self.x = y`, `x += y`, `f()` or `raise` -> `pass`."""
    node = site.node
    if isinstance(node, ast.Assign | ast.AnnAssign):
        target = node.targets[0] if isinstance(node, ast.Assign) else node.target
        on_self = isinstance(target, ast.Attribute) and ast.unparse(target.value) == "self"
        has_effect = on_self and node.value is not None
    else:
        has_effect = not isinstance(node, ast.Expr) or isinstance(node.value, ast.Call)
    if has_effect:
        yield node, [source.part(source.start(node), source.end(node), "pass")]


@operator(ast.Return)
def return_none(source: Source, site: Site) -> Iterator[Replacements]:
    """`return x` -> `return None`, unless x is `None`, `False` or 0."""
    value = site.node.value
    falsy = isinstance(value, ast.Constant) and value.value in (None, False)
    if value is not None and not falsy:
        start, end = source.start(site.node), source.end(site.node)
        yield site.node, [source.part(start, end, "return None")]


@operator(ast.Call)
def dropped_keyword(source: Source, site: Site) -> Iterator[Replacements]:
    """`f(a, b=c)` -> `f(a)`."""
    for keyword in site.node.keywords:
        if keyword.arg is not None and keyword.arg not in IGNORED_KEYWORDS:
            end = source.end_of_item(source.end(keyword), b")")
            yield keyword, [source.part(source.start(keyword), end, "")]


@operator(ast.Return)
def dropped_entry(source: Source, site: Site) -> Iterator[Replacements]:
    """`return {"a": b, "c": d}` -> `return {"c": d}`."""
    value = site.node.value
    if isinstance(value, ast.Dict):
        for key, entry in zip(value.keys, value.values, strict=True):
            if key is not None:
                end = source.end_of_item(source.end(entry), b"}")
                yield key, [source.part(source.start(key), end, "")]


@operator(ast.Slice)
def slice_bound(source: Source, site: Site) -> Iterator[Replacements]:
    """`x[1:]` -> `x[:]`, `x[n:]` -> `x[n + 1:]`."""
    for bound in filter(None, (site.node.lower, site.node.upper)):
        is_signed = isinstance(bound, ast.UnaryOp) and isinstance(bound.op, ast.USub)
        is_constant = isinstance(bound.operand if is_signed else bound, ast.Constant)
        start, end = source.start(bound), source.end(bound)
        new = "" if is_constant else f"{source.text(start, end)} + 1"
        yield bound, [source.part(start, end, new)]


# ------------------------------------------------------------------ which nodes are mutated


def _is_ignored(node: ast.AST) -> bool:
    if isinstance(node, IGNORED_NODES):
        return True
    if isinstance(node, ast.keyword):
        return node.arg in IGNORED_KEYWORDS
    if isinstance(node, ast.Call):
        name = node.func.attr if isinstance(node.func, ast.Attribute) else node.func
        return getattr(name, "id", name) in IGNORED_CALLS
    if isinstance(node, ast.If):
        return ast.unparse(node.test) in IGNORED_CONDITIONS
    if isinstance(node, ast.Assign):
        return ast.unparse(node.targets[0]) == "__all__"
    return False


def _find_header_lines(node: ast.stmt) -> tuple[int, int]:
    """Lines of a statement without the blocks in it."""
    body = getattr(node, "body", None) or getattr(node, "cases", None)
    if isinstance(body, list):
        first = getattr(body[0], "lineno", node.lineno + 1)
        return node.lineno, max(node.lineno, first - 1)
    return node.lineno, node.end_lineno


def _find_function_sites(node: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[Site]:
    """Sites of a function; its body shows whether a test reaches its defaults and decorators."""
    body = (node.body[0].lineno, node.end_lineno)
    for decorator in node.decorator_list:
        yield from _find_sites(decorator, body, None)
    for default in filter(None, [*node.args.defaults, *node.args.kw_defaults]):
        yield from _find_sites(default, body, None, is_default=True)
    for statement in node.body:
        yield from _find_sites(statement, body, None)


def _find_sites(
    node: ast.AST,
    covered: tuple[int, int],
    enclosing: tuple[int, int] | None,
    is_default: bool = False,
) -> Iterator[Site]:
    """Walk a tree.

    Args:
        node: root of the tree.
        covered: lines of the enclosing statement, see `Site`.
        enclosing: lines of the class or module whose import runs the statement; None in functions.
        is_default: see `Site`.
    """
    if _is_ignored(node):
        return
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        yield from _find_function_sites(node)
        return
    if isinstance(node, ast.ClassDef):
        covered = enclosing = (node.lineno, node.end_lineno)
    elif isinstance(node, ast.stmt):
        covered = enclosing or _find_header_lines(node)
    yield Site(node, covered, is_default, at_import=enclosing is not None)
    if isinstance(node, ast.Raise):
        return
    for name, value in ast.iter_fields(node):
        if name == "annotation":
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from _find_sites(child, covered, enclosing, is_default)


def find_sites(source: Source) -> Iterator[Site]:
    """All nodes of a module that may be mutated."""
    whole = (1, source.data.count(b"\n") + 1)
    for statement in source.tree.body:
        yield from _find_sites(statement, whole, whole)
