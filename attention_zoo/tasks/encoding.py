"""Token ids of a corpus, loaded from the cache or encoded."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from attention_zoo.data.batching.encoded import EncodedCorpus
from attention_zoo.data.batching.ragged import Row
from attention_zoo.data_cache import get_corpus_cache, is_builtin

EncodedPart = tuple[Sequence[int], Mapping[str, Sequence[Row]]]
"""Row numbers of examples in their corpus, and their token ids by column."""


def load_or_encode(
    task: Any, examples: Any, encode_parts: Callable[[Any], Iterable[EncodedPart]]
) -> EncodedCorpus:
    """Return the token ids of the examples within the length limits.

    Args:
        task: the task, with `tokenizers` and `encoding_options`.
        examples: the corpus.
        encode_parts: function that encodes the examples, part by part.
    """

    def encode(folder: Path | None = None) -> EncodedCorpus:
        encoded = EncodedCorpus(folder)
        for rows, columns in encode_parts(examples):
            encoded.extend(rows, columns)
        encoded.close()
        return encoded

    cache = get_corpus_cache(examples)
    if cache is None or not all(map(is_builtin, (task, *task.tokenizers.values()))):
        return encode()
    hashes = {name: tokenizer.content_hash for name, tokenizer in task.tokenizers.items()}
    key = {"task": task.name, "tokenizers": hashes, **task.encoding_options}
    return EncodedCorpus(cache.get_or_create("tokens", key, encode), create=False)


def take_encoded(
    task: Any, examples: Any, encode_parts: Callable[[Any], Iterable[EncodedPart]]
) -> Any:
    """Return the examples whose token ids `load_or_encode` returns."""
    if get_corpus_cache(examples) is None:
        return examples.take(row for rows, _ in encode_parts(examples) for row in rows)
    return examples.take(load_or_encode(task, examples, encode_parts).rows)
