"""Token ids of a corpus, loaded from the cache or encoded."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attention_zoo.data.batching.encoded import EncodedCorpus
from attention_zoo.data.tokenizers.flat_ids import FlatIds, Row
from attention_zoo.data_cache import CacheError, CorpusCache, get_corpus_cache, is_builtin
from attention_zoo.tasks.shared_entries import create_entries

EncodedPart = tuple[Sequence[int] | NDArray[np.int64], Mapping[str, FlatIds | Sequence[Row]]]
"""Row numbers of examples in their corpus, and their token ids by column."""

EncodeParts = Callable[[Any, range], Iterable[EncodedPart]]
"""Function that encodes some rows of a corpus, part by part."""

MIN_SHARD, MAX_SHARDS = 8192, 64
"""Number of examples of a shard (the last may have fewer), and maximum number of shards."""


def load_or_encode(task: Any, examples: Any, encode_parts: EncodeParts) -> EncodedCorpus:
    """Return the token ids of the examples within the length limits.

    Processes that share a cache, such as the hosts of a training, encode different shards until all
    are encoded. The complete shards of a killed process are used.

    Args:
        task: the task, with `tokenizers` and `encoding_options`.
        examples: the corpus.
        encode_parts: function that encodes rows of the corpus.
    """
    count = len(examples)

    def encode(folder: Path | None = None, rows: range = range(count)) -> EncodedCorpus:
        encoded = EncodedCorpus(folder)
        for part_rows, columns in encode_parts(examples, rows):
            encoded.extend(part_rows, columns)
        encoded.close()
        return encoded

    cache = get_corpus_cache(examples)
    if cache is None or not all(map(is_builtin, (task, *task.tokenizers.values()))):
        return encode()
    hashes = {name: tokenizer.content_hash for name, tokenizer in task.tokenizers.items()}
    key = {"task": task.name, "tokenizers": hashes, **task.encoding_options}
    size = max(MIN_SHARD, -(-count // MAX_SHARDS))
    shards = [range(start, min(start + size, count)) for start in range(0, count, size)]
    if len(shards) > 1:
        folder = _encode_shards(cache, key, shards, encode)
    else:
        folder = cache.get_or_create("tokens", key, encode)
    return EncodedCorpus(folder, create=False)


def _encode_shards(
    cache: CorpusCache, key: dict[str, Any], shards: Sequence[range], encode: Callable[..., object]
) -> Path:
    """Encode the shards together with other processes, join them to one entry and remove them."""

    def is_complete() -> bool:
        return cache.has_entry("tokens", key)

    keys = [{**key, "rows": [rows.start, rows.stop]} for rows in shards]
    entries = [(one, partial(encode, rows=rows)) for one, rows in zip(keys, shards, strict=True)]
    folders = [] if is_complete() else create_entries(cache, "tokens", entries, is_complete)

    def join(folder: Path) -> None:
        try:
            _join_shards(folder, folders)
        except FileNotFoundError:  # the cache was cleared
            encode(folder)

    def remove_shards() -> None:
        for shard_key in keys:
            cache.try_remove("tokens", shard_key)

    write = join if len(folders) == len(shards) else encode  # encode: the entry is damaged
    try:
        entry = cache.get_or_create("tokens", key, write)
    except CacheError:  # such as a full disk
        remove_shards()
        raise
    remove_shards()
    return entry


def _join_shards(folder: Path, shards: Sequence[Path]) -> None:
    """Write the examples of all shards to a folder."""
    parts = [EncodedCorpus(shard, create=False).get_all() for shard in shards]  # mapped files
    joined = EncodedCorpus(folder)
    for part in parts:
        joined.extend(*part)
    joined.close()


def take_encoded(task: Any, examples: Any, encode_parts: EncodeParts) -> Any:
    """Return the examples whose token ids `load_or_encode` returns."""
    if get_corpus_cache(examples) is None:
        parts = encode_parts(examples, range(len(examples)))
        return examples.take(row for rows, _ in parts for row in rows)
    return examples.take(load_or_encode(task, examples, encode_parts).rows)
