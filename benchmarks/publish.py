"""Create a zoo entry from a run: results, model card, pictures, and weights if the licence allows.

    python benchmarks/publish.py runs/NAME --sentence "an input for the card" [--weights]
    python benchmarks/publish.py runs/NAME [--picture NAME] [--weights]

The first form is for text models, the second for image models. A card of an image model shows an
image of the test split if the split is generated. Images of real data sets are not shown, because
of their licences. All numbers of a card come from results.json. The script also rewrites the table
in models/README.md.
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
from attention_zoo.data.tokenizers.vocabulary import START

ZOO = Path(__file__).parent.parent / "models"
ATTENTION, HEADS = "attention.png", "heads.png"
WEIGHTS_LEFT_OUT = (
    "The repository does not contain the weights. Run the recipe above to train the model."
)
WEIGHTS_NOT_PERMITTED = (
    "The repository does not contain the weights: the data's licence does not permit it."
)
TWO_DECIMALS = {
    "perplexity",
    "bits_per_character",
    "repeated_3grams",
    "error",
    "mass_in_boxes",
    "area_of_boxes",
}
"""Metrics with two decimals; others have one."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("--sentence", help="input of the prediction on the card")
    parser.add_argument("--picture", help="name of a generated image; default: the first image")
    parser.add_argument(
        "--weights", action="store_true", help="include the weights; does not check the licence"
    )
    parser.add_argument(
        "--open",
        action="store_true",
        help="without --weights: the licence of the data allows publishing the weights",
    )
    options = parser.parse_args()
    results = json.loads((options.run / "results.json").read_text("utf-8"))
    task = az.load(options.run)
    if options.sentence and takes_images(task):
        parser.error("--sentence does not apply to an image model; remove it")
    if not options.sentence and not takes_images(task):
        parser.error("--sentence is required for a text model")
    entry = ZOO / results["task"] / options.run.name
    entry.mkdir(parents=True, exist_ok=True)
    shutil.copy(options.run / "results.json", entry)
    if options.weights:
        task.save(entry)
    recipe = az.training.read_recipe(options.run / "recipe.yaml")
    if options.sentence:
        example = show_sentence(task, options.sentence, entry)
    else:
        example = show_image(task, recipe.data, options.picture, entry)
    lines = [*make_card(entry.name, results), *example]
    if options.weights:
        note = f'`attention_zoo.load("models/{results["task"]}/{entry.name}")` loads it.'
    elif options.open or recipe.data.generated:
        note = WEIGHTS_LEFT_OUT
    else:
        note = WEIGHTS_NOT_PERMITTED
    lines += [note, ""]
    (entry / "README.md").write_text("\n".join(lines), "utf-8")
    (ZOO / "README.md").write_text(make_readme(), "utf-8")


def takes_images(task: Any) -> bool:
    """Return whether an input of the task is images or an image index."""
    return any(one.kind != "text" for one in task.inputs)


def show_sentence(task: Any, sentence: str, entry: Path) -> list[str]:
    """Return the card's lines about the prediction for a sentence; plot its attention."""
    (result,) = task.predict([sentence])
    plotted = plot(task, sentence, result, entry)
    lines = [f"![attention weights]({ATTENTION})", ""] if plotted else []
    text = result.text.replace("[", r"\[")  # a tagged span is no link
    lines += [f'"{sentence}" -> "{text}"', ""]
    if (entry / HEADS).exists():
        lines += [f"![heads of the last layer]({HEADS})", ""]
    return lines


def show_image(task: Any, data: Any, name: str | None, entry: Path) -> list[str]:
    """Return the card's lines about a generated image; plot its attention.

    Return no lines for a real data set.
    """
    path = entry / ATTENTION
    path.unlink(missing_ok=True)
    images = generate_images(task, data)
    if images is None:
        return []
    if name not in (None, *images.names):
        raise SystemExit(
            f"--picture {name}: {images.origin} has {images.names[0]} to {images.names[-1]}"
        )
    row = images.names.index(name) if name else 0
    result, line = task.predict_example(images, row)
    lines = []
    if result.attention is not None and result.tokens:
        task.plot(result, path)
        lines = [f"![attention weights]({ATTENTION})", ""]
    return [*lines, f"Image {images.names[row]} of {images.origin}: {line}", ""]


def generate_images(task: Any, data: Any) -> Any:
    """Return images that a card may show, or None.

    They are the test split if it is generated, and generated digits if the model classifies real
    digits.
    """
    if data.generated:
        return data.read("test")
    if "digits" not in task.corpora:
        return None
    digits = task.corpora.get("digits")(image_size=data.image_size, scattered=data.scattered)
    images = digits.read("test")
    return images if task.classes == images.classes else None


def plot(task: Any, sentence: str, result: Any, entry: Path) -> bool:
    """Plot the attention of a result; return whether ATTENTION was written.

    It is not written for a model without attention or with one figure per head (HEADS).
    """
    if isinstance(task.model, az.models.Transformer):
        plot_heads(task, sentence, result, entry / HEADS)
    if result.attention is None:
        return False
    if result.attention.ndim > 2:
        weights = result.attention[-1]
        az.inspection.plot_heads(weights, result.tokens, result.source_tokens, path=entry / HEADS)
        return False
    task.plot(result, entry / ATTENTION)
    return True


def plot_heads(task: Any, sentence: str, result: Any, path: Path) -> None:
    """Plot the cross-attention weights of each head of the decoder's last layer."""
    source = np.array(task.encode_sources([sentence]))
    (ids,) = task.target_tokenizer.encode([result.text])
    target = np.array([[START, *ids[:-1]]])
    memory = task.model.encode(source)
    weights = task.model.decode(target, memory, source, return_attention_scores=True).weights
    labels = task.target_tokenizer.tokens(ids)
    az.inspection.plot_heads(weights[0], labels, result.source_tokens, path)


def make_card(name: str, results: dict[str, Any]) -> list[str]:
    """Return the lines of a card that come from the results."""
    recipe = f"training/{results['task']}/{name}.yaml"
    evaluations = results["evaluations"]
    lines = [
        f"# {name}",
        "",
        f"Preset `{results['preset']}`, {results['parameters']:,} parameters, "
        f"{results['step']:,} steps of [{recipe}](../../../{recipe}), seed {results['seed']}, "
        f"{format_duration(results['training_seconds'])} of training on {results['machine']}.",
        *describe_weights(results),
        "",
        *make_heading(results["task"], "split"),
        *(make_row([describe_split(each)], results["task"], each) for each in evaluations),
        "",
    ]
    if "bleu_signature" in evaluations[0]["metrics"]:
        lines += [f"BLEU: `{evaluations[0]['metrics']['bleu_signature']}`", ""]
    for evaluation in evaluations:
        lines += make_length_table(evaluation)
    if (ZOO / results["task"] / name / "length.png").exists():
        lines += ["![exact match by source length](length.png)", ""]
    return lines


def describe_weights(results: dict[str, Any]) -> list[str]:
    """Return lines about the weights: fine-tuning, image encoder, selection of the checkpoint."""
    lines = []
    if results.get("init"):
        lines.append(f"Fine-tuned from `{results['init']}`.")
    encoder = results.get("model", {}).get("encoder") or {}
    if weights := encoder.get("weights"):
        lines.append(f"Its image encoder was initialized with the weights of `{weights}`.")
    if monitor := results.get("monitor"):
        lines.append(f"The weights are those of the checkpoint with the best validation {monitor}.")
    return lines


def format_duration(seconds: float) -> str:
    """Return a duration as text."""
    return f"{seconds:.0f} seconds" if seconds < 90 else f"{seconds / 60:.0f} minutes"


def make_heading(task: str, *first_columns: str) -> list[str]:
    """Return the two header lines of a task's table."""
    names = [*first_columns, *az.tasks.TASKS.get(task).card_metrics.values()]
    return [f"| {' | '.join(names)} |", "|---" * len(names) + "|"]


def make_row(first: list[str], task: str, evaluation: dict[str, Any]) -> str:
    """Return the table row of one evaluation."""
    metrics = az.tasks.TASKS.get(task).card_metrics
    return f"| {' | '.join([*first, *(format_cell(metric, evaluation) for metric in metrics)])} |"


def describe_split(evaluation: dict[str, Any]) -> str:
    """Return the split, with the options of a generated one."""
    # "dates en-fr test (seed 1, noise 0.1)" -> "noise 0.1"
    options = re.search(r"\(seed \d+, (.+)\)$", evaluation["data"])
    return evaluation["split"] + (f", {options[1]}" if options else "")


def format_cell(metric: str, evaluation: dict[str, Any]) -> str:
    """Return the table cell of a metric, or of the search options."""
    if metric == "search":
        return describe_search(evaluation)
    if " / " in metric:
        return " / ".join(format_cell(part, evaluation) for part in metric.split(" / "))
    value = evaluation["metrics"].get(metric, "-")
    if isinstance(value, str):
        return value
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.{2 if metric in TWO_DECIMALS else 1}f}"


def describe_search(evaluation: dict[str, Any]) -> str:
    """Return a short description of the search options."""
    search = evaluation["search"]
    width, penalty = search["beam_width"], search["length_penalty"]
    parts = ["greedy" if width == 1 else f"beam {width}"]
    if width > 1 and penalty != "none":
        parts.append(f"{penalty} penalty")
    if search.get("min_length"):
        parts.append(f"at least {search['min_length']} tokens")
    if search.get("no_repeat_ngram"):
        parts.append(f"no repeated {search['no_repeat_ngram']}-grams")
    return ", ".join(parts)


def make_length_table(evaluation: dict[str, Any]) -> list[str]:
    """Return a table of BLEU and exact match by source length; empty without such metrics."""
    groups = evaluation["metrics"].get("by_source_length")
    if groups is None:
        return []
    names = [f"{g['from']}-{g['to'] if g['to'] is not None else ''}" for g in groups]
    return [
        f"By source tokens, {evaluation['split']}, {describe_search(evaluation)}:",
        "",
        f"| | {' | '.join(names)} |",
        f"|---|{'---|' * len(names)}",
        f"| sentences | {' | '.join(str(g['sentences']) for g in groups)} |",
        f"| BLEU | {' | '.join(format(g['bleu'], '.1f') for g in groups)} |",
        f"| exact match | {' | '.join(format(g['exact_match'], '.1f') for g in groups)} |",
        "",
    ]


def make_readme() -> str:
    """Return the zoo's README: a table for each task, a row for each evaluation of each entry."""
    lines = [
        "# Model zoo",
        "",
        "Trained models with their metrics. `benchmarks/publish.py` writes this page from the",
        "results.json of each entry. BLEU, chrF, ROUGE, CIDEr-D, F1 and recall are scaled by 100.",
    ]
    for task in az.tasks.TASKS.names():
        entries = sorted((ZOO / task).glob("*/results.json"))
        if entries:
            title = task.replace("_", " ").capitalize()
            lines += ["", f"## {title}", "", *make_heading(task, "entry", "parameters", "split")]
        for path in entries:
            results = json.loads(path.read_text("utf-8"))
            link = f"[{path.parent.name}]({path.parent.relative_to(ZOO)}/README.md)"
            for each in results["evaluations"]:
                first = [link, f"{results['parameters']:,}", describe_split(each)]
                lines.append(make_row(first, task, each))
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    main()
