"""The server process: an application on a port, with limits for slow connections."""

from __future__ import annotations

import asyncio
from types import FrameType
from typing import Any

from attention_zoo.extras import explain_missing_package

with explain_missing_package():
    import uvicorn
    from uvicorn.protocols.http.h11_impl import H11Protocol

HEADER_TIMEOUT = 5.0
"""Maximum seconds in which the header of a request must arrive, also after the last response."""

DRAIN_TIMEOUT = 30
"""Maximum seconds that requests may take to end after SIGTERM."""


class HeaderTimeoutProtocol(H11Protocol):
    """HTTP protocol that closes connections whose next header does not arrive in time.

    uvicorn closes idle connections only after a response; connections without a complete request
    would stay open.
    """

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._start_timer()

    def on_response_complete(self) -> None:
        self._start_timer()
        super().on_response_complete()

    def _start_timer(self) -> None:
        cycle = self.cycle  # replaced once a header is complete

        def close() -> None:
            if self.cycle is cycle:
                self.transport.close()

        self.loop.call_later(HEADER_TIMEOUT, close)


class Server(uvicorn.Server):
    """uvicorn server whose `run` returns after a signal, instead of raising the signal again.

    The first SIGINT or SIGTERM lets the running requests end; the second one does not.
    """

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self.force_exit, self.should_exit = self.should_exit, True


def make_server(app: Any) -> Server:
    """Return a server of an application; `run(sockets=[...])` serves until SIGINT or SIGTERM.

    Args:
        app: an application of `make_app`.
    """
    config = uvicorn.Config(
        app,
        http=HeaderTimeoutProtocol,
        ws="none",
        lifespan="on",
        log_level="warning",
        server_header=False,
        timeout_graceful_shutdown=DRAIN_TIMEOUT,
    )
    return Server(config)
