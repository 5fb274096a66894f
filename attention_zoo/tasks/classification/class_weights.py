"""Weights of classes in the loss."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite
from numbers import Real
from typing import Any

from attention_zoo.registry import did_you_mean

BALANCED = "balanced"


def check_class_weights(weights: Any, name: str = "class_weights") -> Any:
    """Return the option as None, "balanced" or a dict of class names to weights.

    Args:
        weights: the option.
        name: its name, for messages.

    Raises:
        ValueError: the option has another value, or a weight is not positive.
    """
    if weights is None or weights == BALANCED:
        return weights
    if not isinstance(weights, Mapping):
        raise ValueError(
            f"{name} must be null, balanced, or a mapping from class to positive number, got"
            f" {weights!r}"
        )
    for class_name, weight in weights.items():
        if isinstance(class_name, bool):
            raise ValueError(f"{name}: {class_name} is not a class name. Quote it, such as 'yes'.")
        is_number = isinstance(weight, Real) and not isinstance(weight, bool)
        if not is_number or not isfinite(weight) or weight <= 0:
            raise ValueError(
                f"{name}: the weight of class {class_name!r} must be a positive number, got"
                f" {weight!r}"
            )
    return {str(class_name): float(weight) for class_name, weight in weights.items()}


def make_class_weights(
    weights: Any, classes: Sequence[str], counts: Mapping[str, int]
) -> list[float] | None:
    """Return the weight of each class in the loss; None if all are equal.

    Args:
        weights: None, a mapping of class names to weights (1 for other classes), or "balanced": the
            mean number of texts of a class, divided by the number of texts of this class.
        classes: names of the classes.
        counts: number of texts of each class in the training data.

    Raises:
        ValueError: an unknown class, or "balanced" without a count of each class.
    """
    if weights is None:
        return None
    if weights == BALANCED:
        missing = [name for name in classes if not counts.get(name)]
        if missing:
            raise ValueError(
                f"class_weights: balanced needs the number of training texts of {missing[0]!r}."
                " Pass a mapping from class to weight."
            )
        mean = sum(counts[name] for name in classes) / len(classes)
        return [mean / counts[name] for name in classes]
    for name in weights:
        if name not in classes:
            raise ValueError(
                f"class_weights: unknown class {name!r}{did_you_mean(name, classes)} (known:"
                f" {', '.join(classes)})"
            )
    return [float(weights.get(name, 1.0)) for name in classes]
