import sys
import time

import pytest

from attention_zoo.data import read_tfds

NAME = "ted_hrlr_translate/pt_to_en"


def make_mock_dataset(columns):
    """Return `as_dataset` for `mock_data`: a data set of these columns."""
    import tensorflow as tf

    return lambda *args, **kwargs: tf.data.Dataset.from_tensor_slices(columns)


def test_read_tfds_reads_a_prepared_set(tfds, tmp_path):
    with tfds.testing.mock_data(num_examples=7):
        pairs = read_tfds(NAME, "train", "pt", "en", data_dir=tmp_path)
        swapped = read_tfds(NAME, "train", "en", "pt", data_dir=tmp_path)
        rows = list(tfds.builder(NAME, data_dir=tmp_path).as_dataset(split="train"))
    assert pairs.sources == [row["pt"].numpy().decode() for row in rows]
    assert pairs.targets == [row["en"].numpy().decode() for row in rows]
    assert swapped.sources == pairs.targets
    assert len(pairs) == 7
    assert NAME in pairs.origin


SUMMARIZATION_SETS = [
    ("cnn_dailymail", "article", "highlights"),
    ("gigaword", "document", "summary"),
    ("samsum", "dialogue", "summary"),
]


@pytest.mark.parametrize(("name", "source", "target"), SUMMARIZATION_SETS)
def test_read_tfds_reads_summarization_sets(tfds, tmp_path, name, source, target):
    import tensorflow as tf

    def rows(self, *args, **kwargs):
        assert {source, target} <= set(self.info.features)
        texts = {source: ["One.\n\nTwo .", "Three"], target: ["one\ntwo", "UNK 3"]}
        return tf.data.Dataset.from_tensor_slices(texts)

    with tfds.testing.mock_data(as_dataset_fn=rows):
        pairs = read_tfds(name, "validation", source, target, data_dir=tmp_path)
    assert list(pairs) == [("One.\n\nTwo .", "one\ntwo"), ("Three", "UNK 3")]
    assert pairs.origin == f"{name} validation"


def test_missing_feature_raises(tfds, tmp_path):
    with (
        tfds.testing.mock_data(num_examples=1),
        pytest.raises(
            ValueError, match=r"no feature 'eng'; did you mean 'en'.*\(features: en, pt\)"
        ),
    ):
        read_tfds(NAME, "train", "pt", "eng", data_dir=tmp_path)


def test_empty_field_raises_or_is_skipped(tfds, tmp_path):
    rows = {"pt": ["um", "", "dois"], "en": ["1", "2", "3"]}
    with tfds.testing.mock_data(as_dataset_fn=make_mock_dataset(rows)):
        with pytest.raises(ValueError, match=r"row 2: the field 'pt' is empty"):
            read_tfds(NAME, "train", "pt", "en", data_dir=tmp_path)
        pairs = read_tfds(NAME, "train", "pt", "en", data_dir=tmp_path, skip_bad=1)
    assert (pairs.sources, pairs.targets, pairs.skipped) == (["um", "dois"], ["1", "3"], 1)


UNAVAILABLE = {
    "not prepared": (NAME, f"{NAME} is not prepared in .*download_and_prepare"),
    "no such set": ("ted_hrlr_translat/pt_to_en", "no TFDS data set .*did you mean 'ted_hrlr_tr"),
    "no such configuration": ("ted_hrlr_translate/pt_to_xx", "no TFDS data set .*pt_to_xx"),
}


@pytest.mark.parametrize(("name", "message"), UNAVAILABLE.values(), ids=UNAVAILABLE)
def test_unavailable_set_raises_at_once(tfds, tmp_path, name, message):
    start = time.perf_counter()
    with pytest.raises(ValueError, match=message) as caught:
        read_tfds(name, "train", "pt", "en", data_dir=tmp_path)
    assert time.perf_counter() - start < 5
    assert "\n" not in str(caught.value)


def test_missing_tfds_package_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorflow_datasets", None)
    with pytest.raises(ValueError, match=r"pip install 'attention-zoo\[tfds\]'") as caught:
        read_tfds(NAME, "train", "pt", "en")
    assert "\n" not in str(caught.value)
