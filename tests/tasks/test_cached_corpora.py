"""Corpora in the cache equal those in memory: examples, tokenizers, token ids and messages."""

from __future__ import annotations

import gzip
import os
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import tensorflow as tf

from attention_zoo import data_cache
from attention_zoo.data import TextLines, Tokenizer, train_tokenizer
from attention_zoo.data.storage.columns import BATCH, ArrowColumn
from attention_zoo.tasks import TASKS, building, cached_corpora, encoding
from attention_zoo.tasks.building import TokenizerOptions, load_or_train_tokenizer
from attention_zoo.tasks.encoding import load_or_encode
from attention_zoo.tasks.line_corpora import LINES
from attention_zoo.tasks.tagging.corpora import TAGGED_SENTENCES
from attention_zoo.tasks.text_pair_corpora import TEXT_PAIRS
from attention_zoo.training import Recipe
from attention_zoo.training.changes import SplitReader
from tests.refusals import refuses

PAIRS = {"source": "en", "target": "fr", "skip_bad": 1}

CASES: dict[str, tuple[Any, str, dict[str, Any]]] = {
    "tsv": (TEXT_PAIRS, "fr\ten\nun\ta\nbad\ndeux\ttwo\n", PAIRS),
    "csv": (TEXT_PAIRS, 'en,fr\n"a, b",un\n,\n"c\nd",deux\n', PAIRS),
    "jsonl": (
        TEXT_PAIRS,
        '{"en": "a", "fr": "un"}\n[]\n{"en": "two", "fr": ["deux", "2"]}\n',
        PAIRS,
    ),
    "parallel": (TEXT_PAIRS, "a\n\ntwo words\n", PAIRS),
    "text": (LINES, "a line\n\nanother\x85line\n", {"skip_bad": 0}),
    "conll": (
        TAGGED_SENTENCES,
        "-DOCSTART- O O\n\nNew B-LOC 1\nYork I-LOC 0\n\nbad\n\nDogs O 0\n\nat I-LOC 0\n",
        {"scheme": "BIO", "tags": 1, "marks": 2, "skip_bad": 2},
    ),
}


def write_files(kind: str, folder: Path) -> str:
    """Write two files, one of them compressed; return the pattern of both."""
    text = CASES[kind][1].encode()
    names = ["1.en", "1.fr", "2.en", "2.fr"] if kind == "parallel" else ["1.txt"]
    for name in names:
        (folder / name).write_bytes(text)
    if kind != "parallel":
        (folder / "2.txt").write_bytes(gzip.compress(text.replace(b"bad\n", b"")))
    return str(folder / ("*.{language}" if kind == "parallel" else "*.txt"))


def make_corpus(kind: str, train: str, cache: Any, **options: Any) -> Any:
    registry, _, given = CASES[kind]
    skip_bad = 2 * given["skip_bad"]
    return registry.get(kind)(
        train=train, cache=cache, **{**given, "skip_bad": skip_bad, **options}
    )


@pytest.mark.parametrize("kind", CASES)
def test_examples_and_fingerprint_equal_those_in_memory(kind: str, tmp_path: Path) -> None:
    train, cache = write_files(kind, tmp_path), str(tmp_path / "cache")
    reader = SplitReader(make_corpus(kind, train, False))
    expected, fingerprint = reader.read("train"), reader.read_fingerprint("train")
    assert expected.cache is None
    for _ in range(2):
        reader = SplitReader(make_corpus(kind, train, cache))
        examples, hashes = reader.read("train"), reader.read_fingerprint("train")
        assert hashes == fingerprint
        assert examples.cache is not None
        assert [*examples] == [*expected]
        assert (examples.origin, examples.skipped) == (expected.origin, expected.skipped)
        for name in expected.columns:
            values = getattr(expected, name)
            if values is None:
                assert getattr(examples, name) is None
                continue
            assert isinstance(getattr(examples, name), ArrowColumn)
            rows = [tuple(one) if isinstance(one, range) else one for one in values]
            assert [*getattr(examples, name)] == rows, name
            assert [*getattr(examples.take([1, 0]), name)] == rows[1::-1]
    kinds = sorted(entry.kind for entry in data_cache.DataCache(cache).list_entries())
    assert kinds == ["examples", "fingerprint"]


def test_cached_examples_are_not_parsed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train, cache = write_files("tsv", tmp_path), str(tmp_path / "cache")
    make_corpus("tsv", train, cache).read("train")

    def fail(*arguments: Any) -> None:
        raise AssertionError("the examples are in the cache")

    monkeypatch.setattr(TEXT_PAIRS.get("tsv"), "_read_files", fail)
    assert [*make_corpus("tsv", train, cache).read("train")] == [("a", "un"), ("two", "deux")] * 2
    for change in ({"source": "fr", "target": "en"}, {"skip_bad": 3}):
        with pytest.raises(AssertionError):
            make_corpus("tsv", train, cache, **change).read("train")
    # Limits are applied to encoded examples, and other splits may have the same files.
    other = make_corpus("tsv", train, cache, max_source_length=3, validation=train)
    assert len(other.read("validation")) == 4


def test_changed_content_is_read_again(tmp_path: Path) -> None:
    train, cache = write_files("text", tmp_path), str(tmp_path / "cache")
    assert len(make_corpus("text", train, cache).read("train")) == 4
    path = tmp_path / "1.txt"
    state = path.stat()
    path.write_text("A line\n\nanother\x85line\n")  # of the same size and time
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))
    examples = make_corpus("text", train, cache).read("train")
    assert examples.texts[0] == "A line"
    assert examples.locations()[0] == f"{path}:1"


def test_a_file_that_changes_while_it_is_read_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, cache = tmp_path / "train.txt", tmp_path / "cache"
    path.write_text("one\n")
    corpus = make_corpus("text", str(path), str(cache))
    read = type(corpus)._read_files

    def read_and_append(self: Any, *arguments: Any) -> Any:
        examples = read(self, *arguments)
        path.write_text("one\ntwo\n")
        return examples

    monkeypatch.setattr(type(corpus), "_read_files", read_and_append)
    with pytest.raises(ValueError, match=r"^data\.train: .*: changed while it was read; start aga"):
        corpus.read("train")
    assert data_cache.DataCache(cache).list_entries() == []
    monkeypatch.undo()
    assert corpus.read("train").texts == ["one", "two"]


def test_a_file_that_appears_while_others_are_read_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.txt").write_text("one\n")
    corpus = make_corpus("text", str(tmp_path / "*.txt"), str(tmp_path / "cache"))
    real = cached_corpora.hash_file

    def hash_and_add(path: str) -> str:
        (tmp_path / "b.txt").write_text("two\n")
        return real(path)

    monkeypatch.setattr(cached_corpora, "hash_file", hash_and_add)
    with pytest.raises(ValueError, match=r"a\.txt: changed while it was read; start again$"):
        corpus.read("train")
    monkeypatch.undo()
    assert corpus.read("train").texts == ["one", "two"]
    (tmp_path / "b.txt").unlink()
    assert corpus.read("train").texts == ["one"]


def test_the_cache_is_not_part_of_the_corpus(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cached_corpora, "MIN_BYTES", 1)
    monkeypatch.setenv("ATTENTION_ZOO_CACHE", str(tmp_path / "default"))
    (tmp_path / "train.txt").write_text("one\n")
    for cache in (str(tmp_path / "cache"), None):
        corpus = make_corpus("text", str(tmp_path / "**/*.txt"), cache)
        examples = corpus.read("train")
        load_or_train_tokenizer(TokenizerOptions("word"), examples, ["texts"])
        with pytest.raises(ValueError, match=r"vocabulary\.txt is in the cache .*; set another"):
            corpus.read("train")
        examples.cache.cache.clear()


def test_paths_that_are_not_unicode_are_refused(tmp_path: Path) -> None:
    path = os.fsdecode(os.fsencode(tmp_path) + b"/\xff.txt")
    Path(path).write_text("one\n")
    assert make_corpus("text", path, False).read("train").texts == ["one"]
    with pytest.raises(ValueError, match=r"\\udcff\.txt': a path with such characters cannot be"):
        make_corpus("text", path, str(tmp_path / "cache")).read("train")


def test_bad_rows_raise_the_same_errors(tmp_path: Path) -> None:
    train = write_files("conll", tmp_path)
    messages = []
    for cache in (False, str(tmp_path / "cache")):
        with pytest.raises(ValueError, match=r"^data\.train: .*1\.txt:6: expected 3 col") as caught:
            make_corpus("conll", train, cache, skip_bad=0).read("train")
        messages.append(str(caught.value))
    assert messages[0] == messages[1]
    assert not [*(tmp_path / "cache").glob("[!.]*")]


WORDS = TokenizerOptions("whitespace", 20)


class Lines:
    """A task that splits lines at spaces."""

    name = "lines"
    encoding_options: ClassVar[dict[str, Any]] = {"max_length": 3}
    __module__ = "attention_zoo.tasks.test"

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizers = {"tokenizer": tokenizer}

    def encode(self, examples: TextLines, rows: range) -> list[tuple[list[int], dict[str, Any]]]:
        ids = self.tokenizers["tokenizer"].encode(examples.texts)
        fitting = [row for row in rows if 0 < len(ids[row]) <= 3]
        return [
            (part, {"lines": [ids[row] for row in part]}) for part in (fitting[:2], fitting[2:])
        ]


def make_lines(folder: Path, size: int = BATCH + 7) -> Any:
    (folder / "train.txt").write_text(
        "".join(f"w{n % 50} " * (1 + n % 4) + "\n" for n in range(size))
    )
    return LINES.get("text")(train=str(folder / "train.txt"), cache=str(folder / "cache"))


def fail_to_prepare(*arguments: Any) -> None:
    raise AssertionError("this is in the cache")


def test_tokenizers_and_token_ids_are_prepared_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus, options = make_lines(tmp_path), TokenizerOptions("whitespace", 40)
    examples = corpus.read("train")
    tokenizer = load_or_train_tokenizer(options, examples, ["texts"])
    assert tokenizer.vocabulary == train_tokenizer("whitespace", [*examples.texts], 40).vocabulary
    task = Lines(tokenizer)
    expected = [one for one in tokenizer.encode([*examples.texts]) if len(one) <= 3]
    for prepare in (task.encode, fail_to_prepare):
        encoded = load_or_encode(task, examples, prepare)
        assert encoded.rows.tolist() == [n for n in range(BATCH + 7) if (n + 1) % 4]
        assert encoded["lines"].flat.tolist() == [token for one in expected for token in one]
        assert encoded["lines"].lengths.tolist() == [*map(len, expected)]
        assert encoded["lines"].flat.dtype == np.uint16
    monkeypatch.setattr(building, "train_recipe_tokenizer", fail_to_prepare)
    again = load_or_train_tokenizer(options, corpus.read("train"), ["texts"])
    assert again.vocabulary == tokenizer.vocabulary
    with pytest.raises(AssertionError, match="in the cache"):
        load_or_train_tokenizer(TokenizerOptions("whitespace", 41), examples, ["texts"])
    for change in (
        {"encoding_options": {"max_length": 2}},
        {"name": "others"},
        {"tokenizers": {"tokenizer": train_tokenizer("word", ["w1"], 40)}},
    ):
        other = Lines(tokenizer)
        vars(other).update(change)
        with pytest.raises(AssertionError, match="in the cache"):
            load_or_encode(other, examples, fail_to_prepare)


RECIPES = {
    "translation": (
        "tsv",
        {"preset": "rnnsearch_small", "embedding_dim": 4, "units": 4},
        "subword",
    ),
    "summarization": ("jsonl", {"preset": "pointer_generator_small", "copies": 3}, "word"),
    "language_modeling": ("text", {"preset": "gpt_tiny", "num_layers": 1}, "character"),
    "masked_language_modeling": ("text", {"preset": "bert_tiny", "num_layers": 1}, "word"),
    "tagging": ("conll", {"preset": "bilstm_cnn_crf", "units": 4}, "whitespace"),
}


def assert_all_equal(made: list[tuple[Any, ...]]) -> None:
    """Assert that preparations are equal: the arrays of some batches, and other values."""
    for steps, *rest in made[1:]:
        assert rest == [*made[0][1:]]
        for arrays, expected in zip(steps, made[0][0], strict=True):
            for array, other in zip(arrays, expected, strict=True):
                assert array.dtype == other.dtype
                np.testing.assert_array_equal(array, other)


@pytest.mark.parametrize("name", RECIPES)
def test_tasks_train_on_the_same_batches(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(encoding, "MIN_SHARD", 3)
    kind, model, tokenizer = RECIPES[name]
    train, made = write_files(kind, tmp_path), []
    for cache in (False, str(tmp_path / "cache"), str(tmp_path / "cache")):
        corpus = make_corpus(kind, train, cache)
        options = TokenizerOptions(tokenizer, 20)
        recipe = Recipe(task=name, data=corpus, tokenizer=options, model=model)
        examples = corpus.read("train")
        task = TASKS.get(name).from_recipe(recipe, examples)
        batches = task.make_batches(examples, batch_size=2, seed=3)
        steps = [tf.nest.flatten(batches.get_batch(step)) for step in range(3)]
        fitting = [*task.filter_by_length(examples)]
        vocabularies = [one.vocabulary for one in task.tokenizers.values()]
        made.append((steps, fitting, vocabularies, batches.get_example_numbers(1)))
    assert_all_equal(made)
    kinds = {entry.kind for entry in data_cache.DataCache(tmp_path / "cache").list_entries()}
    assert kinds == {"examples", "tokenizer", "tokens"}


def test_tokenizers_of_characters_determine_the_token_ids(tmp_path: Path) -> None:
    train, columns = write_files("conll", tmp_path), []
    corpus = make_corpus("conll", train, str(tmp_path / "cache"))
    examples = corpus.read("train")
    for change in ({"characters": None}, {}, {"characters": None}):
        model = {"preset": "bilstm_cnn_crf", "units": 4, **change}
        recipe = Recipe(task="tagging", data=corpus, tokenizer=WORDS, model=model)
        task = TASKS.get("tagging").from_recipe(recipe, examples)
        columns.append("characters" in task.make_batches(examples, 2, 0).get_batch(0)[0])
    assert columns == [False, True, False]


def test_limits_of_the_model_are_checked(tmp_path: Path) -> None:
    corpus = make_lines(tmp_path, 9)
    examples = corpus.read("train")
    for length, problem in ((256, None), (16, "max_length=256 exceeds the 16 positions")):
        model = {"preset": "gpt_tiny", "num_layers": 1, "max_length": length}
        recipe = Recipe(task="language_modeling", data=corpus, tokenizer=WORDS, model=model)
        task = TASKS.get("language_modeling").from_recipe(recipe, examples)
        with nullcontext() if problem is None else pytest.raises(ValueError, match=problem):
            task.make_batches(examples, 2, 0)


def test_unknown_tags_of_long_sentences_are_refused(tmp_path: Path) -> None:
    (tmp_path / "train.txt").write_text("a O\n\n" + "b B-X\n" * 4)
    for cache in (False, str(tmp_path / "cache")):
        corpus = TAGGED_SENTENCES.get("conll")(train=str(tmp_path / "train.txt"), cache=cache)
        examples = corpus.read("train")
        model = {"preset": "bilstm_crf", "units": 4}
        recipe = Recipe(task="tagging", data=corpus, tokenizer=WORDS, model=model)
        task = TASKS.get("tagging").from_recipe(recipe, examples.take([0]))
        task.max_length = 3
        with pytest.raises(ValueError, match=r"train\.txt:3: unknown tag 'B-X'"):
            task.make_batches(examples, 2, 0)


def test_user_classes_are_not_cached(tmp_path: Path) -> None:
    examples = make_lines(tmp_path, 9).read("train")
    task = Lines(load_or_train_tokenizer(TokenizerOptions("word"), examples, ["texts"]))
    count = len(examples.cache.cache.list_entries())

    class Changed(Lines):
        __module__ = "my_module"

    load_or_encode(Changed(task.tokenizers["tokenizer"]), examples, task.encode)
    assert len(examples.cache.cache.list_entries()) == count

    @dataclass
    class Reversed(LINES.get("text")):  # type: ignore[misc]
        pass

    assert Reversed(train=str(tmp_path / "train.txt"), cache=True).read("train").cache is None


def test_only_large_files_are_cached_by_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("ATTENTION_ZOO_CACHE", str(tmp_path / "default"))
    train = write_files("text", tmp_path)
    assert make_corpus("text", train, None).read("train").cache is None
    assert make_corpus("text", train, True).read("train").cache is not None
    monkeypatch.setattr(cached_corpora, "MIN_BYTES", 10)
    assert make_corpus("text", train, None).read("train").cache.cache.folder.name == "default"
    monkeypatch.setattr(cached_corpora, "find_spec", lambda name: None)
    with caplog.at_level("INFO", "attention_zoo.data"):
        assert make_corpus("text", train, None).read("train").cache is None
    assert "pyarrow is not installed; run `pip install 'attention-zoo[data]'`" in caplog.text
    monkeypatch.undo()
    monkeypatch.setattr(cached_corpora, "MIN_BYTES", 10)
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("ATTENTION_ZOO_CACHE", str(tmp_path / "file" / "cache"))
    with caplog.at_level("INFO", "attention_zoo.data"):
        assert make_corpus("text", train, None).read("train").cache is None
    assert "prepared at each start, without a cache: data.cache: " in caplog.text
    assert "cache: Not a directory; free disk space" in caplog.text
    monkeypatch.setattr(cached_corpora, "find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"^data\.cache: pyarrow is not installed; run `pip"):
        make_corpus("text", train, True)


@refuses(
    (3, r"^data\.cache must be a folder, true, false or null, got 3$"),
    ("", r"^data\.cache must be a folder, true, false or null, got ''$"),
)
def test_invalid_cache_options_are_refused(cache: Any) -> None:
    make_corpus("text", "train.txt", cache)


def test_a_pattern_without_files_and_a_folder_raise(tmp_path: Path) -> None:
    for path, message in ((tmp_path / "*.txt", "no such file"), (tmp_path, "Is a directory")):
        with pytest.raises(ValueError, match=rf"^data\.train: .*{message}"):
            make_corpus("text", str(path), str(tmp_path / "cache")).read("train")
