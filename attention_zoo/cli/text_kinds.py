"""Kinds of texts that `attention-zoo predict` reads: single texts, documents and pairs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn


def _join_sentences(sentences: list[str]) -> str:
    """Join sentences with line breaks, as in training."""
    from attention_zoo.data.text.labelled_fields import join_sentences

    return join_sentences(sentences)


@dataclass(frozen=True)
class TextKind:
    """Columns or fields that contain the texts of a `predict` input.

    Args:
        names: default names of its columns or fields, in the order in which they are tried.
        options: options of the recipe's `data` that contain these names, in the same way.
        join: function from a list of texts in a JSON field to the text.
    """

    names: tuple[tuple[str, ...], ...]
    options: tuple[tuple[str, ...], ...]
    join: Callable[[list[str]], Any]

    @property
    def count(self) -> int:
        """Number of texts of an input."""
        return len(self.names[0])

    def parse_fields(self, text: str) -> tuple[str, ...]:
        """Return the names in `--field`; names of several columns are separated by commas.

        Raises ValueError for another number of names, or for two equal names.
        """
        if self.count == 1:
            return (text,)
        names = [name for part in text.split(",") if (name := part.strip(" "))]
        if len(names) != self.count:
            raise ValueError(
                f"--field {text}: expected {self.count} names separated by commas, got"
                f" {len(names)}; pass --field {self.placeholder}"
            )
        if len({*names}) < len(names):
            raise ValueError(f"--field {text}: names a column twice; name {self.count} columns")
        return tuple(names)

    def get_recipe_names(self, data: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the names of the columns or fields in a recipe's `data`; empty without them."""
        for options in self.options:
            names = tuple(data.get(option) for option in options)
            if all(isinstance(name, str) and name for name in names):
                return names  # type: ignore[return-value]
        return ()

    def find_names(self, names: Collection[str]) -> tuple[str, ...]:
        """Return the default names that columns or fields have; empty if there are none."""
        known = (default for default in self.names if {*default} <= {*names})
        return next(known, ())

    @property
    def column_noun(self) -> str:
        """Noun for the columns of an input."""
        return "column" if self.count == 1 else "columns"

    @property
    def placeholder(self) -> str:
        """The value of `--field` in messages."""
        return ",".join(["NAME"] * self.count)

    def raise_missing_columns(self, location: str, names: Collection[str]) -> NoReturn:
        """Raise ValueError because no columns or fields have default names."""
        known = " or ".join(" and ".join(default) for default in self.names)
        nouns = "column or field is" if self.count == 1 else "columns or fields are"
        raise ValueError(
            f"{location}: no {nouns} named {known}; pass --field {self.placeholder} (fields:"
            f" {', '.join(names) or 'none'})"
        )

    def split_line(self, line: str) -> Sequence[str]:
        """Return the texts of a line, separated by tabs; a blank line has empty texts.

        Raises ValueError for another number of texts.
        """
        if self.count == 1:
            return [line]
        if not line.strip(" \t"):
            return [""] * self.count
        texts = line.split("\t")
        if len(texts) != self.count:
            raise ValueError(
                f"expected {self.count} texts separated by tabs, got {len(texts)}. Write one tab"
                " between two texts, or read columns with --format tsv and --field"
                f" {self.placeholder}"
            )
        return texts


_TEXT_NAMES = tuple((name,) for name in ("text", "source", "sentence", "document", "article"))
_PAIR_NAMES = (
    ("first", "second"),
    ("sentence1", "sentence2"),
    ("sentence_A", "sentence_B"),
    ("premise", "hypothesis"),
    ("question1", "question2"),
    ("question", "answer"),
    ("question", "sentence"),
    ("query", "document"),
)
_TEXT_OPTIONS = (("source",), ("text",))

TEXT_KINDS: dict[str, TextKind] = {
    "text": TextKind(_TEXT_NAMES, _TEXT_OPTIONS, " ".join),
    "document": TextKind(_TEXT_NAMES, _TEXT_OPTIONS, list),
    "text_pair": TextKind(_PAIR_NAMES, (("first", "second"),), _join_sentences),
}
"""The texts of each kind of `tasks.Input` that is no image."""
