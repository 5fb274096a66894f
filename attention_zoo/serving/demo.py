"""Demo page: a web page to try the served models."""

from __future__ import annotations

from importlib.resources import files

from attention_zoo.extras import explain_missing_package

with explain_missing_package():
    from fastapi import FastAPI, Response
    from starlette.exceptions import HTTPException

PAGE = "index.html"
DEMO_PATHS = ("/", "/demo/")
"""Paths of the demo page and its files. They need no token, because the user enters it on the
page."""

MEDIA_TYPES = {
    "css": "text/css; charset=utf-8",
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
HEADERS = {
    "Cache-Control": "no-cache",
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:;"
        " connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
"""Headers of the page and its files; the page runs no inline script and calls no other server."""


def add_demo(app: FastAPI) -> None:
    """Serve the demo page at `/`, and its scripts and styles under `/demo/`.

    The page calls `/v1/models`, `/v1/models/NAME/metadata` and `/v1/models/NAME:predict`.

    Args:
        app: an application of `make_app`.
    """
    folder = files("attention_zoo.serving") / "demo_page"
    contents = {
        file.name: file.read_bytes()
        for file in folder.iterdir()
        if file.name.rpartition(".")[2] in MEDIA_TYPES
    }

    page = contents.pop(PAGE)

    @app.get("/", include_in_schema=False)
    async def get_page() -> Response:
        return Response(page, media_type=MEDIA_TYPES["html"], headers=HEADERS)

    @app.get("/demo/{name}", include_in_schema=False)
    async def get_file(name: str) -> Response:
        if name not in contents:
            raise HTTPException(404, "Not Found")
        media_type = MEDIA_TYPES[name.rpartition(".")[2]]
        return Response(contents[name], media_type=media_type, headers=HEADERS)
