"""Token ids for out-of-vocabulary words, so that a model can copy them from its source.

With a vocabulary of V tokens, the first unknown word of a source has id V, the next distinct one
V + 1, and so on. These ids are valid for this source only (See et al. 2017, section 2.2, "extended
vocabulary").
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from attention_zoo.data.tokenizers.tokenizer import Tokenizer
from attention_zoo.data.tokenizers.vocabulary import UNKNOWN


class CopiedIds(NamedTuple):
    """Texts as token ids, with ids for unknown words.

    Attributes:
        sources: ids of each source, without start and end tokens.
        targets: ids of each target, without start and end tokens; empty if no targets were given.
        words: for each source, the words with ids V, V + 1 ..., as in `Tokenizer.surfaces`.
    """

    sources: list[list[int]]
    targets: list[list[int]]
    words: list[tuple[str, ...]]


def copied_ids(
    tokenizer: Tokenizer,
    sources: Sequence[str],
    targets: Sequence[str] | None = None,
    copies: int = 100,
    longest: int | None = None,
) -> CopiedIds:
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
        longest: number of tokens to which sources are truncated; None for no truncation.

    Example:
        >>> from attention_zoo.data import copied_ids, train_tokenizer
        >>> tokenizer = train_tokenizer("word", ["a fire in"])
        >>> copied_ids(tokenizer, ["fire in Tromak"], ["Tromak : a fire"])
        CopiedIds(sources=[[5, 6, 7]], targets=[[7, 1, 4, 5]], words=[('▁Tromak',)])

    Raises:
        ValueError: `copies` is below 0, or the numbers of sources and targets differ.
    """
    if copies < 0:
        raise ValueError(f"copies={copies} must be at least 0")
    if targets is not None and len(targets) != len(sources):
        raise ValueError(
            f"expected one target per source, got {len(sources)} sources and {len(targets)} targets"
        )
    ids, words = [], []
    for text, known in zip(sources, tokenizer.encode(sources), strict=True):
        numbers: dict[str, int] = {}
        ids.append(_extended(tokenizer, text, known[:longest], numbers, copies))
        words.append(tuple(numbers))
    written = [
        _extended(tokenizer, text, known, dict(zip(of_source, range(copies), strict=False)), 0)
        for text, known, of_source in zip(
            targets or (), tokenizer.encode(targets or ()), words if targets else (), strict=True
        )
    ]
    return CopiedIds(ids, written, words)


def _extended(
    tokenizer: Tokenizer, text: str, ids: list[int], numbers: dict[str, int], copies: int
) -> list[int]:
    """Return the ids of a text, in which an unknown word has the id V + `numbers[word]`.

    Unknown words that `numbers` does not contain are added to it, up to `copies` words in total.
    """
    if UNKNOWN not in ids or not (copies or numbers):
        return ids
    found = []
    for token, word in zip(ids, tokenizer.surfaces(text), strict=False):
        if token == UNKNOWN and word not in numbers and len(numbers) < copies:
            numbers[word] = len(numbers)
        known = token != UNKNOWN or word not in numbers
        found.append(token if known else tokenizer.vocabulary_size + numbers[word])
    return found
