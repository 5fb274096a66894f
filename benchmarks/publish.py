"""Create a zoo entry from an evaluated run: results, model card, pictures, and weights.

    python benchmarks/publish.py runs/NAME --sentence "an input for the card" [--weights]
    python benchmarks/publish.py runs/NAME --pair "first text" "second text" [--weights]
    python benchmarks/publish.py runs/NAME [--picture NAME] [--weights]

The forms are for models of texts, of pairs of texts, and of images. With --weights, the weights are
stored in float16, and all evaluations of the run are repeated with them. A card of an image model
shows an image of the test split if the split is generated. Images of real data sets are not shown,
because of their licences. All numbers of a card come from results.json. The script also rewrites
the table in models/README.md; `make index` updates the index afterwards.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import attention_zoo as az
from attention_zoo.data.tokenizers.vocabulary import START
from attention_zoo.files import MANIFEST, write_manifest

ZOO = Path(__file__).parent.parent / "models"
ATTENTION, HEADS = "attention.png", "heads.png"
WEIGHTS_DTYPE = "float16"


class Dataset(NamedTuple):
    """Data or weights of others: title, licence, and whether models may be redistributed."""

    title: str
    licence: str
    is_open: bool


DATASETS = {
    "aeslc": Dataset("AESLC", "CC-BY-NC-SA-4.0", False),
    "flickr8k": Dataset("Flickr8k", "research and education only", False),
    "mnist": Dataset("MNIST", "not stated", False),
    "multi30k": Dataset("Multi30k", "not stated (derived from Flickr30k)", False),
    "movie_reviews": Dataset(
        "Polarity dataset v2.0 of movie reviews (Pang and Lee 2004)", "CC-BY-4.0", True
    ),
    "scitldr": Dataset("SciTLDR", "Apache-2.0", True),
    "sick": Dataset("SICK", "CC-BY-NC-SA-3.0", False),
    "tatoeba": Dataset("Tatoeba", "CC-BY-2.0-FR", True),
    "trec_qc": Dataset("TREC question classification", "not stated", False),
    "ud_english_ewt": Dataset("UD English EWT", "CC-BY-SA-4.0", True),
    "wnut17": Dataset("WNUT 2017", "CC-BY-4.0", True),
}
"""Data sets by the start of the part after the dot of an entry's name."""
LENGTH_CURVES = {
    "classification": "accuracy by number of sentences",
    "translation": "exact match by source length",
}
"""What length.png of an entry shows, by task."""
CHECKPOINTS = {"data/minilm_l6": Dataset("all-MiniLM-L6-v2", "Apache-2.0", True)}
"""Public checkpoints by `init` of the recipes that start from them."""
WITHOUT_ENTRY = {"bilstm_crf.conll2003": "the data needs a licence"}
"""Recipes without an entry, and the reason."""
TWO_DECIMALS = {
    "perplexity",
    "bits_per_character",
    "repeated_3grams",
    "error",
    "mass_in_boxes",
    "area_of_boxes",
    "pearson",
    "spearman",
    "mean_average_precision",
    "mean_reciprocal_rank",
}
"""Metrics with two decimals; others have one."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path)
    shown = parser.add_mutually_exclusive_group()
    shown.add_argument("--sentence", help="input of the prediction on the card")
    shown.add_argument("--pair", nargs=2, metavar=("FIRST", "SECOND"), help="likewise, two texts")
    parser.add_argument("--picture", help="name of a generated image; default: the first image")
    parser.add_argument("--weights", action="store_true", help="include the weights")
    options = parser.parse_args()
    results = json.loads((options.run / "results.json").read_text("utf-8"))
    task = az.load(options.run)
    needed = find_example_option(task)
    for name in ("sentence", "pair"):
        is_needed = name == needed
        if is_needed != bool(getattr(options, name)):
            problem = "is required for" if is_needed else "does not apply to"
            parser.error(f"--{name} {problem} a model of the task {results['task']}")
    recipe = az.training.read_recipe(options.run / "recipe.yaml")
    dataset = None if recipe.data.generated else find_dataset(options.run.name)
    for source in (dataset, CHECKPOINTS.get(recipe.init or "")):
        if options.weights and source is not None and not source.is_open:
            parser.error(f"--weights: no licence of {source.title} permits it; see DATASETS")
    entry = ZOO / results["task"] / options.run.name
    entry.mkdir(parents=True, exist_ok=True)
    remove_task(entry)
    if options.weights:
        results = save_weights(options.run, results, entry)
        task = az.load(entry)
    text = json.dumps(results, indent=2, ensure_ascii=False) + "\n"
    (entry / "results.json").write_text(text, "utf-8")
    if options.sentence or options.pair:
        example = show_text(task, options.sentence or tuple(options.pair), entry)
    else:
        example = show_image(task, recipe.data, options.picture, entry)
    lines = [*make_card(entry.name, results), *example, *describe_use(entry.name, results, dataset)]
    (entry / "README.md").write_text("\n".join(lines), "utf-8")
    (ZOO / "README.md").write_text(make_readme(), "utf-8")


def find_dataset(name: str) -> Dataset:
    """Return the data set of a recipe's name."""
    corpus = name.partition(".")[2]
    found = (dataset for prefix, dataset in DATASETS.items() if corpus.startswith(prefix))
    return next(found, Dataset("the data", "unknown", False))


def remove_task(entry: Path) -> None:
    """Remove the task of an earlier publication, but not the card, results and pictures."""
    for path in entry.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
    for name in ("task.json", MANIFEST):
        (entry / name).unlink(missing_ok=True)


def save_weights(run: Path, results: dict[str, Any], entry: Path) -> dict[str, Any]:
    """Save the task with weights in half precision to the entry; return its own results."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "half"
        az.load(run).save(folder, weights_dtype=WEIGHTS_DTYPE)
        write_manifest(folder)
        scored = shutil.copytree(folder, Path(temporary) / "scored")
        shutil.copy(run / "recipe.yaml", scored)
        evaluations = [
            az.training.evaluate(scored, evaluation["overrides"])
            for evaluation in results["evaluations"]
        ]
        shutil.copytree(folder, entry, dirs_exist_ok=True)
    return {**results, "weights_dtype": WEIGHTS_DTYPE, "evaluations": evaluations}


def describe_use(name: str, results: dict[str, Any], dataset: Dataset | None) -> list[str]:
    """Return the card's lines about the licence, and about loading or training the model."""
    lines = []
    if dataset is not None:
        lines += [f"Data: {dataset.title}, licence: {dataset.licence}.", ""]
    if results.get("weights_dtype"):
        load = f'`attention_zoo.load("{name}")` and `attention-zoo predict {name}` load it'
        return [*lines, f"{load}; the weights are stored in {results['weights_dtype']}.", ""]
    reason = "to keep it small"
    if dataset is not None and not dataset.is_open:
        reason = f"because no licence of {dataset.title} permits it"
    train = f"`attention-zoo train {name}` trains the model"
    return [*lines, f"The repository does not contain the weights, {reason}; {train}.", ""]


def find_example_option(task: Any) -> str | None:
    """Return the option that contains an input for the card; None for an image model."""
    kinds = {one.kind for one in task.inputs}
    if "text_pair" in kinds:
        return "pair"
    return "sentence" if kinds <= {"text", "document"} else None


def show_text(task: Any, text: str | tuple[str, ...], entry: Path) -> list[str]:
    """Return the card's lines about the prediction for a text or pair; plot its attention."""
    (result,) = task.predict([text])
    plotted = plot(task, text, result, entry)
    lines = [f"![attention weights]({ATTENTION})", ""] if plotted else []
    answer = result.text.replace("[", r"\[")  # a tagged span is no link
    quoted = ", ".join(f'"{part}"' for part in ((text,) if isinstance(text, str) else text))
    is_score = re.fullmatch(r"-?\d*\.\d+", answer)  # all numbers of a card are results
    lines += [f"Input: {quoted}" if is_score else f'{quoted} -> "{answer}"', ""]
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


def plot(task: Any, text: Any, result: Any, entry: Path) -> bool:
    """Plot the attention of a result; return whether ATTENTION was written.

    It is not written for a model without attention or with one figure per head (HEADS).
    """
    if isinstance(task.model, az.models.Transformer):
        plot_heads(task, text, result, entry / HEADS)
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
    preset = f"Preset `{results['preset']}`, " if results["preset"] else ""
    lines = [
        f"# {name}",
        "",
        f"{preset}{results['parameters']:,} parameters, "
        f"{results['step']:,} steps of [{recipe}](../../../{recipe}), seed {results['seed']}, "
        f"{format_duration(results['training_seconds'])} of training on {results['machine']}.",
        *describe_weights(results),
        "",
        *drop_empty_columns(
            [
                *make_heading(results["task"], "split"),
                *(make_row([describe_split(each)], results["task"], each) for each in evaluations),
            ]
        ),
        "",
    ]
    if "bleu_signature" in evaluations[0]["metrics"]:
        lines += [f"BLEU: `{evaluations[0]['metrics']['bleu_signature']}`", ""]
    for evaluation in evaluations:
        lines += make_length_table(evaluation)
    if (ZOO / results["task"] / name / "length.png").exists():
        lines += [f"![{LENGTH_CURVES[results['task']]}](length.png)", ""]
    return lines


def describe_weights(results: dict[str, Any]) -> list[str]:
    """Return lines about the weights: fine-tuning, image encoder, selection of the checkpoint."""
    lines = []
    if checkpoint := CHECKPOINTS.get(results.get("init") or ""):
        lines.append(f"Fine-tuned from {checkpoint.title}, licence: {checkpoint.licence}.")
    elif results.get("init"):
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


def drop_empty_columns(table: list[str]) -> list[str]:
    """Return the lines of a table without the columns that contain no value in any row."""
    cells = [line[1:-1].split("|") for line in table]
    columns = [
        column
        for column in zip(*cells, strict=True)
        if any(cell.strip() != "-" for cell in column[2:])
    ]
    return [f"|{'|'.join(row)}|" for row in zip(*columns, strict=True)]


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
        "Trained models with their metrics. `attention-zoo predict NAME` loads an entry with",
        "weights; `attention-zoo train NAME` trains it. `benchmarks/publish.py` writes this page",
        "from the results.json of each entry. BLEU, chrF, ROUGE, CIDEr-D, F1 and recall are",
        "scaled by 100.",
    ]
    for task in az.tasks.TASKS.names():
        entries = sorted((ZOO / task).glob("*/results.json"))
        if entries:
            title = task.replace("_", " ").capitalize()
            columns = ("entry", "weights", "parameters", "split")
            table = make_heading(task, *columns)
        for path in entries:
            results = json.loads(path.read_text("utf-8"))
            link = f"[{path.parent.name}]({path.parent.relative_to(ZOO)}/README.md)"
            for each in results["evaluations"]:
                weights = "yes" if (path.parent / "task.json").is_file() else "no"
                first = [link, weights, f"{results['parameters']:,}", describe_split(each)]
                table.append(make_row(first, task, each))
        if entries:
            lines += ["", f"## {title}", "", *drop_empty_columns(table)]
    lines += [
        "",
        "## Recipes without an entry",
        "",
        "| recipe | reason | command |",
        "|---|---|---|",
    ]
    lines += [
        f"| {name} | {reason} | `attention-zoo train {name}` |"
        for name, reason in WITHOUT_ENTRY.items()
    ]
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    main()
