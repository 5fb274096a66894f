"""Create a zoo entry from a run: results, model card, pictures, and weights if the licence allows.

    python benchmarks/publish.py runs/NAME --sentence "a text written for the card" [--weights]
    python benchmarks/publish.py runs/NAME [--picture NAME] [--weights]

The first form is for text models, the second for image models. Cards of image models show an image
of the test split if it is generated, and no image of a data set. All numbers of a card come from
results.json. The script also rewrites the table in models/README.md.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np

import attention_zoo as az
from attention_zoo.cli.drawing import draw_answer
from attention_zoo.data.tokenizers.vocabulary import START

ZOO = Path(__file__).parent.parent / "models"
LOOKED, HEADS = "attention.png", "heads.png"
GENERATED = ("dates", "date_lines", "orders", "reports", "scenes", "digits")
"""Generated corpora, which have no licence."""
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
    "captioning": {
        "search": "search",
        "images": "images",
        "bleu4": "BLEU-4",
        "cider": "CIDEr-D",
        "rouge_l": "ROUGE-L",
        "exact_match": "exact match",
        "mass_in_boxes": "mass in boxes",
        "area_of_boxes": "their area",
    },
    "glimpses": {
        "images": "images",
        "error": "error, %",
    },
    "retrieval": {
        "images": "images",
        "texts": "texts",
        "image_recall": "image of a text, R@1 / 5 / 10",
        "text_recall": "text of an image, R@1 / 5 / 10",
        "mass_in_boxes": "mass in boxes",
        "area_of_boxes": "their area",
    },
}
"""The metrics in the tables of each task, and their column headings. A missing value is a dash."""
JOINED = {
    "lead_rouge": ("lead_rouge1", "lead_rouge2", "lead_rougeL"),
    "image_recall": ("image_recall1", "image_recall5", "image_recall10"),
    "text_recall": ("text_recall1", "text_recall5", "text_recall10"),
}
"""Metrics that share a column."""
IN_BOXES = {"mass_in_boxes", "area_of_boxes"}
SMALL = {"perplexity", "bits_per_character", "repeated_3grams", "error"} | IN_BOXES
"""Metrics with two decimals; others have one."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("--sentence", help="input of the prediction on the card")
    parser.add_argument("--picture", help="name of a generated image; default: the first")
    parser.add_argument("--weights", action="store_true", help="include the weights")
    parser.add_argument("--open", action="store_true", help="the licence allows the weights")
    options = parser.parse_args()
    results = json.loads((options.run / "results.json").read_text("utf-8"))
    if (results["task"] in PICTURED) == bool(options.sentence):
        parser.error("a model of texts needs a --sentence, one of images none")
    entry = ZOO / results["task"] / options.run.name
    entry.mkdir(parents=True, exist_ok=True)
    shutil.copy(options.run / "results.json", entry)
    task = az.load(options.run)
    if options.weights:
        task.save(entry)
    recipe = az.training.read_recipe(options.run / "recipe.yaml")
    if options.sentence:
        told = show_sentence(task, options.sentence, entry)
    else:
        told = show_picture(task, recipe, options.picture, entry)
    lines = [*card(entry.name, results), *told]
    load = f'`attention_zoo.load("models/{results["task"]}/{entry.name}")` loads it.'
    free = options.open or recipe.data.corpus in GENERATED
    lines += [load if options.weights else NOTES[free], ""]
    (entry / "README.md").write_text("\n".join(lines), "utf-8")
    (ZOO / "README.md").write_text(table(), "utf-8")


def show_sentence(task: Any, sentence: str, entry: Path) -> list[str]:
    """Return the card's lines about the prediction for a sentence; draw its pictures."""
    (answer,) = task.predict([sentence])
    looked = draw(task, sentence, answer, entry)
    lines = [f"![where it looked]({LOOKED})", ""] if looked else []
    lines += [f'"{sentence}" -> "{answer.text}"', ""]
    if (entry / HEADS).exists():
        lines += [f"![heads of the last layer]({HEADS})", ""]
    return lines


def show_picture(task: Any, recipe: Any, name: str | None, entry: Path) -> list[str]:
    """Return the card's lines about a generated image; draw its attention. Empty for data sets."""
    path = entry / LOOKED
    path.unlink(missing_ok=True)
    images = generated(task, recipe.data)
    if images is None:
        return []
    if name not in (None, *images.names):
        raise SystemExit(
            f"--picture {name}: {images.origin} has {images.names[0]} to {images.names[-1]}"
        )
    row = images.names.index(name) if name else 0
    line = PICTURED[task.name](task, images, row, path)
    lines = [f"![where it looked]({LOOKED})", ""] if path.exists() else []
    return [*lines, f"Picture {images.names[row]} of {images.origin}: {line}", ""]


def generated(task: Any, data: Any) -> Any:
    """Return the generated test split, generated digits for a classifier of real ones, or None."""
    if data.corpus in GENERATED:
        return data.read("test")
    if getattr(task, "classes", None) != [str(digit) for digit in range(10)]:
        return None
    drawn = az.training.CORPORA.get("digits")
    return drawn(image_size=data.image_size, scattered=data.scattered).read("test")


def show_caption(task: Any, images: Any, row: int, path: Path) -> str:
    """Return the line with the caption of an image; draw the attention of each word."""
    (answer,) = task.predict([images.images[row]])
    if answer.attention is not None and answer.tokens:
        draw_answer(answer, path)
    return f'"{images.captions[row][0]}" -> "{answer.text}"'


def show_glimpses(task: Any, images: Any, row: int, path: Path) -> str:
    """Return the line with the predicted class of an image; draw the path of glimpses."""
    (answer,) = task.predict([images.images[row]])
    draw_answer(answer, path)
    return f'"{images.classes[images.labels[row]]}" -> "{answer.text}"'


def show_found(task: Any, images: Any, row: int, path: Path) -> str:
    """Return the line with the images that a caption retrieves; draw the attention of its words."""
    text = images.captions[row][0]
    (answer,) = task.predict([text], index=task.index(images), n_best=2)
    draw_answer(answer, path)
    found = [answer.text, *(other.text for other in answer.alternatives)]
    return f'"{text}" -> {", then ".join(found)} of {len(images)}'


PICTURED = {"captioning": show_caption, "glimpses": show_glimpses, "retrieval": show_found}
"""For each image task, the function that draws a result: `(task, corpus, row, path) -> line`."""


def draw(task: Any, sentence: str, answer: Any, entry: Path) -> bool:
    """Draw the pictures of a result; return whether there is one of its attention."""
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
    """Draw the cross-attention weights of each head of the decoder's last layer."""
    source = np.array(task.encode_sources([sentence]))
    (ids,) = task.target_tokenizer.encode([answer.text])
    target = np.array([[START, *ids[:-1]]])
    memory = task.model.encode(source)
    weights = task.model.decode(target, memory, source, return_attention_scores=True).weights
    labels = task.target_tokenizer.tokens(ids)
    az.inspection.plot_heads(weights[0], labels, answer.source_tokens, path)


def card(name: str, results: dict[str, Any]) -> list[str]:
    """Return the lines of a card that come from the results."""
    recipe = f"training/{results['task']}/{name}.yaml"
    evaluations = results["evaluations"]
    lines = [
        f"# {name}",
        "",
        f"Preset `{results['preset']}`, {results['parameters']:,} parameters, "
        f"{results['step']:,} steps of [{recipe}](../../../{recipe}), seed {results['seed']}, "
        f"{spent(results['training_seconds'])} of training on {results['machine']}.",
        *beginning(results),
        "",
        *heading(results["task"], "split"),
        *(row([part(each)], results["task"], each) for each in evaluations),
        "",
    ]
    if "bleu_signature" in evaluations[0]["metrics"]:
        lines += [f"BLEU: `{evaluations[0]['metrics']['bleu_signature']}`", ""]
    for evaluation in evaluations:
        lines += by_length(evaluation)
    if (ZOO / results["task"] / name / "length.png").exists():
        lines += ["![exact match by source length](length.png)", ""]
    return lines


def beginning(results: dict[str, Any]) -> list[str]:
    """Return the lines on initial weights and on the metric that selected the checkpoint."""
    told = []
    if results.get("init"):
        told.append(f"It began as `{results['init']}`, whose training comes before.")
    encoder = results.get("model", {}).get("encoder") or {}
    if weights := encoder.get("weights"):
        told.append(f"Its image encoder began as that of `{weights}`, whose training comes before.")
    if monitor := results.get("monitor"):
        told.append(f"Of its checkpoints it is the best by {monitor} of validation.")
    return told


def spent(seconds: float) -> str:
    """Return a duration as text."""
    return f"{seconds:.0f} seconds" if seconds < 90 else f"{seconds / 60:.0f} minutes"


def heading(task: str, *first: str) -> list[str]:
    """Return the two header lines of a task's table."""
    names = [*first, *FIGURES[task].values()]
    return [f"| {' | '.join(names)} |", "|---" * len(names) + "|"]


def row(first: list[str], task: str, evaluation: dict[str, Any]) -> str:
    """Return the table row of one evaluation."""
    return f"| {' | '.join([*first, *(cell(metric, evaluation) for metric in FIGURES[task])])} |"


def part(evaluation: dict[str, Any]) -> str:
    """Return the split, with the options of a generated one."""
    asked = re.search(r"\(seed \d+, (.+)\)$", evaluation["data"])
    return evaluation["split"] + (f", {asked[1]}" if asked else "")


def cell(metric: str, evaluation: dict[str, Any]) -> str:
    """Return the table cell of a metric, or of the search options."""
    if metric == "search":
        return decoding(evaluation)
    if metric in JOINED:
        return " / ".join(cell(part, evaluation) for part in JOINED[metric])
    x = evaluation["metrics"].get(metric, "-")
    if isinstance(x, str):
        return x
    return f"{x:,}" if isinstance(x, int) else f"{x:.{2 if metric in SMALL else 1}f}"


def decoding(evaluation: dict[str, Any]) -> str:
    """Return a short description of the search options."""
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
    """Return a table of BLEU and exact match by source length; empty without such metrics."""
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
    """Return the zoo's README: a table for each task, a row for each evaluation of each entry."""
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
                first = [link, f"{results['parameters']:,}", part(each)]
                lines.append(row(first, task, each))
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    main()
