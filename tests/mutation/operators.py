"""Mutation operators: small edits of a Python source, at the positions that `ast` reports.

Not mutated: docstrings and other strings, f-strings, annotations, imports, `__all__`, the arguments
of `raise`, `assert`, `print` and warnings, blocks under `if TYPE_CHECKING`, type variables, and the
keyword arguments in `IGNORED_KEYWORDS`.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass

Part = tuple[int, int, str]
"""Replace the bytes from the first offset up to the second with a text."""
Replacements = tuple[ast.AST, list[Part]]

ARITHMETIC = {
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "/"),
    ast.Div: ("/", "*"),
    ast.FloorDiv: ("//", "*"),
    ast.Mod: ("%", "*"),
    ast.Pow: ("**", "*"),
}
COMPARISONS = {
    ast.Lt: (r"<", "<="),
    ast.LtE: (r"<=", "<"),
    ast.Gt: (r">", ">="),
    ast.GtE: (r">=", ">"),
    ast.Eq: (r"==", "!="),
    ast.NotEq: (r"!=", "=="),
    ast.Is: (r"\bis\b", "is not"),
    ast.IsNot: (r"\bis\s+not\b", "is"),
    ast.In: (r"\bin\b", "not in"),
    ast.NotIn: (r"\bnot\s+in\b", "in"),
}
TWO_WAY = ast.Eq | ast.NotEq | ast.Is | ast.IsNot | ast.In | ast.NotIn
SEQUENCES = ast.List | ast.Tuple | ast.ListComp | ast.JoinedStr


class Source:
    """A source text with its tree, addressed by byte offsets (as `ast` counts columns)."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.tree = ast.parse(data)
        self._starts = [0]
        for line in data.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))

    def start(self, node: ast.AST) -> int:
        return self._starts[node.lineno - 1] + node.col_offset

    def end(self, node: ast.AST) -> int:
        return self._starts[node.end_lineno - 1] + node.end_col_offset

    def text(self, start: int, end: int) -> str:
        return self.data[start:end].decode()

    def part(self, start: int, end: int, text: str) -> Part:
        """A replacement that keeps the number of lines."""
        missing = self.data.count(b"\n", start, end) - text.count("\n")
        return start, end, text + "\n" * missing

    def token(self, start: int, end: int, pattern: str) -> tuple[int, int]:
        """Offsets of the first match between two nodes, where only `()`, comments and it stand."""
        gap = re.sub(rb"#[^\n]*", lambda m: b" " * len(m[0]), self.data[start:end])
        match = re.search(pattern.encode(), gap)
        assert match is not None, f"no {pattern} in {gap!r}"
        return start + match.start(), start + match.end()

    def end_of_item(self, end: int, closing: bytes) -> int:
        """End of an item of a call or literal: after its comma, or before the closing bracket."""
        match = re.compile(rb"[\s)]*," if closing == b"}" else rb"\s*,").match(self.data, end)
        if match:
            return match.end()
        return self.data.index(closing, end) if closing == b"}" else end


@dataclass(frozen=True)
class Site:
    """A node that may be mutated.

    Args:
        node: the node.
        covered: first and last line whose execution shows that a test reaches the node.
        is_default: whether the node is part of the default value of an argument.
        at_import: whether importing the module executes the node, instead of a call.
    """

    node: ast.AST
    covered: tuple[int, int]
    is_default: bool = False
    at_import: bool = False


Operator = Callable[[Source, Site], Iterator[Replacements]]
OPERATORS: defaultdict[type[ast.AST], list[Operator]] = defaultdict(list)
"""Mutation operators by type of node."""


def operator(*types: type[ast.AST]) -> Callable[[Operator], Operator]:
    """Register a mutation operator for nodes of some types; its name is the function's."""

    def register(function: Operator) -> Operator:
        for node_type in types:
            OPERATORS[node_type].append(function)
        return function

    return register


def find_edits(source: Source, site: Site) -> Iterator[tuple[str, ast.AST, list[Part]]]:
    """Mutations of one node: name of the operator, node that gives the position, replacements."""
    for function in OPERATORS[type(site.node)]:
        for node, parts in function(source, site):
            yield function.__name__, node, parts


def _get_operands(node: ast.BinOp | ast.AugAssign) -> tuple[ast.AST, ast.operator, ast.AST] | None:
    """Left operand, operator and right operand of arithmetic on numbers or tensors."""
    if isinstance(node, ast.BinOp):
        left, right = node.left, node.right
    else:
        left, right = node.target, node.value
    for operand in (left, right):
        is_text = isinstance(operand, ast.Constant) and isinstance(operand.value, str)
        if is_text or isinstance(operand, SEQUENCES):
            return None
    return (left, node.op, right) if type(node.op) in ARITHMETIC else None


@operator(ast.BinOp, ast.AugAssign)
def arithmetic(source: Source, site: Site) -> Iterator[Replacements]:
    """`a + b` -> `a - b`, `a * b` -> `a / b` and the like, also in `a += b`."""
    if operands := _get_operands(site.node):
        left, op, right = operands
        old, new = ARITHMETIC[type(op)]
        start, end = source.token(source.end(left), source.start(right), re.escape(old))
        yield site.node, [(start, end, new)]


@operator(ast.BinOp)
def operand_order(source: Source, site: Site) -> Iterator[Replacements]:
    """`a - b` -> `b - a`, `a / b` -> `b / a`."""
    operands = _get_operands(site.node)
    if operands and isinstance(operands[1], ast.Sub | ast.Div):
        left, op, right = operands
        token = ARITHMETIC[type(op)][0]
        middle, after = source.token(source.end(left), source.start(right), re.escape(token))
        first, last = source.start(site.node), source.end(site.node)
        left_text, right_text = source.text(first, middle), source.text(after, last)
        left_gap = left_text[len(left_text.rstrip()) :]
        right_gap = right_text[: len(right_text) - len(right_text.lstrip())]
        swapped = f"({right_text.lstrip()}){left_gap}{token}{right_gap}({left_text.rstrip()})"
        yield site.node, [(first, last, swapped)]


@operator(ast.Compare)
def comparison(source: Source, site: Site) -> Iterator[Replacements]:
    """`<` -> `<=`, `==` -> `!=`, `is` -> `is not`, `in` -> `not in` and back."""
    operands = [site.node.left, *site.node.comparators]
    for left, op, right in zip(operands, site.node.ops, operands[1:], strict=False):
        pattern, new = COMPARISONS[type(op)]
        start, end = source.token(source.end(left), source.start(right), pattern)
        yield site.node, [(start, end, new)]


@operator(ast.BoolOp)
def boolean(source: Source, site: Site) -> Iterator[Replacements]:
    """`a and b` -> `a or b` and back."""
    old, new = ("and", "or") if isinstance(site.node.op, ast.And) else ("or", "and")
    pairs = zip(site.node.values, site.node.values[1:], strict=False)
    tokens = [source.token(source.end(a), source.start(b), rf"\b{old}\b") for a, b in pairs]
    yield site.node, [(start, end, new) for start, end in tokens]


@operator(ast.UnaryOp)
def dropped_not(source: Source, site: Site) -> Iterator[Replacements]:
    """`not a` -> `a`."""
    if isinstance(site.node.op, ast.Not):
        start = source.start(site.node)
        end = re.compile(rb"not\s*").match(source.data, start).end()
        yield site.node, [source.part(start, end, "")]


@operator(ast.If, ast.IfExp)
def negated_condition(source: Source, site: Site) -> Iterator[Replacements]:
    """`if a:` -> `if not (a):`, where no other operator does the same."""
    test = site.node.test
    negation = isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not)
    two_way = isinstance(test, ast.Compare) and isinstance(test.ops[0], TWO_WAY)
    if not negation and not (two_way and len(test.ops) == 1):
        start, end = source.start(test), source.end(test)
        yield test, [(start, end, f"not ({source.text(start, end)})")]


def _change_value(value: object) -> str | None:
    """Source of another constant of the same type; None for types that are not mutated."""
    if isinstance(value, bool):
        return repr(not value)
    if isinstance(value, int):
        return repr(value + 1)
    if isinstance(value, float):
        return repr(value + 1.0 if abs(value) < 1e6 else 1.0)
    return None


def _replace_constant(source: Source, site: Site, kind: type | None) -> Iterator[Replacements]:
    """Another value for a constant of exactly this type, or of any type for None."""
    new = _change_value(site.node.value)
    if new is not None and kind in (None, type(site.node.value)):
        yield site.node, [(source.start(site.node), source.end(site.node), new)]


@operator(ast.Constant)
def integer(source: Source, site: Site) -> Iterator[Replacements]:
    """An integer constant plus one."""
    if not site.is_default:
        yield from _replace_constant(source, site, int)


@operator(ast.Constant)
def floating_point(source: Source, site: Site) -> Iterator[Replacements]:
    """A floating-point constant plus one; 1.0 for large ones."""
    if not site.is_default:
        yield from _replace_constant(source, site, float)


@operator(ast.Constant)
def flag(source: Source, site: Site) -> Iterator[Replacements]:
    """`True` -> `False` and back."""
    if not site.is_default:
        yield from _replace_constant(source, site, bool)


@operator(ast.Constant)
def default_argument(source: Source, site: Site) -> Iterator[Replacements]:
    """Another number or flag as the default value of an argument."""
    if site.is_default:
        yield from _replace_constant(source, site, None)
