"""Makes an entry of the zoo out of a run: results, card, picture, weights where they may go along.

    python benchmarks/publish.py runs/NAME --sentence "a sentence written for the card" [--weights]

Every figure of a card is read from results.json. The table models/README.md is written anew.
"""

from __future__ import annotations

import argparse
import json
import shutil
from pathlib import Path
from typing import Any

import attention_zoo as az

ZOO = Path(__file__).parent.parent / "models"
NOTE = "Weights are not part of the repository: the data's licence does not allow it."


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("--sentence", required=True, help="what the picture translates")
    parser.add_argument("--weights", action="store_true", help="the data's licence allows it")
    options = parser.parse_args()
    results = json.loads((options.run / "results.json").read_text("utf-8"))
    entry = ZOO / results["task"] / options.run.name
    entry.mkdir(parents=True, exist_ok=True)
    shutil.copy(options.run / "results.json", entry)
    task = az.load(options.run)
    if options.weights:
        task.save(entry)
    (answer,) = task.predict([options.sentence])
    if answer.attention is not None:
        az.inspection.plot_alignment(
            answer.attention, answer.tokens, answer.source_tokens, path=entry / "attention.png"
        )
    drawn = (options.sentence, answer.text) if answer.attention is not None else None
    (entry / "README.md").write_text(card(entry.name, results, options.weights, drawn), "utf-8")
    (ZOO / "README.md").write_text(table(), "utf-8")


def card(
    name: str, results: dict[str, Any], has_weights: bool, drawn: tuple[str, str] | None
) -> str:
    """The page of one entry."""
    recipe = f"training/{results['task']}/{name}.yaml"
    lines = [
        f"# {name}",
        "",
        f"Preset `{results['preset']}`, {results['parameters']:,} parameters, "
        f"{results['step']:,} steps of [{recipe}](../../../{recipe}), seed {results['seed']}, "
        f"{results['training_seconds'] / 60:.0f} minutes of training on {results['machine']}.",
        "",
        "| split | search | sentences | BLEU | chrF | exact match |",
        "|---|---|---|---|---|---|",
        *(row(evaluation) for evaluation in results["evaluations"]),
        "",
        f"BLEU: `{results['evaluations'][0]['metrics']['bleu_signature']}`",
        "",
    ]
    for evaluation in results["evaluations"]:
        lines += by_length(evaluation)
    if (ZOO / results["task"] / name / "length.png").exists():
        lines += ["![exact match by source length](length.png)", ""]
    if drawn:
        lines += [f'![alignment](attention.png)\n\n"{drawn[0]}" -> "{drawn[1]}"', ""]
    load = f'`attention_zoo.load("models/{results["task"]}/{name}")` loads it.'
    return "\n".join([*lines, load if has_weights else NOTE, ""])


def row(evaluation: dict[str, Any]) -> str:
    """One evaluation as a row of a card's table."""
    found = evaluation["metrics"]
    figures = (f"{found[metric]:.1f}" for metric in ("bleu", "chrf", "exact_match"))
    cells = [evaluation["split"], decoding(evaluation), str(found["sentences"]), *figures]
    return f"| {' | '.join(cells)} |"


def decoding(evaluation: dict[str, Any]) -> str:
    """How an evaluation searched, in a few words."""
    search = evaluation["search"]
    if search["beam_width"] == 1:
        return "greedy"
    penalty = search["length_penalty"]
    return f"beam {search['beam_width']}" + ("" if penalty == "none" else f", {penalty} penalty")


def by_length(evaluation: dict[str, Any]) -> list[str]:
    """BLEU and exact match by tokens of the source."""
    groups = evaluation["metrics"]["by_source_length"]
    names = [f"{g['from']}-{g['to'] if g['to'] is not None else ''}" for g in groups]
    return [
        f"By source tokens, {evaluation['split']}, {decoding(evaluation)}:",
        "",
        f"| | {' | '.join(names)} |",
        f"|---|{'---|' * len(names)}",
        f"| sentences | {' | '.join(str(g['sentences']) for g in groups)} |",
        f"| BLEU | {' | '.join(format(g['bleu'], '.1f') for g in groups)} |",
        f"| exact match | {' | '.join(format(g['exact_match'], '.1f') for g in groups)} |",
        "",
    ]


def table() -> str:
    """The zoo's front page: a row for each evaluation of each entry."""
    lines = [
        "# The zoo",
        "",
        "What has been trained and measured, written by `benchmarks/publish.py` from each entry's",
        "results.json.",
        "",
        "| entry | parameters | split | search | BLEU | chrF | exact match |",
        "|---|---|---|---|---|---|---|",
    ]
    for path in sorted(ZOO.glob("*/*/results.json")):
        results = json.loads(path.read_text("utf-8"))
        link = f"[{path.parent.name}]({path.parent.relative_to(ZOO)}/README.md)"
        for evaluation in results["evaluations"]:
            found = evaluation["metrics"]
            figures = (f"{found[metric]:.1f}" for metric in ("bleu", "chrf", "exact_match"))
            cells = [
                link,
                f"{results['parameters']:,}",
                evaluation["split"],
                decoding(evaluation),
                *figures,
            ]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    main()
