"""Batches bucketed by length; the batch of a step depends only on the seed and the step."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from functools import lru_cache
from itertools import count, pairwise
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from attention_zoo.data.batching.ragged import Integers, Ragged, Rows
from attention_zoo.data.storage.integers import shrink_integers
from attention_zoo.ops.arguments import whole_number

Batch = tuple[dict[str, NDArray[np.int32]], NDArray[np.int32]]


def check_integers(name: str, values: Sequence[int] | NDArray[Any]) -> Integers:
    """Return the values as an int64 array; raise ValueError if they are not integers."""
    numbers = np.asarray(values)
    if numbers.size and numbers.dtype.kind not in "iu":
        raise ValueError(f"{name} must be integers, got {numbers.dtype}")
    return numbers.astype(np.int64)


class Batches(ABC):
    """Base class of batches: the order of examples, and access by step.

    Each epoch contains every example exactly once. Examples are shuffled, sorted by length in
    buckets of `bucket_width`, and split into batches; then the batches are shuffled. The batch of
    step `n` is a pure function of (seed, n), so a run can resume at any step without replaying
    earlier ones. The random generator is counter-based (Philox). Only its raw bits are used, which
    are the same in all NumPy versions.

    Subclasses implement `make_batch`. They override `get_batch` too if a batch depends on
    the step.

    Args:
        sizes: sort keys of the examples: one array of lengths per sequence of an example (such as
            source and target); the last is the primary key.
        batch_size: examples per batch. If it does not divide the number of examples, one batch of
            each epoch is smaller.
        seed: seed of the order, not negative.
        bucket_width: batches are padded to a multiple of this length.
        numbers: position of each example in its corpus, from 1; default: 1 to N.

    Raises:
        ValueError: `batch_size` or `bucket_width` is below 1, or `seed` is negative.
    """

    def __init__(
        self,
        sizes: Sequence[Integers],
        batch_size: int,
        seed: int,
        bucket_width: int = 4,
        numbers: Sequence[int] | None = None,
    ) -> None:
        self.batch_size = whole_number("batch_size", batch_size)
        self.seed = whole_number("seed", seed, 0)
        self.bucket_width = whole_number("bucket_width", bucket_width)
        self._sizes = sizes
        self._numbers = np.arange(1, len(self) + 1) if numbers is None else np.asarray(numbers)
        self._batch_tokens: int | None = None
        self._set_starts(np.append(np.arange(0, len(self), self.batch_size), len(self)))

    def _set_starts(self, starts: Integers) -> None:
        """Set the index of the first example of each batch, in sorted order, and their number."""
        self._starts = starts
        self._order_epoch = lru_cache(maxsize=2)(self._compute_order)

    def limit_tokens(self, batch_tokens: int) -> Self:
        """Return these batches with a maximum number of tokens per batch in place of a batch size.

        The tokens of a batch are its number of examples times its padded length: for pairs, that of
        the longer side. A batch with short examples has more of them.

        Args:
            batch_tokens: maximum number of tokens of a batch, padding included.

        Raises:
            ValueError: an example is longer than `batch_tokens`, or examples have no tokens.
        """
        whole_number("batch_tokens", batch_tokens)
        if not np.any(self._sizes):
            raise ValueError("batches of images have no tokens; use batch_size")
        lengths = self._compute_lengths()
        if lengths.max() > batch_tokens:
            number = self._numbers[int(lengths.argmax())]
            raise ValueError(
                f"example {number} has {lengths.max()} tokens with padding, the limit is"
                f" {batch_tokens}; raise batch_tokens, or lower the maximum length of the data"
            )
        limited = copy(self)
        limited._batch_tokens = batch_tokens
        order, _ = self._compute_order(0)  # of equal lengths in all epochs
        limited._set_starts(limited._split(order, batch_tokens))
        return limited

    def _split(self, order: Integers, batch_tokens: int) -> Integers:
        """Return the start of each batch of the examples in this order, and their number."""
        return split_by_tokens(self._compute_lengths()[order], batch_tokens)

    def _compute_lengths(self) -> Integers:
        """Return the padded length of each example, of its longest sequence."""
        blocks = np.max([-(-size // self.bucket_width) for size in self._sizes], axis=0)
        return np.asarray(blocks * self.bucket_width)

    @property
    def max_length(self) -> int:
        """Padded length of the longest sequence that examples are sorted by; 0 if there is none."""
        return int(self._compute_lengths().max(initial=0))

    @abstractmethod
    def make_batch(self, rows: Integers) -> Any:
        """Return `(inputs, labels)` of the examples with indices `rows`, as (nested) arrays."""

    def get_batch(self, step: int) -> Any:
        """Return the training batch of a step, counted from 0 over all epochs."""
        return self.make_batch(self.get_rows(step))

    def __len__(self) -> int:
        return len(self._sizes[0])

    @property
    def num_examples(self) -> int:
        """Number of distinct corpus examples in these batches."""
        return len(np.unique(self._numbers))

    @property
    def steps_per_epoch(self) -> int:
        """Number of batches per epoch."""
        return len(self._starts) - 1

    def get_rows(self, step: int) -> Integers:
        """Return the example indices of the batch of a step, counted from 0 over all epochs."""
        if step < 0:
            raise ValueError(f"step must be at least 0, got {step}")
        epoch, index = divmod(step, self.steps_per_epoch)
        order, batches = self._order_epoch(epoch)
        batch = int(batches[index])
        return order[self._starts[batch] : self._starts[batch + 1]].astype(np.int64)

    def get_example_numbers(self, step: int) -> list[int]:
        """Return the corpus numbers of the examples in the batch of a step, sorted."""
        return sorted(self._numbers[self.get_rows(step)].tolist())

    def dataset(self, start: int = 0, stop: int | None = None) -> Any:
        """Return a `tf.data.Dataset` of the batches of steps `start` to `stop - 1`.

        It is infinite if `stop` is None. Elements have the structure that `get_batch` returns.
        Raises ValueError if stop < start or start < 0.
        """
        if start < 0 or (stop is not None and stop < start):
            raise ValueError(f"expected 0 <= start <= stop, got start={start}, stop={stop}")
        steps = range(start, stop) if stop is not None else count(start)
        size = None if stop is None else stop - start
        return self._make_dataset(lambda: map(self.get_batch, steps), size)

    def dataset_in_order(self) -> Any:
        """Return a `tf.data.Dataset` of every example once, in corpus order, for evaluation."""
        starts = self._starts
        if self._batch_tokens is not None:
            starts = self._split(np.arange(len(self)), self._batch_tokens)
        rows = [np.arange(*bounds) for bounds in pairwise(starts)]
        return self._make_dataset(lambda: map(self.make_batch, rows), len(rows))

    def _make_dataset(self, batches: Callable[[], Iterator[Any]], size: int | None) -> Any:
        import tensorflow as tf

        def make_spec(array: NDArray[Any]) -> Any:
            """Return the spec of an array.

            Images (uint8) and feature grids (float16) have a fixed shape, other axes vary.
            """
            is_grid = array.dtype == np.float16 and array.ndim == 4
            has_fixed_shape = array.dtype == np.uint8 or is_grid
            dimensions = array.shape[1:] if has_fixed_shape else [None] * (array.ndim - 1)
            return tf.TensorSpec([None, *dimensions], array.dtype)

        signature = tf.nest.map_structure(make_spec, self.make_batch(np.arange(1)))
        dataset = tf.data.Dataset.from_generator(batches, output_signature=signature)
        cardinality = tf.data.INFINITE_CARDINALITY if size is None else size
        return dataset.apply(tf.data.experimental.assert_cardinality(cardinality)).prefetch(8)

    def _compute_order(self, epoch: int) -> tuple[Integers, Integers]:
        """Return the order of the examples in an epoch, and the order of its batches."""
        seeds = np.random.SeedSequence([self.seed, epoch])
        random_bits = np.random.Philox(seeds).random_raw(len(self) + self.steps_per_epoch)
        buckets = [-(-size // self.bucket_width) for size in self._sizes]
        order = np.lexsort((random_bits[: len(self)], *buckets))
        return shrink_integers(order), np.argsort(random_bits[len(self) :], kind="stable")


def split_by_tokens(lengths: Integers, batch_tokens: int) -> Integers:
    """Return the start of each batch of consecutive examples, and the number of examples.

    Args:
        lengths: padded lengths of the examples, each at most `batch_tokens`.
        batch_tokens: maximum of a batch's number of examples times its greatest length.
    """
    starts, longest, stop = [0], 0, len(lengths)
    # Runs of equal lengths: in sorted order, the time depends on the number of batches.
    ends = [*np.flatnonzero(np.diff(lengths)) + 1, stop]
    for begin, end in pairwise([0, *ends]):
        longest = max(longest, int(lengths[begin]))
        while end > (limit := starts[-1] + batch_tokens // longest):
            starts.append(max(begin, limit))
            longest = int(lengths[begin])
    return np.array([*starts, stop])


class PairBatches(Batches):
    """Batches of source-target pairs of token ids, for training and evaluation.

    Args:
        sources: token ids of the sources, without start and end tokens.
        targets: token ids of the targets, without start and end tokens, one per source.
        batch_size, seed, options: see `Batches`. S and T are padded to multiples of `bucket_width`.

    Raises:
        ValueError: no pairs, an empty source or target, different numbers of sources and targets,
            or see `Batches`.
    """

    def __init__(
        self,
        sources: Rows,
        targets: Rows,
        batch_size: int,
        seed: int,
        **options: Any,
    ) -> None:
        if len(sources) != len(targets):
            raise ValueError(
                f"expected one target per source, got {len(sources)} sources and"
                f" {len(targets)} targets"
            )
        self._sources = Ragged.from_rows(sources, "the source of pair")
        self._targets = Ragged.from_rows(targets, "the target of pair")
        sizes = (self._sources.lengths, self._targets.lengths + 1)
        super().__init__(sizes, batch_size, seed, **options)

    def make_batch(self, rows: Integers) -> Batch:
        """Return `({"source": (B, S), "target": (B, T)}, labels (B, T))`, int32, padded with 0.

        Targets begin with the start token. Labels are the targets shifted left by one position and
        end with the end token.
        """
        source = self._sources.pad(rows, self.bucket_width)
        target, labels = self._targets.shift(rows, self.bucket_width)
        return {"source": source, "target": target}, labels


class LineBatches(Batches):
    """Batches of lines of token ids, for language modeling (next-token prediction).

    Args:
        lines: token ids, without start and end tokens.
        batch_size, seed, options: see `Batches`. T is padded to a multiple of `bucket_width`.

    Raises:
        ValueError: no lines, an empty line, or see `Batches`.
    """

    def __init__(self, lines: Rows, batch_size: int, seed: int, **options: Any) -> None:
        self._lines = Ragged.from_rows(lines, "line")
        super().__init__((self._lines.lengths + 1,), batch_size, seed, **options)

    def make_batch(self, rows: Integers) -> Batch:
        """Return `({"tokens": (B, T)}, labels (B, T))`, int32, padded with 0.

        Tokens begin with the start token. Labels are the tokens shifted left by one position and
        end with the end token.
        """
        tokens, labels = self._lines.shift(rows, self.bucket_width)
        return {"tokens": tokens}, labels
