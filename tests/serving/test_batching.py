"""Batches: which requests share one, deadlines, errors, limits and the end of a queue."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Callable, Coroutine, Hashable
from typing import Any

import pytest

from attention_zoo.serving.batching import (
    BatchQueue,
    DeadlineError,
    QueueClosedError,
    QueueFullError,
)

LONG = 20.0  # seconds, a timeout that no test reaches


class Model:
    """A function of rows that records its batches and waits for `gate` in each call."""

    def __init__(self, is_open: bool = False) -> None:
        self.batches: list[tuple[Hashable, list[Any]]] = []
        self.gate, self.started = threading.Event(), threading.Event()
        if is_open:
            self.gate.set()

    def __call__(self, key: Hashable, rows: list[Any]) -> list[Any]:
        self.batches.append((key, rows))
        self.started.set()
        assert self.gate.wait(LONG)
        if "bad" in rows:
            raise ValueError("a bad row")
        return [(key, row) for row in rows]


def run(scenario: Callable[[Model], Coroutine[Any, Any, None]], is_open: bool = False) -> Model:
    model = Model(is_open)
    asyncio.run(scenario(model))
    return model


async def start(queue: BatchQueue, model: Model) -> asyncio.Task[list[Any]]:
    """Submit a request, and return when its batch has started."""
    task = asyncio.create_task(queue.submit("a", ["first"], LONG))
    await asyncio.to_thread(model.started.wait, LONG)
    return task


async def submit_all(queue: BatchQueue, *requests: tuple[Any, list[Any]]) -> list[asyncio.Task]:
    """Submit requests in this order, and return when all are in the queue."""
    tasks = []
    for key, rows in requests:
        tasks.append(asyncio.create_task(queue.submit(key, rows, LONG)))
        await asyncio.sleep(0)
    return tasks


def test_waiting_requests_share_a_batch() -> None:
    async def scenario(model: Model) -> None:
        queue = BatchQueue(model, max_batch_size=4)
        first = await start(queue, model)
        others = await submit_all(queue, ("a", [1, 2]), ("a", [3]), ("a", [4]), ("a", [5, 6]))
        model.gate.set()
        assert await first == [("a", "first")]
        results = [await task for task in others]
        assert results == [[("a", row) for row in rows] for rows in ([1, 2], [3], [4], [5, 6])]
        await queue.close()

    rows = [rows for _, rows in run(scenario).batches]
    assert rows == [["first"], [1, 2, 3, 4], [5, 6]]


def test_only_equal_keys_share_a_batch() -> None:
    async def scenario(model: Model) -> None:
        queue = BatchQueue(model)
        first = await start(queue, model)
        tasks = await submit_all(queue, ("b", [1]), ("a", [2]), ("b", [3]), (("c", 5), [4]))
        model.gate.set()
        await asyncio.gather(first, *tasks)
        await queue.close()

    expected = [("a", ["first"]), ("b", [1, 3]), ("a", [2]), (("c", 5), [4])]
    assert run(scenario).batches == expected


def test_order_of_arrival_is_kept_if_a_request_does_not_fit() -> None:
    """A small request does not overtake a large one with the same key."""

    async def scenario(model: Model) -> None:
        queue = BatchQueue(model, max_batch_size=3)
        first = await start(queue, model)
        tasks = await submit_all(queue, ("a", [1, 2]), ("a", [3, 4]), ("a", [5]))
        model.gate.set()
        await asyncio.gather(first, *tasks)
        await queue.close()

    assert [rows for _, rows in run(scenario).batches] == [["first"], [1, 2], [3, 4, 5]]


def test_an_idle_queue_does_not_wait() -> None:
    async def scenario(model: Model) -> None:
        queue = BatchQueue(model, max_wait=LONG)
        for row in range(3):
            assert await asyncio.wait_for(queue.submit("a", [row], LONG), 5) == [("a", row)]
        await queue.close()

    assert len(run(scenario, is_open=True).batches) == 3


def test_a_busy_queue_waits_for_more_requests() -> None:
    """After a batch, a request that has just arrived waits, until the batch is full."""

    async def scenario(model: Model) -> None:
        queue = BatchQueue(model, max_batch_size=2, max_wait=LONG)
        first = await start(queue, model)
        (second,) = await submit_all(queue, ("a", [1]))
        model.gate.set()
        await first
        await asyncio.sleep(0.02)
        assert len(model.batches) == 1
        (third,) = await submit_all(queue, ("a", [2]))
        await asyncio.gather(second, third)
        await queue.close()

    assert [rows for _, rows in run(scenario).batches] == [["first"], [1, 2]]


def test_late_requests_are_dropped_before_they_start() -> None:
    async def scenario(model: Model) -> None:
        queue = BatchQueue(model)
        first = await start(queue, model)
        with pytest.raises(DeadlineError):
            await queue.submit("a", ["late"], 0.01)
        assert queue.num_waiting == 0
        model.gate.set()
        await first
        await queue.close()

    assert [rows for _, rows in run(scenario).batches] == [["first"]]


def test_a_running_batch_ends_after_the_deadline_of_its_client() -> None:
    async def scenario(model: Model) -> None:
        queue = BatchQueue(model)
        with pytest.raises(DeadlineError):
            await queue.submit("a", ["slow"], 0.5)
        model.gate.set()
        assert await queue.submit("a", ["next"], LONG) == [("a", "next")]
        await queue.close()

    assert [rows for _, rows in run(scenario).batches] == [["slow"], ["next"]]


def test_requests_of_clients_that_have_gone_are_not_computed() -> None:
    async def scenario(model: Model) -> None:
        queue = BatchQueue(model)
        first = await start(queue, model)
        gone, waiting = await submit_all(queue, ("a", ["gone"]), ("a", ["waiting"]))
        gone.cancel()
        await asyncio.sleep(0)
        model.gate.set()
        await asyncio.gather(first, waiting)
        await queue.close()

    assert [rows for _, rows in run(scenario).batches] == [["first"], ["waiting"]]


def test_only_the_request_that_causes_an_error_fails() -> None:
    async def scenario(model: Model) -> None:
        queue = BatchQueue(model)
        first = await start(queue, model)
        tasks = await submit_all(queue, ("a", [1]), ("a", [2, "bad"]), ("a", [3]))
        model.gate.set()
        await first
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert [results[0], results[2]] == [[("a", 1)], [("a", 3)]]
        assert str(results[1]) == "a bad row"
        assert await queue.submit("a", [4], LONG) == [("a", 4)]
        await queue.close()

    run(scenario)


def test_late_requests_are_not_computed_again_after_an_error() -> None:
    batches: list[list[Any]] = []
    release = threading.Event()

    def fail(key: Any, rows: list[Any]) -> list[Any]:
        batches.append(rows)
        assert release.wait(LONG)
        if "bad" in rows:
            raise ValueError("a bad row")
        return rows

    async def scenario() -> None:
        queue = BatchQueue(fail)
        asyncio.get_running_loop().call_later(0.3, release.set)
        requests = (([1], LONG), (["bad"], LONG), (["late"], 0.1))
        results = await asyncio.gather(
            *(queue.submit("a", rows, timeout) for rows, timeout in requests),
            return_exceptions=True,
        )
        assert results[0] == [1]
        assert [type(result) for result in results[1:]] == [ValueError, DeadlineError]
        await queue.close()

    asyncio.run(scenario())
    assert batches == [[1, "bad", "late"], [1], ["bad"]]


def test_a_queue_survives_every_exception() -> None:
    async def scenario() -> None:
        def fail(key: Any, rows: list[Any]) -> list[Any]:
            raise key

        queue = BatchQueue(fail)
        for error in (StopIteration(), SystemExit(), KeyboardInterrupt(), TimeoutError("run")):
            expected = type(error) if isinstance(error, TimeoutError) else RuntimeError
            with pytest.raises(expected):
                await queue.submit(error, [1], LONG)
        await queue.close()

    asyncio.run(scenario())


def test_a_wrong_number_of_results_is_an_error() -> None:
    async def scenario() -> None:
        queue = BatchQueue(lambda key, rows: rows[1:])
        with pytest.raises(RuntimeError, match="got 1 results for 2 rows"):
            await queue.submit("a", [1, 2], LONG)
        await queue.close()

    asyncio.run(scenario())


def test_limits() -> None:
    async def scenario(model: Model) -> None:
        queue = BatchQueue(model, max_batch_size=3, max_waiting=4)
        for rows in ([], [1, 2, 3, 4]):
            with pytest.raises(ValueError, match=f"must have 1 to 3 rows, got {len(rows)}"):
                await queue.submit("a", rows, LONG)
        first = await start(queue, model)
        tasks = await submit_all(queue, ("a", [1, 2]), ("a", [3]))
        assert queue.num_waiting == 3
        with pytest.raises(QueueFullError):
            await queue.submit("a", [4, 5], LONG)
        (last,) = await submit_all(queue, ("a", [6]))
        model.gate.set()
        await asyncio.gather(first, *tasks, last)
        await queue.close()

    run(scenario)


def test_a_closed_queue_computes_what_it_has() -> None:
    async def scenario(model: Model) -> None:
        queue = BatchQueue(model, max_wait=LONG)
        first = await start(queue, model)
        (waiting,) = await submit_all(queue, ("a", ["waiting"]))
        closing = asyncio.create_task(queue.close())
        await asyncio.sleep(0)
        with pytest.raises(QueueClosedError):
            await queue.submit("a", ["new"], LONG)
        model.gate.set()
        await closing
        assert (await first, await waiting) == ([("a", "first")], [("a", "waiting")])

    run(scenario)
    asyncio.run(BatchQueue(Model()).close())


def test_each_request_has_its_own_results() -> None:
    """Many clients with random numbers of rows; some of them go away."""
    numbers = random.Random(0)

    async def client(queue: BatchQueue, number: int) -> None:
        rows = [(number, row) for row in range(numbers.randint(1, 4))]
        key, timeout = number % 3, numbers.choice([LONG, LONG, 0.001])
        await asyncio.sleep(numbers.random() / 20)
        try:
            assert await queue.submit(key, rows, timeout) == [(key, row) for row in rows]
        except DeadlineError:
            assert timeout < LONG

    async def scenario(model: Model) -> None:
        queue = BatchQueue(model, max_batch_size=8, max_waiting=10_000)
        await asyncio.gather(*(client(queue, number) for number in range(300)))
        await queue.close()

    batches = run(scenario, is_open=True).batches
    assert all(len(rows) <= 8 for _, rows in batches)
    computed = [row for _, rows in batches for row in rows]
    assert len(computed) == len(set(computed))
    assert any(len({number for number, _ in rows}) > 1 for _, rows in batches)


def test_clients_that_wait_for_their_results_share_batches() -> None:
    """Each sends its next request right after a result."""

    async def scenario(model: Model) -> None:
        queue = BatchQueue(model, max_wait=0.3)

        async def send(row: str) -> None:
            for _ in range(5):
                await queue.submit("a", [row], LONG)

        await asyncio.gather(*map(send, "xyz"))
        await queue.close()

    batches = [sorted(rows) for _, rows in run(scenario, is_open=True).batches]
    assert batches.count(["x", "y", "z"]) >= 4
