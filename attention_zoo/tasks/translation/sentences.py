"""Long sources: their sentences, and the translation joined from those of the sentences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np

from attention_zoo.data import split_sentences
from attention_zoo.tasks.translation.result import TranslationResult


class SourceParts(NamedTuple):
    """The parts of a source that are translated separately: the whole text, or its sentences.

    Attributes:
        texts: the parts.
        ids: the token ids of each.
    """

    texts: list[str]
    ids: list[list[int]]


def split_source(text: str, find_language_code: Callable[[str], str]) -> list[str]:
    """Return the sentences of a text, with the language code of the text if they have none.

    Args:
        text: the text.
        find_language_code: returns the language code at the start of a text, "" for none.
    """
    code = find_language_code(text)
    sentences = split_sentences(text.removeprefix(code))
    return [
        f"{code} {sentence}" if code and not find_language_code(sentence) else sentence
        for sentence in sentences
    ]


def join_results(results: Sequence[TranslationResult]) -> TranslationResult:
    """Return the translation of a text from those of its parts, in order, without alternatives.

    The attention weights between different parts are 0. If a part has no translation, the text has
    none, and the error names the sentence.
    """
    if len(results) == 1:
        return results[0]
    for number, result in enumerate(results, 1):
        if not result.ok:
            return TranslationResult.failed(f"sentence {number}: {result.error}")
    starts = np.cumsum([0, *(len(result.source_tokens) for result in results)])
    return TranslationResult(
        text=" ".join(result.text for result in results),
        score=sum(result.score for result in results),
        tokens=(*chain.from_iterable(result.tokens for result in results),),
        token_scores=tuple(
            chain.from_iterable(result.token_scores[: len(result.tokens)] for result in results)
        ),
        source_tokens=(*chain.from_iterable(result.source_tokens for result in results),),
        attention=_join_attention(results),
        unknown=tuple(
            int(start) + position
            for start, result in zip(starts[:-1], results, strict=True)
            for position in result.unknown
        ),
        truncated=any(result.truncated for result in results),
    )


def _join_attention(results: Sequence[TranslationResult]) -> np.ndarray | None:
    """Return the attention weights of all parts in one block-diagonal matrix (T, S)."""
    blocks = [result.attention for result in results if result.attention is not None]
    if len(blocks) < len(results):
        return None
    joined = np.zeros(np.sum([block.shape for block in blocks], axis=0), blocks[0].dtype)
    row = column = 0
    for block in blocks:
        joined[row : row + block.shape[0], column : column + block.shape[1]] = block
        row, column = row + block.shape[0], column + block.shape[1]
    return joined
