"""Construction of classifiers: classes, their weights, and the model of a recipe."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import chain
from typing import Any

from attention_zoo import models
from attention_zoo.data import LabelledTexts
from attention_zoo.hub import resolve_folder
from attention_zoo.registry import did_you_mean
from attention_zoo.tasks.building import build_around_bert, build_model, is_bert_preset


def count_classes(examples: LabelledTexts, multi_label: bool) -> dict[str, int]:
    """Return the number of texts of each class, by name, sorted.

    Raises:
        ValueError: too few classes to train a classifier.
    """
    counts = Counter(chain.from_iterable(examples.labels))
    if len(counts) < (1 if multi_label else 2):
        found = ", ".join(map(repr, counts)) or "none"
        needed = "one class" if multi_label else "two classes"
        raise ValueError(
            f"{examples.origin}: classification needs at least {needed}, got {found}; add texts of"
            " other classes"
        )
    return {name: counts[name] for name in sorted(counts)}


def check_multi_label(recipe: Any, multi_label: bool) -> None:
    """Raise ValueError unless the recipe's `init` has the recipe's `data.multi_label`."""
    if recipe.data.multi_label != multi_label:
        raise ValueError(
            f"init={recipe.init}: its model has multi_label={multi_label}, but the recipe has"
            f" data.multi_label={recipe.data.multi_label}. Use another init."
        )


def index_classes(
    examples: LabelledTexts, classes: Sequence[str], multi_label: bool
) -> list[list[int]]:
    """Return the class indices of each text, sorted.

    Raises:
        ValueError: a class is unknown, or a text has not one class without `multi_label`
            (file:line).
    """
    numbers = {name: number for number, name in enumerate(classes)}
    indices = []
    for row, names in enumerate(examples.labels):
        unknown = [name for name in names if name not in numbers]
        if unknown:
            raise ValueError(
                f"{examples.locations()[row]}: unknown class {unknown[0]!r}"
                f"{did_you_mean(unknown[0], numbers)}; fix it, or train on a corpus that has it"
                f" (known: {', '.join(numbers)})"
            )
        if not multi_label and len(names) != 1:
            raise ValueError(
                f"{examples.locations()[row]}: expected one class, got {len(names)}; set"
                " data.multi_label=true, for a model with several classes per text"
            )
        indices.append(sorted(numbers[name] for name in names))
    return indices


def is_roberta(init: str | None) -> bool:
    """Return whether a recipe's `init` is a public RoBERTa."""
    config = None if init is None else models.public.read_config(resolve_folder(init))
    return config is not None and config["model_type"] == "roberta"


def build_classifier(recipe: Any, classes: Sequence[str], tokens: int) -> Any:
    """Build the classifier of a recipe; a BERT preset or a public checkpoint becomes its encoder.

    Args:
        recipe: the recipe; `init`, if it has one, is a public checkpoint of a BERT, DistilBERT or
            RoBERTa.
        classes: names of the classes.
        tokens: size of the token vocabulary.
    """
    section = recipe.model
    given = {"classes": list(classes), "multi_label": recipe.data.multi_label}
    if recipe.init is not None or is_bert_preset(section.get("preset")):
        # The pooler of a RoBERTa is not trained.
        use_pooler = section.get("pooling", "first") == "first" and not is_roberta(recipe.init)
        cls = models.TransformerClassifier
        return build_around_bert(cls, section, recipe.init, tokens, use_pooler, **given)
    return build_model(section, vocabulary_size=tokens, **given)
