"""Request ids, access control, logs and metrics of all requests."""

from __future__ import annotations

import asyncio
import hmac
import logging
import time
import uuid
from collections.abc import Collection, Mapping
from typing import Any

from attention_zoo.extras import explain_missing_package
from attention_zoo.serving.logs import log
from attention_zoo.serving.metrics import Metrics

with explain_missing_package():
    from fastapi.responses import JSONResponse
    from starlette.datastructures import Headers
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

VERSION_KEY = "attention_zoo.loaded"
"""Key of the scope: the version of a model that processes the request."""

NUM_ROWS_KEY = "attention_zoo.num_rows"
"""Key of the scope: the number of rows of the request."""

RETRY_HEADERS = {"Retry-After": "1"}

PUBLIC_PATHS = ("/healthz", "/readyz")
"""Paths that need no token; `attention-zoo demo` adds those of its page."""


UNLOGGED_PATHS = (*PUBLIC_PATHS, "/metrics")
"""Paths that other programs request every few seconds."""


class RequestMiddleware:
    """ASGI middleware that assigns request ids, and checks, logs and counts requests.

    Args:
        app: the application.
        metrics: counts the responses.
        token: bearer token that requests must have; None: no token.
        hosts: host names that the headers `Host` and `Origin` may have, in lower case; None: all.
            This prevents DNS rebinding and cross-site requests.
        public_paths: paths that need no token; those that end with a slash are prefixes.
    """

    def __init__(
        self,
        app: ASGIApp,
        metrics: Metrics,
        token: str | None = None,
        hosts: Collection[str] | None = None,
        public_paths: Collection[str] = PUBLIC_PATHS,
    ) -> None:
        self.app, self._metrics, self._token, self._hosts = app, metrics, token, hosts
        self._public_paths = public_paths

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        # Ranges of files are ignored, which HTTP permits: their errors would not be JSON.
        scope["headers"] = [header for header in scope["headers"] if header[0] != b"range"]
        request_id, start, status = uuid.uuid4().hex, time.monotonic(), 0

        async def send_with_id(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [
                    *message.get("headers", ()),
                    (b"x-request-id", request_id.encode()),
                ]
            await send(message)

        try:
            app = self._reject(scope) or self.app
            await app(scope, receive, send_with_id)
        except asyncio.CancelledError:  # at the end of the time in which the server must stop
            if not status:
                response = make_error(503, "the server is stopping", RETRY_HEADERS)
                await response(scope, receive, send_with_id)
        except Exception:
            log("a request failed", logging.ERROR, exc_info=True, request_id=request_id)
            if not status:
                await make_error(500, "internal error")(scope, receive, send_with_id)
        finally:
            self._record(scope, request_id, status, time.monotonic() - start)

    def _reject(self, scope: Scope) -> JSONResponse | None:
        """Return the error of a request with a wrong host or token."""
        headers = Headers(scope=scope)
        if self._hosts is not None:
            host = _parse_host(headers.get("host", ""))
            if host not in self._hosts:
                return make_error(
                    403, f"unknown host {host[:50]!r}; the option --allowed-host permits it"
                )
            origin = headers.get("origin")
            if origin and _parse_host(origin.partition("://")[2]) not in self._hosts:
                return make_error(403, "pages of other origins must not send requests")
        if self._token is None or self._is_public(scope["path"]):
            return None
        expected = f"Bearer {self._token}".encode()
        if hmac.compare_digest(headers.get("authorization", "").encode("latin-1"), expected):
            return None
        challenge = {"WWW-Authenticate": "Bearer"}
        return make_error(401, "the header Authorization must have the bearer token", challenge)

    def _is_public(self, path: str) -> bool:
        return any(
            path.startswith(public) if public.endswith("/") and public != "/" else path == public
            for public in self._public_paths
        )

    def _record(self, scope: Scope, request_id: str, status: int, seconds: float) -> None:
        """Log and count a request. The path is that of the route, without parts of users."""
        loaded: Any = scope.get(VERSION_KEY)
        labels = (loaded.name, str(loaded.number)) if loaded else ("", "")
        self._metrics.requests.labels(*labels, str(status)).inc()
        route = getattr(scope.get("route"), "path", None)
        if route in UNLOGGED_PATHS:
            return
        fields: dict[str, Any] = {"request_id": request_id, "method": scope["method"][:16]}
        fields["route"] = route
        if loaded:
            self._metrics.seconds.labels(*labels).observe(seconds)
            fields |= {"model": loaded.name, "version": loaded.number}
            fields["rows"] = scope.get(NUM_ROWS_KEY)
        log("request", status=status, ms=round(1000 * seconds, 1), **fields)


def make_error(status: int, message: str, headers: Mapping[str, str] | None = None) -> JSONResponse:
    """Return a response whose body is `{"error": message}`."""
    return JSONResponse({"error": message}, status, dict(headers or {}))


def _parse_host(header: str) -> str:
    """Return the name in a header `Host`, without the port."""
    if header.startswith("["):
        return header.partition("]")[0].lower() + "]"
    return header.partition(":")[0].lower()
