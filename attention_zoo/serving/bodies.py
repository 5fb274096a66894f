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


async def read_body(request: Request, limit: int, timeout: float) -> bytes:
    """Return the body of a request, unpacked if it is compressed with gzip.

    Args:
        request: the request.
        limit: maximum number of bytes, also after unpacking.
        timeout: maximum seconds in which the body must arrive.

    Raises:
        HTTPException: 408 for a slow sender, 413 for a large body, 415 for another encoding, 400
            for damaged gzip.
        ClientDisconnect: the client disconnects.
    """
    too_large = f"the body must have at most {limit:,} bytes"
    encoding = request.headers.get("content-encoding", "identity").lower()
    if encoding not in ("identity", "gzip"):
        raise HTTPException(415, f"content-encoding must be identity or gzip, got {encoding!r}")
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared) > limit:
        raise HTTPException(413, too_large)
    body = bytearray()
    try:
        async with asyncio.timeout(timeout):
            async for chunk in request.stream():
                body += chunk
                if len(body) > limit:
                    raise HTTPException(413, too_large)
    except TimeoutError:
        raise HTTPException(408, f"the body must arrive in {timeout:g} s") from None
    if encoding == "identity":
        return bytes(body)
    unpacker = zlib.decompressobj(wbits=31)
    try:
        unpacked = unpacker.decompress(bytes(body), limit + 1)
    except zlib.error:
        raise HTTPException(400, "the body is not gzip") from None
    if len(unpacked) > limit:
        raise HTTPException(413, too_large)
    if not unpacker.eof or unpacker.unused_data:
        raise HTTPException(400, "the body is not one complete gzip member")
    return unpacked


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
