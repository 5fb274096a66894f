"""Results of mutants in a file, the list of equivalent mutants, and the report."""

import json
from collections import Counter, defaultdict
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import yaml

from tests.mutation.mutants import Mutant, get_group
from tests.mutation.project import MutationError

FULL = "killed by the full tier only"
Equivalents = dict[tuple[str, str, str], str]  # module, old lines, new lines -> reason


@dataclass(frozen=True)
class Result:
    id: str
    status: str  # of the fast tier: killed, timeout (a kill too), survived or no tests
    killed_by: str = ""  # the test that failed; "" if pytest crashed or hung
    full_tier: str = ""  # killed, survived, timeout (no kill) or no tests; "" if not run
    tests: int = 0  # number of tests that ran
    covering: int = 0  # number of tests that cover the mutant
    new: str = ""  # the changed lines
    source_hash: str = ""  # of the module
    evidence: str = ""  # hash of the tests

    @property
    def kind(self) -> str:
        """How the mutant is counted: killed, killed by the full tier only, or survived."""
        if self.status in ("killed", "timeout"):
            return "killed"
        return FULL if self.full_tier == "killed" else "survived"


class State:
    """Results in a JSON-lines file; the last line of a mutant replaces earlier ones."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.results: dict[str, Result] = {}
        for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else []:
            try:
                row = json.loads(line)
            except json.JSONDecodeError:  # empty, or truncated when a run was interrupted
                continue
            known = {f.name: row[f.name] for f in fields(Result) if f.name in row}
            self.results[row["id"]] = Result(**known)

    def add(self, result: Result) -> None:
        self.results[result.id] = result
        with self.path.open("a", encoding="utf-8") as file:
            file.write("\n" + json.dumps(asdict(result), ensure_ascii=False) + "\n")


def read_equivalents(path: Path) -> Equivalents:
    """Read the list of equivalent mutants; indentation of the lines does not matter."""
    found = {}
    entries = yaml.safe_load(path.read_text(encoding="utf-8")) if path.exists() else None
    for entry in entries or []:
        if entry.keys() != {"path", "old", "new", "reason"} or not entry["reason"]:
            raise MutationError(f"{path.name}: expected path, old, new and reason, got {entry}.")
        texts = [str(entry[name]).splitlines() for name in ("path", "old", "new", "reason")]
        *key, reason = ("\n".join(filter(None, map(str.strip, lines))) for lines in texts)
        found[tuple(key)] = reason
    return found


def format_table(groups: dict[str, Counter[str]]) -> list[str]:
    """Format numbers of mutants and kill rates (without equivalent mutants) by subpackage."""
    lines = ["| subpackage | mutants | equivalent | survived | fast tier kills | both tiers kill |"]
    lines += ["|---|---|---|---|---|---|"]
    for name, kinds in [*sorted(groups.items()), ("all", sum(groups.values(), Counter()))]:
        fast, both = kinds["killed"], kinds["killed"] + kinds[FULL]
        total = both + kinds["survived"]
        rates = [f"{100 * killed / total:.1f} %" if total else "-" for killed in (fast, both)]
        cells = [name, kinds.total(), kinds["equivalent"], kinds["survived"], *rates]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return lines


def format_report(
    title: str, results: dict[Mutant, Result | None], equivalents: Equivalents, sample: list[Mutant]
) -> str:
    """Return the report as Markdown; the result of a mutant that has not been run is None."""
    groups: defaultdict[str, Counter[str]] = defaultdict(Counter)
    sections: dict[str, list[str]] = {"survived": [], FULL: [], "equivalent": []}
    unknown = sorted(equivalents.keys() - {mutant.key for mutant in sample})
    warnings = [f"- equivalent.yaml: no mutant is {key}" for key in unknown]
    for mutant, result in results.items():
        note = reason = equivalents.get(mutant.key, "")
        kind = result.kind if result else "not run"
        if reason and kind in ("survived", "not run"):
            kind = "equivalent"
        elif result:
            note = f"{result.tests} fast tests pass, {result.covering} cover it; full tier: "
            note += f"{result.full_tier or 'not run'} {result.killed_by}".strip()
        groups[get_group(mutant.path)][kind] += 1
        if kind in sections:
            old, new = mutant.old.replace("\n", "\n- "), mutant.new.replace("\n", "\n+ ")
            diff = f"```diff\n- {old}\n+ {new}\n```\n"
            sections[kind].append(f"`{mutant.id}`: {note}.\n\n{diff}")
        if kind == "not run" or (reason and kind != "equivalent"):
            warnings.append(f"- {mutant.id}: {kind}" + ", but in equivalent.yaml" * bool(reason))
    lines = [f"# Mutation testing\n\n{title} Mutants that make tests hang or crash are killed.\n"]
    lines += [*format_table(groups), "\n## Warnings\n", *(warnings or ["None."]), ""]
    for name, mutants in sections.items():
        lines += [f"## Mutants: {name}\n", *(mutants or ["None.\n"])]
    return "\n".join(lines)
