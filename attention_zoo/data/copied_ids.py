"""Ids of words that the vocabulary does not have, so that a model can copy them from its source.

With a vocabulary of V tokens, the first word of a source that the vocabulary does not know is V,
the next other one V + 1, and so on: ids that mean something beside their own source alone (See et
al. 2017, section 2.2, "extended vocabulary").
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from attention_zoo.data.tokenizer import Tokenizer
from attention_zoo.data.vocabulary import UNKNOWN


class CopiedIds(NamedTuple):
    """Texts as ids, those of their unknown words included.

    Attributes:
        sources: ids of each source, without start and end.
        targets: ids of each target, without start and end; none where no targets were given.
        words: of each source what its ids V, V + 1 ... stand for, as `Tokenizer.surfaces` gives it.
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
    """Ids of sources, and of targets as words of these sources.

    The distinct unknown words of a source have the ids V, V + 1 ... in the order in which they come
    first; from the one of number `copies` on they stay unknown. An unknown word of a target has the
    id that the same word has in its source, and stays unknown where it has none there.

    Two words are the same where their `surfaces` are: with `lowercase` in any case, and one after a
    space is another than one after a bracket.

    Args:
        tokenizer: of both sides, its vocabulary has V tokens.
        sources: texts.
        targets: a text for each of them, or None.
        copies: most unknown words of a source that get an id; 0 gives what `encode` does.
        longest: most tokens of a source, the first ones, that are read; None reads all.

    Example:
        >>> from attention_zoo.data import copied_ids, train_tokenizer
        >>> tokenizer = train_tokenizer("word", ["a fire in"])
        >>> copied_ids(tokenizer, ["fire in Tromak"], ["Tromak : a fire"])
        CopiedIds(sources=[[5, 6, 7]], targets=[[7, 1, 4, 5]], words=[('▁Tromak',)])

    Raises:
        ValueError: `copies` below 0, or other numbers of sources and targets.
    """
    if copies < 0:
        raise ValueError(f"copies={copies} must be at least 0")
    if targets is not None and len(targets) != len(sources):
        raise ValueError(f"{len(sources)} sources and {len(targets)} targets; give pairs")
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
    """The ids of a text, its unknown words by `numbers`, which grow up to `copies`."""
    if UNKNOWN not in ids or not (copies or numbers):
        return ids
    found = []
    for token, word in zip(ids, tokenizer.surfaces(text), strict=False):
        if token == UNKNOWN and word not in numbers and len(numbers) < copies:
            numbers[word] = len(numbers)
        known = token != UNKNOWN or word not in numbers
        found.append(token if known else tokenizer.vocabulary_size + numbers[word])
    return found
