"""Running the server: migrate, welcome a newcomer once, serve, drain. What is served is in `asgi`."""

import asyncio
import signal
from dataclasses import dataclass

import uvicorn

from sluice.access import Scope
from sluice.asgi import create_app
from sluice.db.migrate import upgrade
from sluice.settings import Settings
from sluice.tenants.service import Tenants
from sluice.wiring import make_database


@dataclass(frozen=True, slots=True)
class FirstKey:
    """What the first start made: a tenant and a key that may do everything in it."""

    tenant_id: str
    tenant_name: str
    plan: str
    api_key_id: str
    api_key: str


def serve(settings: Settings) -> None:
    """Serve until a signal says stop; then let requests under way finish, for at most `drain_seconds`."""
    config = uvicorn.Config(
        create_app(settings),
        host=settings.host,
        port=settings.port,
        http="httptools",
        loop="uvloop",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=round(settings.drain_seconds),
    )
    # uvicorn raises the signal again once it has drained; ended by request is a clean end, so nothing more happens then.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda _number, _frame: None)
    uvicorn.Server(config).run()
