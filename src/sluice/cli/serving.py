"""Running the server: listen, migrate, let a newcomer in, serve, drain. What is served is in `asgi`."""

import asyncio
import resource
import signal
import socket

import uvicorn
import uvloop

from sluice.asgi import create_app
from sluice.cli import show
from sluice.cli.environment import bring_up_to_date
from sluice.cli.first_key import FirstKey, make_first_key
from sluice.cli.listening import bound, server_config
from sluice.cli.welcome import serving, welcome
from sluice.kit.memory import give_large_blocks_back
from sluice.observe.log import log
from sluice.settings import Settings
from sluice.wiring.ahead import Launched
from sluice.wiring.engines import make_database

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def serve(settings: Settings, launched: Launched | None = None) -> None:
    """Serve until a signal says stop; then let requests under way finish, for at most `drain_seconds`.

    `launched` is what was begun while this module was loaded; it ends with the process, whatever becomes of this.

    Raises `CommandRefused` when the address cannot be had, and whatever the engines refuse to start with.
    """
    give_large_blocks_back()
    # Keys and credentials are in this memory: a crash must not leave them in a file.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with bound(settings.host, settings.port, "SLUICE_PORT") as listener:
        settings = settings.model_copy(update={"port": listener.getsockname()[1]})
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_serve(settings, listener, launched))


class _Server(uvicorn.Server):
    """uvicorn, saying when it drains."""

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        log.info("draining", connections=len(self.server_state.connections), seconds=self.config.timeout_graceful_shutdown)
        await super().shutdown(sockets)


async def _serve(settings: Settings, listener: socket.socket, launched: Launched | None) -> None:
    app = create_app(settings, launched)
    server = _Server(server_config(app, settings))
    # From here on: a signal during the start is kept for its end, and uvicorn, which raises each signal again when it has drained,
    # finds a handler that does not kill.
    for number in _SIGNALS:
        signal.signal(number, server.handle_exit)
    await bring_up_to_date(settings)
    # The app's lifespan is entered here and not by uvicorn, which would print the trace of an engine that refuses to start.
    async with app.router.lifespan_context(app):
        if server.should_exit:
            return
        first = None if settings.production else await _first_key(settings)
        # Listening before it is said: whoever reads it may come at once, and whoever is answered finds it said.
        listener.listen(server.config.backlog)
        _say_ready(settings, first)
        await server.serve(sockets=[listener])
    log.info("stopped")


async def _first_key(settings: Settings) -> FirstKey | None:
    database = make_database(settings)
    try:
        return await make_first_key(database, settings.data_dir)
    finally:
        await database.aclose()


def _say_ready(settings: Settings, first: FirstKey | None) -> None:
    url = _near(settings)
    if first is not None:
        show.line(welcome(first, url))
    show.line(serving(url, str(settings.data_dir)))
    log.info("serving", host=settings.host, port=settings.port)


def _near(settings: Settings) -> str:
    """Answer the address under which this machine reaches the server; that of a wildcard is nowhere to go."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(settings.host, settings.host)  # noqa: S104  (named, not bound)
    return f"http://[{host}]:{settings.port}" if ":" in host else f"http://{host}:{settings.port}"
