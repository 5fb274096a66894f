"""Mutants: a reproducible sample of small edits of a package, stratified by subpackage.

Not mutated: strings, annotations, imports, `__all__`, the arguments of `raise`, `assert`, `print`
and warnings, blocks under `if TYPE_CHECKING`, type variables, and `IGNORED_KEYWORDS`.
"""

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise

from tests.mutation.project import MutationError, Project, compute_digest

MINIMUM = 4  # mutants of each subpackage
SWAPS = [("+", "-"), ("*", "/"), ("<", "<="), (">", ">="), ("==", "!="), ("and", "or")]
SWAPS += [("is", "is not"), ("in", "not in")]
REPLACEMENTS = {"//": "*", "%": "*", "**": "*"} | dict(SWAPS) | {b: a for a, b in SWAPS}
WORDS = rb"\b(?:is\s+not|not\s+in|is|in|and|or)\b"
TOKEN = re.compile(rb"(?:#[^\n]*|[\s()\\])*(\*\*|//|[-+*/%]|[<>=!]+|" + WORDS + rb")")
NEGATED = ast.Not | ast.Eq | ast.NotEq | ast.Is | ast.IsNot | ast.In | ast.NotIn
SEQUENCES = ast.List | ast.Tuple | ast.ListComp | ast.JoinedStr
CONSTANTS = {bool: "flag", int: "integer", float: "floating_point"}
IGNORED_KEYWORDS = {"encoding", "strict", "stacklevel", "help", "metavar", "description"}
IGNORED_CALLS = {"print", "warn", "TypeVar", "ParamSpec", "TypeVarTuple"}
IGNORED_CONDITIONS = {"TYPE_CHECKING", "typing.TYPE_CHECKING", "__name__ == '__main__'"}
IGNORED_NODES = (ast.Import, ast.ImportFrom, ast.Assert, ast.JoinedStr, ast.match_case)
Edit = tuple[str, ast.AST, int, int, str]  # operator, node, offsets of the old text, new text


class Source:
    """A source text with its tree, addressed by byte offsets (as `ast` counts columns)."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.tree = ast.parse(data)
        self._starts = [0, *accumulate(map(len, data.splitlines(keepends=True)))]

    def span(self, node: ast.AST) -> tuple[int, int]:
        start = self._starts[node.lineno - 1] + node.col_offset
        return start, self._starts[node.end_lineno - 1] + node.end_col_offset

    def text(self, start: int, end: int) -> str:
        return self.data[start:end].decode()

    def skip(self, start: int, pattern: bytes) -> int:
        return re.compile(pattern).match(self.data, start).end()

    def replace_token(self, left: ast.AST) -> tuple[int, int, str] | None:
        """Replacement of the token after a left operand; None if there is none for it."""
        match = TOKEN.match(self.data, self.span(left)[1])
        new = match and REPLACEMENTS.get(" ".join(match[1].decode().split()))
        return (*match.span(1), new) if new else None


def edit_arithmetic(source: Source, node: ast.BinOp | ast.AugAssign) -> Iterator[Edit]:
    """`a + b` -> `a - b` and the like, also in `a += b`; `a - b` -> `b - a`, `a / b` -> `b / a`."""
    is_binary = isinstance(node, ast.BinOp)
    left, right = (node.left, node.right) if is_binary else (node.target, node.value)
    edit = source.replace_token(left)
    has_text = any(isinstance(getattr(operand, "value", 0), str) for operand in (left, right))
    if edit is None or has_text or isinstance(left, SEQUENCES) or isinstance(right, SEQUENCES):
        return
    yield "arithmetic", node, *edit
    if is_binary and isinstance(node.op, ast.Sub | ast.Div):
        start, end = source.span(node)
        before, after = source.text(start, edit[0]), source.text(edit[1], end)
        a, b = before.rstrip(), after.lstrip()
        token = before[len(a) :] + source.text(*edit[:2]) + after[: len(after) - len(b)]
        yield "operand_order", node, start, end, f"({b}){token}({a})"


def find_edits(source: Source, node: ast.AST, is_default: bool) -> Iterator[Edit]:
    """Yield all edits of a node."""
    match node:
        case ast.BinOp() | ast.AugAssign():
            yield from edit_arithmetic(source, node)
            if isinstance(node, ast.AugAssign):
                yield "deleted_statement", node, *source.span(node), "pass"
        case ast.Compare(left, _, comparators):  # `a < b` -> `a <= b`
            for operand in [left, *comparators[:-1]]:
                yield "comparison", node, *source.replace_token(operand)
        case ast.BoolOp(_, values):  # `a and b and c` -> `a or b or c`
            edits = [source.replace_token(operand) for operand in values[:-1]]
            between = [source.text(a[1], b[0]) for a, b in pairwise(edits)]
            new = edits[0][2].join(["", *between, ""])
            yield "boolean", node, edits[0][0], edits[-1][1], new
        case ast.UnaryOp(ast.Not()):  # `not a` -> `a`
            start = source.span(node)[0]
            yield "dropped_not", node, start, source.skip(start, rb"not\s*"), ""
        case ast.If(test) | ast.IfExp(test):  # `if a` -> `if not a`, where that is no edit of `a`
            op = [*getattr(test, "ops", []), getattr(test, "op", None)]
            if len(op) > 2 or not isinstance(op[0], NEGATED):
                start, end = source.span(test)
                yield "negated_condition", test, start, end, f"not ({source.text(start, end)})"
        case ast.Constant(bool() | int() | float() as value):  # `1` -> `2`, `True` -> `False`
            name = "default_argument" if is_default else CONSTANTS[type(value)]
            is_large = isinstance(value, float) and abs(value) >= 1e6
            new = not value if isinstance(value, bool) else 1.0 if is_large else value + 1
            yield name, node, *source.span(node), repr(new)
        case ast.Slice(lower, upper):  # `x[1:]` -> `x[:]`, `x[n:]` -> `x[n + 1:]`
            for bound in filter(None, (lower, upper)):
                text = source.text(*source.span(bound))
                new = "" if text.lstrip("-").isdigit() else f"{text} + 1"
                yield "slice_bound", bound, *source.span(bound), new
        case ast.Call(keywords=keywords):  # `f(a, b=c)` -> `f(a)`
            for keyword in keywords:
                if keyword.arg is not None and keyword.arg not in IGNORED_KEYWORDS:
                    start, end = source.span(keyword)
                    yield "dropped_keyword", keyword, start, source.skip(end, rb"(\s*,)?"), ""
        case (
            ast.Assign([ast.Attribute(ast.Name("self")), *_])
            | ast.AnnAssign(ast.Attribute(ast.Name("self")), value=ast.expr())
            | ast.Expr(ast.Call())
            | ast.Raise()
        ):
            yield "deleted_statement", node, *source.span(node), "pass"
        case ast.Return(value) if getattr(value, "value", value) not in (None, False):
            yield "return_none", node, *source.span(node), "return None"
            if isinstance(value, ast.Dict):  # `{"a": b, "c": d}` -> `{"c": d}`
                for key, entry in zip(value.keys, value.values, strict=True):
                    if key is not None:
                        end = source.skip(source.span(entry)[1], rb"([\s)]*(,|(?=})))?")
                        yield "dropped_entry", key, source.span(key)[0], end, ""


def is_ignored(node: ast.AST) -> bool:
    match node:
        case ast.keyword(name):
            return name in IGNORED_KEYWORDS
        case ast.Call(ast.Name(name) | ast.Attribute(attr=name)):
            return name in IGNORED_CALLS
        case ast.If(test):
            return ast.unparse(test) in IGNORED_CONDITIONS
        case ast.Assign([ast.Name("__all__"), *_]):
            return True
    return isinstance(node, IGNORED_NODES)


def find_sites(
    node: ast.AST, covered: tuple[int, int], at_import: bool = True, is_default: bool = False
) -> Iterator[tuple[ast.AST, tuple[int, int], bool]]:
    """Walk a tree; yield nodes, the lines that cover them, and if they are a default argument.

    A test that executes one of these lines (first, last) covers the node: those of its statement,
    of the function whose default or decorator it is, or of the class or module that contains it.
    """
    if is_ignored(node):
        return
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        body = (node.body[0].lineno, node.end_lineno)
        for default in filter(None, [*node.args.defaults, *node.args.kw_defaults]):
            yield from find_sites(default, body, at_import=False, is_default=True)
        for child in [*node.decorator_list, *node.body]:
            yield from find_sites(child, body, at_import=False)
        return
    if isinstance(node, ast.ClassDef):
        covered, at_import = (node.lineno, node.end_lineno), True
    elif isinstance(node, ast.stmt) and not at_import:
        block = getattr(node, "body", None)
        last = block[0].lineno - 1 if block else node.end_lineno
        covered = (node.lineno, max(node.lineno, last))
    yield node, covered, is_default
    if not isinstance(node, ast.Raise):
        for child in ast.iter_child_nodes(node):
            if child is not getattr(node, "annotation", None):
                yield from find_sites(child, covered, at_import, is_default)


@dataclass(frozen=True)
class Mutant:
    """One edit of one module."""

    path: str
    line: int
    column: int
    operator: str
    index: int  # among the mutants with the same position and operator
    covered: tuple[int, int]  # first and last line; a test that executes one covers it
    edit: tuple[int, int, str]  # byte offsets of the replaced text, and the new text
    rank: str = ""  # position in the seeded order
    old: str = ""  # the lines that differ, without indentation and blank lines
    new: str = ""

    @property
    def id(self) -> str:
        return f"{self.path}:{self.line}:{self.column}:{self.operator}:{self.index}"

    @property
    def key(self) -> tuple[str, str, str]:
        """Identifier in the list of equivalent mutants."""
        return self.path, self.old, self.new

    def apply(self, source: bytes) -> bytes:
        """Return the mutated source; it has as many lines as the original."""
        start, end, text = self.edit
        missing = source.count(b"\n", start, end) - text.count("\n")
        return source[:start] + text.encode() + b"\n" * missing + source[end:]


def find_candidates(path: str, source: Source, seed: int) -> Iterator[Mutant]:
    """Yield all mutants of a module; their ranks hardly depend on its other lines."""
    lines = source.data.decode().splitlines()
    counts: Counter[tuple] = Counter()
    for node, covered, is_default in find_sites(source.tree, (1, len(lines) + 1)):
        for name, at, *edit in find_edits(source, node, is_default):
            position, text = (at.lineno, at.col_offset, name), lines[at.lineno - 1].strip()
            rank = compute_digest(str(seed), path, name, text, str(counts[name, text]))
            yield Mutant(path, *position, counts[position], covered, tuple(edit), rank)
            counts.update([position, (name, text)])


def validate(mutant: Mutant, source: Source) -> Mutant | None:
    """Return the mutant with its diff; None if it does not compile or is the same program."""
    data = mutant.apply(source.data)
    try:
        tree = ast.parse(data)
        compile(tree, mutant.path, "exec")
    except SyntaxError:
        return None
    if ast.dump(tree) == ast.dump(source.tree):
        return None
    lines = (text.decode().splitlines() for text in (source.data, data))
    changed = [(a.strip(), b.strip()) for a, b in zip(*lines, strict=False) if a != b]
    old, new = ("\n".join(filter(None, column)) for column in zip(*changed, strict=True))
    return replace(mutant, old=old, new=new)


def compute_quotas(sizes: dict[str, int], count: int) -> dict[str, int]:
    """Split `count` in proportion to sizes, but at least `MINIMUM` for each; the sum is exact."""
    if count < MINIMUM * len(sizes):
        raise MutationError(f"--count must be at least {MINIMUM * len(sizes)}, got {count}.")
    rest, total, shares = count, sum(sizes.values()), {}
    for name in sorted(sizes, key=sizes.__getitem__):
        shares[name] = max(float(MINIMUM), rest * sizes[name] / total)
        if shares[name] == MINIMUM:
            rest, total = rest - MINIMUM, total - sizes[name]
    quotas = {name: int(share) for name, share in shares.items()}
    by_remainder = sorted(shares, key=lambda name: (quotas[name] - shares[name], name))
    for name in by_remainder[: count - sum(quotas.values())]:
        quotas[name] += 1
    return quotas


def sample(pool: list[Mutant], sources: dict[str, Source], count: int) -> list[Mutant]:
    """Sample at most one mutant a line; alternate operators, prefer modules with few mutants."""
    by_operator: defaultdict[str, list[Mutant]] = defaultdict(list)
    for mutant in sorted(pool, key=lambda m: m.rank):
        by_operator[mutant.operator].append(mutant)
    lines: set[tuple[str, int]] = set()
    drawn: list[Mutant] = []
    while by_operator and len(drawn) < count:
        for name in list(by_operator):
            used = Counter(m.path for m in drawn)
            left = [m for m in by_operator.pop(name) if (m.path, m.line) not in lines]
            if left and len(drawn) < count:
                left.remove(best := min(left, key=lambda m: (used[m.path], m.rank)))
                by_operator[name] = left
                if mutant := validate(best, sources[best.path]):
                    drawn.append(mutant)
                    lines.add((mutant.path, mutant.line))
    return drawn


def get_group(path: str) -> str:
    """Subpackage of a module; modules directly in the package form one group."""
    package, *folders, _ = path.split("/")
    return folders[0] if folders else f"{package}/*.py"


def generate(project: Project, seed: int, count: int) -> list[Mutant]:
    """Return `count` mutants of the package, sorted by position; fewer if it is tiny."""
    paths = project.find(project.package, "**/*.py")
    sources = {path: Source(project.read(path)) for path in paths}
    sizes: Counter[str] = Counter()
    pools: defaultdict[str, list[Mutant]] = defaultdict(list)
    for path, source in sources.items():
        nodes = [n for n in ast.walk(source.tree) if isinstance(n, ast.stmt | ast.expr | ast.arg)]
        sizes[get_group(path)] += len({node.lineno for node in nodes})
        pools[get_group(path)] += find_candidates(path, source, seed)
    quotas = compute_quotas(dict(sizes), count)
    drawn = [mutant for group in quotas for mutant in sample(pools[group], sources, quotas[group])]
    return sorted(drawn, key=lambda m: (m.path, m.line, m.column, m.operator, m.index))
