"""The benchmark script of word alignment: scores, IBM Model 1, and links of tokens."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attention_zoo.data import AlignedPair, generate_aligned_dates, train_tokenizer

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def script() -> Iterator[Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "benchmarks")
        yield importlib.import_module("word_alignment")


def test_scores_of_gold_and_of_partly_wrong_links(script: Any) -> None:
    pairs = generate_aligned_dates(50, split="test")
    gold = [{*pair.sure} for pair in pairs]
    assert script.score(pairs, gold) == [0.0, 1.0, 1.0, 0.0, 0.0]
    # Each function word is linked to the first source word: an error in "all words" only.
    extra = [
        links | {(t, 0) for t in range(len(pair.target_words)) if t not in dict(pair.possible)}
        for links, pair in zip(gold, pairs, strict=True)
    ]
    *linked, values, everything = script.score(pairs, extra)
    assert (linked, values) == ([0.0, 1.0, 1.0], 0.0)
    assert everything > 0.1
    # Words that are the same in all sentences of a template are wrong: not in "values".
    (pair,) = generate_aligned_dates(3)[2:]
    assert pair.target == "il a dormi 65 heures."
    wrong = [{(0, 1), (2, 0), (3, 3), (4, 4)}]
    aer, precision, recall, values, _ = script.score([pair], wrong)
    assert (precision, recall, values) == (0.5, 0.5, 0.0)
    assert aer == 0.5


def test_ibm_model_1_learns_a_dictionary_from_co_occurrence(script: Any) -> None:
    generator = np.random.default_rng(0)
    pairs = []
    for _ in range(200):
        words = generator.choice(8, 3, replace=False)
        pairs.append(([f"s{w}" for w in words], [f"t{w}" for w in reversed(words)] + ["x"]))
    links = script.align_with_ibm_1(pairs)
    for (sources, targets), found in zip(pairs, links, strict=True):
        words = {(targets[t], sources[s]) for t, s in found if targets[t] != "x"}
        assert words == {(source.replace("s", "t"), source) for source in sources}


def test_links_of_words_from_weights_of_tokens(script: Any) -> None:
    (pair,) = generate_aligned_dates(3)[2:]
    assert isinstance(pair, AlignedPair)
    tokenizers = [train_tokenizer("word", [text] * 5) for text in (pair.source, pair.target)]
    source, target = (
        tokenizer.tokens(tokenizer.encode([text])[0])
        for tokenizer, text in zip(tokenizers, (pair.source, pair.target), strict=True)
    )
    assert "5" in source  # digits are tokens, numbers are words
    weights = np.zeros((len(target) + 2, len(source) + 3))
    weights[target.index("6"), source.index("5")] = 1.0
    weights[target.index("heures"), source.index("hours")] = 1.0
    weights[-1, 0] = weights[0, -1] = 1.0  # padding
    assert script.link_words(weights, pair, tokenizers) == {(3, 3), (4, 4)}


@pytest.mark.slow
def test_script_evaluates_a_model_of_the_zoo(
    script: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = ROOT / "models" / "translation" / "rnnsearch_small.dates_en_fr"
    monkeypatch.setattr("sys.argv", ["word_alignment.py", str(folder), "--size", "20", "--dry-run"])
    script.main()
    rows = [line.split(" | ") for line in capsys.readouterr().out.splitlines() if "0." in line]
    values = {row[0].strip("| "): float(row[4]) for row in rows}
    assert values["rnnsearch_small.dates_en_fr"] < 0.2  # 0.08 on 1,000 pairs
    assert values["IBM Model 1"] < 0.2
    linked = {row[0].strip("| "): float(row[1]) for row in rows}
    assert linked["rnnsearch_small.dates_en_fr"] < 0.45  # 0.27 on 1,000 pairs
