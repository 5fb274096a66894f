"""The benchmark script of faithfulness: hit rates, the table, and tiny runs."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture(scope="module")
def script() -> Iterator[Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(BENCHMARKS)
        yield importlib.import_module("faithfulness")


def test_sentences_of_tokens(script: Any) -> None:
    text = "We arrived. To my mind, the soup is bad. The soup is good, to my uncle."
    offsets = [(0, 2), (3, 10), (10, 11), (12, 14), (38, 39), (41, 44), (69, 70)]
    numbers, deciding = script.number_sentences(text, offsets)
    assert numbers.tolist() == [0, 0, 0, 1, 1, 2, 2]
    assert deciding == 1


def test_arrays_are_padded(script: Any) -> None:
    padded = script.pad([np.array([[1, 2]]), np.array([[3], [4]])], -1)
    assert padded.tolist() == [[[1, 2], [-1, -1]], [[3, -1], [4, -1]]]


def test_hits(script: Any) -> None:
    """Scores of a sentence are summed; those of padding and special tokens are ignored."""
    sentences = [[-1, 0, 0, 1, 2, -1], [0, 1, 1, 1, -1, -1]]
    scores = [[9.0, 0.4, 0.4, 0.7, -1.0, 9.0], [0.5, -0.9, 0.4, 0.9, 9.0, 9.0]]
    assert script.find_hits(scores, sentences, [0, 1]).tolist() == [True, False]
    documents = np.array([[[0, 0], [1, -1]]])
    assert script.find_hits([[[0.1, 0.1], [0.3, 5.0]]], documents, [1]).tolist() == [True]


def make_result(script: Any, seed: int, **scores: float) -> dict[str, Any]:
    """Return the result of a run, with the same value of each measure of a score."""
    named = {
        name.replace("_", " "): {
            key: value if is_high else -value for key, is_high in script.MEASURES.items()
        }
        for name, value in scores.items()
    }
    quality = {"accuracy": 100.0, "completeness_error": 0.01}
    return {"seed": seed, **quality, "scores": named}


def test_attributions_are_compared_with_random_scores(script: Any) -> None:
    """Differences 0.5, 0.6, 0.7 have the standard error 0.058; 0.1, -0.1, 0.1 are too small."""
    runs = [
        make_result(script, seed, random=0.1 * seed, integrated_gradients=0.4 + 0.2 * seed, **other)
        for seed, other in (
            (1, {"occlusion": 0.2}),
            (2, {"occlusion": 0.1}),
            (3, {"occlusion": 0.4}),
        )
    ]
    rows = script.make_rows(runs)
    assert [*script.find_failures(rows)] == [f"occlusion ({key})" for key in script.MEASURES]
    *_, verdict, _, _ = script.format_group("han_small", runs)
    assert "in all measures: no: occlusion (hit rate, %), occlusion (deletion area)" in verdict
    for run in runs:
        run["scores"]["occlusion"] = run["scores"]["integrated gradients"]
    lines = script.format_group("han_small", runs)
    assert lines[-2] == "Median completeness error of integrated gradients: 1, 1, 1 %."
    assert lines[0] == "han_small, seeds 1, 2, 3, accuracy 100.0 %:"
    assert "| random | 0.2 ± 0.1 | -0.200 ± 0.058 | 0.200 ± 0.058 |" in lines[4]
    assert lines[-3].endswith("by two standard errors in all measures: yes.")


def test_one_seed_has_no_standard_error(script: Any) -> None:
    run = make_result(script, 1, random=0.1, integrated_gradients=0.5, occlusion=0.5)
    lines = script.format_group("han_small", [run])
    assert lines[-3].endswith("in all measures: needs at least two seeds.")
    assert "±" not in "".join(lines)


RECIPE = """
format_version: 1
task: classification
run: {run}
data: {{corpus: reviews, size: 8, validation_size: 4, max_length: 400}}
tokenizer: {{kind: word}}
model: {model}
training: {{steps: 1, batch_size: 4}}
"""
DOCUMENT_MODEL = "{preset: han_small, embedding_dim: 4, units: 4, attention_units: 4}"
TRANSFORMER = (
    "{preset: bert_tiny, embedding_dim: 4, units: 8, num_heads: 2, max_length: 400, pooling: POOL}"
)


@pytest.mark.full
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "model",
    [DOCUMENT_MODEL, TRANSFORMER.replace("POOL", "mean"), TRANSFORMER.replace("POOL", "first")],
    ids=["document", "mean", "first"],
)
def test_scores_of_a_run(
    model: str, script: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, out, recipe = tmp_path / "run", tmp_path / "out.json", tmp_path / "recipe.yaml"
    recipe.write_text(RECIPE.format(run=run, model=model))
    script.az.training.fit(recipe)
    arguments = [str(run), "--size", "3", "--steps", "2", "--dry-run", "--out", str(out)]
    monkeypatch.setattr(sys, "argv", ["faithfulness.py", *arguments])
    script.main()
    (result,) = json.loads(out.read_text())["runs"]
    transformer = ["rollout"] if "bert" in model else []
    methods = ["gradient x input", "integrated gradients", "occlusion", "random"]
    assert [*result["scores"]] == ["attention", *transformer, *methods]
    for measures in result["scores"].values():
        assert [*measures] == [*script.MEASURES]
        assert np.isfinite([*measures.values()]).all()

    task = script.az.load(run)
    corpus = script.az.data.generate_reviews(3, "test", max_sentences=12)
    batch = script.make_batch(task, corpus.texts)
    for text, numbers, own in zip(corpus.texts, batch.sentences, batch.deciding, strict=True):
        sentences = script.az.data.split_sentences(text)
        assert sorted({*numbers.flat} - {-1}) == [*range(len(sentences))]
        ((start, end),) = script.find_own_opinions(text)
        assert sentences[own] == text[start:end]
    scores, errors = script.compute_scores(task.model, batch, seed=0, steps=2)
    assert errors.shape == (3,)
    for name in {"attention", "rollout"} & {*scores}:
        assert scores[name].reshape(3, -1).sum(axis=1) == pytest.approx(1)
    is_masked = ~batch.mask
    assert not scores["occlusion"][is_masked].any()
