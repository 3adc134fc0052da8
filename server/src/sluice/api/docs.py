"""The interactive API docs, the OpenAPI document, and the pages `/docs/reasons` and `/docs/errors`.

The docs are Swagger UI from an installed package, nothing loaded from elsewhere, under a strict policy. The pages, to
which reports and problem details link, are plain HTML from the catalogues, without scripts, styles or links;
`docs/reasons.md` and `docs/errors.md` say more.
"""

import json
from collections.abc import Iterable, Mapping
from functools import cache
from html import escape
from importlib.resources import files
from typing import Final

from fastapi import APIRouter, FastAPI, Request
from fastapi.responses import HTMLResponse, Response

from sluice.api.shared_answer import SharedResponse
from sluice.errors import FileRejected, LimitExceeded, NotFound, SluiceError, catalogue
from sluice.messages import DEFAULT_LOCALE, render
from sluice.uploads.reasons import LIMIT_REASONS, WORDS, Reason

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
    return HTMLResponse(_reasons_page(), headers={"Content-Security-Policy": _PLAIN_POLICY})


@router.get("/docs/errors")
async def errors() -> HTMLResponse:
    """Return the page that `type` of a problem links to."""
    return HTMLResponse(_errors_page(), headers={"Content-Security-Policy": _PLAIN_POLICY})


@router.get("/docs/{name}")
async def asset(name: str) -> Response:
    """Return one of the files of the UI."""
    if name not in _ASSETS:
        raise NotFound
    return SharedResponse(_content(name), media_type=_ASSETS[name], headers={"Cache-Control": "public, max-age=86400"})


@router.get("/openapi.json")
async def openapi(request: Request) -> Response:
    """Return the OpenAPI document."""
    return SharedResponse(_document(request.app), media_type="application/json")


@cache
def _content(name: str) -> bytes:
    return (files("fastapi_swagger") / "resources" / name).read_bytes()


@cache
def _document(app: FastAPI) -> bytes:
    return json.dumps(app.openapi(), ensure_ascii=False, separators=(",", ":")).encode()


@cache
def _reasons_page() -> str:
    sections = (_section(reason.value, _about_reason(reason)) for reason in Reason)
    return _page("Reason codes", "Why an upload is rejected: exactly one of these codes is in the response.", sections)


@cache
def _errors_page() -> str:
    every: tuple[type[SluiceError], ...] = (*catalogue(), SluiceError)
    sections = (_section(error.code, _about_error(error)) for error in every)
    return _page("Errors", "The code of a failure is in its header Sluice-Error-Code.", sections)


def _about_reason(reason: Reason) -> Mapping[str, str]:
    words = WORDS[reason]
    return {
        "Meaning": words.developer,
        "Message": words.message,
        "Sentence for the sender": render(f"{reason.value}.plain", {}, DEFAULT_LOCALE),
        "Advice": words.advice.replace("_", " "),
        "The same bytes may pass later": "yes" if words.retryable else "no",
        "Status": str((LimitExceeded if reason in LIMIT_REASONS else FileRejected).status),
    }


def _about_error(error: type[SluiceError]) -> Mapping[str, str]:
    meaning = "The service failed." if error is SluiceError else " ".join((error.__doc__ or "").split())
    return {"Meaning": meaning.replace("`", ""), "Message": error.message, "Status": str(error.status)}


def _section(code: str, about: Mapping[str, str]) -> str:
    lines = "".join(f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>\n" for name, text in about.items())
    return f'<h2 id="{escape(code)}">{escape(code)}</h2>\n<dl>\n{lines}</dl>\n'


def _page(title: str, introduction: str, sections: Iterable[str]) -> str:
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n</head>\n<body>\n<h1>{escape(title)}</h1>\n<p>{escape(introduction)}</p>\n"
        f"{''.join(sections)}</body>\n</html>\n"
    )
