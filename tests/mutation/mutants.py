"""Mutants: a reproducible sample of small edits, stratified by subpackage."""

from __future__ import annotations

import ast
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from tests.mutation.operators import Part, Source, find_edits
from tests.mutation.project import Project, UsageError, compute_digest
from tests.mutation.statements import find_sites

MINIMUM = 4
"""Mutants of a subpackage at least, however small it is."""


@dataclass(frozen=True)
class Mutant:
    """One edit of one module.

    Args:
        path: the module, relative to the repository.
        line, column: position of the edit, as `ast` counts.
        operator: name of the mutation operator.
        index: number among the mutants with the same position and operator.
        covered: first and last line whose execution shows that a test reaches the edit.
        at_import: whether importing the module executes the edit, instead of a call.
        parts: replacements, by byte offset.
        old, new: the lines that differ, without indentation and blank lines.
        rank: position of the mutant in the seeded order.
    """

    path: str
    line: int
    column: int
    operator: str
    index: int
    covered: tuple[int, int]
    at_import: bool
    parts: tuple[Part, ...]
    old: str = ""
    new: str = ""
    rank: str = ""

    @property
    def id(self) -> str:
        return f"{self.path}:{self.line}:{self.column}:{self.operator}:{self.index}"

    def apply(self, source: bytes) -> bytes:
        """Return the mutated source; it has as many lines as the original."""
        for start, end, text in sorted(self.parts, reverse=True):
            source = source[:start] + text.encode() + source[end:]
        return source


def diff_lines(old: bytes, new: bytes) -> tuple[str, str]:
    """Lines that differ between two sources with the same number of lines, stripped."""
    pairs = zip(old.decode().splitlines(), new.decode().splitlines(), strict=False)
    differing = [(a.strip(), b.strip()) for a, b in pairs if a != b]
    before, after = ("\n".join(filter(None, column)) for column in zip(*differing, strict=True))
    return before, after


def find_candidates(path: str, source: Source, seed: int) -> Iterator[Mutant]:
    """All mutants of a module.

    The rank depends on the edited line and not on its number, so an edit elsewhere in the module
    hardly changes which mutants are drawn.
    """
    lines = source.data.decode().splitlines()
    at_position: Counter[tuple[int, int, str]] = Counter()
    on_line: Counter[tuple[str, str]] = Counter()
    for site in find_sites(source):
        for name, node, parts in find_edits(source, site):
            position = (node.lineno, node.col_offset, name)
            text = lines[node.lineno - 1].strip()
            rank = compute_digest(str(seed), path, name, text, str(on_line[name, text]))
            index = at_position[position]
            where = (site.covered, site.at_import, tuple(parts))
            yield Mutant(path, *position, index, *where, rank=rank)
            at_position[position] += 1
            on_line[name, text] += 1


def validate(mutant: Mutant, source: Source) -> Mutant | None:
    """The mutant with its diff; None if it does not compile or is the same program."""
    data = mutant.apply(source.data)
    try:
        tree = ast.parse(data)
        compile(tree, mutant.path, "exec")
    except SyntaxError:
        return None
    if ast.dump(tree) == ast.dump(source.tree):
        return None
    old, new = diff_lines(source.data, data)
    return Mutant(**{**vars(mutant), "old": old, "new": new})


def count_lines(source: Source) -> int:
    """Lines on which a statement or expression starts, without docstrings."""
    nodes = ast.walk(source.tree)
    return len({n.lineno for n in nodes if isinstance(n, ast.stmt | ast.expr | ast.arg)})


def compute_quotas(sizes: dict[str, int], count: int, minimum: int = MINIMUM) -> dict[str, int]:
    """Split `count` in proportion to sizes, with a minimum for each; the sum is exact.

    Raises:
        UsageError: if `count` is below the sum of the minima.
    """
    if count < minimum * len(sizes):
        raise UsageError(f"--count must be at least {minimum * len(sizes)}, got {count}.")
    small: set[str] = set()
    while True:
        rest = count - minimum * len(small)
        total = sum(size for name, size in sizes.items() if name not in small)
        shares = {n: rest * size / total for n, size in sizes.items() if n not in small}
        below = {name for name, share in shares.items() if share < minimum}
        if not below:
            break
        small |= below
    result = {**dict.fromkeys(small, minimum), **{n: int(share) for n, share in shares.items()}}
    by_remainder = sorted(shares, key=lambda name: (int(shares[name]) - shares[name], name))
    for name in by_remainder[: count - sum(result.values())]:
        result[name] += 1
    return result


def draw(pool: list[Mutant], sources: dict[str, Source], count: int) -> list[Mutant]:
    """Draw mutants by rank: operators in turn, modules with the fewest mutants first.

    At most one mutant is drawn for each line.
    """
    by_operator: defaultdict[str, list[Mutant]] = defaultdict(list)
    for mutant in pool:
        by_operator[mutant.operator].append(mutant)
    turns = sorted(by_operator, key=lambda name: min(m.rank for m in by_operator[name]))
    used: Counter[str] = Counter()
    lines: set[tuple[str, int]] = set()
    drawn: list[Mutant] = []
    while turns and len(drawn) < count:
        for name in list(turns):
            left = by_operator[name]
            left[:] = [m for m in left if (m.path, m.line) not in lines]
            if not left:
                turns.remove(name)
                continue
            best = min(left, key=lambda m: (used[m.path], m.rank))
            left.remove(best)
            if len(drawn) < count and (mutant := validate(best, sources[best.path])):
                drawn.append(mutant)
                used[mutant.path] += 1
                lines.add((mutant.path, mutant.line))
    return drawn


def generate(project: Project, seed: int, count: int, minimum: int = MINIMUM) -> list[Mutant]:
    """Return `count` mutants of the package, sorted by position; fewer if it is tiny.

    Args:
        project: the repository.
        seed: chooses the sample.
        count: number of mutants, spread over the subpackages by lines of code.
        minimum: mutants of a subpackage at least.
    """
    sources = {path: Source(project.read(path)) for path in project.list_sources()}
    sizes: Counter[str] = Counter()
    pools: defaultdict[str, list[Mutant]] = defaultdict(list)
    for path, source in sources.items():
        sizes[project.get_group(path)] += count_lines(source)
        pools[project.get_group(path)] += find_candidates(path, source, seed)
    drawn = [
        mutant
        for group, quota in compute_quotas(dict(sizes), count, minimum).items()
        for mutant in draw(pools[group], sources, quota)
    ]
    return sorted(drawn, key=lambda m: (m.path, m.line, m.column, m.operator, m.index))
