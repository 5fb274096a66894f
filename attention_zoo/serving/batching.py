"""Dynamic batching: requests that arrive together are computed together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

Run = Callable[[Any, list[Any]], Sequence[Any]]


class QueueFullError(Exception):
    """The queue has no room for the rows of a request."""


class DeadlineError(Exception):
    """The deadline of a request has passed."""


class QueueClosedError(Exception):
    """The queue accepts no more requests."""


@dataclass(eq=False)
class _Request:
    """A waiting request.

    Attributes:
        key: requests with equal keys may share a batch.
        rows: its rows.
        deadline: time of the event loop's clock.
        result: future of its results, cancelled once the client has gone.
    """

    key: Hashable
    rows: list[Any]
    deadline: float
    result: asyncio.Future[list[Any]] = field(repr=False)


class BatchQueue:
    """Queue of requests of one model, which computes batches in a thread, one at a time.

    A batch has the oldest request and further ones with an equal key, in the order of arrival, as
    long as they fit. A queue computes the request of a single client at once. After a batch of
    several requests, or if requests wait at its end, the next one starts when it is full or
    `max_wait` has passed, so that clients that send their next request after a response share it.

    Late requests are dropped before they start. A batch that has started runs to its end, even if
    its clients have gone. If it fails and has several requests, each of them is computed alone, so
    that only the one that causes the error fails.

    Args:
        run: function of a key and a list of rows that returns one result for each row. It is called
            in another thread.
        max_batch_size: maximum number of rows of a batch.
        max_wait: maximum seconds from the end of a batch to the start of the next one while
            requests wait.
        max_waiting: maximum number of rows of waiting requests.
    """

    def __init__(
        self, run: Run, max_batch_size: int = 32, max_wait: float = 0.005, max_waiting: int = 256
    ) -> None:
        self.max_batch_size, self.max_wait, self.max_waiting = max_batch_size, max_wait, max_waiting
        self._run = run
        self._waiting: list[_Request] = []
        self._is_closed = False
        self._start = 0.0  # earliest start of a batch that is not full; the loop's clock
        self._changed = asyncio.Event()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="batches")
        self._worker: asyncio.Task[None] | None = None

    @property
    def num_waiting(self) -> int:
        """Number of rows of waiting requests."""
        return sum(len(request.rows) for request in self._waiting)

    async def submit(self, key: Hashable, rows: Sequence[Any], timeout: float) -> list[Any]:
        """Compute rows, and return one result for each.

        Args:
            key: requests with equal keys may share a batch, for instance those with equal search
                options.
            rows: 1 to `max_batch_size` rows.
            timeout: seconds until the deadline.

        Raises:
            ValueError: more than `max_batch_size` rows, or none.
            QueueFullError: the waiting requests would have more than `max_waiting` rows.
            QueueClosedError: the queue is closed.
            DeadlineError: the deadline has passed before the result was computed.
            Exception: the error of `run`.
        """
        if not 1 <= len(rows) <= self.max_batch_size:
            raise ValueError(
                f"a request must have 1 to {self.max_batch_size} rows, got {len(rows)}"
            )
        if self._is_closed:
            raise QueueClosedError
        if self.num_waiting + len(rows) > self.max_waiting:
            raise QueueFullError
        loop = asyncio.get_running_loop()
        request = _Request(key, list(rows), loop.time() + timeout, loop.create_future())
        self._waiting.append(request)
        self._changed.set()
        if self._worker is None or self._worker.done():
            self._worker = loop.create_task(self._work())
        try:
            async with asyncio.timeout_at(request.deadline) as timeout_context:
                return await request.result
        except TimeoutError:
            if not timeout_context.expired():  # an error of `run`
                raise
            raise DeadlineError from None
        finally:
            request.result.cancel()
            if request in self._waiting:
                self._waiting.remove(request)

    async def close(self) -> None:
        """Reject new requests, and wait until all others have finished."""
        self._is_closed = True
        self._changed.set()
        if self._worker is not None:
            await asyncio.shield(self._worker)
        self._thread.shutdown()

    async def _work(self) -> None:
        """Compute batches until the queue is closed and empty."""
        while True:
            while not self._waiting:
                if self._is_closed:
                    return
                self._changed.clear()
                await self._changed.wait()
            await self._wait_for_more()
            batch = self._take_batch()
            if batch:
                await self._compute(batch)
                is_shared = len(batch) > 1 or self._waiting
                now = asyncio.get_running_loop().time()
                self._start = now + self.max_wait if is_shared else now

    async def _wait_for_more(self) -> None:
        """Wait until the next batch is full, or it has to start."""
        loop = asyncio.get_running_loop()
        while self._waiting and not self._is_closed:
            remaining = self._start - loop.time()
            batch = self._select_batch()
            if remaining <= 0 or sum(len(r.rows) for r in batch) >= self.max_batch_size:
                return
            self._changed.clear()
            try:
                async with asyncio.timeout(remaining):
                    await self._changed.wait()
            except TimeoutError:
                return

    def _select_batch(self) -> list[_Request]:
        """Return the requests of the next batch; they remain in the queue."""
        batch: list[_Request] = []
        num_rows = 0
        for request in self._waiting:
            if batch and request.key != batch[0].key:
                continue
            if num_rows + len(request.rows) > self.max_batch_size:
                break
            batch.append(request)
            num_rows += len(request.rows)
        return batch

    def _take_batch(self) -> list[_Request]:
        """Remove the requests of the next batch from the queue, and return those in time."""
        batch = self._select_batch()
        self._waiting = [request for request in self._waiting if request not in batch]
        return [request for request in batch if self._is_wanted(request)]

    @staticmethod
    def _is_wanted(request: _Request) -> bool:
        """Return whether the client of a request still waits for it."""
        now = asyncio.get_running_loop().time()
        return now < request.deadline and not request.result.done()

    def _run_safely(self, key: Hashable, rows: list[Any]) -> list[Any]:
        """Return the results of `run`; a future cannot hold StopIteration or SystemExit."""
        try:
            return list(self._run(key, rows))
        except Exception as error:
            if isinstance(error, StopIteration):
                raise RuntimeError("StopIteration") from error
            raise
        except BaseException as error:
            raise RuntimeError(f"{type(error).__name__} in a batch") from error

    async def _compute(self, batch: list[_Request]) -> None:
        """Compute a batch, and set the results of its requests."""
        rows = [row for request in batch for row in request.rows]
        loop = asyncio.get_running_loop()
        try:
            results = await loop.run_in_executor(self._thread, self._run_safely, batch[0].key, rows)
            if len(results) != len(rows):
                raise RuntimeError(f"got {len(results)} results for {len(rows)} rows")
        except Exception as error:
            if len(batch) > 1:
                for request in batch:
                    if self._is_wanted(request):
                        await self._compute([request])
            elif not batch[0].result.done():
                batch[0].result.set_exception(error)
            return
        start = 0
        for request in batch:
            end = start + len(request.rows)
            if not request.result.done():
                request.result.set_result(results[start:end])
            start = end
