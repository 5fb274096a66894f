"""Bodies of requests: limits of size and time, compression, and clients that disconnect."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Coroutine
from typing import Any, TypeVar

from attention_zoo.extras import explain_missing_package

with explain_missing_package():
    from fastapi import Request
    from starlette.exceptions import HTTPException
    from starlette.requests import ClientDisconnect

Result = TypeVar("Result")


async def read_body(request: Request, limit: int, timeout: float) -> tuple[bytes, bool]:
    """Return the body of a request, and whether it is compressed with gzip.

    Args:
        request: the request.
        limit: maximum number of bytes.
        timeout: maximum seconds in which the body must arrive.

    Raises:
        HTTPException: 408 for a slow sender, 413 for a large body, 415 for another encoding.
        ClientDisconnect: the client disconnects.
    """
    too_large = f"the body must have at most {limit:,} bytes"
    encoding = request.headers.get("content-encoding", "identity").lower()
    if encoding not in ("identity", "gzip"):
        raise HTTPException(415, f"content-encoding must be identity or gzip, got {encoding!r}")
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared) > limit:
        raise HTTPException(413, f"{too_large}, got {int(declared):,}")
    body = bytearray()
    try:
        async with asyncio.timeout(timeout):
            async for chunk in request.stream():
                body += chunk
                if len(body) > limit:
                    raise HTTPException(413, too_large)
    except TimeoutError:
        raise HTTPException(408, f"the body must arrive in {timeout:g} s") from None
    return bytes(body), encoding == "gzip"


def decompress(body: bytes, limit: int) -> bytes:
    """Return the content of a gzip body.

    Args:
        body: the compressed bytes.
        limit: maximum number of bytes of the content.

    Raises:
        HTTPException: 400 for damaged gzip, 413 for a large content.
    """
    decompressor = zlib.decompressobj(wbits=31)
    try:
        content = decompressor.decompress(body, limit + 1)
    except zlib.error:
        raise HTTPException(
            400, "the body is not valid gzip; compress it, or remove the header Content-Encoding"
        ) from None
    if len(content) > limit:
        raise HTTPException(413, f"the body must have at most {limit:,} bytes")
    if not decompressor.eof or decompressor.unused_data:
        raise HTTPException(400, "the body is not one complete gzip member")
    return content


async def run_until_disconnect(request: Request, coroutine: Coroutine[Any, Any, Result]) -> Result:
    """Return the result of a coroutine, which is cancelled if the client disconnects.

    Args:
        request: a request whose body was read.
        coroutine: computes the response.

    Raises:
        ClientDisconnect: the client has disconnected.
    """

    async def wait_for_disconnect() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    task = asyncio.ensure_future(coroutine)
    disconnect = asyncio.ensure_future(wait_for_disconnect())
    try:
        await asyncio.wait({task, disconnect}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise ClientDisconnect
        return task.result()
    finally:
        disconnect.cancel()
        task.cancel()
        await asyncio.gather(task, disconnect, return_exceptions=True)
