"""Progress lines of long loops."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest

from attention_zoo.data import progress, read_lines, read_tsv, train_tokenizer
from attention_zoo.data.progress import log_progress, show_progress
from attention_zoo.data.tokenizers import engine, tokenizer
from attention_zoo.training import changes
from attention_zoo.training.changes import compute_fingerprint


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each item take one second."""
    seconds = iter(range(10**9))
    monkeypatch.setattr(progress, "monotonic", lambda: float(next(seconds)))
    monkeypatch.setattr(progress, "_last_line", -progress.INTERVAL)


def collect(items: Any) -> list[str]:
    """Return the lines that are printed while items are consumed."""
    stream = io.StringIO()
    with show_progress(stream):
        list(items)
    return stream.getvalue().splitlines()


@pytest.mark.usefixtures("clock")
def test_first_line_and_interval() -> None:
    """A short loop is silent; the interval holds over several loops."""
    assert collect(log_progress(range(1), "a", "items")) == []
    expected = [f"a: {count:,} items" for count in range(1, 25, 10)]
    assert collect(log_progress(range(25), "a", "items")) == expected
    assert collect(log_progress(range(8), "b", "items")) == ["b: 5 items"]
    assert list(log_progress(range(3), "a", "items")) == [0, 1, 2]


def test_slow_items_print_progress_within_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(progress, "monotonic", lambda: now[0])
    monkeypatch.setattr(progress, "_last_line", -progress.INTERVAL)
    stream = io.StringIO()
    with show_progress(stream):
        for _ in log_progress(range(1000), "a", "items"):
            now[0] += 0.1
            if stream.getvalue():
                break
    assert now[0] - 100 < 5


@pytest.mark.usefixtures("clock")
def test_slow_steps_of_reading_data_print_progress(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a").write_text("one\ttwo\n" * 150)
    stream = io.StringIO()
    for module, name in ((engine, "CHUNK"), (tokenizer, "COUNT_BATCH"), (changes, "BLOCK")):
        monkeypatch.setattr(module, name, 10)
    with show_progress(stream):
        lines = read_lines(tmp_path / "a")
        read_tsv(tmp_path / "a", "0", "1", header=False)
        for kind in ("subword", "word"):
            trained = train_tokenizer(kind, lines.texts)
        ids = trained.encode(lines.texts)
        compute_fingerprint(lines)
    assert ids == trained.encode(lines.texts[:1]) * 150
    found = {line.partition(":")[0] for line in stream.getvalue().splitlines()}
    names = {"encoding", "learning the vocabulary", "comparing with the data of the run"}
    assert found == {str(tmp_path / "a"), *names}
