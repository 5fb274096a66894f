"""The HTTP application: TensorFlow Serving's REST API for loaded exports."""

from __future__ import annotations

import asyncio
import logging
import uuid
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from attention_zoo.extras import explain_missing_package
from attention_zoo.serving.batching import (
    BatchQueue,
    DeadlineError,
    QueueClosedError,
    QueueFullError,
)
from attention_zoo.serving.rest import PredictRequest, format_response, parse_request
from attention_zoo.serving.served_model import BatchKey, RejectedInputError, ServedModel

with explain_missing_package():
    from fastapi import FastAPI, Request, Response
    from fastapi.responses import JSONResponse
    from starlette.exceptions import HTTPException
    from starlette.requests import ClientDisconnect

LOGGER = logging.getLogger(__name__)


@dataclass(frozen=True)
class Limits:
    """Limits of a server.

    Attributes:
        max_body_bytes: maximum size of a body, also after unpacking.
        body_timeout: maximum seconds in which a body must arrive.
        timeout: maximum seconds of a request after its body has arrived.
        max_batch_size: maximum number of rows of a request and of a batch.
        max_wait: maximum seconds that a request waits for others to share a batch.
        max_waiting: maximum number of rows that wait for a model.
        max_length: maximum of the option `max_length`, the number of tokens to generate.
    """

    max_body_bytes: int = 1 << 20
    body_timeout: float = 10.0
    timeout: float = 30.0
    max_batch_size: int = 32
    max_wait: float = 0.005
    max_waiting: int = 256
    max_length: int = 1024


def make_app(models: Mapping[str, ServedModel], limits: Limits | None = None) -> FastAPI:
    """Return an application that serves models.

    | method and path | response |
    |---|---|
    | `POST /v1/models/NAME:predict` | predictions of the rows of a body |
    | `GET /v1/models/NAME` | state of the model |
    | `GET /v1/models/NAME/metadata` | inputs of its signatures |
    | `GET /healthz` | 200 while the process runs |
    | `GET /readyz` | 200 while requests are accepted |

    The body of an error is `{"error": "..."}`. Every response has the header `X-Request-Id`.

    Args:
        models: the models by name.
        limits: limits of the requests.
    """
    limits = limits or Limits()
    queues: dict[str, BatchQueue] = {}

    @asynccontextmanager
    async def run_queues(app: FastAPI) -> AsyncIterator[None]:
        options = limits.max_batch_size, limits.max_wait, limits.max_waiting
        queues.update({name: BatchQueue(model.run, *options) for name, model in models.items()})
        yield
        await asyncio.gather(*(queue.close() for queue in queues.values()))

    app = FastAPI(title="attention_zoo", lifespan=run_queues, docs_url=None, redoc_url=None)
    app.router.redirect_slashes = False
    _handle_errors(app)

    @app.get("/healthz")
    async def check_health() -> dict[str, str]:
        return {"status": "ok"}

    @app.get("/readyz")
    async def check_readiness() -> dict[str, str]:
        if not queues:
            raise HTTPException(503, "the models are not loaded")
        return {"status": "ok"}

    def find(name: str) -> ServedModel:
        if name not in models:
            raise HTTPException(404, f"unknown model {name!r}; known: {', '.join(sorted(models))}")
        return models[name]

    @app.get("/v1/models/{name}")
    async def get_status(name: str) -> dict[str, Any]:
        find(name)
        status = {"error_code": "OK", "error_message": ""}
        return {"model_version_status": [{"version": "1", "state": "AVAILABLE", "status": status}]}

    @app.get("/v1/models/{name}/metadata")
    async def get_metadata(name: str) -> dict[str, Any]:
        return {"model_spec": {"name": name, "version": "1"}, "metadata": _describe(find(name))}

    @app.post("/v1/models/{name}:predict")
    async def predict(name: str, request: Request) -> Response:
        model = find(name)
        body = await _read_body(request, limits)
        try:
            # In threads, so that large bodies do not delay other requests.
            arguments = body, model.signatures, limits.max_batch_size
            parsed = await asyncio.to_thread(parse_request, *arguments)
        except ValueError as error:
            raise HTTPException(400, str(error)) from None
        length = parsed.options.get("max_length")
        if length is not None and length > limits.max_length:
            raise HTTPException(400, f"inputs.max_length must be at most {limits.max_length}")
        try:
            outputs = await _compute(model, queues[name], parsed, limits.timeout)
        except RejectedInputError as error:
            raise HTTPException(400, str(error)) from None
        content = await asyncio.to_thread(format_response, outputs, parsed.is_by_row)
        return Response(content, media_type="application/json")

    return app


async def _compute(
    model: ServedModel, queue: BatchQueue, request: PredictRequest, timeout: float
) -> list[Any]:
    """Return the outputs of each row of a request."""
    positions: dict[BatchKey, list[int]] = {}
    for position, key in enumerate(model.get_batch_keys(request)):
        positions.setdefault(key, []).append(position)
    tasks = [
        asyncio.create_task(
            queue.submit(key, [request.rows[position] for position in part], timeout)
        )
        for key, part in positions.items()
    ]
    try:
        parts = await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
    outputs: dict[int, Any] = {}
    for part, results in zip(positions.values(), parts, strict=True):
        outputs.update(zip(part, results, strict=True))
    return [outputs[position] for position in range(len(request.rows))]


async def _read_body(request: Request, limits: Limits) -> bytes:
    """Return the body of a request, unpacked if it is compressed with gzip."""
    limit = limits.max_body_bytes
    too_large = f"the body must have at most {limit:,} bytes"
    encoding = request.headers.get("content-encoding", "identity").lower()
    if encoding not in ("identity", "gzip"):
        raise HTTPException(415, f"content-encoding must be identity or gzip, got {encoding!r}")
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared) > limit:
        raise HTTPException(413, too_large)
    body = bytearray()
    try:
        async with asyncio.timeout(limits.body_timeout):
            async for chunk in request.stream():
                body += chunk
                if len(body) > limit:
                    raise HTTPException(413, too_large)
    except TimeoutError:
        raise HTTPException(408, f"the body must arrive in {limits.body_timeout:g} s") from None
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


def _describe(model: ServedModel) -> dict[str, Any]:
    """Return the inputs of all signatures as JSON."""
    return {
        "signature_def": {
            name: {
                key: {
                    "dtype": "string" if spec.dtype.kind == "O" else spec.dtype.name,
                    "shape": [-1 if size is None else size for size in spec.shape],
                    "optional": spec.is_optional,
                }
                for key, spec in specs.items()
            }
            for name, specs in model.signatures.items()
        }
    }


def _handle_errors(app: FastAPI) -> None:
    """Add the request id to all responses, and turn errors into responses."""
    busy = {"Retry-After": "1"}

    @app.middleware("http")
    async def add_request_id(
        request: Request, call_next: Callable[[Request], Awaitable[Response]]
    ) -> Response:
        request_id = uuid.uuid4().hex
        try:
            response = await call_next(request)
        except QueueFullError:
            response = _make_error(503, "too many requests wait for this model", busy)
        except QueueClosedError:
            response = _make_error(503, "the server is stopping", busy)
        except DeadlineError:
            response = _make_error(504, "no result before the deadline of the request")
        except ClientDisconnect:
            response = _make_error(400, "the client disconnected")
        except Exception:
            LOGGER.exception("request %s failed", request_id)
            response = _make_error(500, "internal error")
        response.headers["X-Request-Id"] = request_id
        return response

    @app.exception_handler(HTTPException)
    async def format_error(request: Request, error: HTTPException) -> Response:
        return _make_error(error.status_code, str(error.detail), error.headers)


def _make_error(status: int, message: str, headers: Mapping[str, str] | None = None) -> Response:
    return JSONResponse({"error": message}, status, dict(headers or {}))
