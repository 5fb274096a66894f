"""Captioned images in the cache equal those in memory."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from attention_zoo.data.storage.image_column import ImageFile
from attention_zoo.data_cache import DataCache
from attention_zoo.tasks import TASKS, cached_corpora, encoding
from attention_zoo.tasks.building import TokenizerOptions
from attention_zoo.tasks.caption_corpora import CAPTIONED_IMAGES
from attention_zoo.training import Recipe
from attention_zoo.training.changes import SplitReader
from tests.data.images.image_folders import make_image_file, write_folder, write_zip
from tests.tasks.test_cached_corpora import assert_all_equal

CAPTIONS = {"a.png": ["a dog", "two dogs run"], "b/c.jpg": ["a red ball ."], "d.png": ["a dog"]}
FILES = {
    name: make_image_file(seed, (9, 8, 3), "JPEG" if name.endswith("jpg") else "PNG")
    for seed, name in enumerate(CAPTIONS)
}
SIZE = {"image_size": 12}


def write_corpus(kind: str, folder: Path) -> dict[str, Any]:
    """Write captions and images; return the options of the corpus."""
    images = write_folder(folder / "images", {**FILES, "bad.png": b"no image"})
    captions = {**CAPTIONS, "bad.png": ["bad"]}
    if kind == "coco":
        content = {
            "images": [{"id": n, "file_name": name} for n, name in enumerate(captions)],
            "annotations": [
                {"image_id": n, "caption": text}
                for n, texts in enumerate(captions.values())
                for text in texts
            ],
        }
        (folder / "train.json").write_text(json.dumps(content))
        return {"train": str(folder / "train.json"), "images": str(images)}
    rows = ({"image": name, "captions": texts} for name, texts in captions.items())
    (folder / "all.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    if kind == "captions":
        return {"train": str(folder / "all.jsonl"), "images": str(images)}
    packed = write_zip(folder / "images", {**FILES, "bad.png": b"no image"})
    (folder / "names.txt").write_text("d.png\nbad.png\na.png\n")
    names = {"train": str(folder / "names.txt"), "captions": str(folder / "all.jsonl")}
    return {**names, "images": str(packed)}


def make_corpus(kind: str, options: dict[str, Any], cache: Any, **changes: Any) -> Any:
    registered = CAPTIONED_IMAGES.get("coco" if kind == "coco" else "captions")
    return registered(**{**SIZE, "skip_bad": 1, "cache": cache, **options, **changes})


@pytest.mark.parametrize("kind", ["captions", "coco", "zip"])
def test_examples_and_fingerprint_equal_those_in_memory(kind: str, tmp_path: Path) -> None:
    options, cache = write_corpus(kind, tmp_path), str(tmp_path / "cache")
    reader = SplitReader(make_corpus(kind, options, False))
    expected, fingerprint = reader.read("train"), reader.read_fingerprint("train")
    assert isinstance(expected.images, np.ndarray)
    for _ in range(2):
        reader = SplitReader(make_corpus(kind, options, cache))
        examples, hashes = reader.read("train"), reader.read_fingerprint("train")
        assert hashes == fingerprint
        assert isinstance(examples.images, ImageFile)
        np.testing.assert_array_equal(examples.images[:], expected.images)
        assert [*examples.captions] == expected.captions
        assert [*examples.names] == expected.names
        assert (examples.origin, examples.skipped) == (expected.origin, 1)
        np.testing.assert_array_equal(examples.take([1]).images[:], expected.images[[1]])


def test_cached_images_are_not_decoded_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options, cache = write_corpus("captions", tmp_path), str(tmp_path / "cache")
    make_corpus("captions", options, cache).read("train")
    reader = CAPTIONED_IMAGES.get("captions")
    read, calls = reader._read_files, []

    def count(*arguments: Any) -> Any:
        calls.append(1)
        return read(*arguments)

    monkeypatch.setattr(reader, "_read_files", count)
    for changes, number in (
        ({"max_target_length": 2}, 0),  # a limit of the token ids
        ({"image_size": 7}, 1),
        ({"train_images": options["images"]}, 2),  # the folder then has no other split's images
        ({"test_images": str(tmp_path)}, 2),
    ):
        examples = make_corpus("captions", options, cache, **changes).read("train")
        assert examples.images.shape == (3, *[changes.get("image_size", 12)] * 2, 3)
        assert len(calls) == number
    path = Path(options["images"]) / "a.png"
    path.write_bytes(FILES["d.png"])
    os.utime(path, (1, 1))
    examples = make_corpus("captions", options, cache).read("train")
    np.testing.assert_array_equal(examples.images[0], examples.images[2])


def test_only_images_of_the_folder_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = write_corpus("captions", tmp_path)
    folder = Path(options["images"])
    cache = str(folder / "cache")
    options["train"] = str(Path(options["train"]).rename(folder / "all.jsonl"))
    reader = CAPTIONED_IMAGES.get("captions")
    read, calls = reader._read_files, []

    def write_log(*arguments: Any) -> Any:
        calls.append(1)
        (folder / "log.jsonl").write_text("a log that grows\n" * len(calls))
        return read(*arguments)

    monkeypatch.setattr(reader, "_read_files", write_log)
    for _ in range(3):
        make_corpus("captions", options, cache).read("train")
        os.utime(options["train"], (1, 1))
    assert len(calls) == 1
    monkeypatch.setattr(tf, "__version__", "another")
    make_corpus("captions", options, cache).read("train")
    assert len(calls) == 2


def test_files_without_the_suffix_of_an_image_are_not_cached(tmp_path: Path) -> None:
    images = write_folder(tmp_path, {"a.dat": FILES["a.png"], "b": FILES["d.png"]})
    for name, is_cached in (("a.dat", False), ("b", True)):
        row = {"image": name, "captions": ["a dog"]}
        (tmp_path / "train.jsonl").write_text(json.dumps(row))
        options = {"train": str(tmp_path / "train.jsonl"), "images": str(images)}
        examples = make_corpus("captions", options, str(tmp_path / "cache")).read("train")
        assert (examples.cache is not None) == is_cached


def test_a_full_disk_is_no_error_by_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*arguments: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setenv("ATTENTION_ZOO_CACHE", str(tmp_path / "default"))
    monkeypatch.setattr(cached_corpora, "MIN_BYTES", 1)
    monkeypatch.setattr(ImageFile, "append", fail)
    options = write_corpus("captions", tmp_path)
    with caplog.at_level("INFO", "attention_zoo.data"):
        assert make_corpus("captions", options, None).read("train").cache is None
    assert "without a cache: data.cache: " in caplog.text
    assert "default: No space left on device; free disk space or" in caplog.text
    with pytest.raises(ValueError, match=r"^data\.cache: .*: No space left on device; free disk"):
        make_corpus("captions", options, True).read("train")
    assert not [*(tmp_path / "default").glob("[!.]*")]


def test_names_that_are_not_unicode_are_not_cached(tmp_path: Path) -> None:
    name = "\udc80.png"
    write_folder(tmp_path, {name: FILES["a.png"]})
    (tmp_path / "train.jsonl").write_text(json.dumps({"image": name, "captions": ["a dog"]}))
    options = {"train": str(tmp_path / "train.jsonl")}
    assert make_corpus("captions", options, False).read("train").names == [name]
    with pytest.raises(ValueError, match=r"train\.jsonl: text that is not valid Unicode cannot be"):
        make_corpus("captions", options, str(tmp_path / "cache")).read("train")


def test_images_that_change_while_they_are_read_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options, cache = write_corpus("captions", tmp_path), str(tmp_path / "cache")
    reader = CAPTIONED_IMAGES.get("captions")
    read = reader._read_files

    def read_and_change(*arguments: Any) -> Any:
        examples = read(*arguments)
        os.utime(Path(options["images"]) / "a.png", (1, 1))
        return examples

    monkeypatch.setattr(reader, "_read_files", read_and_change)
    with pytest.raises(ValueError, match=r"^data\.train: .*: changed while it was read; start aga"):
        make_corpus("captions", options, cache).read("train")
    assert DataCache(cache).list_entries() == []


def test_errors_are_those_without_a_cache(tmp_path: Path) -> None:
    options = write_corpus("captions", tmp_path)
    for changes in (
        {"skip_bad": 0},
        {"images": str(tmp_path / "none")},
        {"images": "a\0b"},
        {"train": "none.jsonl"},
    ):
        messages = []
        for cache in (False, str(tmp_path / "cache")):
            with pytest.raises(ValueError) as refused:
                make_corpus("captions", options, cache, **changes).read("train")
            messages.append(str(refused.value))
        assert messages[0] == messages[1]
    assert DataCache(tmp_path / "cache").list_entries() == []


def test_the_size_of_the_images_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ATTENTION_ZOO_CACHE", str(tmp_path / "default"))
    options = write_corpus("captions", tmp_path)
    size = sum(map(len, FILES.values())) + len("no image") + os.path.getsize(options["train"])
    for least, is_cached in ((size + 1, False), (size, True)):
        monkeypatch.setattr(cached_corpora, "MIN_BYTES", least)
        examples = make_corpus("captions", options, None).read("train")
        assert (examples.cache is not None) == is_cached


ENCODER = {"kind": "cnn", "filters": [2, 3]}
MODELS = {
    "captioning": {"preset": "show_attend_tell_small", "units": 4, "attention_units": 3},
    "retrieval": {"preset": "cross_attention_retriever_small", "units": 4},
}


@pytest.mark.parametrize("name", MODELS)
def test_tasks_train_on_the_same_batches(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(encoding, "MIN_SHARD", 2)
    options, made = write_corpus("captions", tmp_path), []
    model = {**MODELS[name], "embedding_dim": 4, "encoder": ENCODER}
    for cache in (False, str(tmp_path / "cache"), str(tmp_path / "cache")):
        data = make_corpus("captions", options, cache, max_target_length=3)
        recipe = Recipe(task=name, data=data, tokenizer=TokenizerOptions("word", 20), model=model)
        examples = data.read("train")
        task = TASKS.get(name).from_recipe(recipe, examples)
        batches = task.make_batches(examples, batch_size=2, seed=3)
        steps = [tf.nest.flatten(batches.get_batch(step)) for step in range(3)]
        fitting = [*task.filter_by_length(examples)]
        made.append((steps, fitting, task.tokenizer.vocabulary, batches.get_example_numbers(1)))
    assert len(made[0][1]) < 3
    assert_all_equal(made)
    kinds = {entry.kind for entry in DataCache(tmp_path / "cache").list_entries()}
    assert kinds == {"examples", "tokenizer", "tokens"}
