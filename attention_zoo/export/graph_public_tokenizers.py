"""The tokenizers of public checkpoints in core TensorFlow operations, with the same ids."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator
from typing import Any

import tensorflow as tf
from tokenizers import pre_tokenizers

from attention_zoo.data import Tokenizer
from attention_zoo.data.tokenizers.public_tokenizers import (
    ByteLevelTokenizer,
    WordPieceTokenizer,
)
from attention_zoo.data.tokenizers.sentencepiece_tokenizer import SentencePieceTokenizer
from attention_zoo.export.graph_bpe import PairMerges
from attention_zoo.export.graph_sentencepiece import GraphSentencePiece
from attention_zoo.export.graph_tokenizer import (
    CODE_POINTS,
    CharacterClasses,
    GraphTokenizer,
    GraphTokens,
    is_first_of_row,
    make_table,
    match_longest_tokens,
    shift_right,
)

DELIMITER = b"\xff"  # occurs in no UTF-8 text
WHITE_SPACE = "\t-\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
"""White space that an added token with `lstrip` takes, the inside of a character class."""
CONTINUATION = "##"
"""Prefix of WordPiece tokens that continue a word."""
CONTINUATION_MARK = "\x01"
"""Stands for `CONTINUATION` in surfaces, because a token may contain `##` elsewhere."""
MAX_WORD_LENGTH = 100
"""Longer words are unknown to WordPiece."""

SPACE, PUNCTUATION = 1, 2  # bits of the character classes of WordPiece
LETTER, NUMBER = 2, 4  # and, with SPACE, of GPT-2
CONTRACTIONS = ("s", "t", "re", "ve", "m", "ll", "d")


def make_graph_tokenizer(tokenizer: Any) -> Any:
    """Return the `GraphTokens` of a tokenizer, which encode and decode in a graph.

    Raises:
        ValueError: if it cannot be exported.
    """
    if isinstance(tokenizer, Tokenizer):
        return GraphTokenizer(tokenizer)
    if isinstance(tokenizer, SentencePieceTokenizer):
        return GraphSentencePiece(tokenizer)
    if isinstance(tokenizer, WordPieceTokenizer):
        return GraphWordPiece(tokenizer)
    if isinstance(tokenizer, ByteLevelTokenizer):
        return GraphByteBPE(tokenizer)
    raise ValueError(f"tokenizer {type(tokenizer).__name__} cannot be exported")


class GraphPublicTokenizer(GraphTokens):
    """Base class: special tokens in texts, and the text and labels of ids.

    A subclass defines `_encode_texts`, which returns the ids of texts without special tokens,
    ragged `(N, S)`.

    Args:
        tokenizer: a `data.PublicTokenizer`.

    Raises:
        ValueError: if texts are split or normalized in another way than by the released tokenizers.
    """

    def __init__(self, tokenizer: Any) -> None:
        super().__init__(name="tokenizer")
        engine = tokenizer._engine
        added = engine.get_added_tokens_decoder()
        for token in added.values():
            options = {name: getattr(token, name) for name in ("rstrip", "single_word")}
            options["normalized"] = token.normalized and engine.normalizer is not None
            for name, value in options.items():
                if value:
                    raise ValueError(
                        f"added token {token.content!r}: {name}=true cannot be exported; set it to"
                        " false in tokenizer.json"
                    )
        special = {token.content: tokenizer.from_checkpoint_id(i) for i, token in added.items()}
        self._special = make_table(list(special), list(special.values()), -1)
        patterns = [
            f"[{WHITE_SPACE}]*" * token.lstrip + rf"\Q{token.content}\E" for token in added.values()
        ]
        self._pattern = "(" + "|".join(patterns) + ")"
        ids = range(tokenizer.vocabulary_size)
        self._labels = tf.constant(tokenizer.tokens(ids))
        self._surfaces = tf.constant(list(self._list_surfaces(tokenizer)))

    def encode(self, texts: tf.Tensor) -> tuple[tf.RaggedTensor, tf.RaggedTensor]:
        """Return the ids of texts `(B,)`, ragged `(B, S)` int32, and the text of each id."""
        texts = tf.strings.unicode_transcode(texts, "UTF-8", "UTF-8")
        marked = tf.strings.regex_replace(texts, self._pattern, DELIMITER + rb"\1" + DELIMITER)
        parts = tf.strings.split(marked, DELIMITER)
        stripped = tf.strings.regex_replace(parts.flat_values, rf"\A[{WHITE_SPACE}]+", "")
        special = self._special.lookup(stripped)
        is_special = special >= 0
        ids = self._encode_texts(tf.where(is_special, "", parts.flat_values))
        single = tf.RaggedTensor.from_tensor(special[:, None])
        single = tf.ragged.boolean_mask(single, tf.RaggedTensor.from_tensor(is_special[:, None]))
        ids = parts.with_values(tf.concat([ids, single], axis=1)).merge_dims(1, 2)
        return ids, ids.with_values(self.surfaces(ids.flat_values))

    def _encode_texts(self, texts: tf.Tensor) -> tf.RaggedTensor:
        raise TypeError(f"{type(self).__name__} is a base class: define `_encode_texts`")

    def _list_surfaces(self, tokenizer: Any) -> Iterator[bytes]:
        """Yield the text that each id adds to an output, with a space before a word."""
        raise TypeError(f"{type(self).__name__} is a base class: define `_list_surfaces`")

    def text(self, surfaces: tf.Tensor) -> tf.Tensor:
        """Join surfaces `(..., L)` to texts; parts of characters become U+FFFD."""
        return tf.strings.unicode_transcode(
            tf.strings.reduce_join(surfaces, axis=-1), "UTF-8", "UTF-8"
        )


class GraphWordPiece(GraphPublicTokenizer):
    """The WordPiece tokenizer of BERT."""

    def __init__(self, tokenizer: WordPieceTokenizer) -> None:
        super().__init__(tokenizer)
        engine = tokenizer._engine
        kinds = type(engine.normalizer).__name__, type(engine.pre_tokenizer).__name__
        if kinds != ("BertNormalizer", "BertPreTokenizer"):
            raise ValueError(
                f"a WordPiece tokenizer with {kinds[0]} and {kinds[1]} cannot be exported"
            )
        self._normalized = make_table(*_list_normalized(engine.normalizer), DELIMITER)
        self._classes_of = CharacterClasses(*_list_word_boundaries())
        vocabulary = engine.get_vocab()
        self._unknown = tokenizer.unknown
        self._ids = make_table(list(vocabulary), list(vocabulary.values()), self._unknown)
        self._longest = max(map(len, vocabulary))

    def _list_surfaces(self, tokenizer: Any) -> Iterator[bytes]:
        first = tokenizer.unknown
        begin = tokenizer._engine.decode([first], skip_special_tokens=False)
        for token_id in range(tokenizer.vocabulary_size):
            pair = tokenizer._engine.decode([first, token_id], skip_special_tokens=False)
            has_no_text = token_id in (tokenizer.pad, tokenizer.start)
            is_continuation = tokenizer.tokens([token_id])[0].startswith(CONTINUATION)
            prefix = CONTINUATION_MARK * is_continuation
            yield b"" if has_no_text else (prefix + pair.removeprefix(begin)).encode()

    def _encode_texts(self, texts: tf.Tensor) -> tf.RaggedTensor:
        characters = tf.strings.unicode_split(texts, "UTF-8")
        normalized = self._normalized.lookup(characters.flat_values)
        normalized = tf.where(normalized == DELIMITER, characters.flat_values, normalized)
        joined = tf.strings.reduce_join(characters.with_flat_values(normalized), axis=-1)
        characters = tf.strings.unicode_decode(joined, "UTF-8")
        flat, rows = characters.flat_values, characters.value_rowids()
        classes = self._classes_of(flat)
        is_space, is_alone = classes & SPACE > 0, classes & PUNCTUATION > 0
        begins = is_first_of_row(rows) | shift_right(is_space | is_alone) | is_alone
        kept = ~is_space
        begins = tf.boolean_mask(begins, kept)
        pieces = tf.RaggedTensor.from_row_starts(
            tf.boolean_mask(flat, kept), tf.where(begins)[:, 0]
        )
        text_rows = tf.boolean_mask(tf.boolean_mask(rows, kept), begins)
        words = tf.strings.unicode_encode(pieces, "UTF-8")
        words = tf.where(pieces.row_lengths() > MAX_WORD_LENGTH, DELIMITER, words)
        ids = match_longest_tokens(words, self._ids, self._longest, self._unknown, CONTINUATION)
        text_rows = tf.repeat(text_rows, ids.row_lengths())
        return tf.RaggedTensor.from_value_rowids(
            ids.flat_values, text_rows, tf.size(texts, tf.int64)
        )

    def text(self, surfaces: tf.Tensor) -> tf.Tensor:
        """Join surfaces `(..., L)`; as in `decode`, a first piece keeps its `##`."""
        joined = tf.strings.regex_replace(super().text(surfaces), r"\A ", "")
        joined = tf.strings.regex_replace(joined, rf"\A{CONTINUATION_MARK}", CONTINUATION)
        return tf.strings.regex_replace(joined, CONTINUATION_MARK, "")


class GraphByteBPE(GraphPublicTokenizer):
    """A byte-level BPE tokenizer, of GPT-2, RoBERTa or BART."""

    def __init__(self, tokenizer: ByteLevelTokenizer) -> None:
        super().__init__(tokenizer)
        content = json.loads(tokenizer._engine.to_str())
        splitter, model = content["pre_tokenizer"], content["model"]
        is_plain = splitter.get("type") == "ByteLevel" and splitter.get("use_regex", True)
        if content["normalizer"] or not is_plain or splitter["add_prefix_space"]:
            raise ValueError(
                "a byte-level tokenizer that splits texts unlike GPT-2 cannot be exported"
            )
        ids = {token: tokenizer.from_checkpoint_id(i) for token, i in model["vocab"].items()}
        self._byte_ids = tf.constant([ids[character] for character in _list_byte_characters()])
        pairs = [merge.split(" ") if isinstance(merge, str) else merge for merge in model["merges"]]
        merges = {(ids[left], ids[right]): ids[left + right] for left, right in pairs}
        self._merge_pairs = PairMerges(merges, tokenizer.vocabulary_size)
        self._classes_of = CharacterClasses(r"\s", r"\p{L}", r"\p{N}")

    def _list_surfaces(self, tokenizer: Any) -> Iterator[bytes]:
        values = {character: byte for byte, character in enumerate(_list_byte_characters())}
        added = tokenizer._engine.get_added_tokens_decoder()
        for token_id in range(tokenizer.vocabulary_size):
            checkpoint_id = tokenizer.to_checkpoint_id(token_id)
            is_start = token_id in (tokenizer.start, tokenizer.text_start)
            has_text = checkpoint_id >= 0 and not is_start
            token = tokenizer._engine.id_to_token(checkpoint_id) if has_text else ""
            is_added = checkpoint_id in added
            yield token.encode() if is_added else bytes(values[character] for character in token)

    def _encode_texts(self, texts: tf.Tensor) -> tf.RaggedTensor:
        characters = tf.strings.unicode_decode(texts, "UTF-8")
        flat, rows = characters.flat_values, characters.value_rowids()
        starts = self._find_starts(flat, rows)
        pieces = tf.RaggedTensor.from_row_starts(flat, tf.where(starts)[:, 0])
        words = tf.strings.unicode_encode(pieces, "UTF-8")
        distinct, index = tf.unique(words)
        ids = tf.gather(self._merge(distinct), index)
        text_rows = tf.repeat(tf.boolean_mask(rows, starts), ids.row_lengths())
        return tf.RaggedTensor.from_value_rowids(
            ids.flat_values, text_rows, tf.size(texts, tf.int64)
        )

    def _find_starts(self, flat: tf.Tensor, rows: tf.Tensor) -> tf.Tensor:
        """Return whether a piece of GPT-2's pattern starts at each character.

        A piece is a contraction such as 's, or a run of letters, of numbers or of other characters,
        with a space before it, or of white space. The last one of several spaces belongs to the
        next piece.
        """
        classes = self._classes_of(flat)
        first = is_first_of_row(rows)
        last = tf.concat([first[1:], tf.ones_like(first[:1])], 0)
        is_space = classes & SPACE > 0
        before = tf.concat([classes[:1], classes[:-1]], 0)
        run_starts = first | (classes != before)
        joins = ~first & shift_right(flat == ord(" ")) & ~is_space
        has_more = ~last & tf.concat([~is_space[1:], tf.zeros_like(last[:1])], 0)
        starts = (run_starts & ~joins) | (is_space & has_more)
        # Contractions: an apostrophe between other classes, without a space before it.
        sizes = self._measure_contractions(flat, rows) * tf.cast(starts, "int32")
        positions = tf.range(tf.size(flat))
        inside, ends = tf.zeros_like(starts), tf.zeros_like(starts)
        for size in (2, 3):
            at = tf.boolean_mask(positions, sizes == size)
            for offset in range(1, size):
                inside = _set_flags(inside, at + offset)
            ends = _set_flags(ends, at + size)
        return (starts & ~inside) | ends

    def _measure_contractions(self, flat: tf.Tensor, rows: tf.Tensor) -> tf.Tensor:
        """Return the length of the contraction that begins at each character, 0 for none."""
        sizes = tf.zeros_like(flat)
        padded = tf.pad(flat, [[0, 2]])
        same_row = tf.pad(rows, [[0, 2]], constant_values=-1)
        for letters in CONTRACTIONS:
            matches = flat == ord("'")
            for offset, letter in enumerate(letters, 1):
                end = offset + tf.size(flat)
                matches &= (padded[offset:end] == ord(letter)) & (same_row[offset:end] == rows)
            sizes = tf.where(matches, 1 + len(letters), sizes)
        return sizes

    def _merge(self, words: tf.Tensor) -> tf.RaggedTensor:
        """Return the ids of words `(N,)` after all merges, ragged."""
        # Without any bytes, the result of `decode_raw` has width 0, and `[:, 0]` would fail.
        values = tf.ragged.map_flat_values(
            lambda bytes_: tf.reshape(tf.io.decode_raw(bytes_, "uint8"), [-1]),
            tf.strings.bytes_split(words),
        )
        ids = tf.ragged.map_flat_values(tf.gather, self._byte_ids, tf.cast(values, "int32"))
        return self._merge_pairs(ids)


def _set_flags(flags: tf.Tensor, at: tf.Tensor) -> tf.Tensor:
    """Return flags that are True at some positions; those past the end are ignored."""
    at = tf.boolean_mask(at, at < tf.size(flags))
    return tf.tensor_scatter_nd_update(flags, at[:, None], tf.ones_like(at, "bool"))


def _list_byte_characters() -> list[str]:
    """Return the character that stands for each byte in the vocabulary of GPT-2."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = iter(range(256, 512))
    return [chr(byte if byte in printable else next(others)) for byte in range(256)]


@functools.cache
def _list_word_boundaries() -> tuple[list[int], list[int]]:
    """Return the code points of white space and of punctuation, as BERT's splitter has them.

    Its tables are those of an older version of Unicode than the engine's patterns.
    """
    text = "".join("x" + chr(code) for code in CODE_POINTS)
    spans = [span for _, span in pre_tokenizers.BertPreTokenizer().pre_tokenize_str(text)]
    ends = [0, *(end for _, end in spans)]
    starts = [*(start for start, _ in spans), len(text)]
    spaces = [i for end, start in zip(ends, starts, strict=True) for i in range(end, start)]
    alone = [start for start, end in spans if end == start + 1]

    def get_codes(positions: list[int]) -> list[int]:
        """Return the code points at odd positions, each of which follows a letter."""
        return [CODE_POINTS[position // 2] for position in positions if position % 2]

    return get_codes(spaces), get_codes(alone)


def _list_normalized(normalizer: Any) -> tuple[list[str], list[str]]:
    """Return the characters that a BERT normalizer changes, and what it makes of them."""
    characters = [chr(c) for c in CODE_POINTS if chr(c) != "|"]
    normalized = normalizer.normalize_str("|".join(characters)).split("|")
    pairs = [(a, b) for a, b in zip(characters, normalized, strict=True) if a != b]
    return [a for a, _ in pairs], [b for _, b in pairs]
