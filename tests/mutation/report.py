"""The report on a set of mutants, as Markdown."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from tests.mutation.mutants import Mutant
from tests.mutation.project import Project
from tests.mutation.state import Equivalent, Result

SHOWN_LINES = 3
EXPLANATIONS = {
    "uncovered": "no test of the fast tier executes it",
    "killed_full": "the full tier kills it",
}


@dataclass(frozen=True)
class Row:
    """A mutant with its result (None if it has not been run) and its entry as an equivalent."""

    mutant: Mutant
    result: Result | None
    equivalent: Equivalent | None

    @property
    def kind(self) -> str:
        if self.result is None:
            return "equivalent" if self.equivalent else "not run"
        if self.result.is_killed:
            return "killed"
        return "equivalent" if self.equivalent else "survived"


def make_rows(
    mutants: list[Mutant], results: list[Result | None], equivalents: list[Equivalent]
) -> list[Row]:
    """Join mutants, results and the list of equivalents."""
    return [
        Row(mutant, result, next((e for e in equivalents if e.matches(mutant)), None))
        for mutant, result in zip(mutants, results, strict=True)
    ]


def _format_score(rows: list[Row]) -> str:
    """Killed among the mutants that are run and not equivalent."""
    kinds = [row.kind for row in rows]
    counted = kinds.count("killed") + kinds.count("survived")
    return f"{100 * kinds.count('killed') / counted:.1f} %" if counted else "-"


def _format_table(project: Project, rows: list[Row]) -> list[str]:
    groups: defaultdict[str, list[Row]] = defaultdict(list)
    for row in rows:
        groups[project.get_group(row.mutant.path)].append(row)
    lines = [
        "| subpackage | mutants | killed | equivalent | survived | score |",
        "|---|---|---|---|---|---|",
    ]
    for name, members in [*sorted(groups.items()), ("all", rows)]:
        kinds = [row.kind for row in members]
        counts = [kinds.count(kind) for kind in ("killed", "equivalent", "survived")]
        cells = [f"`{name}`" if name != "all" else name, len(members), *counts]
        lines.append(f"| {' | '.join(map(str, cells))} | {_format_score(members)} |")
    return lines


def _format_diff(mutant: Mutant) -> list[str]:
    lines = ["```diff"]
    for sign, text in (("-", mutant.old), ("+", mutant.new)):
        parts = text.splitlines()
        shown = parts if len(parts) <= SHOWN_LINES else [*parts[:SHOWN_LINES], "..."]
        lines += [f"{sign} {part}" for part in shown]
    return [*lines, "```", ""]


def _format_note(result: Result) -> str:
    """What is known about a survivor, beside that it survived."""
    notes = [EXPLANATIONS.get(result.status, f"{result.tests} tests pass")]
    if result.status == "killed_full":
        notes.append(f"`{result.killed_by}`")
    elif result.full_tier:
        notes.append(f"full tier: {result.full_tier}")
    if result.dropped:
        notes.append(f"{result.dropped} more covering tests are over the budget")
    return "; ".join(notes)


def _format_survivors(rows: list[Row]) -> list[str]:
    lines = []
    for row in rows:
        if row.kind == "survived" and row.result is not None:
            lines += [
                f"`{row.mutant.id}`: {_format_note(row.result)}.",
                "",
                *_format_diff(row.mutant),
            ]
    return lines or ["None.", ""]


def _format_equivalents(rows: list[Row]) -> list[str]:
    lines = []
    for row in rows:
        if row.kind == "equivalent" and row.equivalent is not None:
            reason = " ".join(row.equivalent.reason.split())
            lines += [f"`{row.mutant.id}`: {reason}", "", *_format_diff(row.mutant)]
    return lines or ["None.", ""]


def format_report(
    project: Project, rows: list[Row], seed: int, requested: int, restriction: str = ""
) -> str:
    """Return the text of the report.

    Args:
        project: the repository.
        rows: all mutants of the run.
        seed, requested: `--seed` and `--count`.
        restriction: options that exclude mutants or tests, for a partial run.
    """
    in_full_tier = [row for row in rows if row.result and row.result.status == "killed_full"]
    not_run = sum(row.kind == "not run" for row in rows)
    counts = f"{len(rows)} mutants (`--seed {seed} --count {requested}{restriction}`)"
    score = f"The fast tier kills {_format_score(rows)} of the mutants that are not equivalent."
    lines = ["# Mutation testing", "", "Written by `make mutants`.", "", f"{counts}. {score}"]
    lines.append("A mutant that makes the tests hang or crash counts as killed.")
    if in_full_tier:
        lines.append(f"The full tier kills {len(in_full_tier)} of the survivors.")
    if not_run:
        lines.append(f"{not_run} mutants have not been run and are not counted.")
    lines += ["", *_format_table(project, rows), ""]
    wrong = [row for row in rows if row.equivalent and row.kind == "killed"]
    if wrong:
        lines += ["## Wrong entries of equivalent.yaml: a test kills the mutant", ""]
        lines += [f"- `{row.mutant.id}`, by `{row.result.killed_by}`" for row in wrong]
        lines.append("")
    lines += ["## Survivors", "", *_format_survivors(rows)]
    lines += ["## Equivalent mutants", "", *_format_equivalents(rows)]
    return "\n".join(lines).rstrip() + "\n"
