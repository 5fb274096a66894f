"""The benchmark script of guided alignment: links of tokens, batches and training."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attention_zoo.data import generate_aligned_dates, train_tokenizer

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def script() -> Iterator[Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "benchmarks")
        yield importlib.import_module("guided_alignment")


def test_links_of_tokens(script: Any) -> None:
    """The digits of a number are linked one by one."""
    (pair,) = generate_aligned_dates(3)[2:]
    tokenizers = [train_tokenizer("word", [text] * 5) for text in (pair.source, pair.target)]
    source, target = (
        tokenizer.tokens(tokenizer.encode([text])[0])
        for tokenizer, text in zip(tokenizers, (pair.source, pair.target), strict=True)
    )
    links = script.link_tokens(pair, pair.sure, tokenizers)
    assert sorted((target[t], source[s]) for t, s in links) == [
        ("5", "5"),
        ("6", "6"),
        ("dormi", "slept"),
        ("heures", "hours"),
        ("il", "he"),
    ]
    # Words of different lengths: each token with all of the other word.
    assert script.group_tokens([None, 0, 1, 1, None]) == {0: [1], 1: [2, 3]}
    at = pair.sure - {(3, 3)} | {(3, 4)}  # "65" with "hours"
    hours = source.index("hours")
    assert {
        (target.index("6"), hours),
        (target.index("5"), hours),
    } <= script.link_tokens(pair, at, tokenizers)


def test_batches_have_the_links_of_their_pairs(script: Any) -> None:
    batches = script.AlignedBatches(
        [[4, 5, 6], [7]], [[4, 5], [6]], 2, 1, links=[{(0, 2), (1, 0)}, {(0, 0)}]
    )
    inputs, labels = batches.make_batch(np.array([1, 0]))
    assert inputs["links"].shape == (*labels.shape, inputs["source"].shape[1])
    assert {*map(tuple, np.argwhere(inputs["links"]).tolist())} == {(0, 0, 0), (1, 0, 2), (1, 1, 0)}


@pytest.mark.slow
def test_script_trains(
    script: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A few steps with gold links improve the alignment more than those without."""
    options = ["--steps", "150", "--size", "50", "--dry-run"]
    monkeypatch.setattr("sys.argv", ["guided_alignment.py", *options])
    script.main()
    rows = [
        line.split("|") for line in capsys.readouterr().out.splitlines() if line.startswith("| ")
    ]
    rates = {row[1].strip(): float(row[2]) for row in rows if "." in row[2]}
    assert rates["gold links"] < rates["none"] - 0.1
