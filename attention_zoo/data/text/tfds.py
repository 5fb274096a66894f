"""Text pairs and tagged sentences from prepared data sets of TensorFlow Datasets (TFDS)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any

from attention_zoo.data.reading import BadRowSkipper, decode_utf8, get_first_line
from attention_zoo.data.text.pairs import TextPairs, collect_pairs
from attention_zoo.data.text.tagged import TaggedSentences
from attention_zoo.extras import explain_missing_package
from attention_zoo.registry import did_you_mean


def read_tfds(
    name: str,
    split: str,
    source: str,
    target: str,
    data_dir: str | Path | None = None,
    skip_bad: int = 0,
) -> TextPairs:
    """Read pairs from two text features of a prepared TFDS data set; nothing is downloaded.

    Args:
        name: TFDS name of the data set with its configuration: "ted_hrlr_translate/pt_to_en".
        split: a TFDS split: "train", "train[:1000]".
        source: feature of the source texts.
        target: feature of the target texts.
        data_dir: TFDS folder of prepared data sets; None means the default of TFDS.
        skip_bad: maximum number of rows with an empty field to skip. More raise an error.

    Raises:
        ValueError: TFDS is not installed, the data set is unknown or not prepared, the split or a
            feature is missing, a field is empty, a row is damaged.
    """
    _, rows = read_tfds_rows(name, split, (source, target), data_dir)

    def parse_row(location: str, row: dict[str, bytes]) -> tuple[str, str]:
        return decode_utf8(location, row[source]), decode_utf8(location, row[target])

    return collect_pairs(rows, parse_row, f"{name} {split}", (source, target), skip_bad)


def read_tagged_tfds(
    name: str,
    split: str,
    words: str,
    tags: str,
    data_dir: str | Path | None = None,
    skip_bad: int = 0,
) -> TaggedSentences:
    """Read tagged sentences from two features of a prepared TFDS data set; nothing is downloaded.

    Rows without words, which TFDS creates at the end of a file, are skipped.

    Args:
        name: TFDS name of the data set: "conll2003".
        split: a TFDS split: "train", "dev[:1000]".
        words: feature of the words.
        tags: feature of the tags, a sequence of `ClassLabel`.
        data_dir: TFDS folder of prepared data sets; None means the default of TFDS.
        skip_bad: maximum number of bad rows to skip. More raise an error.

    Raises:
        ValueError: as `read_tfds`; the feature of the tags is no sequence of `ClassLabel`, or a row
            is bad: invalid UTF-8, or another number of tags than words.
    """
    features, rows = read_tfds_rows(name, split, (words, tags), data_dir)
    label: Any = getattr(features[tags], "feature", None)
    if not hasattr(label, "int2str"):
        raise ValueError(f"{name}: feature {tags!r} is not a sequence of ClassLabel; choose one")
    texts, names, lines, skipper = [], [], [], BadRowSkipper(skip_bad)
    for number, (location, row) in enumerate(rows, 1):
        with skipper:
            text = tuple(decode_utf8(location, word) for word in row[words])
            text_tags = tuple(label.int2str(int(tag)) for tag in row[tags])
            if len(text) != len(text_tags):
                raise ValueError(f"{location}: {len(text)} words but {len(text_tags)} tags")
            if text:
                texts.append(text)
                names.append(text_tags)
                lines.append(number)
    if not texts:
        raise ValueError(
            f"{name} {split}: contains no sentence (bad rows skipped: {skipper.count}); choose"
            " another split or feature"
        )
    origin = f"{name} {split}"
    return TaggedSentences(texts, names, origin, lines=lines, skipped=skipper.count)


def read_tfds_rows(
    name: str, split: str, required: Sequence[str], data_dir: str | Path | None
) -> tuple[dict[str, Any], Iterator[tuple[str, dict[str, Any]]]]:
    """Return the features of a prepared TFDS data set, and the location and values of each row.

    Nothing is downloaded.

    Args:
        name: TFDS name of the data set.
        split: a TFDS split.
        required: features that must exist; a nested feature is named as in "captions/text".
        data_dir: TFDS folder of prepared data sets; None means the default of TFDS.

    Raises:
        ValueError: TFDS is not installed, the data set is unknown or not prepared, the split or a
            feature is missing. While rows are iterated: a row is damaged.
    """
    with explain_missing_package():
        import tensorflow_datasets as tfds
    builder = _make_builder(tfds, name, data_dir)
    features = _flatten_features(tfds, builder.info.features)
    for feature in required:
        if feature not in features:
            raise ValueError(
                f"{name} has no feature {feature!r}{did_you_mean(feature, features)}"
                f" (features: {', '.join(sorted(features))})"
            )
    try:
        rows = builder.as_dataset(split=split).as_numpy_iterator()
    except AssertionError:
        raise ValueError(
            f"{name} is not prepared in {builder.data_dir}; with a network, run"
            f" python -c \"import tensorflow_datasets as t; t.builder('{name}')"
            '.download_and_prepare()"'
        ) from None
    except Exception as error:
        raise ValueError(f"{name}: no split {split!r}: {get_first_line(error)}") from None
    return features, _locate_rows(f"{name} {split}", rows)


def _locate_rows(
    origin: str, rows: Iterator[dict[str, Any]]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the location and the values of each row; raise ValueError for a damaged one."""
    for number in count(1):
        location = f"{origin}: row {number}"
        try:
            row = next(rows, None)
        except Exception as error:  # TensorFlow raises many classes
            reason = get_first_line(error)
            raise ValueError(
                f"{location} cannot be read: {reason}; prepare the data set again"
            ) from None
        if row is None:
            return
        yield location, row


def get_feature_value(row: dict[str, Any], name: str) -> Any:
    """Return the value of a feature, which may be nested, in a row."""
    outer, _, inner = name.rpartition("/")
    return row[name] if name in row else row[outer][inner]


def _flatten_features(tfds: Any, features: Any) -> dict[str, Any]:
    """Return the features by name, including nested ones."""
    features_by_name = dict(features.items())
    for name, feature in features.items():
        inner = getattr(feature, "feature", feature)
        if isinstance(inner, tfds.features.FeaturesDict):
            features_by_name |= {f"{name}/{part}": inner[part] for part in inner}
    return features_by_name


def _make_builder(tfds: Any, name: str, data_dir: str | Path | None) -> Any:
    try:
        return tfds.builder(name, data_dir=data_dir)
    except Exception as error:
        known, reason = tfds.list_builders(with_community_datasets=False), get_first_line(error)
        suggestion = did_you_mean(name.partition("/")[0], known)
        raise ValueError(f"no TFDS data set {name!r}{suggestion}: {reason}") from None
