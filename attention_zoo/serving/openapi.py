"""The OpenAPI description of the server."""

from __future__ import annotations

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

_ERRORS = {
    "400": "the body is invalid; the error names the field",
    "404": "unknown model, version or path",
    "408": "the body arrives too slowly",
    "413": "the body is too large",
    "415": "the encoding of the body is neither identity nor gzip",
    "500": "an error of the server",
    "503": "too many requests, or the model is not loaded; with the header Retry-After",
    "504": "no result before the deadline",
}


def describe_api(app: FastAPI) -> dict[str, Any]:
    """Return the OpenAPI description of an application."""
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
        content = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
        for path, operations in schema["paths"].items():
            for operation in operations.values():
                responses = operation["responses"]
                responses.pop("422", None)  # arguments of paths are texts, which are always valid
                if path.startswith("/v1/models/"):
                    for status, description in _ERRORS.items():
                        if status in ("404", "500", "503") or path.endswith(":predict"):
                            responses[status] = {"description": description, "content": content}
        app.openapi_schema = schema
    return app.openapi_schema
