"""The server process: an application on a port, with limits for slow connections."""

from __future__ import annotations

import asyncio
import json
import logging
import signal
import socket
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

import h11

from attention_zoo.extras import explain_missing_package
from attention_zoo.serving.logs import log
from attention_zoo.serving.model_manager import ModelManager

with explain_missing_package():
    import uvicorn
    from uvicorn.protocols.http.h11_impl import H11Protocol

HEADER_TIMEOUT = 5.0
"""Maximum seconds in which the header of a request must arrive, also after the last response."""

WRITE_TIMEOUT = 10.0
"""Maximum seconds in which a client must read a part of a response."""

DRAIN_TIMEOUT = 30
"""Maximum seconds that requests may take to end after SIGTERM."""


class LimitedProtocol(H11Protocol):
    """HTTP protocol that closes connections of clients that send headers or read too slowly.

    uvicorn closes idle connections only after a response; connections without a complete request
    would stay open, and so would those of clients that do not read their response.
    """

    _header_timer: asyncio.TimerHandle | None = None
    _write_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._start_header_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        for timer in (self._header_timer, self._write_timer):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        self._start_header_timer()
        super().on_response_complete()

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._write_timer is None:
            self._write_timer = self.loop.call_later(WRITE_TIMEOUT, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None

    def send_400_response(self, msg: str) -> None:
        """Answer a malformed request with the JSON of other errors, and close the connection."""
        body = json.dumps({"error": "the request is not valid HTTP"}).encode()
        headers = [
            ("content-type", "application/json"),
            ("content-length", str(len(body))),
            ("connection", "close"),
        ]
        events = h11.Response(status_code=400, headers=headers), h11.Data(body), h11.EndOfMessage()
        for event in events:
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    def _start_header_timer(self) -> None:
        if self._header_timer is not None:
            self._header_timer.cancel()
        cycle = self.cycle  # replaced once a header is complete

        def close() -> None:
            if self.cycle is cycle:
                self.transport.close()

        self._header_timer = self.loop.call_later(HEADER_TIMEOUT, close)


class Server(uvicorn.Server):
    """uvicorn server that loads models while it runs.

    The first SIGINT or SIGTERM lets the running requests end, and `run` returns; the second one
    does not wait for them. SIGHUP updates the models.

    Args:
        config: configuration of uvicorn.
        manager: the models. If they cannot be loaded at the start, `run` returns.
        on_ready: called once the models are loaded.

    Attributes:
        errors: the errors of the first load.
    """

    def __init__(
        self, config: uvicorn.Config, manager: ModelManager, on_ready: Callable[[], None]
    ) -> None:
        super().__init__(config)
        self.errors: list[str] = []
        self._manager, self._on_ready = manager, on_ready
        self._tasks: set[asyncio.Task[None]] = set()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self.force_exit, self.should_exit = self.should_exit, True

    async def startup(self, sockets: Any = None) -> None:
        await super().startup(sockets)
        loop = asyncio.get_running_loop()
        if threading.current_thread() is threading.main_thread():
            loop.add_signal_handler(signal.SIGHUP, lambda: self._start(self._update()))
        self._start(self._load())

    async def _load(self) -> None:
        self.errors = await self._manager.update()
        if self.errors:
            self.should_exit = True
        elif not self.should_exit:
            self._on_ready()

    async def _update(self) -> None:
        for error in await self._manager.update():
            log("the update of the models failed", logging.ERROR, reason=error)

    def _start(self, coroutine: Any) -> None:
        """Run a coroutine; the loop has only a weak reference to its task."""
        task = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def bind(host: str, port: int) -> socket.socket:
    """Return a TCP socket that is bound to an address but does not listen yet.

    Args:
        host: address.
        port: port; 0 for any.

    Raises:
        OSError: the address is in use or unknown.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sets TCP_NODELAY only if the protocol is given; else a response takes 40 ms more.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
    except BaseException:
        listener.close()
        raise
    return listener


def make_server(
    app: Any, manager: ModelManager, on_ready: Callable[[], None] = lambda: None
) -> Server:
    """Return a server of an application; `run(sockets=[...])` serves until SIGINT or SIGTERM.

    Args:
        app: an application of `make_app`.
        manager: its models, which the server loads when it starts, and updates on SIGHUP.
        on_ready: called once the models are loaded.
    """
    config = uvicorn.Config(
        app,
        http=LimitedProtocol,
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=DRAIN_TIMEOUT,
    )
    return Server(config, manager, on_ready)
