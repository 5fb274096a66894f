"""Segmentation of texts by a unigram model of SentencePiece in core TensorFlow operations."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from attention_zoo.data.tokenizers.sentencepiece_model import (
    NORMAL,
    SentencePieceModel,
)
from attention_zoo.data.tokenizers.vocabulary import MARK
from attention_zoo.export.graph_tokenizer import is_first_of_row, shift_right

CODE_SPACE = 1 << 21
"""Factor of a state in the key of a transition; code points are below it."""
UNKNOWN_PENALTY = 10.0
"""An unknown character scores this much less than the worst piece."""
LOWEST = -1e30
"""Score where no piece matches."""
ROUNDING = 4e-6
"""Bound of the error of a difference of two scores, as a fraction of the score of the text: twice
about 30 additions in float32, with a relative error of 6e-8 each."""

VECTOR, SCALAR = tf.TensorShape([None]), tf.TensorShape([])


class GraphUnigram(tf.Module):
    """Segmentation of texts into the pieces of the highest total score (Viterbi algorithm).

    SentencePiece adds the scores of a text from left to right in float32, and rounding breaks ties
    between segmentations. Words are segmented in parallel; a text is segmented again from its start
    if a difference of scores is within the error of rounding.
    """

    def __init__(self, model: SentencePieceModel) -> None:
        super().__init__(name="unigram")
        normal = [i for i, kind in enumerate(model.types) if kind == NORMAL]
        pieces = [model.pieces[i] for i in normal]
        scores = np.array(model.scores, "float32")[normal]
        transitions, piece_of_state = _make_trie(pieces)
        self._state_scores = tf.constant(np.append(scores, np.float32(LOWEST))[piece_of_state])
        table = tf.lookup.KeyValueTensorInitializer(
            tf.constant(list(transitions), tf.int64),
            tf.constant(list(transitions.values()), tf.int64),
        )
        self._transitions = tf.lookup.StaticHashTable(table, -1)
        self._longest = max(map(len, pieces))
        # in float32, as SentencePiece computes it
        self._unknown_score = tf.constant(scores.min() - np.float32(UNKNOWN_PENALTY))
        self._splits_words = not any(MARK in piece[1:] for piece in pieces)

    def __call__(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Return the pieces of normalized texts `(N,)`, ragged `(N, S)`, as strings.

        Consecutive unknown characters are one piece.
        """
        characters = tf.strings.unicode_decode(texts, "UTF-8")
        flat, rows = characters.flat_values, characters.value_rowids()
        scores = self._compute_scores(flat, rows)
        is_unknown = scores[:, 0] == LOWEST
        first = tf.where(is_unknown, self._unknown_score, scores[:, 0])
        scores = tf.concat([first[:, None], scores[:, 1:]], axis=1)
        begins_text = is_first_of_row(rows)
        begins_word = begins_text | (self._splits_words & (flat == ord(MARK)))
        sizes, best, gaps = _find_best_sizes(scores, begins_word)
        if self._splits_words:
            ends_word = tf.concat([begins_word[1:], begins_word[:1]], 0)
            count = tf.size(texts)
            totals = tf.math.unsorted_segment_sum(tf.where(ends_word, best, 0.0), rows, count)
            smallest = tf.math.unsorted_segment_min(gaps, rows, count)
            is_close = tf.gather(smallest <= ROUNDING * tf.abs(totals), rows)

            def segment_again() -> tf.Tensor:
                some = tf.where(is_close)
                parts = tf.gather_nd(scores, some), tf.gather_nd(begins_text, some)
                return tf.tensor_scatter_nd_update(sizes, some, _find_best_sizes(*parts)[0])

            sizes = tf.cond(tf.reduce_any(is_close), segment_again, lambda: sizes)
        ends = tf.range(1, tf.size(flat) + 1)
        jumps = tf.concat([[0], ends - sizes], 0)  # from the end of a piece to its start
        starts = mark_reachable(jumps, tf.concat([begins_word, [True]], 0))[:-1]
        is_alone = is_unknown & starts & tf.concat([starts[1:], tf.ones_like(starts[:1])], 0)
        starts &= begins_text | ~(is_alone & shift_right(is_alone))
        pieces = tf.RaggedTensor.from_row_starts(flat, tf.where(starts)[:, 0], validate=False)
        return tf.RaggedTensor.from_value_rowids(
            tf.strings.unicode_encode(pieces, "UTF-8"),
            tf.boolean_mask(rows, starts),
            tf.size(texts, tf.int64),
            validate=False,
        )

    def _compute_scores(self, flat: tf.Tensor, rows: tf.Tensor) -> tf.Tensor:
        """Return the score of the piece of k + 1 characters at each character, `(C, K)`."""
        count, longest = tf.size(flat), self._longest
        padded = tf.pad(tf.cast(flat, "int64"), [[0, longest]])
        padded_rows = tf.pad(rows, [[0, longest]], constant_values=-1)

        def advance(
            depth: tf.Tensor, active: tf.Tensor, states: tf.Tensor, scores: tf.Tensor
        ) -> tuple[tf.Tensor, ...]:
            following = active + depth
            states = self._transitions.lookup(states * CODE_SPACE + tf.gather(padded, following))
            same_row = tf.gather(padded_rows, following) == tf.gather(rows, active)
            is_active = (states >= 0) & same_row
            active, states = select(is_active, active, states)
            found = tf.gather(self._state_scores, states)
            at = (active * longest + depth)[:, None]
            return depth + 1, active, states, tf.tensor_scatter_nd_update(scores, at, found)

        none = tf.fill([count * longest], tf.constant(LOWEST))
        initial = 0, tf.range(count), tf.zeros([count], "int64"), none
        *_, scores = tf.while_loop(
            lambda depth, active, *_: (tf.size(active) > 0) & (depth < longest),
            advance,
            initial,
            (SCALAR, VECTOR, VECTOR, VECTOR),
        )
        return tf.reshape(scores, [count, longest])


def _find_best_sizes(
    scores: tf.Tensor, begins: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Find the best segmentations of all words, one character of each at a time.

    Args:
        scores: score of the piece of k + 1 characters at each character, `(C, K)`.
        begins: whether a word begins at each character, `(C,)`.

    Returns:
        For each character, `(C,)` each: the number of characters of the last piece of the best
        segmentation that ends with it, the score of this segmentation from the start of the word,
        and the smallest difference of two scores that were compared in this step.
    """
    count, longest = tf.size(begins), scores.shape[1]
    starts = tf.cast(tf.where(begins)[:, 0], "int32")
    lengths = tf.concat([starts[1:], [count]], 0)[: tf.size(starts)] - starts
    words = tf.size(starts)
    sizes_of_columns = tf.range(1, longest + 1)[None]
    step_count = tf.reduce_max(tf.concat([lengths, [0]], 0))

    def make_array(dtype: str) -> tf.TensorArray:
        array = tf.TensorArray(dtype, step_count + 1, infer_shape=False, element_shape=[None])
        return array.write(step_count, tf.zeros([0], dtype))  # also for no characters

    def advance(
        step: tf.Tensor,
        starts: tf.Tensor,
        lengths: tf.Tensor,
        base: tf.Tensor,
        targets: tf.Tensor,
        sizes: tf.Tensor,
        results: tuple[tf.TensorArray, ...],
    ) -> tuple[Any, ...]:
        candidates = base[:, None] + tf.gather(scores, starts + step)
        is_finite = tf.minimum(candidates, targets) > LOWEST / 2
        gaps = tf.where(is_finite, tf.abs(candidates - targets), -LOWEST)
        is_better = candidates > targets
        targets = tf.where(is_better, candidates, targets)
        sizes = tf.where(is_better, sizes_of_columns, sizes)
        values = starts + step, sizes[:, 0], targets[:, 0], tf.reduce_min(gaps, axis=1)
        results = tuple(
            array.write(step, value) for array, value in zip(results, values, strict=True)
        )
        is_active = lengths > step + 1
        base, targets, sizes = targets[:, 0], targets[:, 1:], sizes[:, 1:]
        targets = tf.pad(targets, [[0, 0], [0, 1]], constant_values=LOWEST)
        sizes = tf.pad(sizes, [[0, 0], [0, 1]])
        state = [starts, lengths, base, targets, sizes]
        state = tf.cond(
            tf.reduce_all(is_active),
            lambda: state,
            lambda: select(is_active, *state),
        )
        return step + 1, *state, results

    lowest = tf.fill([words, longest], tf.constant(LOWEST))
    arrays = tuple(map(make_array, ("int32", "int32", "float32", "float32")))
    base, sizes = tf.zeros([words]), tf.zeros([words, longest], "int32")
    table = tf.TensorShape([None, longest])
    *_, results = tf.while_loop(
        lambda step, *_: step < step_count,
        advance,
        (0, starts, lengths, base, lowest, sizes, arrays),
        (SCALAR, VECTOR, VECTOR, VECTOR, table, table, (SCALAR,) * 4),
    )
    positions, *others = (array.concat() for array in results)
    order = tf.argsort(positions)
    sizes, best, gaps = (tf.gather(x, order) for x in others)
    return sizes, best, gaps


def select(flags: tf.Tensor, *tensors: tf.Tensor) -> list[tf.Tensor]:
    """Return the rows of tensors with a flag; cheaper in a loop than `tf.boolean_mask`."""
    rows = tf.where(flags)[:, 0]
    return [tf.gather(tensor, rows) for tensor in tensors]


def mark_reachable(jumps: tf.Tensor, marks: tf.Tensor) -> tf.Tensor:
    """Mark all positions that jumps reach from marked ones, by pointer doubling.

    Args:
        jumps: the next position from each one, `(N,)`.
        marks: whether each position is marked, `(N,)`.
    """

    def follow(
        distance: tf.Tensor, jumps: tf.Tensor, marks: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        (reached,) = select(marks, jumps[:, None])
        marks = tf.tensor_scatter_nd_update(marks, reached, tf.ones_like(reached[:, 0], "bool"))
        return 2 * distance, tf.gather(jumps, jumps), marks

    return tf.while_loop(lambda distance, *_: distance < tf.size(jumps), follow, (1, jumps, marks))[
        -1
    ]


def _make_trie(pieces: list[str]) -> tuple[dict[int, int], list[int]]:
    """Return the transitions of a trie and the piece that ends in each state, -1 for none.

    The key of a transition is `state * CODE_SPACE + code point`; state 0 is the root.
    """
    transitions: dict[int, int] = {}
    piece_of_state = [-1]
    for number, piece in enumerate(pieces):
        state = 0
        for character in piece:
            key = state * CODE_SPACE + ord(character)
            if key not in transitions:
                transitions[key] = len(piece_of_state)
                piece_of_state.append(-1)
            state = transitions[key]
        piece_of_state[state] = number
    return transitions, piece_of_state
