"""The HTTP application: the upload route beside the documented endpoints, behind the guards.

Which engines it uses is decided in `wiring`.
"""

import json
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Final

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute
from starlette.applications import Starlette
from starlette.routing import BaseRoute, Mount

from sluice import __version__
from sluice.access import PUBLIC_ROUTES
from sluice.api import docs, error_responses
from sluice.api.authenticate import Authenticator
from sluice.api.guards import Guards
from sluice.api.route import ListGate
from sluice.api.routes import (
    api_keys,
    audit,
    buckets,
    check_content,
    contexts,
    cors,
    downloads,
    erasures,
    events,
    files,
    hash_lists,
    health,
    jobs,
    messages,
    metrics,
    quarantine,
    receipts,
    reports,
    resumable,
    resumable_operations,
    static,
    upload,
    upload_page,
    upload_tokens,
    usage,
    webhooks,
)
from sluice.api.routes.metrics import MetricsDesk
from sluice.kit.health import EngineHealth
from sluice.kit.read_through_cache import ReadThroughCache
from sluice.services import Services

Lifespan = Callable[[Starlette], AbstractAsyncContextManager[None]]
Healths = Callable[[], Awaitable[Sequence[EngineHealth]]]

_STREAMED: Final = (upload.ROUTE, upload.VALIDATE_ROUTE, resumable.ROUTE, resumable.UPLOAD_ROUTE)
_HEALTH_AGE_SECONDS: Final = 1.0
_DESCRIPTION: Final = """\
An upload gate: every file is checked against the rules of its *context* before anything is stored. A file that fails is
rejected with a reason code and a sentence for its sender; one that passes is stored in the tenant's own bucket and
served through short-lived links.

1. `POST /api/v1/contexts` creates a context: extensions, size, which checks.
2. `POST /api/v1/files/upload` sends a file into it; `POST /api/v1/uploads` does so in parts that can be resumed.
3. `GET /api/v1/files/{file_id}` returns a link to download it.

Credentials go into the Authorization header: an API key, bare or after `Bearer`, or a JWT after `Bearer`. Errors have
the envelope `status`, `message`, `errors`, `timestamp`, and a stable code in the header `Sluice-Error-Code`.
"""
_TAGS: Final = {
    "File contexts": "Rules for uploads, and what a change of them would have done.",
    "Files": "Upload, search, download, delete, restore.",
    "Resumable uploads": "Uploads in several requests, by the protocol tus 1.0.",
    "Reports": "Why an upload was accepted or rejected, check by check.",
    "Quarantine": "Files that wait for the decision of a reviewer.",
    "Upload tokens": "Credentials with which a page or an app sends a few files, and does nothing else.",
    "API keys": "Credentials of programs, with scopes and limits.",
    "Storage buckets": "The buckets in which files are stored.",
    "Jobs": "Deletion, restoration and export of many files.",
    "Erasures": "Everything of one person deleted, with a receipt.",
    "Receipts": "Signed statements on stored files.",
    "Webhooks": "Endpoints to which events are sent, and their deliveries.",
    "Events": "The same events, to be polled.",
    "Hash lists": "Files that are denied, or not scanned for malware, by a digest of their bytes.",
    "CORS": "Origins whose pages may call the API.",
    "Usage": "What was uploaded, rejected and downloaded, and what is left of the plan.",
    "Audit trail": "Who did what.",
    "Messages": "The sentences for senders, by reason code and language.",
    "Health": "Whether the service and its engines work.",
    "Public keys": "The keys with which receipts and webhooks are verified.",
}


# Served directly: an included router builds its routes again in each process, which takes 50 ms in all, and matches
# each request twice.
_ROUTES: Final = [
    route
    for router in (
        contexts.router,
        files.router,
        jobs.router,
        erasures.router,
        receipts.router,
        quarantine.router,
        reports.router,
        downloads.router,
        check_content.router,
        buckets.router,
        api_keys.router,
        upload_tokens.router,
        cors.router,
        events.router,
        webhooks.router,
        hash_lists.router,
        usage.router,
        audit.router,
        messages.router,
        upload_page.router,
        static.router,
        health.router,
        metrics.router,
        receipts.keys_router,
    )
    for route in router.routes
]
for _route in _ROUTES:
    if isinstance(_route, APIRoute):
        _route.operation_id = _route.name  # `list_contexts`


def make_app(
    lifespan: Lifespan | None = None, *, docs_pages: bool = True, first_routes: Sequence[BaseRoute] = ()
) -> Starlette:
    """Return the application; `set_state` gives it its services before it serves.

    `first_routes` are served before all others.
    """
    endpoints = make_endpoints(docs_pages=docs_pages)
    # These stand beside FastAPI and not in it: they read their own bodies and need none of its layers.
    app = Starlette(routes=[*_STREAMED, *first_routes, Mount("", app=endpoints)], lifespan=lifespan)
    app.router.default = endpoints  # for `OPTIONS *`, which is below no path
    app.state = endpoints.state
    # Without Starlette's own layers for errors: `Guards` wraps every endpoint, and turns each error into a response.
    app.middleware_stack = app.router
    return app


def make_endpoints(*, docs_pages: bool = True) -> FastAPI:
    """Return all endpoints but the upload, and the OpenAPI document of them all, which only `docs_pages` serve."""
    app = FastAPI(
        title="Sluice",
        version="0.1.0",
        summary="File upload validation service",
        description=_DESCRIPTION,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        license_info={"name": "Apache-2.0", "identifier": "Apache-2.0"},
    )
    app.router.routes += _ROUTES
    if docs_pages:
        app.router.routes += docs.router.routes
    error_responses.install(app)
    app.add_middleware(Guards)
    app.openapi = lambda: _openapi(app)  # type: ignore[method-assign]  # FastAPI's documented way
    return app


def make_monitoring_app(desk: MetricsDesk, healths: Healths) -> FastAPI:
    """Return the application of a worker process: health and metrics, nothing else."""
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None, redirect_slashes=False)
    app.router.routes += [*health.router.routes, *metrics.router.routes]
    error_responses.install(app)
    app.add_middleware(Guards)
    app.state.metrics = desk
    app.state.healths, app.state.recent_healths = healths, _cached(healths)
    return app


def set_state(
    app: Starlette,
    services: Services,
    authenticator: Authenticator,
    healths: Healths,
    desk: MetricsDesk,
    *,
    download_host: str | None = None,
) -> None:
    """Give the application what its endpoints use.

    With a `download_host`, downloads are served on that host only, and nothing else there.
    """
    app.state.download_host = download_host
    app.state.metrics = desk
    app.state.services = services
    app.state.cors = services.cors
    app.state.authenticator = authenticator
    app.state.list_gate = ListGate()
    app.state.healths, app.state.recent_healths = healths, _cached(healths)


def end_waits(app: Starlette) -> None:
    """Let requests that wait for events return at once: the server is about to drain."""
    services: Services | None = getattr(app.state, "services", None)
    if services is not None:
        services.events.drain()


def _cached(healths: Healths) -> Healths:
    """Return the same, at most a second old: strangers may ask for the health, and each response asks every engine."""
    cache: ReadThroughCache[None, Sequence[EngineHealth]] = ReadThroughCache(lambda _key: healths())

    async def read() -> Sequence[EngineHealth]:
        return (await cache.get(None, since=time.monotonic() - _HEALTH_AGE_SECONDS)).value

    return read


def _openapi(app: FastAPI) -> dict[str, Any]:
    if app.openapi_schema is not None:
        return app.openapi_schema
    document = get_openapi(
        title=app.title,
        version=app.version,
        summary=app.summary,
        description=app.description,
        routes=app.routes,
        license_info=app.license_info,
    )
    document["info"]["x-release"] = __version__
    document["tags"] = [{"name": name, "description": description} for name, description in _TAGS.items()]
    components = document.setdefault("components", {})
    components["securitySchemes"] = {
        "credential": {"type": "http", "scheme": "bearer", "description": "An API key or a JWT."}
    }
    components["schemas"] |= upload.schemas() | resumable_operations.schemas()
    document["webhooks"] = events.webhooks()
    paths = {}
    for path, operations in document["paths"].items():
        if path == upload.BEFORE:
            paths[upload.PATH] = {"post": upload.operation()}
            paths[upload.VALIDATE_PATH] = {"post": upload.validate_operation()}
        paths[path] = operations
    paths |= resumable_operations.operations()
    document["paths"] = paths
    for path, operations in paths.items():
        for method, operation in operations.items():
            # FastAPI documents a 422 of its own shape wherever there is a parameter, even one that can never fail.
            content = operation["responses"].get("422", {}).get("content", {})
            if content.get("application/json", {}).get("schema", {}).get("$ref", "").endswith("/HTTPValidationError"):
                del operation["responses"]["422"]
            is_open = path.startswith(("/health", "/.well-known")) or (method.upper(), path) in PUBLIC_ROUTES
            operation["security"] = [] if is_open else [{"credential": []}]
    for foreign in ("HTTPValidationError", "ValidationError"):
        components["schemas"].pop(foreign, None)
    components["responses"] = _shared_responses(paths)
    app.openapi_schema = document
    return document


def _shared_responses(paths: Mapping[str, Any]) -> dict[str, Any]:
    """Return the errors that several operations list alike, by name, and refer to them in the operations."""
    listed = [operation["responses"] for operations in paths.values() for operation in operations.values()]
    uses = Counter(_fingerprint(response) for each in listed for response in each.values())
    names: dict[str, str] = {}
    shared: dict[str, Any] = {}
    for responses in listed:
        for status, response in responses.items():
            content = _fingerprint(response)
            if status < "400" or uses[content] == 1:
                continue
            if content not in names:
                codes = response["content"]["application/json"]["examples"]
                name = "-".join((status, *codes))
                others = sum(other.partition(".")[0] == name for other in shared)
                names[content] = f"{name}.{others + 1}" if others else name
                shared[names[content]] = response
            responses[status] = {"$ref": f"#/components/responses/{names[content]}"}
    return shared


def _fingerprint(response: Mapping[str, Any]) -> str:
    return json.dumps(response, sort_keys=True)
