"""The HTTP application: TensorFlow Serving's REST API for loaded exports."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from typing import Any

from attention_zoo.extras import explain_missing_package
from attention_zoo.serving.batching import (
    BatchQueue,
    DeadlineError,
    QueueClosedError,
    QueueFullError,
)
from attention_zoo.serving.bodies import decompress, read_body, run_until_disconnect
from attention_zoo.serving.config import MAX_IMAGE_BYTES, MAX_TEXT_BYTES, Limits
from attention_zoo.serving.metrics import Metrics
from attention_zoo.serving.middleware import (
    NUM_ROWS_KEY,
    PUBLIC_PATHS,
    RETRY_HEADERS,
    VERSION_KEY,
    RequestMiddleware,
    make_error,
)
from attention_zoo.serving.model_manager import (
    LoadedVersion,
    ModelManager,
    NotReadyError,
    UnknownModelError,
)
from attention_zoo.serving.openapi import PREDICT, VERSION, describe_api
from attention_zoo.serving.responses import count_bytes, find_row_error, format_response
from attention_zoo.serving.rest import PredictRequest, parse_request
from attention_zoo.serving.served_model import BatchKey, RejectedInputError
from attention_zoo.serving.value_limits import check_limits

with explain_missing_package():
    from fastapi import FastAPI, Request, Response
    from fastapi.responses import PlainTextResponse
    from fastapi_offline import FastAPIOffline
    from starlette.exceptions import HTTPException
    from starlette.requests import ClientDisconnect

SMALL_BODY = 1 << 14  # bytes that are parsed in less time than another thread needs to start


def make_app(
    manager: ModelManager,
    metrics: Metrics,
    *,
    token: str | None = None,
    hosts: Collection[str] | None = None,
    public_paths: Collection[str] = (),
) -> FastAPI:
    """Return an application that serves models.

    | method and path | response |
    |---|---|
    | `GET /v1/models` | the models |
    | `POST /v1/models/NAME[/versions/N]:predict` | predictions of the rows of a body |
    | `GET /v1/models/NAME[/versions/N]` | states of the versions |
    | `GET /v1/models/NAME[/versions/N]/metadata` | inputs and outputs of the signatures |
    | `GET /healthz` | 200 while the process runs |
    | `GET /readyz` | 200 while requests are accepted |
    | `GET /metrics` | metrics in the Prometheus text format |
    | `GET /openapi.json`, `GET /docs` | OpenAPI description, and a page for it |

    The body of an error is `{"error": "..."}`. Every response has the header `X-Request-Id`.

    Args:
        manager: the models.
        metrics: counts requests.
        token: bearer token that requests must have, but not those to `/healthz` and `/readyz`.
        hosts: host names that the header `Host` may have; None: all.
        public_paths: further paths that need no token.
    """

    @asynccontextmanager
    async def close_models(app: FastAPI) -> AsyncIterator[None]:
        yield
        await manager.close()

    app = FastAPIOffline(
        title="attention_zoo", lifespan=close_models, redoc_url=None, static_url="/docs/static"
    )
    app.router.redirect_slashes = False
    public_paths = (*PUBLIC_PATHS, *public_paths)
    app.openapi = lambda: describe_api(  # type: ignore[method-assign]
        app, None if token is None else public_paths
    )
    _handle_errors(app)
    _add_state(app, manager, metrics)
    _add_models(app, manager)
    app.add_middleware(
        RequestMiddleware,
        metrics=metrics,
        token=token,
        hosts=hosts,
        public_paths=public_paths,
    )
    return app


def _add_state(app: FastAPI, manager: ModelManager, metrics: Metrics) -> None:
    """Add the routes that describe the process."""

    @app.get("/healthz")
    async def check_health() -> dict[str, str]:
        return {"status": "ok"}

    @app.get("/readyz")
    async def check_readiness() -> dict[str, str]:
        if not manager.is_ready:
            raise HTTPException(503, "the models are still loading; retry later", RETRY_HEADERS)
        return {"status": "ok"}

    @app.get("/metrics", response_class=PlainTextResponse)
    async def get_metrics() -> Response:
        return Response(metrics.format(), media_type="text/plain; version=0.0.4; charset=utf-8")


def _add_models(app: FastAPI, manager: ModelManager) -> None:
    """Add the routes of the models."""

    @app.get("/v1/models")
    async def list_models() -> dict[str, Any]:
        return {"models": manager.list_models()}

    @app.get("/v1/models/{name}")
    @app.get("/v1/models/{name}/versions/{version}", openapi_extra=VERSION)
    async def get_status(name: str, request: Request) -> dict[str, Any]:
        statuses = manager.get_statuses(name, _get_version(request))
        return {
            "model_version_status": [
                {
                    "version": str(number),
                    "state": status.state,
                    "status": {
                        "error_code": "UNKNOWN" if status.error else "OK",
                        "error_message": status.error,
                    },
                }
                for number, status in statuses.items()
            ]
        }

    # Before the metadata, whose pattern would have "NAME/versions" as a name.
    @app.post("/v1/models/{name}:predict", openapi_extra=PREDICT)
    @app.post("/v1/models/{name}/versions/{version}:predict", openapi_extra=PREDICT | VERSION)
    async def predict(name: str, request: Request) -> Response:
        loaded = manager.find(name, _get_version(request))
        with loaded.hold():
            return await _predict(loaded, request)

    @app.get("/v1/models/{name}/metadata")
    @app.get("/v1/models/{name}/versions/{version}/metadata", openapi_extra=VERSION)
    async def get_metadata(name: str, request: Request) -> dict[str, Any]:
        loaded = manager.find(name, _get_version(request))
        spec = {"name": name, "signature_name": "", "version": str(loaded.number)}
        signatures = {"signature_def": {"signature_def": loaded.model.metadata}}
        return {"model_spec": spec, "metadata": signatures}


def _get_version(request: Request) -> int | None:
    """Return the number of the version in a path; UnknownModelError if it is no number."""
    version = request.path_params.get("version")
    if version is None:
        return None
    if not (version.isascii() and version.isdecimal() and len(version) < 20):
        raise UnknownModelError(f"version must be a non-negative integer, got {version[:50]!r}")
    return int(version)


async def _predict(loaded: LoadedVersion, request: Request) -> Response:
    """Return the response to a predict request."""
    model, limits = loaded.model, loaded.limits
    request.scope[VERSION_KEY] = loaded
    max_bytes = limits.max_body_bytes
    if max_bytes is None:
        max_bytes = MAX_IMAGE_BYTES if model.has_images else MAX_TEXT_BYTES
    body, is_gzip = await read_body(request, max_bytes, limits.body_timeout)
    loop = asyncio.get_running_loop()
    deadline = loop.time() + limits.timeout
    size = SMALL_BODY if is_gzip else len(body)
    try:
        async with asyncio.timeout_at(deadline), loaded.parsing:
            parsed = await _call(size, _parse, body, is_gzip, max_bytes, model, limits)
    except TimeoutError:
        raise DeadlineError from None
    except ValueError as error:
        raise HTTPException(400, str(error)) from None
    request.scope[NUM_ROWS_KEY] = len(parsed.rows)
    compute = _compute(model, loaded.queue, parsed, deadline - loop.time())
    try:
        outputs = await run_until_disconnect(request, compute)
    except RejectedInputError as error:
        raise HTTPException(400, str(error)) from None
    row_error = find_row_error(outputs, parsed)
    if row_error is not None:
        raise HTTPException(400, row_error)
    num_bytes = sum(map(count_bytes, (array for row in outputs for array in row.values())))
    content = await _call(num_bytes, format_response, outputs, parsed.is_by_row, parsed.is_joint)
    return Response(content, media_type="application/json")


def _parse(
    body: bytes, is_gzip: bool, max_bytes: int, model: Any, limits: Limits
) -> PredictRequest:
    """Parse a body, and check the limits of its values."""
    if is_gzip:
        body = decompress(body, max_bytes)
    request = parse_request(body, model.signatures, limits.max_batch_size, model.joint_signatures)
    check_limits(request, limits.max_length, limits.max_image_pixels)
    return request


async def _call(size: int, function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function, in a thread if its data are large, so that it delays no other request."""
    if size < SMALL_BODY:
        return function(*arguments)
    return await asyncio.to_thread(function, *arguments)


async def _compute(
    model: Any, queue: BatchQueue, request: PredictRequest, timeout: float
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


def _handle_errors(app: FastAPI) -> None:
    """Turn errors into responses."""

    def add(error: type[Exception], format_error: Callable[[Any], Response]) -> None:
        async def handle(request: Request, exception: Exception) -> Response:
            return format_error(exception)

        app.add_exception_handler(error, handle)

    add(HTTPException, lambda e: make_error(e.status_code, str(e.detail), e.headers))
    add(UnknownModelError, lambda e: make_error(404, str(e)))
    add(NotReadyError, lambda e: make_error(503, str(e), RETRY_HEADERS))
    add(
        QueueFullError,
        lambda e: make_error(
            503, "the queue of the model is full (limit max_waiting); retry later", RETRY_HEADERS
        ),
    )
    add(QueueClosedError, lambda e: make_error(503, "the server is stopping", RETRY_HEADERS))
    add(DeadlineError, lambda e: make_error(504, "no result before the deadline of the request"))
    add(ClientDisconnect, lambda e: make_error(400, "the client disconnected"))
