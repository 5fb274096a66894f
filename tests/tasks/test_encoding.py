import errno
import shutil
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from filelock import FileLock

from attention_zoo.data import TextLines, TextPairs, train_tokenizer
from attention_zoo.data.batching.encoded import EncodedCorpus
from attention_zoo.data_cache import CacheError, CorpusCache, DataCache
from attention_zoo.tasks import encoding
from attention_zoo.tasks.building import TokenizerOptions, load_or_train_tokenizers
from attention_zoo.tasks.encoding import EncodedPart, load_or_encode, take_encoded

SIZE = 37
LONG = range(8, 21)  # rows over the length limit, among them a whole shard


class Numbers:
    """A task that encodes a text of digits as numbers."""

    name = "numbers"
    tokenizers: ClassVar[dict[str, Any]] = {}
    encoding_options: ClassVar[dict[str, Any]] = {}
    __module__ = "attention_zoo.tasks.test"  # classes of users are not cached

    def __init_subclass__(cls) -> None:
        cls.__module__ = Numbers.__module__

    def __init__(self) -> None:
        self.encoded: list[range] = []

    def encode(self, examples: TextLines, rows: range) -> Iterator[EncodedPart]:
        self.encoded.append(rows)
        for row in rows:
            kept = [] if row in LONG else [row]
            yield kept, {"numbers": [[*map(int, examples.texts[row].split())] for row in kept]}


@pytest.fixture(autouse=True)
def shards_of_eight(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoding, "MIN_SHARD", 8)

    def make_lock(cache: DataCache, name: str) -> FileLock:
        """Return a lock that no other entry shares, so that tests do not depend on hashes."""
        return FileLock(cache.folder / f".lock-{name}")

    monkeypatch.setattr(DataCache, "_make_lock", make_lock)


@pytest.fixture
def examples(tmp_path: Path) -> TextLines:
    lines = TextLines([f"{row} {row * 5000}" for row in range(SIZE)], "a test")
    object.__setattr__(lines, "cache", CorpusCache(DataCache(tmp_path), "0" * 32, "a test"))
    return lines


def check_encoded(encoded: EncodedCorpus) -> None:
    """Assert that the token ids are those of all examples within the limits, in order."""
    rows = [row for row in range(SIZE) if row not in LONG]
    assert encoded.rows.tolist() == rows
    assert encoded["numbers"].lengths.tolist() == [2] * len(rows)
    assert encoded["numbers"].flat.tolist() == [n for row in rows for n in (row, row * 5000)]


def list_folders(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if not path.name.startswith(".lock"))


def test_shards_are_joined_to_one_entry(examples: TextLines, tmp_path: Path) -> None:
    task = Numbers()
    for _ in range(2):
        encoded = load_or_encode(task, examples, task.encode)
        check_encoded(encoded)
        assert encoded["numbers"].flat.dtype == np.uint32
        shards = [range(8), range(8, 16), range(16, 24), range(24, 32), range(32, 37)]
        assert task.encoded == shards
        assert len(list_folders(tmp_path)) == 1
    check_encoded(load_or_encode(task, TextLines(examples.texts, "memory"), task.encode))
    kept = [text for row, text in enumerate(examples.texts) if row not in LONG]
    for corpus in (examples, TextLines(examples.texts, "memory")):
        assert take_encoded(task, corpus, task.encode).texts == kept


@pytest.mark.parametrize("size", [1, 8])
def test_a_small_corpus_has_no_shards(size: int, examples: TextLines) -> None:
    task, small = Numbers(), examples.take(range(size))
    assert load_or_encode(task, small, task.encode).rows.tolist() == [*range(size)]
    assert task.encoded == [range(size)]


def test_the_number_of_shards_is_limited(
    examples: TextLines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(encoding, "MAX_SHARDS", 2)
    task = Numbers()
    check_encoded(load_or_encode(task, examples, task.encode))
    assert task.encoded == [range(19), range(19, 37)]


def test_shards_of_a_stopped_process_are_used(examples: TextLines, tmp_path: Path) -> None:
    class Stopping(Numbers):
        def encode(self, examples: TextLines, rows: range) -> Iterator[EncodedPart]:
            if rows.start == 16:
                raise KeyboardInterrupt
            return super().encode(examples, rows)

    with pytest.raises(KeyboardInterrupt):
        load_or_encode(task := Stopping(), examples, task.encode)
    assert len(list_folders(tmp_path)) == 2
    task = Numbers()
    check_encoded(load_or_encode(task, examples, task.encode))
    assert [rows.start for rows in task.encoded] == [16, 24, 32]
    assert len(list_folders(tmp_path)) == 1


def test_a_damaged_entry_is_encoded_again(examples: TextLines, tmp_path: Path) -> None:
    task = Numbers()
    load_or_encode(task, examples, task.encode)
    (path,) = tmp_path.glob("tokens-*/rows.npy")
    path.write_bytes(b"")
    check_encoded(load_or_encode(task, examples, task.encode))
    assert task.encoded[5:] == [range(SIZE)]


def test_processes_encode_each_shard_once(examples: TextLines, tmp_path: Path) -> None:
    both = threading.Barrier(2, timeout=60)

    class Meeting(Numbers):
        def encode(self, examples: TextLines, rows: range) -> Iterator[EncodedPart]:
            if not self.encoded:  # each writes a shard while the other does
                both.wait()
            return super().encode(examples, rows)

    tasks = [Meeting(), Meeting()]
    with ThreadPoolExecutor(2) as threads:
        results = [threads.submit(load_or_encode, task, examples, task.encode) for task in tasks]
        for result in results:
            check_encoded(result.result())
    assert all(task.encoded for task in tasks)
    assert {rows.start for task in tasks for rows in task.encoded} == {0, 8, 16, 24, 32}
    assert len(list_folders(tmp_path)) == 1


def test_a_process_stops_encoding_shards_when_another_has_joined_them(
    examples: TextLines, tmp_path: Path
) -> None:
    task = Numbers()
    load_or_encode(task, examples, task.encode)
    (entry,) = tmp_path.glob("tokens-*")
    joined = entry.rename(tmp_path / "kept")

    class Late(Numbers):
        def encode(self, examples: TextLines, rows: range) -> Iterator[EncodedPart]:
            if rows.start == 8:
                shutil.copytree(joined, entry)
            return super().encode(examples, rows)

    late = Late()
    check_encoded(load_or_encode(late, examples, late.encode))
    assert [rows.start for rows in late.encoded] == [0, 8]
    assert list_folders(tmp_path) == sorted(["kept", entry.name])


def test_shards_that_a_cleared_cache_lacks_are_encoded_again(
    examples: TextLines, monkeypatch: pytest.MonkeyPatch
) -> None:
    join = encoding._join_shards

    def clear_and_join(folder: Path, shards: list[Path]) -> None:
        assert len(shards) == 5
        shutil.rmtree(shards[2])
        join(folder, shards)

    monkeypatch.setattr(encoding, "_join_shards", clear_and_join)
    task = Numbers()
    check_encoded(load_or_encode(task, examples, task.encode))
    assert task.encoded[5:] == [range(SIZE)]


def test_a_full_disk_leaves_no_shards(
    examples: TextLines, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(folder: Path, shards: list[Path]) -> None:
        raise OSError(errno.ENOSPC, "No space left")

    monkeypatch.setattr(encoding, "_join_shards", fail)
    task = Numbers()
    with pytest.raises(CacheError, match="No space left; free disk space"):
        load_or_encode(task, examples, task.encode)
    assert list_folders(tmp_path) == []


def test_shards_of_a_process_that_was_killed_after_joining_them_are_removed(
    examples: TextLines, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = Numbers()
    with monkeypatch.context() as patched:
        patched.setattr(CorpusCache, "try_remove", lambda *arguments: None)
        load_or_encode(task, examples, task.encode)
    assert len(list_folders(tmp_path)) == 6
    check_encoded(load_or_encode(task, examples, task.encode))
    assert len(list_folders(tmp_path)) == 1
    assert len(task.encoded) == 5


def test_processes_train_one_tokenizer_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pairs = TextPairs(["a b", "a"], ["c", "d e"], "a test")
    object.__setattr__(pairs, "cache", CorpusCache(DataCache(tmp_path), "0" * 32, "a test"))
    both, trained = threading.Barrier(2, timeout=60), []

    def train(options: TokenizerOptions, texts: Any) -> Any:
        trained.append([*texts])
        both.wait()
        return train_tokenizer("word", texts, 20)

    monkeypatch.setattr("attention_zoo.tasks.building.train_recipe_tokenizer", train)
    arguments = TokenizerOptions("word"), pairs, [["sources"], ["targets"]]
    with ThreadPoolExecutor(2) as threads:
        results = [threads.submit(load_or_train_tokenizers, *arguments) for _ in range(2)]
        for result in results:
            vocabularies = [set(tokenizer.vocabulary[4:]) for tokenizer in result.result()]
            assert vocabularies == [{"▁a", "▁b"}, {"▁c", "▁d", "▁e"}]
    assert sorted(trained) == [["a b", "a"], ["c", "d e"]]
