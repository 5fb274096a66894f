"""The OpenAPI description of the server."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from attention_zoo.extras import explain_missing_package

with explain_missing_package():
    from fastapi import FastAPI
    from fastapi.openapi.utils import get_openapi

_VALUES = {
    "type": "object",
    "description": "By input: one value for each row, and one value for each option.",
    "additionalProperties": True,
}

PREDICT: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "description": "JSON, or gzip-compressed JSON with `Content-Encoding: gzip`.",
        "content": {
            "application/json": {
                "schema": {
                    "type": "object",
                    "properties": {
                        "signature_name": {"type": "string", "default": "serving_default"},
                        "instances": {
                            "type": "array",
                            "minItems": 1,
                            "description": "One entry for each row: an object of values by input,"
                            ' or the value of the only input. Bytes are `{"b64": "..."}`.',
                            "items": {},
                        },
                        "inputs": _VALUES,
                    },
                    "oneOf": [{"required": ["instances"]}, {"required": ["inputs"]}],
                    "additionalProperties": False,
                }
            }
        },
    }
}
"""OpenAPI fields of a predict request."""

VERSION: dict[str, Any] = {
    "parameters": [
        {
            "name": "version",
            "in": "path",
            "required": True,
            "schema": {"type": "string", "pattern": "^[0-9]+$"},
        }
    ]
}
"""OpenAPI fields of an operation on a version of a model."""

_PREDICT_ERRORS = {
    "400": "the body is invalid; the error names the field",
    "404": "unknown model, version or path",
    "408": "the body arrives too slowly",
    "413": "the body is too large",
    "415": "the encoding of the body is neither identity nor gzip",
    "500": "an error of the server",
    "503": "too many requests, or the model is not loaded; with the header Retry-After",
    "504": "no result before the deadline",
}
_ERRORS = {**_PREDICT_ERRORS, "401": "the bearer token is missing or wrong"}


def describe_api(app: FastAPI, public_paths: Collection[str] | None = None) -> dict[str, Any]:
    """Return the OpenAPI description of an application.

    Args:
        app: the application.
        public_paths: paths that need no bearer token; None: no path needs one.
    """
    if app.openapi_schema is None:
        schema = get_openapi(title=app.title, version="1", routes=app.routes)
        schemas = schema.get("components", {}).get("schemas", {})
        for name in [name for name in schemas if "ValidationError" in name]:
            del schemas[name]
        schemas["Error"] = {
            "type": "object",
            "properties": {"error": {"type": "string"}},
            "required": ["error"],
            "additionalProperties": False,
        }
        schema["components"] = {"schemas": schemas}
        if public_paths is not None:
            schema["components"]["securitySchemes"] = {
                "token": {"type": "http", "scheme": "bearer"}
            }
        for path, operations in schema["paths"].items():
            needs_token = public_paths is not None and path not in public_paths
            for operation in operations.values():
                if needs_token:
                    operation["security"] = [{"token": []}]
                _describe_errors(path, operation["responses"], needs_token)
        app.openapi_schema = schema
    return app.openapi_schema


def _describe_errors(path: str, responses: dict[str, Any], needs_token: bool) -> None:
    """Add the errors of an operation to its responses."""
    responses.pop("422", None)  # arguments of paths are texts, which are always valid
    statuses = {"401"} if needs_token else set()
    if path.startswith("/v1/models/"):
        statuses |= {*_PREDICT_ERRORS} if path.endswith(":predict") else {"404", "500", "503"}
    for status in sorted(statuses):
        content = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
        responses[status] = {"description": _ERRORS[status], "content": content}
