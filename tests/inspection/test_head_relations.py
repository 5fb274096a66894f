"""Heads and dependency relations: worked values, generated trees, subwords and bad input."""

from __future__ import annotations

import doctest
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attention_zoo.inspection import head_relations
from attention_zoo.inspection.head_relations import (
    DependencySentence,
    HeadAgreement,
    match_heads_with_relations,
    merge_subwords,
    read_dependencies,
)

DOG = DependencySentence([2, 3, 0, 5, 3], ["det", "nsubj", "root", "det", "obj"])
CAT = DependencySentence([3, 3, 4, 0], ["det", "amod", "nsubj", "root"])
CONLLU = """# text = du chien dort
1-2\tdu\t_\t_\t_\t_\t_\t_\t_\t_
1\tde\tde\tADP\t_\t_\t3\tcase\t_\t_
2\tle\tle\tDET\t_\t_\t3\tdet\t_\t_
3\tchien\tchien\tNOUN\t_\t_\t0\troot\t_\t_

1\tNon\tnon\tINTJ\t_\t_\t0\troot\t_\t_
"""


def make_attention(sentence: DependencySentence, relation: str) -> np.ndarray:
    """Weights `(W, W)`: dependents of a relation attend to their head word, others to themselves.

    The word itself gets most of the weight, to be ignored.
    """
    count = len(sentence.heads)
    weights = 0.1 / count + 0.6 * np.eye(count)
    for dependent, head in enumerate(sentence.heads):
        if sentence.relations[dependent] == relation:
            weights[dependent, head - 1] += 0.3
    return weights


def test_best_heads_of_generated_relations() -> None:
    """Layer 0 has heads for det and nsubj, layer 1 the transposed heads."""
    weights = []
    for sentence in (DOG, CAT):
        layer = np.stack([make_attention(sentence, relation) for relation in ("det", "nsubj")])
        weights.append(np.stack([layer, layer.swapaxes(-1, -2)]))
    result = match_heads_with_relations(weights, [DOG, CAT])
    assert [(name, match.num_words) for name, match in result.items()] == [
        ("det", 3),
        ("nsubj", 2),
        ("amod", 1),
        ("obj", 1),
    ]
    assert result["det"].dependent_to_head == HeadAgreement(0, 0, 1.0)
    assert result["det"].head_to_dependent == HeadAgreement(1, 0, 1.0)
    assert result["nsubj"].dependent_to_head == HeadAgreement(0, 1, 1.0)
    assert result["nsubj"].head_to_dependent == HeadAgreement(1, 1, 1.0)
    assert result["det"].offset == 1
    assert result["det"].offset_accuracy == pytest.approx(2 / 3)
    assert (result["obj"].offset, result["obj"].offset_accuracy) == (-2, 1.0)
    assert result["det"].accuracies.shape == (2, 2, 2)


def test_accuracies_equal_loops() -> None:
    rng = np.random.default_rng(0)
    sentences = [DOG, CAT, (CAT.heads, CAT.relations)]
    weights = [rng.random((2, 3, len(s[0]), len(s[0]))) for s in sentences]
    result = match_heads_with_relations(weights, sentences)
    for relation, match in result.items():
        right, count = np.zeros((2, 2, 3)), 0
        for attention, sentence in zip(weights, sentences, strict=True):
            for i, (head, name) in enumerate(zip(*sentence[:2], strict=True)):
                if name != relation:
                    continue
                count += 1
                others = [j for j in range(len(sentence[0])) if j != i]
                for layer, attention_head in np.ndindex(2, 3):
                    matrix = attention[layer, attention_head]
                    attended = max(others, key=lambda j, i=i, m=matrix: m[i, j])
                    attending = max(others, key=lambda j, i=i, m=matrix: m[j, i])
                    right[0, layer, attention_head] += attended == head - 1
                    right[1, layer, attention_head] += attending == head - 1
        np.testing.assert_allclose(match.accuracies, right / count)
        assert match.dependent_to_head.accuracy == (right[0] / count).max()
        layer, head, accuracy = match.head_to_dependent
        assert (right[1] / count)[layer, head] == accuracy == (right[1] / count).max()


def test_equal_offsets_prefer_the_nearest_word() -> None:
    sentence = DependencySentence([2, 0, 2, 2], ["b", "root", "a", "b"])
    match = match_heads_with_relations([np.ones((1, 1, 4, 4))], [sentence])["b"]
    assert (match.offset, match.offset_accuracy) == (1, 0.5)


def test_sentences_without_words_are_skipped() -> None:
    weights = [np.ones((1, 1, 0, 0)), make_attention(CAT, "amod")[None, None]]
    result = match_heads_with_relations(weights, [([], []), CAT])
    assert result["amod"].dependent_to_head.accuracy == 1.0


ONES = np.ones((1, 1, 4, 4))
BAD: dict[str, tuple[Any, Any, str]] = {
    "sentences": ([ONES], [], "one entry per sentence, got 1 for 0 sentences"),
    "no_sentence": ([], [], "at least one word with a head"),
    "only_root": ([np.ones((1, 1, 1, 1))], [([0], ["root"])], "at least one word with a head"),
    "words": ([np.ones((1, 1, 3, 3))], [CAT], r"sentence 0: weights must be \(N, H, 4, 4\)"),
    "rank": ([np.ones((1, 4, 4))], [CAT], r"weights must be .*got shape \(1, 4, 4\)"),
    "layers": ([ONES, np.ones((2, 1, 4, 4))], [CAT, CAT], r"sentence 1: .*\(1, 1, 4, 4\)"),
    "nan": ([ONES * np.nan], [CAT], "sentence 0: weights must be finite"),
    "range": ([ONES], [([5, 0, 2, 2], "abcd")], "heads must be positions of other words"),
    "negative": ([ONES], [([-1, 0, 2, 2], "abcd")], "heads must be positions of other words"),
    "itself": ([ONES], [([1, 0, 2, 2], "abcd")], "heads must be positions of other words"),
    "relations": ([ONES], [([2, 0, 2, 2], "abc")], "one relation per word, got 4 heads"),
    "strings": ([ONES], [(["2", "0", "2", "2"], "abcd")], "one integer head"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_sentences_and_weights(name: str) -> None:
    weights, sentences, message = BAD[name]
    with pytest.raises(ValueError, match=message):
        match_heads_with_relations(weights, sentences)


def test_merge_subwords_sums_sources_and_averages_targets() -> None:
    """Tokens: [CLS], play, ##ing, games, [SEP]."""
    weights = np.random.default_rng(0).random((2, 3, 5, 5))
    merged = merge_subwords(weights, [None, 0, 0, 1, None])
    assert merged.shape == (2, 3, 2, 2)
    w = weights[1, 2]
    expected = [
        [(w[1, 1] + w[1, 2] + w[2, 1] + w[2, 2]) / 2, (w[1, 3] + w[2, 3]) / 2],
        [w[3, 1] + w[3, 2], w[3, 3]],
    ]
    np.testing.assert_allclose(merged[1, 2], expected)


def test_merge_subwords_of_two_texts_keeps_the_sums_of_rows() -> None:
    weights = np.random.default_rng(0).dirichlet(np.ones(5), size=3)
    merged = merge_subwords(weights, [0, 1, 1], [0, 0, 1, 2, 2])
    assert merged.shape == (2, 3)
    np.testing.assert_allclose(merged.sum(-1), 1.0)
    assert merge_subwords(weights, [None] * 3, [0, 0, 1, 2, 2]).shape == (0, 3)


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        ([0, 1], "word_ids must have one entry for each of 3 tokens, got 2"),
        ([0, 2, 2], "word_ids has no token of word 1"),
        ([1, 1, 2], "word_ids has no token of word 0"),
        ([-1, 0, 1], "word_ids must be integers of at least 0"),
        ([0.0, 1.0, 2.0], "word_ids must be integers of at least 0"),
    ],
)
def test_bad_word_ids(ids: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        merge_subwords(np.ones((3, 3)), ids)
    with pytest.raises(ValueError, match=f"source_{message}"):
        merge_subwords(np.ones((3, 3)), [0, 1, 2], ids)
    with pytest.raises(ValueError, match=r"weights must be \(..., T, S\)"):
        merge_subwords(np.ones(3), ids)


def test_read_dependencies_skips_ranges_and_comments(tmp_path: Path) -> None:
    path = tmp_path / "small.conllu"
    path.write_text(CONLLU, encoding="utf-8")
    assert read_dependencies(path) == [
        ((3, 3, 0), ("case", "det", "root"), ("de", "le", "chien")),
        ((0,), ("root",), ("Non",)),
    ]


@pytest.mark.parametrize("head", ["_", "4", "-1", "x"])
def test_bad_heads_in_a_file(tmp_path: Path, head: str) -> None:
    path = tmp_path / "bad.conllu"
    path.write_text(CONLLU.replace("\t3\tdet", f"\t{head}\tdet"), encoding="utf-8")
    with pytest.raises(ValueError, match=rf"bad\.conllu:4: HEAD must be .* 0 to 3, got '{head}'"):
        read_dependencies(path)


def test_examples_of_the_docstrings() -> None:
    results = doctest.testmod(head_relations)
    assert results.attempted
    assert not results.failed
