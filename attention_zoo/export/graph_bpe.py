"""Byte-pair encoding in core TensorFlow operations."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import tensorflow as tf

from attention_zoo.data.tokenizers.sentencepiece_model import NORMAL, UNUSED, SentencePieceModel
from attention_zoo.data.tokenizers.vocabulary import MARK
from attention_zoo.export.graph_tokenizer import is_first_of_row, make_table, shift_right

NONE = int(np.iinfo("int32").max)
"""Rank of pairs that are not merged."""
CODE_SPACE = 1 << 21
"""Number of ids of unknown characters; code points are below it."""


class PairMerges(tf.Module):
    """Merges of pairs of symbols.

    Args:
        merges: the symbol that replaces each pair; the first pairs are merged first.
        size: number of symbols, whose ids are below it.
    """

    def __init__(self, merges: Mapping[tuple[int, int], int], size: int) -> None:
        super().__init__(name="merges")
        self._size = size
        keys = [left * size + right for left, right in merges]
        self._merged = tf.constant([*merges.values()], "int32")
        table = tf.lookup.KeyValueTensorInitializer(
            tf.constant(keys, tf.int64), tf.range(len(merges))
        )
        self._ranks = tf.lookup.StaticHashTable(table, NONE)

    def __call__(self, words: tf.RaggedTensor) -> tf.RaggedTensor:
        """Return the symbols of words `(N, S)` after all merges.

        In each word the pair of the lowest rank is merged, the leftmost one of several, until no
        pair can be merged.
        """

        def rank(ids: tf.Tensor) -> tf.Tensor:
            left, right = tf.cast(ids[:, :-1], "int64"), tf.cast(ids[:, 1:], "int64")
            ranks = self._ranks.lookup(left * self._size + right)
            ranks = tf.where((left >= 0) & (right >= 0), ranks, NONE)
            return tf.pad(ranks, [[0, 0], [0, 1]], constant_values=NONE)

        def merge(ids: tf.Tensor, ranks: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            at = tf.argmin(ranks, axis=1, output_type="int32")[:, None]
            best = tf.reduce_min(ranks, axis=1, keepdims=True)
            can_merge = best < NONE
            merged = tf.gather(self._merged, tf.where(can_merge, best, 0))
            positions = tf.range(tf.shape(ids)[1])[None]
            shifted = tf.concat([ids[:, 1:], tf.fill([tf.shape(ids)[0], 1], -1)], axis=1)
            following = tf.where(positions > at, shifted, ids)
            following = tf.where(positions == at, merged, following)
            ids = tf.where(can_merge, following, ids)
            return ids, rank(ids)

        ids = words.to_tensor(-1)
        shapes = tf.TensorShape([None, None]), tf.TensorShape([None, None])
        ids, _ = tf.while_loop(
            lambda ids, ranks: tf.reduce_any(ranks < NONE), merge, (ids, rank(ids)), shapes
        )
        return tf.ragged.boolean_mask(ids, ids >= 0)


class GraphPieceBPE(tf.Module):
    """Segmentation of texts by a BPE model of SentencePiece.

    Two neighbouring symbols are merged if together they are a piece, those of the highest score
    first. The first symbols are the characters.

    Raises:
        ValueError: the model has unused pieces, or pieces with the same score.
    """

    def __init__(self, model: SentencePieceModel) -> None:
        super().__init__(name="bpe")
        normal = [i for i, kind in enumerate(model.types) if kind == NORMAL]
        scores = {model.pieces[i]: model.scores[i] for i in normal}
        has_ties = len({*scores.values()}) < len(scores)
        if has_ties or UNUSED in model.types:
            problem = "equal scores" if has_ties else "pieces of the type UNUSED"
            raise ValueError(
                f"a SentencePiece model with model_type=bpe and {problem} cannot be exported; train"
                " it again"
            )
        characters = {character for piece in scores for character in piece}
        symbols = [*scores, *sorted(characters - {*scores})]
        ids = {symbol: number for number, symbol in enumerate(symbols)}
        self._num_pieces, self._num_symbols = len(scores), len(symbols)
        self._symbols = tf.constant(symbols)
        single = [symbol for symbol in symbols if len(symbol) == 1]
        self._ids_of_characters = make_table(
            tf.constant([ord(symbol) for symbol in single], "int32"), [ids[x] for x in single], -1
        )
        merges = {
            (ids[piece[:end]], ids[piece[end:]]): ids[piece]
            for piece in sorted(scores, key=lambda piece: -scores[piece])
            for end in range(1, len(piece))
            if piece[:end] in ids and piece[end:] in ids
        }
        self._merge = PairMerges(merges, self._num_symbols + CODE_SPACE)
        self._splits_words = not any(MARK in piece[1:] for piece in scores)

    def __call__(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Return the pieces of normalized texts `(N,)`, ragged `(N, S)`, as strings.

        Consecutive unknown characters are one piece.
        """
        characters = tf.strings.unicode_decode(texts, "UTF-8")
        flat, rows = characters.flat_values, characters.value_rowids()
        begins_word = is_first_of_row(rows) | (self._splits_words & (flat == ord(MARK)))
        words = tf.RaggedTensor.from_row_starts(flat, tf.where(begins_word)[:, 0], validate=False)
        distinct, index = tf.unique(tf.strings.unicode_encode(words, "UTF-8"))
        ids = tf.gather(self._segment(distinct), index)
        rows = tf.repeat(tf.boolean_mask(rows, begins_word), ids.row_lengths())
        is_unknown = ids.flat_values >= self._num_pieces
        continues = is_unknown & shift_right(is_unknown) & ~is_first_of_row(rows)
        pieces = tf.RaggedTensor.from_row_starts(
            self._get_strings(ids.flat_values), tf.where(~continues)[:, 0], validate=False
        )
        return tf.RaggedTensor.from_value_rowids(
            tf.strings.reduce_join(pieces, axis=-1),
            tf.boolean_mask(rows, ~continues),
            tf.size(texts, tf.int64),
            validate=False,
        )

    def _segment(self, words: tf.Tensor) -> tf.RaggedTensor:
        """Return the ids of the symbols of words `(N,)`.

        A character of no piece has the id `num_symbols` plus its code point.
        """
        codes = tf.strings.unicode_decode(words, "UTF-8")
        ids = self._ids_of_characters.lookup(codes.flat_values)
        ids = tf.where(ids < 0, self._num_symbols + codes.flat_values, ids)
        return self._merge(codes.with_flat_values(ids))

    def _get_strings(self, ids: tf.Tensor) -> tf.Tensor:
        """Return the string of each symbol."""
        is_symbol = ids < self._num_symbols
        codes = tf.where(is_symbol, 0, ids - self._num_symbols)
        others = tf.strings.unicode_encode(codes[:, None], "UTF-8")
        return tf.where(is_symbol, tf.gather(self._symbols, tf.where(is_symbol, ids, 0)), others)
