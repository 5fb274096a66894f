"""Batches of sentence pairs of similar length, in an order that (seed, step) alone decides."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attention_zoo.data.vocabulary import END, PAD, START

Integers = NDArray[np.int64]
Batch = tuple[dict[str, NDArray[np.int32]], NDArray[np.int32]]


class PairBatches:
    """The batches of a corpus of token ids, for training and for evaluation.

    Every pass takes each pair exactly once: pairs are shuffled, sorted by length in steps of
    `bucket_width`, cut into batches, and the batches are shuffled. Step `n` of a run is therefore a
    pure function of (seed, n): a run can go on from any step without replaying the ones before. The
    generator is counter-based (Philox) and only its raw bits are used, which NumPy keeps the same
    in all versions.

    Args:
        sources: token ids of the sources, without start and end.
        targets: token ids of the targets, without start and end, as many as sources.
        batch_size: pairs in a batch; the last one of a pass holds the rest.
        seed: of the order, not negative.
        bucket_width: S and T of a batch are padded to a multiple of it.
        numbers: of the pairs in the corpus they were taken from; 1, 2 and so on without.

    Raises:
        ValueError: no pair, an empty source or target, different numbers of them, a size below 1.
    """

    def __init__(
        self,
        sources: Sequence[Sequence[int]],
        targets: Sequence[Sequence[int]],
        batch_size: int,
        seed: int,
        bucket_width: int = 4,
        numbers: Sequence[int] | None = None,
    ) -> None:
        if len(sources) != len(targets):
            raise ValueError(f"{len(sources)} sources and {len(targets)} targets; give pairs")
        if not sources:
            raise ValueError("no pairs to make batches of; the corpus is empty")
        for name, value, least in (
            ("batch_size", batch_size, 1),
            ("bucket_width", bucket_width, 1),
            ("seed", seed, 0),
        ):
            if value < least:
                raise ValueError(f"{name}={value} must be at least {least}")
        self.batch_size, self.seed, self.bucket_width = batch_size, seed, bucket_width
        self._sources = _Ragged(sources, "source")
        self._targets = _Ragged(targets, "target")
        self._numbers = np.arange(1, len(self) + 1) if numbers is None else np.asarray(numbers)
        self._plan = lru_cache(maxsize=2)(self._plan_of_pass)

    def __len__(self) -> int:
        return len(self._sources.lengths)

    @property
    def steps_per_pass(self) -> int:
        """How many batches hold every pair once."""
        return -(-len(self) // self.batch_size)

    def rows(self, step: int) -> Integers:
        """The indices of the pairs in the batch of a step, counted from 0 over all passes."""
        if step < 0:
            raise ValueError(f"step {step} must be at least 0")
        number, index = divmod(step, self.steps_per_pass)
        order, batches = self._plan(number)
        begin = int(batches[index]) * self.batch_size
        return order[begin : begin + self.batch_size]

    def examples(self, step: int) -> list[int]:
        """The pairs in the batch of a step by their numbers, in order."""
        return sorted(self._numbers[self.rows(step)].tolist())

    def batch(self, rows: Integers) -> Batch:
        """`({"source": (B, S), "target": (B, T)}, labels (B, T))`, all int32, padded with 0.

        Targets begin with the start token, labels are the targets one place on, up to the end
        token.
        """
        source = self._sources.padded(rows, self.bucket_width)
        labels = self._targets.padded(rows, self.bucket_width, room=1)
        target = np.empty_like(labels)
        target[:, 0], target[:, 1:] = START, labels[:, :-1]
        labels[np.arange(len(rows)), self._targets.lengths[rows]] = END
        return {"source": source, "target": target}, labels

    def dataset(self, start: int = 0, stop: int | None = None) -> Any:
        """A `tf.data.Dataset` of the batches of steps start to stop - 1 (endless without stop).

        Elements are as `batch` gives them. Raises ValueError if stop < start or start < 0.
        """
        if start < 0 or (stop is not None and stop < start):
            raise ValueError(f"steps {start} to {stop}: expected 0 <= start <= stop")
        steps = range(start, stop) if stop is not None else count(start)
        return self._stream(lambda: map(self.rows, steps), None if stop is None else stop - start)

    def in_order(self) -> Any:
        """A `tf.data.Dataset` of every pair once, in the order of the corpus, for evaluation."""
        everything = np.arange(len(self))
        begins = range(0, len(self), self.batch_size)
        return self._stream(
            lambda: (everything[begin : begin + self.batch_size] for begin in begins), len(begins)
        )

    def _stream(self, plans: Any, size: int | None) -> Any:
        import tensorflow as tf

        def batches() -> Iterator[Batch]:
            rows: Iterable[Integers] = plans()
            return map(self.batch, rows)

        matrix = tf.TensorSpec((None, None), "int32")
        dataset = tf.data.Dataset.from_generator(
            batches, output_signature=({"source": matrix, "target": matrix}, matrix)
        )
        cardinality = tf.data.INFINITE_CARDINALITY if size is None else size
        return dataset.apply(tf.data.experimental.assert_cardinality(cardinality)).prefetch(8)

    def _plan_of_pass(self, number: int) -> tuple[Integers, Integers]:
        """The order of the pairs in a pass, and the order of the batches cut from it."""
        seeds = np.random.SeedSequence([self.seed, number])
        bits = np.random.Philox(seeds).random_raw(len(self) + self.steps_per_pass)
        sizes = (self._sources.lengths, self._targets.lengths + 1)
        buckets = [-(-size // self.bucket_width) for size in sizes]
        order = np.lexsort((bits[: len(self)], *buckets))
        return order, np.argsort(bits[len(self) :], kind="stable")


class _Ragged:
    """Rows of different length in one flat array."""

    def __init__(self, rows: Sequence[Sequence[int]], name: str) -> None:
        self.lengths: Integers = np.fromiter(map(len, rows), np.int64, len(rows))
        if not self.lengths.all():
            raise ValueError(f"the {name} of pair {int(np.argmin(self.lengths))} has no token")
        self._flat = np.fromiter((i for row in rows for i in row), np.int32, self.lengths.sum())
        self._begins: Integers = np.cumsum(self.lengths) - self.lengths

    def padded(self, rows: Integers, width: int, room: int = 0) -> NDArray[np.int32]:
        """The rows padded to a multiple of width, with at least `room` pads each."""
        lengths = self.lengths[rows, None]
        places = np.arange(-(-(int(lengths.max()) + room) // width) * width)
        at = np.minimum(self._begins[rows, None] + places, len(self._flat) - 1)
        return np.where(places < lengths, self._flat[at], np.int32(PAD))
