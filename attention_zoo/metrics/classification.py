"""Accuracy, precision, recall, F1 and confusion matrix of predicted classes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attention_zoo.metrics.check import check_same_length
from attention_zoo.metrics.scores import compute_f1, compute_percentage
from attention_zoo.registry import check_known


@dataclass(frozen=True)
class ClassScore:
    """Scores of one class.

    Attributes:
        precision, recall, f1: 0 to 100; 0 if the denominator is 0.
        predicted: number of examples for which it is predicted.
        support: number of examples that have it.
    """

    precision: float
    recall: float
    f1: float
    predicted: int
    support: int


@dataclass(frozen=True)
class ClassScores:
    """Scores of predicted classes, one per example; 0 to 100.

    Attributes:
        accuracy: percentage of the examples with the correct class.
        macro_precision, macro_recall, macro_f1: means over the classes that occur in the
            predictions or the references. Macro F1 is the mean of the F1 of the classes, not the F1
            of macro precision and recall.
        by_class: the scores of every class, in the given order.
        confusion: `(K, K)` counts; rows are reference classes, columns are predicted classes.
    """

    accuracy: float
    macro_precision: float
    macro_recall: float
    macro_f1: float
    by_class: dict[str, ClassScore]
    confusion: NDArray[np.int64]


@dataclass(frozen=True)
class MultiLabelScores:
    """Scores of predicted sets of classes (multi-label classification); 0 to 100.

    Attributes:
        exact_match: percentage of the examples with exactly the correct set (subset accuracy).
        micro_precision, micro_recall, micro_f1: scores of the (example, class) pairs of all classes
            together; 0 if the denominator is 0.
        macro_precision, macro_recall, macro_f1: means over the classes that occur in the
            predictions or the references; 0 if none does.
        by_class: the scores of every class, in the given order.
    """

    exact_match: float
    micro_precision: float
    micro_recall: float
    micro_f1: float
    macro_precision: float
    macro_recall: float
    macro_f1: float
    by_class: dict[str, ClassScore]


def class_scores(
    predicted: Sequence[str], references: Sequence[str], classes: Sequence[str]
) -> ClassScores:
    """Compute accuracy, macro precision, recall and F1, and the confusion matrix.

    A class that neither occurs nor is predicted has no influence on the macro averages.

    Args:
        predicted, references: one class name per example.
        classes: all class names, in the order of the confusion matrix.

    Returns:
        The scores, 0 to 100, and the counts of the confusion matrix.

    Example:
        >>> from attention_zoo.metrics import class_scores
        >>> scores = class_scores(["a", "a", "b", "b"], ["a", "b", "b", "b"], ["a", "b", "c"])
        >>> scores.accuracy, scores.by_class["a"].precision, scores.by_class["a"].recall
        (75.0, 50.0, 100.0)
        >>> scores.confusion.tolist()
        [[1, 0, 0], [1, 2, 0], [0, 0, 0]]

    Reference:
        Opitz and Burst 2019, "Macro F1 and macro F1", arXiv:1911.03347, equation 2 ("averaged F1"),
        where the mean includes classes that neither occur nor are predicted.

    Raises:
        ValueError: if the lists are empty or differ in length, or a name is not in `classes` or
            occurs there twice.
    """
    check_same_length(predicted=predicted, references=references)
    number_of = _number_classes(classes, [*predicted, *references])
    confusion = np.zeros((len(classes), len(classes)), np.int64)
    rows, columns = ([number_of[name] for name in names] for names in (references, predicted))
    np.add.at(confusion, (rows, columns), 1)
    by_class = _score_classes(classes, confusion.diagonal(), confusion.sum(0), confusion.sum(1))
    accuracy = compute_percentage(int(confusion.trace()), len(references))
    return ClassScores(accuracy, *_average_classes(by_class), by_class, confusion)


def multi_label_scores(
    predicted: Sequence[Collection[str]],
    references: Sequence[Collection[str]],
    classes: Sequence[str],
) -> MultiLabelScores:
    """Compute exact match, and micro and macro precision, recall and F1 of sets of classes.

    Args:
        predicted, references: the class names of each example, any number of them, also none.
        classes: all class names.

    Returns:
        The scores, 0 to 100.

    Example:
        >>> from attention_zoo.metrics import multi_label_scores
        >>> references = [{"a"}, {"b"}, set()]
        >>> scores = multi_label_scores([{"a"}, {"a", "b"}, set()], references, ["a", "b"])
        >>> round(scores.exact_match, 1), scores.micro_f1, round(scores.macro_f1, 1)
        (66.7, 80.0, 83.3)

    Reference:
        Tsoumakas et al. 2010, "Mining multi-label data". Exact match is their subset accuracy.

    Raises:
        ValueError: if the lists are empty or differ in length, an example has a string instead of a
            set, or a name is not in `classes` or occurs there twice.
    """
    check_same_length(predicted=predicted, references=references)
    predicted_sets, reference_sets = (
        [_as_set(names, row) for row, names in enumerate(examples)]
        for examples in (predicted, references)
    )
    pairs = list(zip(predicted_sets, reference_sets, strict=True))
    _number_classes(classes, (name for both in pairs for names in both for name in names))
    counts = [
        Counter(name for names in examples for name in names)
        for examples in ((p & r for p, r in pairs), predicted_sets, reference_sets)
    ]
    by_class = _score_classes(classes, *([count[name] for name in classes] for count in counts))
    micro = compute_f1(*(count.total() for count in counts))
    exact_match = compute_percentage(sum(p == r for p, r in pairs), len(pairs))
    return MultiLabelScores(exact_match, *micro, *_average_classes(by_class), by_class)


def _number_classes(classes: Sequence[str], names: Iterable[str]) -> dict[str, int]:
    """Return the index of each class; raise ValueError for other names, or a class given twice."""
    number_of = {name: number for number, name in enumerate(classes)}
    if len(number_of) != len(classes):
        repeated = next(name for name, count in Counter(classes).items() if count > 1)
        raise ValueError(f"classes must differ, got {repeated!r} twice")
    check_known("unknown class", dict.fromkeys(names), number_of)
    return number_of


def _as_set(names: Collection[str], row: int) -> frozenset[str]:
    if isinstance(names, str):
        raise ValueError(f"classes of example {row} must be a set of strings, got {names!r}")
    return frozenset(names)


def _score_classes(
    classes: Sequence[str], correct: Iterable[int], predicted: Iterable[int], support: Iterable[int]
) -> dict[str, ClassScore]:
    """Return the scores of each class from its counts."""
    counts = [map(int, column) for column in (correct, predicted, support)]
    return {
        name: ClassScore(
            *compute_f1(hits, num_predicted, num_expected), num_predicted, num_expected
        )
        for name, hits, num_predicted, num_expected in zip(classes, *counts, strict=True)
    }


def _average_classes(by_class: dict[str, ClassScore]) -> tuple[float, float, float]:
    """Return macro precision, recall and F1; 0 if no class occurs or is predicted."""
    scores = [
        (score.precision, score.recall, score.f1)
        for score in by_class.values()
        if score.predicted or score.support
    ]
    precision, recall, f1 = np.mean(scores, axis=0) if scores else np.zeros(3)
    return float(precision), float(recall), float(f1)
