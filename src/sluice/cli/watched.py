"""The door of a worker: a port where monitors ask how it is. What it answers is in `api`; that it sweeps is in `working`."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager

import uvicorn

from sluice.api.app import make_watched_app
from sluice.api.routes.metrics import MetricsDesk
from sluice.asgi import metrics_readers
from sluice.cli.listening import bound, server_config
from sluice.kit.health import EngineHealth
from sluice.observe.log import log
from sluice.settings import Settings
from sluice.wiring.assembly import WorkerServices


@asynccontextmanager
async def watched(settings: Settings, port: int, parts: WorkerServices) -> AsyncIterator[None]:
    """Answer `/health` and `/metrics` on `port` until the block ends. Raises `CommandRefused` when the address cannot be had."""

    async def healths() -> Sequence[EngineHealth]:
        return await asyncio.gather(parts.database.health(), parts.stores.platform.health())

    app = make_watched_app(MetricsDesk(metrics_readers(settings)), healths)
    with bound(settings.host, port, "SLUICE_WORKER_PORT") as listener:
        server = _Server(server_config(app, settings))
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        log.info("answering_monitors", host=settings.host, port=listener.getsockname()[1])
        try:
            yield
        finally:
            server.should_exit = True
            await serving


class _Server(uvicorn.Server):
    """uvicorn, leaving the signals to the worker."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield
