"""Construction of matchers: labels of pairs, and the model of a recipe."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attention_zoo import models
from attention_zoo.data import LabelledPairs
from attention_zoo.registry import did_you_mean
from attention_zoo.tasks.building import build_around_bert, build_model, is_bert_preset
from attention_zoo.tasks.text_inputs import select_evenly_spaced


def find_classes(examples: LabelledPairs) -> list[str]:
    """Return the names of the classes, sorted; raise ValueError if there are less than two."""
    classes = list(examples.known_classes)
    if len(classes) < 2:
        found = ", ".join(map(repr, classes)) or "none"
        raise ValueError(
            f"{examples.origin}: matching needs at least two classes, got {found}; add pairs of"
            " other classes, or set data.target to regression or ranking"
        )
    return classes


def index_labels(examples: LabelledPairs, classes: Sequence[str]) -> NDArray[np.int64]:
    """Return the class index of each pair; raise ValueError for an unknown class (file:line)."""
    numbers = {name: number for number, name in enumerate(classes)}
    labels = check_target(examples, "classification").labels
    for row, name in enumerate(labels):
        if name not in numbers:
            raise ValueError(
                f"{examples.locations()[row]}: unknown class {name!r}{did_you_mean(name, numbers)};"
                f" fix it, or train on a corpus that has it (known: {', '.join(numbers)})"
            )
    return np.array([numbers[name] for name in labels], np.int64)


def check_target(examples: LabelledPairs, target: str) -> Any:
    """Return the examples; raise ValueError if they have no labels for the target of a model."""
    names = {"classification": "labels", "regression": "scores", "ranking": "groups"}
    if getattr(examples, names[target]) is None:
        raise ValueError(
            f"{examples.origin}: the target is {target}, but the pairs have no"
            f" {names[target]}; set data.target={target}"
        )
    return examples


def compute_score_statistics(scores: Sequence[float], origin: str) -> tuple[float, float]:
    """Return mean and standard deviation of scores; raise ValueError if all are equal."""
    values = np.asarray(scores, np.float64)
    mean, deviation = float(values.mean()), float(values.std())
    if not deviation > 0:
        raise ValueError(
            f"{origin}: scores must vary, got {mean:g} for all pairs. Check data.label."
        )
    return mean, deviation


def select_pairs(examples: LabelledPairs, size: int) -> list[int]:
    """Return about `size` evenly spaced row numbers; those of whole groups, for a ranking.

    Groups without a relevant candidate are not selected.
    """
    groups = examples.groups
    if groups is None:
        return select_evenly_spaced(len(examples), size)
    relevant = zip(groups, examples.scores or (), strict=True)
    answered = list(dict.fromkeys(group for group, score in relevant if score))
    count = max(1, size * len(answered) // len(examples))
    chosen = {answered[row] for row in select_evenly_spaced(len(answered), count)}
    return [row for row, group in enumerate(groups) if group in chosen]


def build_matcher(recipe: Any, classes: Sequence[str] | None, tokenizer: Any) -> Any:
    """Build the matcher of a recipe; a BERT preset or a public BERT becomes its encoder.

    Args:
        recipe: the recipe; `init`, if it has one, is a public checkpoint of a BERT.
        classes: names of the classes, or None for one output.
        tokenizer: the tokenizer of both texts.
    """
    section, size = recipe.model, tokenizer.vocabulary_size
    if recipe.init is not None or is_bert_preset(section.get("preset")):
        given = {"start_token": tokenizer.start, "end_token": tokenizer.end, "classes": classes}
        cls = models.PairClassifier
        return build_around_bert(cls, section, recipe.init, size, use_pooler=False, **given)
    return build_model(section, vocabulary_size=size, classes=classes)
