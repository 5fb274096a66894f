"""The server process: an application on a port, with limits for slow connections."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import signal
import socket
import sys
import threading
import time
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
"""Seconds in which a client must read at least `MIN_READ_BYTES` of a response, or all of it."""

MIN_READ_BYTES = 1 << 16

MAX_CONNECTIONS = 1000
"""Maximum number of open connections; more are closed at once."""

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
        if len(self.connections) > MAX_CONNECTIONS:
            transport.abort()
        else:
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
        self._watch_writing(sys.maxsize)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._write_timer is not None:
            self._write_timer.cancel()

    def _watch_writing(self, previous_size: int) -> None:
        """Close the connection if the client has read too little; check it again later."""
        size = self.transport.get_write_buffer_size()
        if size > previous_size - MIN_READ_BYTES:
            self.transport.abort()
        else:
            self._write_timer = self.loop.call_later(WRITE_TIMEOUT, self._watch_writing, size)

    def send_400_response(self, msg: str) -> None:
        """Respond to a malformed request with a JSON error, and close the connection."""
        if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE):  # a response was sent before
            self.transport.close()
            return
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
                self.transport.close()  # waits until the client has read what was sent
                self._header_timer = self.loop.call_later(WRITE_TIMEOUT, self.transport.abort)

        self._header_timer = self.loop.call_later(HEADER_TIMEOUT, close)


class Server(uvicorn.Server):
    """uvicorn server that loads models while it runs.

    The first SIGINT or SIGTERM lets the running requests end, and `run` returns; the second one
    does not wait for them. SIGHUP updates the models. If `force_exit` is set after `run`, a call of
    a model may still be running in a thread.

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

    async def shutdown(self, sockets: Any = None) -> None:
        """Let requests end, for at most `DRAIN_TIMEOUT` or until the second signal."""
        task = asyncio.ensure_future(super().shutdown(sockets))
        end = time.monotonic() + DRAIN_TIMEOUT + 1
        while not task.done() and not self.force_exit:
            self.force_exit = time.monotonic() > end
            await asyncio.wait({task}, timeout=0.1)

    async def _load(self) -> None:
        self.errors = await self._manager.update()
        if self.errors:
            self.should_exit = True
        elif not self.should_exit:
            self._on_ready()

    async def _update(self) -> None:
        for error in await self._manager.update():
            log("the update of the models failed", logging.ERROR, reason=error)
        await self._manager.wait_for_unloading()
        freeze_objects()

    def _start(self, coroutine: Any) -> None:
        """Run a coroutine; the loop has only a weak reference to its task."""
        task = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def import_tensorflow() -> None:
    """Import TensorFlow without Keras.

    TensorFlow imports Keras to register its optimizers, which takes 2 s. Exports need none of them.
    """
    if sys.modules.keys().isdisjoint({"keras", "tensorflow"}):
        sys.modules["keras"] = None  # type: ignore[assignment]  # its import fails
        try:
            import tensorflow

            # The folder of `tf.keras` is unknown.
            tensorflow.__path__ = [path for path in tensorflow.__path__ if path]
        finally:
            del sys.modules["keras"]


def freeze_objects() -> None:
    """Exclude the present objects from garbage collection, which would delay requests by 0.5 s."""
    gc.unfreeze()
    gc.collect()
    gc.freeze()
    gc.enable()


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
