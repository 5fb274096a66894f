"""Load on a server, from a process of its own: requests, disconnecting and slow clients.

    python benchmarks/serving_load.py requests < load.json > responses.json
    python benchmarks/serving_load.py slow PORT PATH CONNECTIONS

`requests` sends POST requests from concurrent clients with keep-alive connections. `slow` runs
until it is stopped: connections whose header is never complete, and clients that send large bodies.
"""

from __future__ import annotations

import asyncio
import dataclasses
import http.client
import json
import math
import random
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

HOST = "127.0.0.1"
TIMEOUT = 60
LARGE = 200 * 10**6
"""Bytes of the body of a client of `slow`."""
NUM_LARGE = 2
"""Number of clients of `slow` that send large bodies, one body after another."""


@dataclass(frozen=True)
class Load:
    """Requests to one server.

    Attributes:
        port: port on this machine.
        path: path of all requests.
        bodies: a JSON body for each request.
        fields: names of the values to return of each prediction.
        num_clients: number of concurrent clients.
        disconnects: share of requests whose client disconnects after half of the request, or after
            all of it, without waiting for the response.
        seed: seed of these.
    """

    port: int
    path: str
    bodies: Sequence[str]
    fields: Sequence[str]
    num_clients: int
    disconnects: float = 0.0
    seed: int = 0


@dataclass(frozen=True)
class Response:
    """The response to one request.

    Attributes:
        status: its HTTP status, or 0 without a response.
        seconds: latency until the whole response arrived.
        values: the requested fields of its prediction; empty without one.
    """

    status: int
    seconds: float
    values: dict[str, Any]


def run_load(load: Load) -> tuple[float, list[Response | None]]:
    """Send requests from another process.

    Returns:
        Seconds from the first request to the last response, and the response to each request; None
        for clients that disconnected.
    """
    command = [sys.executable, __file__, "requests"]
    content = json.dumps(dataclasses.asdict(load))
    done = subprocess.run(command, input=content, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"the load generator failed:\n{done.stderr[-2000:]}")
    result = json.loads(done.stdout)
    responses = [None if one is None else Response(*one) for one in result["responses"]]
    return result["seconds"], responses


@contextmanager
def run_slow_clients(port: int, path: str, num_connections: int) -> Iterator[None]:
    """Run slow clients in another process until the block ends."""
    command = [sys.executable, __file__, "slow", str(port), path, str(num_connections)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        if process.stdout.readline() != "ready\n":
            raise RuntimeError("the slow clients could not connect")
        yield
        if process.poll() is not None:
            raise RuntimeError("the slow clients ended early")
    finally:
        process.kill()
        process.wait()


def percentile(values: Sequence[float], share: float) -> float:
    """Return the smallest value that at least a share of the values does not exceed."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def get_prediction(content: Any) -> dict[str, Any]:
    """Return the prediction of a response with one row, of any of the servers."""
    if isinstance(content, dict) and "predictions" in content:
        content = content["predictions"]
    row = content[0] if isinstance(content, list) else content
    return dict(row)


def choose_disconnects(load: Load) -> list[str | None]:
    """Return for each request "half" or "all", after which its client disconnects, or None."""
    rng = random.Random(load.seed)
    return [
        rng.choice(("half", "all")) if rng.random() < load.disconnects else None
        for _ in load.bodies
    ]


def _send_requests(load: Load) -> dict[str, Any]:
    """Send all requests from threads; return the seconds and the responses."""
    disconnects = choose_disconnects(load)
    numbers = iter(range(len(load.bodies)))
    received: dict[int, tuple[int, float, bytes]] = {}

    def run_client() -> None:
        connection = http.client.HTTPConnection(HOST, load.port, timeout=TIMEOUT)
        rng = random.Random(threading.get_ident())
        for number in numbers:
            body = load.bodies[number].encode()
            if (part := disconnects[number]) is not None:
                _disconnect(load, body, part, rng.uniform(0, 0.05))
            else:
                received[number] = _exchange(connection, load.path, body)
        connection.close()

    threads = [threading.Thread(target=run_client) for _ in range(load.num_clients)]
    start = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds = time.perf_counter() - start
    responses = [
        _select(*received[number], load.fields) if part is None else None
        for number, part in enumerate(disconnects)
    ]
    return {"seconds": seconds, "responses": responses}


def _exchange(
    connection: http.client.HTTPConnection, path: str, body: bytes
) -> tuple[int, float, bytes]:
    """Send a request; return the status, 0 without a response, the seconds and the body."""
    start = time.perf_counter()
    try:
        connection.request("POST", path, body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        status, content = response.status, response.read()
    except (OSError, http.client.HTTPException):
        connection.close()  # the next request connects again
        status, content = 0, b""
    return status, time.perf_counter() - start, content


def _disconnect(load: Load, body: bytes, part: str, wait: float) -> None:
    """Send half of a request or all of it, and close the connection after `wait` seconds."""
    head = f"POST {load.path} HTTP/1.1\r\nHost: {HOST}\r\nContent-Type: application/json\r\n"
    request = head.encode() + b"Content-Length: %d\r\n\r\n" % len(body) + body
    with socket.create_connection((HOST, load.port), TIMEOUT) as connection:
        connection.sendall(request if part == "all" else request[: len(request) // 2])
        time.sleep(wait)


def _select(
    status: int, seconds: float, content: bytes, fields: Sequence[str]
) -> tuple[int, float, dict[str, Any]]:
    """Return a response with the requested fields of its prediction."""
    if status != 200:
        return status, seconds, {}
    prediction = get_prediction(json.loads(content))
    return status, seconds, {name: prediction[name] for name in fields}


async def _run_slow_clients(port: int, path: str, num_connections: int) -> None:
    """Hold connections whose header never ends (Slowloris) and send large bodies.

    Run until the process ends.
    """
    opened = asyncio.Semaphore(0)

    async def hold_connection() -> None:
        is_first = True
        while True:  # the server may close the connection
            reader, writer = await asyncio.open_connection(HOST, port)
            writer.write(f"POST {path} HTTP/1.1\r\nHost: {HOST}\r\nX-Slow: ".encode())
            if is_first:
                opened.release()
            is_first = False
            with suppress(OSError):
                await reader.read()
            writer.close()
            await asyncio.sleep(0.1)

    async def send_bodies(header: str, chunk: bytes) -> None:
        while True:
            _, writer = await asyncio.open_connection(HOST, port)
            try:
                writer.write(f"POST {path} HTTP/1.1\r\nHost: {HOST}\r\n{header}\r\n\r\n".encode())
                for _ in range(LARGE // len(chunk)):
                    writer.write(chunk)
                    await writer.drain()
            except OSError:  # the server has closed the connection
                await asyncio.sleep(0.1)
            writer.close()

    block = b" " * 2**16
    bodies = [
        (f"Content-Length: {LARGE}", block),
        ("Transfer-Encoding: chunked", b"%x\r\n%s\r\n" % (len(block), block)),
    ]
    tasks = [asyncio.create_task(hold_connection()) for _ in range(num_connections)]
    tasks += [asyncio.create_task(send_bodies(*bodies[n % 2])) for n in range(NUM_LARGE)]
    for _ in range(num_connections):
        await opened.acquire()
    print("ready", flush=True)
    await asyncio.gather(*tasks)


def main() -> None:
    if sys.argv[1] == "slow":
        port, path, num_connections = sys.argv[2:]
        asyncio.run(_run_slow_clients(int(port), path, int(num_connections)))
    else:
        json.dump(_send_requests(Load(**json.load(sys.stdin))), sys.stdout)


if __name__ == "__main__":
    main()
