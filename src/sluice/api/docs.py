"""The interactive API docs: Swagger UI from an installed package, nothing loaded from elsewhere, under a strict
policy. And the OpenAPI document.
"""

import json
from functools import cache
from importlib.resources import files
from typing import Final

from fastapi import APIRouter, FastAPI, Request
from fastapi.responses import HTMLResponse, Response

from sluice.api.explained import errors_page, reasons_page
from sluice.api.shared_answer import SharedAnswer
from sluice.errors import NotFound

router = APIRouter(include_in_schema=False)

_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)
_PAGE: Final = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Sluice API</title>
<link rel="stylesheet" href="/docs/swagger-ui.css">
<link rel="icon" href="data:,">
</head>
<body>
<div id="swagger-ui"></div>
<script src="/docs/swagger-ui-bundle.js"></script>
<script src="/docs/start.js"></script>
</body>
</html>
"""
_START: Final = """window.ui = SwaggerUIBundle({
  url: "/openapi.json",
  dom_id: "#swagger-ui",
  deepLinking: true,
  persistAuthorization: false,
  tryItOutEnabled: true,
  validatorUrl: null
});
"""
_PLAIN_POLICY: Final = "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
_ASSETS: Final = {"swagger-ui.css": "text/css", "swagger-ui-bundle.js": "text/javascript"}


@router.get("/docs")
async def page() -> HTMLResponse:
    """Return the page."""
    return HTMLResponse(_PAGE, headers={"Content-Security-Policy": _POLICY})


@router.get("/docs/start.js")
async def start() -> Response:
    """Return the script that starts the UI; inline it would need a weaker policy."""
    return Response(_START, media_type="text/javascript")


@router.get("/docs/reasons")
async def reasons() -> HTMLResponse:
    """Return the page that `doc_url` of a report links to."""
    return HTMLResponse(reasons_page(), headers={"Content-Security-Policy": _PLAIN_POLICY})


@router.get("/docs/errors")
async def errors() -> HTMLResponse:
    """Return the page that `type` of a problem links to."""
    return HTMLResponse(errors_page(), headers={"Content-Security-Policy": _PLAIN_POLICY})


@router.get("/docs/{name}")
async def asset(name: str) -> Response:
    """Return one of the files of the UI."""
    if name not in _ASSETS:
        raise NotFound
    return SharedAnswer(_content(name), media_type=_ASSETS[name], headers={"Cache-Control": "public, max-age=86400"})


@router.get("/openapi.json")
async def openapi(request: Request) -> Response:
    """Return the OpenAPI document."""
    return SharedAnswer(_document(request.app), media_type="application/json")


@cache
def _content(name: str) -> bytes:
    return (files("fastapi_swagger") / "resources" / name).read_bytes()


@cache
def _document(app: FastAPI) -> bytes:
    return json.dumps(app.openapi(), ensure_ascii=False, separators=(",", ":")).encode()
