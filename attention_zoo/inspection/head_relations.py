"""Agreement of attention heads with dependency relations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attention_zoo.data.reading import Paths
from attention_zoo.data.text.conll import read_conll
from attention_zoo.inspection.attention_data import check_nonnegative

CONLLU_FORM, CONLLU_HEAD, CONLLU_DEPREL = 1, 6, 7
"""Columns of CoNLL-U, from 0."""


class DependencySentence(NamedTuple):
    """A sentence with its dependency tree.

    Attributes:
        heads: position of each word's head as in CoNLL-U, from 1; 0 for the root.
        relations: label of the relation of each word to its head.
        words: the words, or ().
    """

    heads: Sequence[int]
    relations: Sequence[str]
    words: Sequence[str] = ()


class HeadAgreement(NamedTuple):
    """An attention head, by layer and head from 0, and its accuracy on a relation, 0 to 1."""

    layer: int
    head: int
    accuracy: float


class RelationAgreement(NamedTuple):
    """Agreement of the attention heads with a relation.

    Attributes:
        num_words: number of words with the relation.
        dependent_to_head: the best attention head where the dependent attends: the share of
            dependents whose maximum weight is on their head word.
        head_to_dependent: the best attention head where the head word attends: the share of
            dependents to which their head word attends more than any other word does.
        offset: the best fixed offset from a dependent to its head word; -1 is the previous word.
        offset_accuracy: share of dependents whose head word has this offset, the baseline.
        accuracies: `(2, N, H)` of all heads, of dependents that attend and of head words that
            attend, for instance to choose a head on other sentences.
    """

    num_words: int
    dependent_to_head: HeadAgreement
    head_to_dependent: HeadAgreement
    offset: int
    offset_accuracy: float
    accuracies: NDArray[np.float64]


def match_heads_with_relations(
    weights: Sequence[ArrayLike], sentences: Sequence[DependencySentence | tuple[Any, ...]]
) -> dict[str, RelationAgreement]:
    """Match attention heads with dependency relations: the best head for each relation.

    For a dependent i with head word g, attention head h is right if `argmax_{j != i} A_h[i, j] = g`
    where the dependent attends, and if `argmax_{j != i} A_h[j, i] = g` where the head word attends.
    Attention to the word itself is ignored, and so are roots, which have no head word.

    Args:
        weights: for each sentence `(N, H, W, W)`, N layers of H heads over its W words, without
            special tokens; `merge_subwords` makes them from weights of subwords.
        sentences: `DependencySentence`, such as `read_dependencies` returns, or tuples
            (heads, relations).

    Returns:
        A `RelationAgreement` for each relation, the most frequent relation first.

    Raises:
        ValueError: there is no word with a head, the numbers of sentences or words differ, N or H
            differ, a head is out of range or the word itself, or weights are not finite.

    Example:
        >>> from attention_zoo.inspection.head_relations import match_heads_with_relations
        >>> sentence = ([2, 3, 0], ["det", "nsubj", "root"])  # the dog barks
        >>> weights = [[[[0.1, 0.8, 0.1], [0.6, 0.2, 0.2], [0.1, 0.9, 0.0]]]]  # one layer and head
        >>> matches = match_heads_with_relations([weights], [sentence])
        >>> matches["det"].dependent_to_head
        HeadAgreement(layer=0, head=0, accuracy=1.0)
        >>> matches["nsubj"].dependent_to_head.accuracy, matches["nsubj"].head_to_dependent.accuracy
        (0.0, 1.0)

    Reference:
        Clark et al. 2019, arXiv 1906.04341, section 4.2: the two directions and the baseline of a
        fixed offset.
    """
    if len(weights) != len(sentences):
        raise ValueError(
            f"weights must have one entry per sentence, got {len(weights)} for {len(sentences)}"
            " sentences"
        )
    correct: dict[str, Any] = {}
    offsets: dict[str, Counter[int]] = {}
    shape = None
    for number, (array, sentence) in enumerate(zip(weights, sentences, strict=True)):
        heads, relations = _check_sentence(number, sentence)
        attention = _check_weights(number, array, len(heads), shape)
        shape = attention.shape[:2]
        dependents = np.flatnonzero(heads)
        if not dependents.size:
            continue
        targets = heads[dependents] - 1
        is_right = np.stack(list(_predict(attention)))[..., dependents] == targets
        for column, (dependent, target) in enumerate(zip(dependents, targets, strict=True)):
            relation = relations[int(dependent)]
            correct[relation] = correct.get(relation, 0) + is_right[..., column]
            offsets.setdefault(relation, Counter())[int(target - dependent)] += 1
    if not correct:
        raise ValueError("sentences must have at least one word with a head, got none")
    by_count = sorted(correct, key=lambda name: (-offsets[name].total(), name))
    return {name: _summarize(correct[name], offsets[name]) for name in by_count}


def merge_subwords(
    weights: ArrayLike,
    word_ids: Sequence[int | None],
    source_word_ids: Sequence[int | None] | None = None,
) -> NDArray[np.float64]:
    """Merge attention weights of subwords to weights of words.

    Attention to a word is the sum over its subwords, attention from a word the mean over its
    subwords. Tokens without a word, such as special tokens, are removed.

    Args:
        weights: `(..., T, S)`.
        word_ids: index of the word of each target token, from 0, or None, as `word_ids()` of the
            tokenizers of Hugging Face returns them.
        source_word_ids: the same of the source tokens; those of the targets if None.

    Returns:
        `(..., W, V)` of W target words and V source words; rows sum to less than 1 if tokens with
        weight are removed.

    Raises:
        ValueError: the number of ids is not T or S, an id is no integer of at least 0, or a word
            between the first and the last has no token.

    Example:
        >>> from attention_zoo.inspection.head_relations import merge_subwords
        >>> weights = [[0.2, 0.3, 0.5], [0.4, 0.4, 0.2], [0.6, 0.2, 0.2]]
        >>> merge_subwords(weights, [0, 0, 1]).round(3).tolist()
        [[0.65, 0.35], [0.8, 0.2]]

    Reference:
        Clark et al. 2019, arXiv 1906.04341, section 4.1, "token-token attention maps to word-word
        attention maps".
    """
    array = np.asarray(weights, "float64")
    if array.ndim < 2:
        raise ValueError(f"weights must be (..., T, S), got shape {array.shape}")
    if source_word_ids is None:
        source_word_ids = word_ids
    targets = _make_membership("word_ids", word_ids, array.shape[-2])
    sources = _make_membership("source_word_ids", source_word_ids, array.shape[-1])
    return (targets / targets.sum(-1, keepdims=True)) @ array @ sources.T


def read_dependencies(path: Paths) -> list[DependencySentence]:
    """Read the dependency trees of a CoNLL-U file.

    Args:
        path: the file, or a list of files; UTF-8, compressed or not.

    Returns:
        A `DependencySentence` for each sentence, in the order of the files.

    Raises:
        ValueError: the file is missing or is not CoNLL-U, or a HEAD is no number (file:line).

    Example:
        >>> import pathlib, tempfile
        >>> from attention_zoo.inspection.head_relations import read_dependencies
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "dogs.conllu"
        >>> rows = ["1 Dogs _ _ _ _ 2 nsubj _ _", "2 bark _ _ _ _ 0 root _ _"]
        >>> _ = path.write_text("\\n".join(rows).replace(" ", "\\t"))
        >>> read_dependencies(path)
        [DependencySentence(heads=(2, 0), relations=('nsubj', 'root'), words=('Dogs', 'bark'))]

    Reference: CoNLL-U, https://universaldependencies.org/format.html.
    """
    heads = read_conll(path, words=CONLLU_FORM, tags=CONLLU_HEAD, conllu=True)
    relations = read_conll(path, words=CONLLU_FORM, tags=CONLLU_DEPREL, conllu=True)
    sentences = []
    for row, (words, cells, labels) in enumerate(
        zip(heads.words, heads.tags, relations.tags, strict=True)
    ):
        for column, cell in enumerate(cells):
            if not cell.isdecimal() or int(cell) > len(cells):
                raise ValueError(
                    f"{heads.locate_word(row, column)}: HEAD must be a number from 0 to"
                    f" {len(cells)}, got {cell!r}"
                )
        sentences.append(DependencySentence(tuple(map(int, cells)), labels, words))
    return sentences


def _predict(attention: NDArray[np.float64]) -> Iterator[NDArray[np.intp]]:
    """Yield the head words that attention heads predict, `(N, H, W)`, for both directions."""
    others = ~np.eye(attention.shape[-1], dtype=bool)
    for direction in (attention, np.swapaxes(attention, -1, -2)):
        yield np.where(others, direction, -1.0).argmax(-1)


def _summarize(correct: NDArray[np.int_], offsets: Counter[int]) -> RelationAgreement:
    """Return the agreement for numbers of correct predictions `(2, N, H)` and of offsets."""
    count = offsets.total()
    accuracies = correct / count
    offset = min(offsets, key=lambda value: (-offsets[value], abs(value), value))
    to_head, to_dependent = map(_find_best, accuracies)
    share = offsets[offset] / count
    return RelationAgreement(count, to_head, to_dependent, offset, share, accuracies)


def _find_best(accuracies: NDArray[np.float64]) -> HeadAgreement:
    layer, head = np.unravel_index(accuracies.argmax(), accuracies.shape)
    return HeadAgreement(int(layer), int(head), float(accuracies[layer, head]))


def _check_sentence(number: int, sentence: Any) -> tuple[NDArray[np.int_], Sequence[str]]:
    """Return the heads and relations of a sentence; raise ValueError if they are invalid."""
    heads, relations = np.asarray(sentence[0]), sentence[1]
    count = len(heads)
    if not count:
        return np.zeros(0, int), relations
    if heads.dtype.kind not in "iu" or heads.ndim != 1 or len(relations) != count:
        raise ValueError(
            f"sentence {number}: must have one integer head and one relation per word, got"
            f" {count} heads of dtype {heads.dtype} and {len(relations)} relations"
        )
    if heads.min() < 0 or heads.max() > count or (heads == np.arange(1, count + 1)).any():
        raise ValueError(
            f"sentence {number}: heads must be positions of other words from 1 to {count}, or 0 for"
            f" the root, got {heads.tolist()}"
        )
    return heads, relations


def _check_weights(
    number: int, weights: ArrayLike, num_words: int, heads: tuple[int, ...] | None
) -> NDArray[np.float64]:
    """Return the weights of a sentence as an array; raise ValueError if they are invalid."""
    array = np.asarray(weights, "float64")
    sizes = ("N", "H") if heads is None else heads
    if array.ndim != 4 or array.shape[2:] != (num_words, num_words) or 0 in array.shape[:2]:
        fits = False
    else:
        fits = heads is None or array.shape[:2] == heads
    if not fits:
        raise ValueError(
            f"sentence {number}: weights must be ({sizes[0]}, {sizes[1]}, {num_words}, {num_words})"
            f" for its {num_words} words, got shape {array.shape}"
        )
    check_nonnegative(f"sentence {number}: weights", array)
    return array


def _make_membership(name: str, ids: Sequence[int | None], count: int) -> NDArray[np.float64]:
    """Return a matrix of words by tokens, 1 where the token belongs to the word."""
    if len(ids) != count:
        raise ValueError(f"{name} must have one entry for each of {count} tokens, got {len(ids)}")
    known = [word for word in ids if word is not None]
    words = np.asarray(known if known else np.zeros(0, int))
    if words.dtype.kind not in "iu" or words.min(initial=0) < 0:
        raise ValueError(f"{name} must be integers of at least 0, or None, got {list(ids)}")
    num_words = int(words.max(initial=-1)) + 1
    missing = sorted({*range(num_words)} - {*known})
    if missing:
        raise ValueError(f"{name} has no token of word {missing[0]}; number the words from 0")
    columns = [column for column, word in enumerate(ids) if word is not None]
    membership = np.zeros((num_words, count))
    membership[words, columns] = 1.0
    return membership
