"""The interactive API docs: Swagger UI from an installed package, nothing loaded from elsewhere, under a strict policy."""

from importlib.resources import files
from typing import Final

from fastapi import APIRouter
from fastapi.responses import HTMLResponse, Response

from sluice.errors import NotFound

router = APIRouter(include_in_schema=False)

_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; connect-src 'self'; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
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
_ASSETS: Final = {"swagger-ui.css": "text/css", "swagger-ui-bundle.js": "text/javascript"}


@router.get("/docs")
async def page() -> HTMLResponse:
    """Answer the page."""
    return HTMLResponse(_PAGE, headers={"Content-Security-Policy": _POLICY})


@router.get("/docs/start.js")
async def start() -> Response:
    """Answer the script that starts the UI; inline it would need a weaker policy."""
    return Response(_START, media_type="text/javascript")


@router.get("/docs/{name}")
async def asset(name: str) -> Response:
    """Answer one of the UI's own files."""
    if name not in _ASSETS:
        raise NotFound
    content = (files("fastapi_swagger") / "resources" / name).read_bytes()
    return Response(content, media_type=_ASSETS[name], headers={"Cache-Control": "public, max-age=86400"})
