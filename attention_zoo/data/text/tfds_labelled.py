"""Labelled texts, and labelled pairs of texts, from prepared data sets of TFDS."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from attention_zoo.data.reading import decode_utf8
from attention_zoo.data.text.labelled_fields import UNLABELLED, E, LabelledFields, LabelledRow
from attention_zoo.data.text.labelled_pairs import LabelledPairs
from attention_zoo.data.text.tfds import get_feature_value, read_tfds_rows


def read_text_tfds(
    name: str,
    split: str,
    fields: LabelledFields[E],
    data_dir: str | Path | None = None,
    skip_bad: int = 0,
) -> E:
    """Read labelled texts or pairs from features of a prepared TFDS data set.

    Nothing is downloaded. Rows whose label is the integer -1 are not labelled: they are dropped and
    counted in `unlabelled` and in `origin`.

    Args:
        name: TFDS name of the data set: "imdb_reviews", "glue/mrpc".
        split: a TFDS split: "train", "test[:1000]".
        fields: the features: `TextFields` for `LabelledTexts`, `PairFields` for `LabelledPairs`.
            Classes are a `ClassLabel` (or, in multi-label corpora, a sequence of these), integers
            or texts; numbers are integers or floats.
        data_dir: TFDS folder of prepared data sets; None means the default of TFDS.
        skip_bad: maximum number of bad rows to skip. More raise an error.

    Raises:
        ValueError: as `read_tfds`; no row of the split is labelled; a bad row: an empty text or
            label, a class that is a decimal number, a score that is no finite number.
    """
    origin, names = f"{name} {split}", fields.names
    features, rows = read_tfds_rows(name, split, tuple(names.values()), data_dir)

    def get_values(location: str, row: dict[str, Any]) -> list[Any]:
        return [
            _convert(location, features[feature], get_feature_value(row, feature), option)
            for option, feature in names.items()
        ]

    located = (
        LabelledRow(location, origin, number, partial(get_values, location, row))
        for number, (location, row) in enumerate(rows, 1)
    )
    examples = fields.collect(located, origin, skip_bad)
    if isinstance(examples, LabelledPairs) and {*(examples.scores or ())} == {-1.0}:
        raise ValueError(f"{origin}: no row is labelled (all are -1); choose another split")
    return examples


def _convert(location: str, feature: Any, value: Any, option: str) -> Any:
    """Return the value of a feature as a text, a name of a class, a number or a list of these."""
    if isinstance(value, bytes):
        return decode_utf8(location, value)
    if np.ndim(value):
        inner = getattr(feature, "feature", feature)
        return [_convert(location, inner, one, option) for one in value]
    if option == "label" and isinstance(value, np.integer) and value == -1:
        return UNLABELLED
    if hasattr(feature, "int2str"):
        return feature.int2str(int(value))
    return value.item() if isinstance(value, np.generic) else value
