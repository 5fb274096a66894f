"""Faithfulness of attention and attributions of review classifiers, by a known deciding sentence.

    attention-zoo train training/classification/han_small.reviews.yaml run=runs/han1 seed=1 \
        data.size=16000 data.max_train_review_sentences=20 training.steps=4000  # and other seeds
    python benchmarks/faithfulness.py runs/han1 runs/han2 runs/han3 [--size 100] [--out FILE.json]

The deciding sentence states the reviewer's own opinion, which determines the class. Runs must be
trained on the corpus `reviews`, with one class per review. Runs with the same `model` in their
recipes form a group, with one run for each seed. All scores are measured on the same reviews of the
split `test`, with 5 to 12 sentences:

- attention: for a document model, the weight of the word times that of its sentence; for a
  Transformer, the mean over the heads of the last layer, in the row of the pooled position, or
  averaged over all rows with `pooling: mean`;
- rollout: the same rows of `inspection.attention_rollout`, for Transformers only;
- gradient x input, integrated gradients, occlusion: `inspection.attribute` for the logit of the
  predicted class. Occlusion removes one word at a time. Scores are signed: positive scores support
  the class;
- random: uniform random scores, with a different seed for each run of a group.

The hit rate is the percentage of reviews in which the deciding sentence has the largest sum of
scores. The sum favours long sentences, so the hit rate of random scores is above that of a random
sentence. The curves are those of `inspection.perturbation_curves` for the probability of the
predicted class. Deleted words are replaced by padding (id 0). The models mask it and move the
following words forward, so the words are removed. They are not replaced by the unknown token, whose
embedding is untrained if the vocabulary contains all words of the training split.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from compare_seeds import Row, group_runs
from numpy.typing import NDArray
from side_by_side import write_section

import attention_zoo as az
from attention_zoo import zoo
from attention_zoo.data.synthetic.reviews import find_own_opinions
from attention_zoo.inspection.attribution_targets import class_logit

PAD = 0
MIN_SENTENCES, MAX_SENTENCES = 5, 12
BATCH = 100  # reviews in one call of a model
MAX_COPIES = 400  # copies of reviews in one call of a model
METHODS = ("gradient_x_input", "integrated_gradients", "occlusion")
CHECKED = ("integrated gradients", "occlusion")  # must be better than random
MEASURES = {  # by name: whether faithful scores have high values
    "hit rate, %": True,
    "deletion area": False,
    "insertion area": True,
    "comprehensiveness": True,
    "sufficiency": False,
}


class Batch(NamedTuple):
    """A padded batch of B reviews.

    Attributes:
        tokens: token ids, `(B, P)`, or `(B, L, W)` with an axis of sentences.
        mask: True at words, in the shape of the tokens.
        sentences: index of the sentence of each word, in the same shape; -1 elsewhere.
        deciding: index of the deciding sentence, `(B,)`.
        predicted: index of the predicted class, `(B,)`.
    """

    tokens: NDArray[Any]
    mask: NDArray[Any]
    sentences: NDArray[Any]
    deciding: NDArray[Any]
    predicted: NDArray[Any]


def number_sentences(text: str, offsets: Any) -> tuple[NDArray[Any], int]:
    """Return the index of the sentence of each token, and that of the deciding sentence.

    Args:
        text: a review with one class.
        offsets: start and end of each token, in characters.
    """
    starts, end = [], 0
    for sentence in az.data.split_sentences(text):
        starts.append(text.index(sentence, end))
        end = starts[-1] + len(sentence)
    ((own_start, _),) = find_own_opinions(text)
    firsts = [first for first, _ in offsets]
    return np.searchsorted(starts, firsts, side="right") - 1, starts.index(own_start)


def pad(arrays: list[NDArray[Any]], fill: int) -> NDArray[Any]:
    """Stack arrays of the same rank, padded with `fill` at the end of each axis."""
    shape = np.max([array.shape for array in arrays], axis=0)
    result = np.full((len(arrays), *shape), fill, arrays[0].dtype)
    for row, array in zip(result, arrays, strict=True):
        row[tuple(map(slice, array.shape))] = array
    return result


def make_batch(task: Any, texts: list[str]) -> Batch:
    """Return a batch of reviews, with the predictions of a classifier.

    Raises:
        ValueError: a review is longer than the classifier's `max_length`.
    """
    rows, deciding, predicted = [], [], []
    for result in task.predict(texts):
        if result.truncated:
            raise ValueError(
                f"A review is truncated: {result.source!r}. Train with a larger data.max_length."
            )
        (tokens,) = task.make_model_call(result.source).inputs["tokens"]
        mask = tokens != PAD
        if task.model.has_class_token:
            mask[[0, -1]] = False
        numbers, own = number_sentences(result.source, result.offsets)
        sentences = np.full(tokens.shape, -1)
        sentences[mask] = numbers
        rows.append((tokens, mask, sentences))
        deciding.append(own)
        predicted.append(int(np.argmax(result.probabilities)))
    tokens, mask, sentences = map(list, zip(*rows, strict=True))
    padded = pad(tokens, PAD), pad(mask, False), pad(sentences, -1)
    return Batch(*padded, np.array(deciding), np.array(predicted))


def compute_attention(model: Any, batch: Batch) -> dict[str, NDArray[Any]]:
    """Return the attention weights of a classifier and, for a Transformer, the rollout.

    Both are in the shape of the tokens. The dict is empty for a classifier without attention.
    """
    inputs = {"tokens": batch.tokens}
    _, weights = model(inputs, training=False, return_attention_scores=True)
    if not weights:
        return {}
    attention = np.asarray(weights["tokens"])
    if "sentences" in weights:
        attention = attention * np.asarray(weights["sentences"])[..., None]
    scores = {"attention": attention}
    if isinstance(model, az.models.TransformerClassifier):
        with az.inspection.record(model) as records:
            model(inputs, training=False)
        is_token = batch.tokens != PAD
        rollout = az.inspection.attention_rollout([one for (one,) in records.values()], is_token)
        if model.settings["pooling"] == "mean":
            rollout = rollout.sum(axis=1) / is_token.sum(axis=1, keepdims=True)
        else:
            rollout = rollout[:, 0]
        scores["rollout"] = rollout
    return scores


def compute_scores(
    model: Any, batch: Batch, seed: int, steps: int
) -> tuple[dict[str, NDArray[Any]], NDArray[Any]]:
    """Return the scores of all words by the name of the method, in the shape of the tokens.

    Also returns the completeness error of integrated gradients, `(B,)`.

    Args:
        model: a classifier.
        batch: the reviews.
        seed: seed of the random scores.
        steps: number of steps of integrated gradients.
    """
    scores, errors = compute_attention(model, batch), np.zeros(0)
    for method in METHODS:
        options: dict[str, Any] = {"mask": batch.mask, "batch_size": MAX_COPIES}
        if method == "integrated_gradients":
            options["steps"] = steps
        if method == "occlusion":
            options["baseline"] = PAD
        target = class_logit(batch.predicted)
        found = az.inspection.attribute(model, {"tokens": batch.tokens}, target, method, **options)
        scores[method.replace("_x_", " x ").replace("_", " ")] = found.scores
        if found.completeness_error is not None:
            errors = found.completeness_error
    scores["random"] = az.inspection.random_scores(batch.tokens.shape, seed)
    return scores, errors


def find_hits(scores: Any, sentences: Any, deciding: Any) -> NDArray[Any]:
    """Return whether the deciding sentence has the largest sum of scores, `(B,)`.

    Args:
        scores: scores of the tokens, `(B, ...)`.
        sentences: index of the sentence of each token, in the same shape; -1 at padding and special
            tokens, which are ignored.
        deciding: index of the deciding sentence, `(B,)`.
    """
    hits = []
    for values, numbers, own in zip(scores, np.asarray(sentences), deciding, strict=True):
        is_word = numbers >= 0
        sums = np.bincount(numbers[is_word], np.asarray(values)[is_word])
        hits.append(sums.argmax() == own)
    return np.array(hits)


def measure(model: Any, batch: Batch, scores: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the value of each measure for each review, `(B,)`, by score and measure."""
    shape = batch.tokens.shape
    rows = np.arange(len(batch.tokens))
    compiled = tf.function(lambda tokens: model({"tokens": tokens}, training=False))

    def predict(tokens: NDArray[Any]) -> NDArray[Any]:
        logits = compiled(tf.constant(tokens.reshape(shape)))
        return np.asarray(model.probabilities(logits))[rows, batch.predicted]

    def flatten(x: NDArray[Any]) -> NDArray[Any]:
        return x.reshape(len(rows), -1)

    flat_scores = {name: flatten(values) for name, values in scores.items()}
    curves = az.inspection.perturbation_curves(
        predict, flatten(batch.tokens), flat_scores, flatten(batch.mask), replacement=PAD
    )
    return {
        name: {
            "hit rate, %": 100.0 * find_hits(scores[name], batch.sentences, batch.deciding),
            "deletion area": curve.deletion_area,
            "insertion area": curve.insertion_area,
            "comprehensiveness": curve.comprehensiveness,
            "sufficiency": curve.sufficiency,
        }
        for name, curve in curves.items()
    }


def measure_run(run: Path, corpus: Any, steps: int) -> dict[str, Any]:
    """Return the mean of each measure over the reviews, by score, and the recipe's model and seed.

    Raises:
        ValueError: the run's corpus is not `reviews` with one class per review, or a review is
            longer than its `max_length`.
    """
    recipe = az.training.read_recipe(zoo.find_recipe_of(run))
    if recipe.data.corpus != "reviews" or recipe.data.multi_label:
        raise ValueError(
            f"{run}: data.corpus must be reviews, without data.multi_label, got"
            f" {recipe.data.corpus}, multi_label={recipe.data.multi_label}."
        )
    task = az.load(run)
    values: dict[str, dict[str, list[Any]]] = {}
    correct: list[bool] = []
    all_errors: list[float] = []
    for number, first in enumerate(range(0, len(corpus), BATCH)):
        rows = slice(first, first + BATCH)
        batch = make_batch(task, corpus.texts[rows])
        names = [task.classes[index] for index in batch.predicted]
        labels = corpus.labels[rows]
        correct += [name == label for name, (label,) in zip(names, labels, strict=True)]
        seed = 1000 * recipe.seed + number
        scores, errors = compute_scores(task.model, batch, seed, steps)
        all_errors += errors.tolist()
        for name, measures in measure(task.model, batch, scores).items():
            for key, array in measures.items():
                values.setdefault(name, {}).setdefault(key, []).extend(array)
        print(f"{run.name}: {len(correct)} of {len(corpus)} reviews", flush=True)
    means = {
        name: {key: float(np.mean(x)) for key, x in measures.items()}
        for name, measures in values.items()
    }
    model = recipe.model
    kind = {"preset": model.get("preset"), "init": recipe.init, "model": model}
    quality = {
        "accuracy": 100 * float(np.mean(correct)),
        "completeness_error": float(np.median(all_errors)),
    }
    return {**kind, "seed": recipe.seed, **quality, "scores": means}


def make_rows(group: list[dict[str, Any]]) -> list[Row]:
    """Return a row for each score, with the values of all seeds for each measure."""
    seeds = [result["seed"] for result in group]
    return [
        Row(name, seeds, {key: [r["scores"][name][key] for r in group] for key in MEASURES})
        for name in group[0]["scores"]
    ]


def find_failures(rows: list[Row]) -> Iterator[str]:
    """Yield the checked scores and measures that are not better than random.

    The difference from random, as a mean over the seeds, must exceed two standard errors.
    """
    by_name = {row.name: row for row in rows}
    for name in CHECKED:
        for key, is_high in MEASURES.items():
            pairs = zip(by_name[name].values[key], by_name["random"].values[key], strict=True)
            differences = [(a - b) * (1 if is_high else -1) for a, b in pairs]
            row = Row(name, by_name[name].seeds, {key: differences})
            if not row.mean(key) > 2 * row.standard_error(key):  # NaN for one seed
                yield f"{name} ({key})"


def format_group(name: str, group: list[dict[str, Any]]) -> list[str]:
    """Return the section of one model: its table, and whether attributions beat random scores."""
    rows = make_rows(group)
    accuracy = Row("", [], {"": [result["accuracy"] for result in group]})
    seeds = ", ".join(str(result["seed"]) for result in group)
    lines = [f"{name}, seeds {seeds}, accuracy {accuracy.mean(''):.1f} %:", ""]
    lines += [f"| score | {' | '.join(MEASURES)} |", "|---|" + "---|" * len(MEASURES)]
    for row in rows:
        cells = [row.name]
        for key in MEASURES:
            digits = 1 if "%" in key else 3
            error = f" ± {row.standard_error(key):.{digits}f}" if len(group) > 1 else ""
            cells.append(f"{row.mean(key):.{digits}f}{error}")
        lines.append(f"| {' | '.join(cells)} |")
    failures = ", ".join(find_failures(rows))
    if len(group) == 1:
        verdict = "needs at least two seeds"
    else:
        verdict = f"no: {failures}" if failures else "yes"
    check = f"{' and '.join(CHECKED).capitalize()} better than random by two standard errors in all"
    errors = ", ".join(f"{100 * result['completeness_error']:.2g}" for result in group)
    lines += ["", f"{check} measures: {verdict}."]
    return [*lines, f"Median completeness error of integrated gradients: {errors} %.", ""]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", type=Path, nargs="+", help="run folders")
    parser.add_argument("--size", type=int, default=100, help="number of reviews (default: 100)")
    parser.add_argument("--steps", type=int, default=32, help="steps of integrated gradients")
    parser.add_argument("--out", type=Path, help="JSON file to write")
    parser.add_argument("--dry-run", action="store_true", help="print, but do not write results.md")
    options = parser.parse_args()
    bounds = {"min_sentences": MIN_SENTENCES, "max_sentences": MAX_SENTENCES}
    corpus = az.data.generate_reviews(options.size, "test", **bounds)
    try:
        results = [measure_run(run, corpus, options.steps) for run in options.runs]
        groups = group_runs(results)
    except (ValueError, OSError) as error:
        sys.exit(str(error))
    if options.out:
        options.out.write_text(json.dumps({"reviews": options.size, "runs": results}, indent=2))
    lines = [line for name, group in groups.items() for line in format_group(name, group)]
    lines += [
        f"{options.size} reviews, `{corpus.origin}`, with {MIN_SENTENCES} to {MAX_SENTENCES}"
        " sentences. Mean over the reviews and over the seeds, with the standard error over the"
        " seeds. Hit rate: percentage of reviews in which the deciding sentence has the largest sum"
        " of scores, which favours long sentences. Curves: probability of the predicted class;"
        " deleted words are removed. Faithful scores have a high hit rate, insertion area and"
        " comprehensiveness, and a low deletion area and sufficiency. Integrated gradients:"
        f" {options.steps} steps from zero embeddings."
    ]
    write_section("Faithfulness of attention and attributions", lines, options.dry_run)


if __name__ == "__main__":
    main()
