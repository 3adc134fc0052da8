"""The HTTP application: routes, errors and guards put together. Which engines stand behind the services is decided in `wiring`."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from sluice import __version__
from sluice.api import docs, render
from sluice.api.authenticate import Authenticator
from sluice.api.express import ExpressApp
from sluice.api.guards import Guards
from sluice.api.routes import api_keys, audit, buckets, contexts, downloads, files, health, metrics, upload
from sluice.api.routes.metrics import MetricsDesk
from sluice.api.services import ApiServices
from sluice.kit.health import EngineHealth

Lifespan = Callable[[FastAPI], AbstractAsyncContextManager[None]]
Healths = Callable[[], Awaitable[Sequence[EngineHealth]]]

_DESCRIPTION = (
    "A gate for files: every upload is inspected under the rules of its context before anything is stored. "
    "Credentials go into the Authorization header: an API key, bare or behind `Bearer`, or a JWT behind `Bearer`."
)


def make_app(lifespan: Lifespan | None = None) -> FastAPI:
    """Answer the application; before it serves, `furnish` gives it its services."""
    app = ExpressApp(
        title="Sluice",
        version="0.1.0",
        summary="File upload validation service",
        description=_DESCRIPTION,
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        license_info={"name": "Apache-2.0", "identifier": "Apache-2.0"},
    )
    for module in (contexts, upload, files, downloads, buckets, api_keys, audit, health, metrics, docs):
        app.include_router(module.router)
    render.install(app)
    app.add_middleware(Guards)
    app.openapi = lambda: _openapi(app)  # type: ignore[method-assign]  # FastAPI's documented way to extend the document
    return app


def make_watched_app(desk: MetricsDesk, healths: Healths) -> FastAPI:
    """Answer an application that tells how a process is and nothing else: what a worker has of one."""
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None, redirect_slashes=False)
    for module in (health, metrics):
        app.include_router(module.router)
    render.install(app)
    app.add_middleware(Guards)
    app.state.metrics = desk
    app.state.healths = healths
    return app


def furnish(
    app: FastAPI,
    services: ApiServices,
    authenticator: Authenticator,
    healths: Healths,
    desk: MetricsDesk,
    *,
    download_host: str | None = None,
) -> None:
    """Give the application what its endpoints call. With a `download_host`, it hands out files on that host and does all else on others."""
    app.state.download_host = download_host
    app.state.metrics = desk
    app.state.services = services
    app.state.authenticator = authenticator
    app.state.healths = healths


def _openapi(app: FastAPI) -> dict[str, Any]:
    if app.openapi_schema is None:
        document = get_openapi(
            title=app.title,
            version=app.version,
            summary=app.summary,
            description=app.description,
            routes=app.routes,
            license_info=app.license_info,
        )
        document["info"]["x-release"] = __version__
        document.setdefault("components", {})["securitySchemes"] = {
            "credential": {"type": "http", "scheme": "bearer", "description": "An API key or a JWT."}
        }
        for path, operations in document["paths"].items():
            for operation in operations.values():
                _drop_foreign_422(operation)
                operation["security"] = [] if path.startswith("/health") else [{"credential": []}]
        for foreign in ("HTTPValidationError", "ValidationError"):
            document["components"]["schemas"].pop(foreign, None)
        app.openapi_schema = document
    return app.openapi_schema


def _drop_foreign_422(operation: dict[str, Any]) -> None:
    """FastAPI documents a 422 of its own shape wherever there is a parameter, also a plain string that can never fail."""
    schema = operation["responses"].get("422", {}).get("content", {}).get("application/json", {}).get("schema", {})
    if schema.get("$ref", "").endswith("/HTTPValidationError"):
        del operation["responses"]["422"]
