"""SentencePiece tokenizers in core TensorFlow operations."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from attention_zoo.data.tokenizers.sentencepiece_model import (
    USER_DEFINED,
    CharacterMap,
    SentencePieceModel,
)
from attention_zoo.data.tokenizers.sentencepiece_tokenizer import (
    LANGUAGE_CODE,
    SentencePieceTokenizer,
)
from attention_zoo.data.tokenizers.vocabulary import MARK
from attention_zoo.export.graph_bpe import GraphPieceBPE
from attention_zoo.export.graph_tokenizer import GraphTokens, make_table
from attention_zoo.export.graph_unigram import SCALAR, VECTOR, GraphUnigram, mark_reachable, select

DELIMITER, SPECIAL_MARK = b"\xff", b"\xfe"  # occur in no UTF-8 text


class GraphSentencePiece(GraphTokens):
    """A SentencePiece tokenizer with a unigram or BPE model.

    Args:
        tokenizer: a `SentencePieceTokenizer`.

    Raises:
        ValueError: the model has another type, or an option is not supported.
    """

    def __init__(self, tokenizer: SentencePieceTokenizer) -> None:
        super().__init__(name="tokenizer")
        model = tokenizer.model
        for name, values in (
            ("model_type", ("unigram", "bpe")),
            ("treat_whitespace_as_suffix", (False,)),
            ("escape_whitespaces", (True,)),
        ):
            if getattr(model, name) not in values:
                raise ValueError(
                    f"a SentencePiece model with {name}={getattr(model, name)} cannot be exported;"
                    f" expected {name}={' or '.join(map(str, values))}"
                )
        if USER_DEFINED in model.types:
            piece = model.pieces[model.types.index(USER_DEFINED)]
            raise ValueError(
                f"a SentencePiece model with user-defined pieces, such as {piece!r}, cannot be"
                " exported; train it without"
            )
        self._normalizer = GraphNormalization(model)
        segmenter = GraphUnigram if model.model_type == "unigram" else GraphPieceBPE
        self._segmenter = segmenter(model)
        vocabulary = tokenizer.vocabulary
        ids = [tokenizer.from_checkpoint_id(i) for i in vocabulary.values()]
        self._ids = make_table(list(vocabulary), ids, tokenizer.unknown)
        codes = "|".join(tokenizer.language_codes)
        self._code_pattern = rf"\A({codes})" if codes else None
        self._codes = tf.constant(tokenizer.language_codes, tf.string)
        self._special_pattern = "(" + "|".join(tokenizer.special_pieces) + ")"
        size = tokenizer.vocabulary_size
        self._labels = tf.constant(tokenizer.tokens(range(size)))
        self._surfaces = tf.constant([tokenizer.decode_one(i) for i in range(size)])

    def encode(self, texts: tf.Tensor) -> tuple[tf.RaggedTensor, tf.RaggedTensor]:
        """Return the ids of texts `(B,)`, ragged `(B, S)` int32, and their pieces.

        A piece of an unknown token is a run of normalized characters. Invalid UTF-8 is replaced by
        U+FFFD.
        """
        texts = tf.strings.unicode_transcode(texts, "UTF-8", "UTF-8")
        parts = _split_at_matches(texts, self._special_pattern)
        if self._code_pattern:  # at the start of a text, or after another special piece
            parts = parts.with_values(_split_at_matches(parts.flat_values, self._code_pattern))
            parts = parts.merge_dims(1, 2)
        flat = parts.flat_values
        is_special = tf.strings.substr(flat, 0, 1) == SPECIAL_MARK
        plain = self._normalizer(tf.where(is_special, "", flat))
        pieces = self._segmenter(plain)
        special = tf.strings.regex_replace(flat, rb"\A\C", "")
        single = tf.RaggedTensor.from_tensor(special[:, None])
        single = tf.ragged.boolean_mask(single, tf.RaggedTensor.from_tensor(is_special[:, None]))
        pieces = parts.with_values(tf.concat([pieces, single], axis=1)).merge_dims(1, 2)
        return pieces.with_values(self._ids.lookup(pieces.flat_values)), pieces

    def find_unknown_codes(self, texts: tf.Tensor) -> tf.Tensor:
        """Return the unknown language code at the start of each text `(B,)`, "" for none."""
        texts = tf.strings.unicode_transcode(texts, "UTF-8", "UTF-8")
        codes = tf.strings.regex_replace(texts, rf"(?s)\A({LANGUAGE_CODE.pattern})?.*", r"\1")
        is_known = tf.reduce_any(codes[:, None] == self._codes, axis=1)
        return tf.where(is_known, "", codes)

    def text(self, surfaces: tf.Tensor) -> tf.Tensor:
        """Join surfaces `(..., L)` to texts."""
        joined = tf.strings.regex_replace(tf.strings.reduce_join(surfaces, axis=-1), MARK, " ")
        return tf.strings.regex_replace(joined, r"\A +| +\z", "")


def _split_at_matches(texts: tf.Tensor, pattern: str) -> tf.RaggedTensor:
    """Split texts `(N,)` at the matches of a pattern, which become parts with a special mark."""
    replacement = DELIMITER + SPECIAL_MARK + rb"\1" + DELIMITER
    return tf.strings.split(tf.strings.regex_replace(texts, pattern, replacement), DELIMITER)


class GraphNormalization(tf.Module):
    """The normalization of texts by a model: character rules, spaces and marks."""

    def __init__(self, model: SentencePieceModel) -> None:
        super().__init__(name="normalizer")
        self._add_prefix = model.add_dummy_prefix
        self._remove_spaces = model.remove_extra_whitespaces
        self._replace: Any = None
        if model.character_map is not None:
            if any(b"  " in text for text in model.character_map.replacements):
                raise ValueError(
                    "a SentencePiece model with a rule that replaces characters by two spaces"
                    " cannot be exported"
                )
            self._replace = GraphTrie(model.character_map)

    def __call__(self, texts: tf.Tensor) -> tf.Tensor:
        """Return normalized texts `(N,)`, which must be valid UTF-8."""
        is_empty = tf.strings.length(texts) == 0
        if self._replace is not None:
            texts = self._replace(texts)
        if self._remove_spaces:
            texts = tf.strings.regex_replace(texts, " +", " ")
            texts = tf.strings.regex_replace(texts, r"\A ", "")
            is_empty = tf.strings.length(texts) == 0
        prefixed = tf.strings.join([" ", texts]) if self._add_prefix else texts
        marked = tf.strings.regex_replace(prefixed, " ", MARK)
        if self._remove_spaces:
            marked = tf.strings.regex_replace(marked, rf"{MARK}+\z", "")
        return tf.where(is_empty, "", marked)


class GraphTrie(tf.Module):
    """Replacement of the longest match of rules, from left to right."""

    def __init__(self, rules: CharacterMap) -> None:
        super().__init__(name="rules")
        self._offsets, self._labels = tf.constant(rules.offsets), tf.constant(rules.labels)
        self._ends, self._values = tf.constant(rules.ends), tf.constant(rules.values)
        self._replacements = tf.constant(rules.replacements)

    def __call__(self, texts: tf.Tensor) -> tf.Tensor:
        """Return texts `(N,)` after all replacements."""
        starts, sizes, values = self._match(texts)

        def replace() -> tf.Tensor:
            following = tf.searchsorted(starts, starts + tf.maximum(sizes, 1))
            jumps = tf.concat([following, [tf.size(starts)]], 0)
            is_match = mark_reachable(jumps, tf.range(tf.size(jumps)) == 0)[:-1]
            strings = tf.strings.unicode_split(texts, "UTF-8")
            replaced = tf.gather(self._replacements, values)
            replaced = tf.where(sizes > 0, replaced, strings.flat_values)
            replaced = tf.where(is_match, replaced, "")
            return tf.strings.reduce_join(strings.with_flat_values(replaced), axis=-1)

        return tf.cond(tf.reduce_any(sizes > 0), replace, lambda: texts)

    def _match(self, texts: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Match the rules at each of the C characters of all texts.

        Returns:
            The position in bytes, the number of bytes of the longest match, 0 for none, and the
            number of its replacement, `(C,)` each.
        """
        _, offsets = tf.strings.unicode_decode_with_offsets(texts, "UTF-8")
        joined = tf.strings.reduce_join([texts, tf.fill(tf.shape(texts), DELIMITER)], axis=0)
        content = tf.io.decode_raw(tf.strings.reduce_join(joined), "uint8")
        content = tf.concat([tf.cast(content, "int32"), [DELIMITER[0]]], 0)
        begins = tf.cumsum(tf.strings.length(joined), exclusive=True)
        starts = tf.cast(offsets.flat_values, "int32")
        starts += tf.gather(begins, offsets.value_rowids())
        count = tf.size(starts)

        def advance(
            depth: tf.Tensor,
            active: tf.Tensor,
            states: tf.Tensor,
            sizes: tf.Tensor,
            values: tf.Tensor,
        ) -> tuple[tf.Tensor, ...]:
            byte = tf.gather(content, tf.gather(starts, active) + depth)
            units = tf.bitwise.bitwise_xor(states, byte)
            units = tf.where(units < tf.size(self._labels), units, 0)
            is_active = tf.gather(self._labels, units) == byte
            active, units = select(is_active, active, units)
            states = tf.bitwise.bitwise_xor(units, tf.gather(self._offsets, units))
            ends = tf.gather(self._ends, units)
            at, found = select(ends, active[:, None], tf.gather(self._values, states))
            values = tf.tensor_scatter_nd_update(values, at, found)
            sizes = tf.tensor_scatter_nd_update(sizes, at, tf.fill(tf.shape(found), depth + 1))
            return depth + 1, active, states, sizes, values

        zeros = tf.zeros([count], "int32")
        initial = 0, tf.range(count), zeros + self._offsets[0], zeros, zeros
        *_, sizes, values = tf.while_loop(
            lambda depth, active, *_: tf.size(active) > 0, advance, initial, (SCALAR, *[VECTOR] * 4)
        )
        return starts, sizes, values
