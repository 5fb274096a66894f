"""Connections of slow, broken and disconnecting clients, and the end of the server."""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import signal
import socket
import struct
import threading
import time
from typing import Any

import pytest

from attention_zoo.serving import server as server_module
from tests.serving.local_server import Client, Response, serve, wait_for

PATH = "/v1/models/upper:predict"


def make_request(content: Any, path: str = PATH) -> bytes:
    body = json.dumps(content).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def receive_until(connection: socket.socket, end: bytes) -> bytes:
    content = b""
    while end not in content and (part := connection.recv(1 << 16)):
        content += part
    return content


def receive_all(connection: socket.socket) -> bytes:
    content = b""
    with contextlib.suppress(ConnectionResetError):
        while part := connection.recv(1 << 16):
            content += part
    return content


def test_slow_bodies_and_headers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Slow senders are disconnected, while others are served."""
    monkeypatch.setattr(server_module, "HEADER_TIMEOUT", 3.0)
    with (
        serve(body_timeout=1.0) as client,
        client.connect() as slow_header,
        client.connect() as slow_body,
    ):
        slow_header.sendall(b"POST /v1/models/upper:predict HTTP/1.1\r\nHost: x\r\n")
        slow_body.sendall(make_request(["a"])[:-3])
        assert client.predict({"instances": ["a"]}).status == 200
        assert b" 408 " in slow_body.recv(4096)
        assert slow_header.recv(4096) == b""


def test_readers_that_do_not_read_are_disconnected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "WRITE_TIMEOUT", 0.5)
    with serve(max_body_bytes=1 << 25) as client, client.connect() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        content = {
            "signature_name": "options",
            "inputs": {"text": ["a" * 10_000], "times": 3000},
        }
        connection.sendall(make_request(content))
        wait_for(client.model.started.is_set)
        assert client.predict({"instances": ["b"]}).body == {"predictions": ["B"]}
        wait_for(lambda: not client.server.server_state.connections)


def test_requests_of_clients_that_have_gone_are_not_computed() -> None:
    with serve(max_batch_size=1) as client:
        client.model.gate.clear()
        with client.connect() as running, client.connect() as waiting:
            running.sendall(make_request({"instances": ["a"]}))
            wait_for(client.model.started.is_set)
            waiting.sendall(make_request({"instances": ["b"]}))
            (version,) = client.manager
            wait_for(lambda: version.queue.num_waiting == 1)
            # A reset, as of a client that was killed
            waiting.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            waiting.close()
            wait_for(lambda: version.queue.num_waiting == 0)
            client.model.gate.set()
            assert b'"A"' in receive_until(running, b'"A"')
        assert client.predict({"instances": ["c"]}).body == {"predictions": ["C"]}
        assert len(client.model.batches) == 2


def test_a_connection_serves_several_requests_also_after_errors() -> None:
    with serve(max_body_bytes=100) as client:
        connection = http.client.HTTPConnection("127.0.0.1", client.port, timeout=20)
        with contextlib.closing(connection):
            for body, status in (
                (b'{"instances": ["a"]}', 200),
                (b"{", 400),
                (b" " * 101, 413),
                (b'{"instances": ["b"]}', 200),
            ):
                connection.request("POST", PATH, body)
                response = connection.getresponse()
                content = response.read()
                assert response.status == status, content
        assert json.loads(content) == {"predictions": ["B"]}


def test_responses_are_sent_without_delay() -> None:
    """With Nagle's algorithm, a second packet waits for a delayed acknowledgement, about 40 ms."""
    with serve() as client, client.connect() as connection:
        wait_for(lambda: client.server.server_state.connections)
        (protocol,) = client.server.server_state.connections
        accepted = protocol.transport.get_extra_info("socket")
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        connection.sendall(make_request({"instances": ["a"]}))
        assert receive_until(connection, b'"A"')


def test_pipelined_requests_are_answered_in_order() -> None:
    with serve() as client, client.connect() as connection:
        requests = [make_request({"instances": [text]}) for text in ("a", "b", "c")]
        connection.sendall(b"".join(requests))
        content = receive_until(connection, b'"C"')
    assert re.findall(rb'\["(.)"\]', content) == [b"A", b"B", b"C"]


@pytest.mark.parametrize(
    "request_head",
    [
        b"nonsense\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        b"POST %s HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n{}"
        % PATH.encode(),
        b"POST %s HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n{}" % PATH.encode(),
        b"GET /healthz HTTP/1.1\r\nHost: a\r\nX: " + b"a" * 200_000,
    ],
)
def test_malformed_requests_have_an_error_in_json(request_head: bytes) -> None:
    with serve() as client, client.connect() as connection:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            connection.sendall(request_head)
        head, _, body = receive_all(connection).partition(b"\r\n\r\n")
    if head or len(request_head) < 100_000:  # a long one may be reset before it is read
        assert b" 400 " in head
        assert json.loads(body) == {"error": "the request is not valid HTTP"}


def test_a_body_with_length_and_chunks_is_read_once() -> None:
    """An intermediary that reads the length would see two requests (request smuggling)."""
    smuggled = (
        f"POST {PATH} HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n"
        "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /healthz HTTP/1.1\r\nHost: a\r\n\r\n"
    )
    with serve() as client, client.connect() as connection:
        connection.sendall(smuggled.encode())
        assert b" 400 " in connection.recv(4096).partition(b"\r\n")[0]


def test_running_requests_end_before_the_server_does() -> None:
    """New connections are refused meanwhile."""
    answers: list[Response] = []

    def predict(client: Client) -> None:
        answers.append(client.predict({"instances": ["a"]}))

    with serve() as client:
        client.model.gate.clear()
        thread = threading.Thread(target=predict, args=[client])
        thread.start()
        wait_for(client.model.started.is_set)
        server = client.server
        server.handle_exit(signal.SIGTERM, None)

        def is_closed() -> bool:
            try:
                client.connect().close()
            except ConnectionRefusedError:
                return True
            return False

        wait_for(is_closed)
        assert answers == []
        client.model.gate.set()
        thread.join(20)
    assert [(answer.status, answer.body) for answer in answers] == [(200, {"predictions": ["A"]})]


def test_the_end_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request that is still running gets an error."""
    monkeypatch.setattr(server_module, "DRAIN_TIMEOUT", 1)
    answers: list[Response] = []
    with serve() as client:
        client.model.gate.clear()
        thread = threading.Thread(
            target=lambda: answers.append(client.predict({"instances": ["a"]}))
        )
        thread.start()
        wait_for(client.model.started.is_set)
        client.server.handle_exit(signal.SIGTERM, None)
        client.thread.join(15)
        assert not client.thread.is_alive()
        thread.join(20)
    assert [(answer.status, answer.body) for answer in answers] == [
        (503, {"error": "the server is stopping"})
    ]


def test_slow_but_steady_readers_get_the_whole_response(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "WRITE_TIMEOUT", 0.3)
    with serve(max_body_bytes=1 << 25) as client, client.connect() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
        content = {"signature_name": "options", "inputs": {"text": ["a" * 10_000], "times": 1500}}
        connection.sendall(make_request(content))
        size = 0
        while size < 15_000_000 and (part := connection.recv(1 << 20)):
            size += len(part)
            time.sleep(0.002)
        assert size > 15_000_000


def test_the_second_signal_does_not_wait() -> None:
    with serve() as client:
        client.model.gate.clear()
        with client.connect() as connection:
            connection.sendall(make_request({"instances": ["a"]}))
            wait_for(client.model.started.is_set)
            client.server.handle_exit(signal.SIGTERM, None)
            client.server.handle_exit(signal.SIGTERM, None)
            client.thread.join(20)
            assert not client.thread.is_alive()
            assert client.server.force_exit


def test_models_are_exchanged_without_failed_requests() -> None:
    """Four clients send requests while the limits, and so the queue, change ten times."""
    with serve() as client:
        answers: list[tuple[int, Any]] = []
        is_done = threading.Event()

        def send(text: str) -> None:
            while not is_done.is_set():
                answer = client.predict({"instances": [text]})
                answers.append((answer.status, answer.body == {"predictions": [text.upper()]}))

        threads = [threading.Thread(target=send, args=[text]) for text in "abcd"]
        for thread in threads:
            thread.start()
        for size in range(10):
            client.limits["max_batch_size"] = 10 + size
            client.update()
        is_done.set()
        for thread in threads:
            thread.join(20)
        (version,) = client.manager
        assert version.limits.max_batch_size == 19
    assert len(answers) > 4
    assert {*answers} == {(200, True)}
