"""Token ids for out-of-vocabulary words, so that a model can copy them from its source.

With a vocabulary of V tokens, the first unknown word of a source has id V, the next distinct one
V + 1, and so on. These ids are valid for this source only (See et al. 2017, section 2.2, "extended
vocabulary").
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from attention_zoo.data.tokenizers.vocabulary import UNKNOWN


class CopyEncoding(NamedTuple):
    """Texts as token ids, with ids for unknown words.

    Attributes:
        sources: ids of each source, without start and end tokens.
        targets: ids of each target, without start and end tokens; empty if no targets were given.
        words: for each source, the words with ids V, V + 1 ..., as in `Tokenizer.surfaces`.
    """

    sources: list[list[int]]
    targets: list[list[int]]
    words: list[tuple[str, ...]]


def encode_for_copying(
    tokenizer: Any,
    sources: Sequence[str],
    targets: Sequence[str] | None = None,
    copies: int = 100,
    max_length: int | None = None,
) -> CopyEncoding:
    """Encode sources and targets, with extra ids for the unknown words of each source.

    The distinct unknown words of a source have the ids V, V + 1 ..., in order of first occurrence.
    All after the first `copies` distinct words keep the id of the unknown token. An unknown word of
    a target has the same id as in its source, or that of the unknown token if it has none there.

    Two words are the same if their `surfaces` are equal. With `lowercase`, case is ignored.
    Surfaces include the space before a word, so a word after a space differs from the same word
    after a bracket.

    Args:
        tokenizer: tokenizer of both sides, with V tokens in its vocabulary.
        sources: source texts.
        targets: one text per source, or None.
        copies: maximum number of unknown words per source that get an id; with 0, the result has
            the ids of `Tokenizer.encode`.
        max_length: number of tokens to which sources are truncated; None for no truncation.

    Example:
        >>> from attention_zoo.data import encode_for_copying, train_tokenizer
        >>> tokenizer = train_tokenizer("word", ["a fire in"])
        >>> encode_for_copying(tokenizer, ["fire in Tromak"], ["Tromak : a fire"])
        CopyEncoding(sources=[[5, 6, 7]], targets=[[7, 1, 4, 5]], words=[('▁Tromak',)])

    Raises:
        ValueError: `copies` is below 0, or the numbers of sources and targets differ.
    """
    if copies < 0:
        raise ValueError(f"copies must be at least 0, got {copies}")
    if targets is not None and len(targets) != len(sources):
        raise ValueError(
            f"expected one target per source, got {len(sources)} sources and {len(targets)} targets"
        )
    ids, words = [], []
    for text, known_ids in zip(sources, tokenizer.encode(sources), strict=True):
        indices: dict[str, int] = {}
        ids.append(_extend_ids(tokenizer, text, known_ids[:max_length], indices, copies))
        words.append(tuple(indices))
    target_ids = [
        _extend_ids(
            tokenizer, text, known_ids, dict(zip(source_words, range(copies), strict=False)), 0
        )
        for text, known_ids, source_words in zip(
            targets or (), tokenizer.encode(targets or ()), words if targets else (), strict=True
        )
    ]
    return CopyEncoding(ids, target_ids, words)


def _extend_ids(
    tokenizer: Any, text: str, ids: list[int], indices: dict[str, int], copies: int
) -> list[int]:
    """Return the ids of a text, in which an unknown word has the id V + `indices[word]`.

    Unknown words that `indices` does not contain are added to it, up to `copies` words in total.
    """
    if UNKNOWN not in ids or not (copies or indices):
        return ids
    extended, words = [], iter(tokenizer.unknown_surfaces(text))
    for token in ids:
        if token == UNKNOWN:
            word = next(words)
            if word not in indices and len(indices) < copies:
                indices[word] = len(indices)
            if word in indices:
                token = tokenizer.vocabulary_size + indices[word]
        extended.append(token)
    return extended
