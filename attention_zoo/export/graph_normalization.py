"""Unicode normalization form C in core TensorFlow operations."""

from __future__ import annotations

import functools
import unicodedata
from typing import NamedTuple

import numpy as np
import tensorflow as tf

PAIR = 1 << 21
"""Factor of the first code point in the key of a pair; code points are below it."""

END = 0x30000
"""No character from here on has a decomposition or a combining class."""


class _Tables(NamedTuple):
    """Tables of canonical decomposition and composition.

    Attributes:
        decomposed, parts: characters with a canonical decomposition, and their decompositions.
        pairs, composites: keys of pairs of code points, and the code point that each pair forms.
        classes: canonical combining class of each code point.
        can_follow: whether each code point is the second one of a pair.
    """

    decomposed: list[str]
    parts: list[str]
    pairs: np.ndarray
    composites: np.ndarray
    classes: np.ndarray
    can_follow: np.ndarray


class GraphNormalizer(tf.Module):
    """`unicodedata.normalize("NFC", text)` for strings in a graph.

    The algorithm is that of the Unicode standard, annex 15: decompose, sort the marks after each
    starter by combining class, compose. Texts without a character that it could change are
    returned as they are.
    """

    def __init__(self) -> None:
        super().__init__(name="normalizer")
        tables = _make_tables()
        content = tf.lookup.KeyValueTensorInitializer(tables.decomposed, tables.parts)
        self._parts = tf.lookup.StaticHashTable(content, "")
        content = tf.lookup.KeyValueTensorInitializer(
            tf.constant(tables.pairs, tf.int64), tf.constant(tables.composites, tf.int32)
        )
        self._composites = tf.lookup.StaticHashTable(content, -1)
        properties = tables.classes * 2 + tables.can_follow
        starts = np.flatnonzero(np.diff(properties, prepend=-1))
        self._starts = tf.constant(starts, tf.int32)
        self._properties = tf.constant(properties[starts], tf.int32)
        changed = tables.can_follow | (tables.classes > 0)
        unstable = [c for c in tables.decomposed if not unicodedata.is_normalized("NFC", c)]
        changed[list(map(ord, unstable))] = True
        edges = np.flatnonzero(np.diff(changed.astype("int8"), prepend=-1))
        self._edges = tf.constant(edges, tf.int32)
        self._changes = tf.constant(changed[edges])

    def __call__(self, texts: tf.Tensor) -> tf.Tensor:
        """Return texts `(B,)` in NFC; invalid UTF-8 is replaced by U+FFFD."""
        characters = tf.strings.unicode_decode(texts, "UTF-8")
        index = tf.searchsorted(self._edges, characters.flat_values, side="right") - 1
        may_change = characters.with_flat_values(tf.gather(self._changes, index))
        rows = tf.where(tf.reduce_any(may_change, axis=1))

        def normalize() -> tf.Tensor:
            some = tf.gather_nd(texts, rows)
            return tf.tensor_scatter_nd_update(texts, rows, self._normalize(some))

        return tf.cond(tf.size(rows) > 0, normalize, lambda: texts)

    def _normalize(self, texts: tf.Tensor) -> tf.Tensor:
        characters = self._sort_marks(self._decompose(texts))
        flat, rows = characters.flat_values, characters.value_rowids()
        classes, can_follow = self._look_up(flat)
        first = tf.concat([tf.ones_like(rows[:1], "bool"), rows[1:] != rows[:-1]], 0)
        # A cluster begins with a starter that never composes with the character before it.
        begins = first | ((classes == 0) & ~can_follow)
        composed = self._compose(flat, classes, tf.cast(tf.where(begins)[:, 0], "int32"))
        kept = tf.ragged.boolean_mask(
            characters.with_flat_values(composed), characters.with_flat_values(composed >= 0)
        )
        return tf.strings.unicode_encode(kept, "UTF-8")

    def _decompose(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Return the code points of the full canonical decomposition of texts."""
        characters = tf.strings.unicode_split(texts, "UTF-8")
        parts = self._parts.lookup(characters.flat_values)
        parts = tf.where(parts == "", characters.flat_values, parts)
        joined = tf.strings.reduce_join(characters.with_flat_values(parts), axis=-1)
        return tf.strings.unicode_decode(joined, "UTF-8")

    def _sort_marks(self, characters: tf.RaggedTensor) -> tf.RaggedTensor:
        """Sort the marks after each starter by combining class."""
        flat, rows = characters.flat_values, characters.value_rowids()
        classes, _ = self._look_up(flat)
        starters = tf.cumsum(tf.cast(classes == 0, "int64"))
        runs = (rows + starters) * 256 + tf.cast(classes, "int64")
        return characters.with_flat_values(tf.gather(flat, tf.argsort(runs, stable=True)))

    def _look_up(self, characters: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Return the combining class of code points, and whether they can end a pair."""
        index = tf.searchsorted(self._starts, characters, side="right") - 1
        properties = tf.gather(self._properties, index)
        return properties // 2, properties % 2 == 1

    def _compose(self, flat: tf.Tensor, classes: tf.Tensor, begins: tf.Tensor) -> tf.Tensor:
        """Compose code points, all clusters at once; those that became a part of others are -1.

        Args:
            flat: code points `(C,)`.
            classes: their combining classes.
            begins: the index of the first character of each cluster `(N,)`.
        """
        ends = tf.concat([begins[1:], tf.shape(flat)], 0)

        def is_running(step: tf.Tensor, *_: tf.Tensor) -> tf.Tensor:
            return tf.reduce_any(begins + step < ends)

        def compose_next(
            step: tf.Tensor, flat: tf.Tensor, starters: tf.Tensor, last: tf.Tensor
        ) -> tuple[tf.Tensor, ...]:
            running = tf.where(begins + step < ends)
            at = tf.gather_nd(begins, running) + step
            starter, previous = tf.gather_nd(starters, running), tf.gather_nd(last, running)
            code, class_ = tf.gather(flat, at), tf.gather(classes, at)
            pair = tf.cast(tf.gather(flat, starter), "int64") * PAIR + tf.cast(code, "int64")
            composite = self._composites.lookup(pair)
            joins = (composite >= 0) & ((previous < class_) | (previous == 0))
            targets = tf.where(joins, composite, tf.gather(flat, starter))
            flat = tf.tensor_scatter_nd_update(flat, starter[:, None], targets)
            flat = tf.tensor_scatter_nd_update(flat, at[:, None], tf.where(joins, -1, code))
            starter = tf.where(~joins & (class_ == 0), at, starter)
            previous = tf.where(joins, previous, class_)
            starters = tf.tensor_scatter_nd_update(starters, running, starter)
            return step + 1, flat, starters, tf.tensor_scatter_nd_update(last, running, previous)

        initial = tf.constant(1), flat, begins, tf.gather(classes, begins)
        return tf.while_loop(is_running, compose_next, initial)[1]


@functools.cache
def _make_tables() -> _Tables:
    points = [*range(0xD800), *range(0xE000, END)]
    decomposed = [c for c in map(chr, points) if not unicodedata.is_normalized("NFD", c)]
    parts = [unicodedata.normalize("NFD", c) for c in decomposed]
    pairs, composites = [], []
    can_follow, classes = np.zeros(0x110000, bool), np.zeros(0x110000, "int32")
    for character, decomposition in zip(decomposed, parts, strict=True):
        if unicodedata.is_normalized("NFC", character):
            first = unicodedata.normalize("NFC", decomposition[:-1])
            pairs.append(ord(first) * PAIR + ord(decomposition[-1]))
            composites.append(ord(character))
            can_follow[ord(decomposition[-1])] = True
    classes[points] = [unicodedata.combining(chr(point)) for point in points]
    return _Tables(decomposed, parts, np.array(pairs), np.array(composites), classes, can_follow)
