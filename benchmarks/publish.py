"""Makes an entry of the zoo out of a run: results, card, picture, weights where they may go along.

    python benchmarks/publish.py runs/NAME --sentence "a text written for the card" [--weights]

Every figure of a card is read from results.json. The table models/README.md is written anew.
"""

from __future__ import annotations

import argparse
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np

import attention_zoo as az
from attention_zoo.cli.drawing import draw_answer
from attention_zoo.data.vocabulary import START

ZOO = Path(__file__).parent.parent / "models"
LOOKED, HEADS = "attention.png", "heads.png"
GENERATED = ("dates", "date_lines", "orders", "reports")
"""Corpora that nobody's licence is on."""
NOTES = {
    True: "Weights are not part of the repository; the recipe makes them anew.",
    False: "Weights are not part of the repository: the data's licence does not allow it.",
}
FIGURES = {
    "translation": {
        "search": "search",
        "sentences": "sentences",
        "bleu": "BLEU",
        "chrf": "chrF",
        "exact_match": "exact match",
    },
    "language_modeling": {
        "lines": "lines",
        "tokens": "tokens",
        "perplexity": "perplexity a token",
        "bits_per_character": "bits a character",
        "accuracy": "tokens foreseen, %",
    },
    "masked_language_modeling": {
        "lines": "lines",
        "masked": "hidden tokens",
        "masked_accuracy": "told, %",
        "perplexity": "perplexity",
    },
    "tagging": {
        "sentences": "sentences",
        "words": "words",
        "accuracy": "accuracy of tags, %",
        "f1": "F1 of spans",
        "invalid": "broken sequences",
    },
    "summarization": {
        "search": "search",
        "sentences": "texts",
        "rouge1": "ROUGE-1",
        "rouge2": "ROUGE-2",
        "rougeL": "ROUGE-L",
        "lead_rouge": "the first sentence's three",
        "facts": "names and figures",
        "repeated_3grams": "repeated 3-grams, %",
        "copied_share": "words of the text, %",
    },
}
"""The metrics of a task's tables and how they are headed; where there is none, a dash stands."""
SMALL = {"perplexity", "bits_per_character", "repeated_3grams"}
"""Metrics that are told to two places."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("--sentence", required=True, help="what the picture is of")
    parser.add_argument("--weights", action="store_true", help="the data's licence allows it")
    parser.add_argument("--open", action="store_true", help="it does, but weights stay away")
    options = parser.parse_args()
    results = json.loads((options.run / "results.json").read_text("utf-8"))
    entry = ZOO / results["task"] / options.run.name
    entry.mkdir(parents=True, exist_ok=True)
    shutil.copy(options.run / "results.json", entry)
    task = az.load(options.run)
    if options.weights:
        task.save(entry)
    (answer,) = task.predict([options.sentence])
    looked = draw(task, options.sentence, answer, entry)
    lines = card(entry.name, results)
    if looked:
        lines += [f"![where it looked]({LOOKED})", ""]
    lines += [f'"{options.sentence}" -> "{answer.text}"', ""]
    if (entry / HEADS).exists():
        lines += [f"![heads of the last layer]({HEADS})", ""]
    load = f'`attention_zoo.load("models/{results["task"]}/{entry.name}")` loads it.'
    corpus = az.training.read_recipe(options.run / "recipe.yaml").data.corpus
    lines += [load if options.weights else NOTES[options.open or corpus in GENERATED], ""]
    (entry / "README.md").write_text("\n".join(lines), "utf-8")
    (ZOO / "README.md").write_text(table(), "utf-8")


def draw(task: Any, sentence: str, answer: Any, entry: Path) -> bool:
    """The pictures of an answer; whether the one of where it looked is among them."""
    looked = getattr(answer, "attention", None)
    if isinstance(task.model, az.models.Transformer):
        draw_heads(task, sentence, answer, entry / HEADS)
    if looked is None:
        return False
    if looked.ndim > 2:
        az.inspection.plot_heads(
            looked[-1], answer.tokens, answer.source_tokens, path=entry / HEADS
        )
        return False
    draw_answer(answer, entry / LOOKED)
    return True


def draw_heads(task: Any, sentence: str, answer: Any, path: Path) -> None:
    """Where each head of the decoder's last layer looked in the source."""
    source = np.array(task.encode_sources([sentence]))
    (ids,) = task.target_tokenizer.encode([answer.text])
    target = np.array([[START, *ids[:-1]]])
    memory = task.model.encode(source)
    weights = task.model.decode(target, memory, source, return_attention_scores=True).weights
    labels = task.target_tokenizer.tokens(ids)
    az.inspection.plot_heads(weights[0], labels, answer.source_tokens, path)


def card(name: str, results: dict[str, Any]) -> list[str]:
    """The lines of an entry's page that are read from its results."""
    recipe = f"training/{results['task']}/{name}.yaml"
    evaluations = results["evaluations"]
    lines = [
        f"# {name}",
        "",
        f"Preset `{results['preset']}`, {results['parameters']:,} parameters, "
        f"{results['step']:,} steps of [{recipe}](../../../{recipe}), seed {results['seed']}, "
        f"{results['training_seconds'] / 60:.0f} minutes of training on {results['machine']}.",
        "",
        *heading(results["task"], "split"),
        *(row([each["split"]], results["task"], each) for each in evaluations),
        "",
    ]
    if "bleu_signature" in evaluations[0]["metrics"]:
        lines += [f"BLEU: `{evaluations[0]['metrics']['bleu_signature']}`", ""]
    for evaluation in evaluations:
        lines += by_length(evaluation)
    if (ZOO / results["task"] / name / "length.png").exists():
        lines += ["![exact match by source length](length.png)", ""]
    return lines


def heading(task: str, *first: str) -> list[str]:
    """The two lines that begin a table of a task's figures."""
    names = [*first, *FIGURES[task].values()]
    return [f"| {' | '.join(names)} |", "|---" * len(names) + "|"]


def row(first: list[str], task: str, evaluation: dict[str, Any]) -> str:
    """One evaluation as a row of such a table."""
    return f"| {' | '.join([*first, *(cell(metric, evaluation) for metric in FIGURES[task])])} |"


def cell(metric: str, evaluation: dict[str, Any]) -> str:
    """A figure as it is printed, or how it was searched for."""
    if metric == "search":
        return decoding(evaluation)
    if metric == "lead_rouge":
        return " / ".join(cell(f"lead_rouge{of}", evaluation) for of in "12L")
    x = evaluation["metrics"].get(metric, "-")
    if isinstance(x, str):
        return x
    return f"{x:,}" if isinstance(x, int) else f"{x:.{2 if metric in SMALL else 1}f}"


def decoding(evaluation: dict[str, Any]) -> str:
    """How an evaluation searched, in a few words."""
    search = evaluation["search"]
    width, penalty = search["beam_width"], search["length_penalty"]
    told = ["greedy" if width == 1 else f"beam {width}"]
    if width > 1 and penalty != "none":
        told.append(f"{penalty} penalty")
    if search.get("min_length"):
        told.append(f"at least {search['min_length']} tokens")
    if search.get("no_repeat_ngram"):
        told.append(f"no {search['no_repeat_ngram']}-gram twice")
    return ", ".join(told)


def by_length(evaluation: dict[str, Any]) -> list[str]:
    """BLEU and exact match by tokens of the source, where there is one."""
    groups = evaluation["metrics"].get("by_source_length")
    if groups is None:
        return []
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
    """The zoo's front page: of each task a table, with a row for each evaluation of each entry."""
    lines = [
        "# The zoo",
        "",
        "What has been trained and measured, written by `benchmarks/publish.py` from each entry's",
        "results.json.",
    ]
    for task in FIGURES:
        entries = sorted((ZOO / task).glob("*/results.json"))
        if entries:
            title = task.replace("_", " ").capitalize()
            lines += ["", f"## {title}", "", *heading(task, "entry", "parameters", "split")]
        for path in entries:
            results = json.loads(path.read_text("utf-8"))
            link = f"[{path.parent.name}]({path.parent.relative_to(ZOO)}/README.md)"
            for each in results["evaluations"]:
                first = [link, f"{results['parameters']:,}", each["split"]]
                lines.append(row(first, task, each))
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    main()
