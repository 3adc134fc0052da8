"""The HTTP server of a process: the configuration of uvicorn, and the monitoring port of a worker."""

import asyncio
import contextlib
import logging
import math
import socket
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from functools import partial
from typing import Final

import uvicorn

from sluice.api.app import make_monitoring_app
from sluice.api.http1.connection import GuardedProtocol
from sluice.api.http1.connection_table import ConnectionTable
from sluice.api.http1.minimum_rate import RequestTimeouts
from sluice.api.routes.metrics import MetricsDesk
from sluice.asgi import metrics_readers
from sluice.cli.sockets import bound
from sluice.kit.health import EngineHealth
from sluice.observe.log import log
from sluice.settings import Settings
from sluice.wiring.assembly import WorkerServices

# Longer than clients (httpx: 5) and proxies (nginx, AWS: 60) keep an idle connection: a request on one that is being
# closed is lost. When places are scarce, idle connections give way sooner.
_KEEP_ALIVE_SECONDS: Final = 75


class Server(uvicorn.Server):
    """uvicorn that logs when it drains, and ends requests that only wait."""

    def __init__(self, config: uvicorn.Config, end_waits: Callable[[], None]) -> None:
        super().__init__(config)
        self._end_waits = end_waits

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Log how many connections are open, then let them finish."""
        log.info(
            "draining", connections=len(self.server_state.connections), seconds=self.config.timeout_graceful_shutdown
        )
        self._end_waits()
        await super().shutdown(sockets)


def connection_table(settings: Settings) -> ConnectionTable:
    """Return the table of a server's connections."""
    return ConnectionTable(
        settings.connections,
        settings.connections_per_address or max(1, settings.connections // 2),
        settings.trusted_proxies,
        check_seconds=settings.body_idle_seconds / 4,
    )


def server_config(app: object, settings: Settings, table: ConnectionTable | None = None) -> uvicorn.Config:
    """Return the configuration with which uvicorn serves `app`: strict, and without a `Server` header.

    `table` is the server's table of connections; by default it gets one of its own.
    """
    table = table or connection_table(settings)
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
    timeouts = RequestTimeouts(
        head_seconds=settings.head_seconds,
        idle_seconds=settings.body_idle_seconds,
        bytes_per_second=settings.body_bytes_per_second,
    )
    return uvicorn.Config(
        app,  # type: ignore[arg-type]  # uvicorn's own type of an ASGI app is narrower than Starlette's
        http=partial(GuardedProtocol, timeouts=timeouts, table=table),  # type: ignore[arg-type]  # a callable
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=bool(settings.trusted_proxies),
        forwarded_allow_ips=list(settings.trusted_proxies),
        timeout_keep_alive=_KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=math.ceil(settings.drain_seconds),
    )


@contextlib.asynccontextmanager
async def monitoring(settings: Settings, port: int, services: WorkerServices) -> AsyncIterator[None]:
    """Serve the worker's `/health` and `/metrics` on `port` until the block ends. Raise `CommandRefused`."""

    async def healths() -> Sequence[EngineHealth]:
        return await asyncio.gather(services.database.health(), services.stores.platform.health())

    table = connection_table(settings)
    app = make_monitoring_app(MetricsDesk(metrics_readers(settings), (table.metrics,)), healths)
    with bound(settings.host, port, "SLUICE_WORKER_PORT") as listener:
        server = _MonitoringServer(server_config(app, settings, table))
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        log.info("serving_monitors", host=settings.host, port=listener.getsockname()[1])
        try:
            yield
        finally:
            server.should_exit = True
            await serving


class _MonitoringServer(uvicorn.Server):
    """uvicorn that leaves the signals to the worker."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield
