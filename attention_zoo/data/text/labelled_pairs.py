"""Pairs of texts with class labels or scores."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from attention_zoo.data.examples import ColumnFactory, NumberedExamples, make_list
from attention_zoo.data.text.labelled_fields import (
    LabelledFields,
    LabelledRow,
    parse_class,
    parse_name,
    parse_number,
    parse_relevance,
    parse_text,
)
from attention_zoo.registry import check_choice


@dataclass(frozen=True)
class LabelledPairs(NumberedExamples):
    """Pairs of texts, with a class label or a score for each.

    Either `labels` or `scores` is None. A ranking corpus has `groups`, and scores of 1.0 for
    relevant candidates and 0.0 for others.

    Attributes:
        firsts: the first text of each pair; none is blank. In a ranking corpus, the question.
        seconds: the second text of each pair; none is blank. In a ranking corpus, a candidate.
        labels: name of the class of each pair, or None.
        scores: number of each pair, finite, or None.
        groups: name of the group, such as the question, that each candidate belongs to, or None.
        origin: source of the data, for display and for saved results.
        lines: line number of each pair in its file; if None, pairs are counted from 1.
        skipped: number of bad examples that were skipped on request.
        files: file of each pair; if None, all are from `origin`.
        unlabelled: number of rows that were dropped because they are not labelled.
    """

    firsts: Sequence[str]
    seconds: Sequence[str]
    labels: Sequence[str] | None
    scores: Sequence[float] | None
    groups: Sequence[str] | None
    origin: str
    lines: Sequence[int] | None = None
    skipped: int = 0
    files: Sequence[str] | None = None
    unlabelled: int = 0

    columns = ("firsts", "seconds", "labels", "scores", "groups", "lines", "files")

    def __post_init__(self) -> None:
        if (self.labels is None) == (self.scores is None):
            given = "neither" if self.labels is None else "both"
            raise ValueError(
                f"{self.origin}: exactly one of labels and scores must be given, got {given}."
            )
        super().__post_init__()

    def __iter__(self) -> Iterator[tuple[str, str, str | float, str]]:
        """Yield the two texts of each pair, its label or score, and its group ("" if none)."""
        targets: Any = self.scores if self.labels is None else self.labels
        groups = self.groups or [""] * len(self)
        return zip(self.firsts, self.seconds, targets, groups, strict=True)

    @property
    def known_classes(self) -> tuple[str, ...]:
        """Names of all classes that occur, sorted; empty if the pairs have scores."""
        return tuple(sorted(set(self.labels or ())))


def _parse_pair_class(location: str, name: str, value: Any) -> str:
    hint = "set data.target=regression, or write names or whole numbers"
    return parse_class(location, name, value, hint)


TARGETS: dict[str, tuple[str, Callable[[str, str, Any], str | float]]] = {
    "classification": ("labels", _parse_pair_class),
    "regression": ("scores", parse_number),
    "ranking": ("scores", parse_relevance),
}
"""Column of the labels and parser of a label, by target."""


@dataclass(frozen=True)
class PairFields(LabelledFields[LabelledPairs]):
    """Columns, fields or features of labelled pairs of texts.

    Args:
        first, second: names of the two texts; for a ranking, those of the question and of the
            candidate. A list of sentences is joined with line breaks.
        label: name of the classes, the numbers or, for a ranking, the relevance: 1 or 0.
        group: for a ranking, name of the groups whose candidates are ranked; None, or the same as
            `first`, if candidates with equal first texts are a group.
        target: "classification", "regression" or "ranking".
        drop_unanswered: whether to drop the groups of a ranking without a relevant candidate, which
            have no average precision. Their pairs are counted as skipped. By default, such a group
            is an error, which `skip_bad` does not skip, because each of its rows is correct.

    Raises:
        ValueError: two names are the same, an unknown target, or `group` or `drop_unanswered`
            without a ranking.
    """

    first: str
    second: str
    label: str = "label"
    group: str | None = None
    target: str = "classification"
    drop_unanswered: bool = False

    examples_class: ClassVar[type[Any]] = LabelledPairs
    examples_name: ClassVar[str] = "pairs"

    def __post_init__(self) -> None:
        check_choice("data.target", self.target, TARGETS)
        for option in ("group", "drop_unanswered"):
            if getattr(self, option) and not self.is_ranking:
                raise ValueError(
                    f"data.{option}={getattr(self, option)} needs data.target=ranking, got"
                    f" {self.target}"
                )
        super().__post_init__()

    @property
    def is_ranking(self) -> bool:
        """Whether candidates are ranked."""
        return self.target == "ranking"

    @property
    def names(self) -> dict[str, str]:
        """Name of each column to read, by option."""
        names = {"first": self.first, "second": self.second, "label": self.label}
        if not self.group or self.group == self.first:
            return names
        return {**names, "group": self.group}

    @property
    def column_names(self) -> tuple[str, ...]:
        """Columns of the examples that `parse` returns."""
        groups = ("groups",) if self.is_ranking else ()
        return ("firsts", "seconds", TARGETS[self.target][0], *groups)

    def parse(self, location: str, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the texts, the class or score and the group; raise ValueError if one is bad."""
        first = parse_text(location, self.first, values["first"])
        second = parse_text(location, self.second, values["second"])
        column, parse_target = TARGETS[self.target]
        target = parse_target(location, self.label, values["label"])
        pair = {"firsts": first, "seconds": second, column: target}
        if not self.is_ranking:
            return pair
        if "group" not in values:
            return {**pair, "groups": first}
        return {**pair, "groups": parse_name(location, str(self.group), values["group"])}

    def collect(
        self,
        rows: Iterable[LabelledRow],
        origin: str,
        skip_bad: int = 0,
        column_factory: ColumnFactory = make_list,
    ) -> LabelledPairs:
        """Return the pairs of the rows; see `LabelledFields.collect`.

        Raises:
            ValueError: as `LabelledFields.collect`; a group without a relevant candidate, unless
                `drop_unanswered`; no other group.
        """
        pairs = super().collect(rows, origin, skip_bad, column_factory)
        if pairs.groups is None or pairs.scores is None:
            return pairs
        candidates = [*zip(pairs.groups, pairs.scores, strict=True)]
        answered = {group for group, score in candidates if score}
        bad = [row for row, (group, _) in enumerate(candidates) if group not in answered]
        if not answered:
            raise ValueError(
                f"{origin}: no candidate is relevant; label relevant ones 1 in field {self.label!r}"
            )
        if bad and not self.drop_unanswered:
            location, group = pairs.locations()[bad[0]], candidates[bad[0]][0]
            raise ValueError(
                f"{location}: group {group!r} has no relevant candidate ({len(bad)} of"
                f" {len(pairs)} pairs are in such groups); correct its labels, or set"
                " data.drop_unanswered=true to drop these groups"
            )
        if not bad:
            return pairs
        rest = [row for row, (group, _) in enumerate(candidates) if group in answered]
        return replace(pairs.take(rest), skipped=pairs.skipped + len(bad))
