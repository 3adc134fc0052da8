"""`sluice serve` and `sluice work`: run the server or the worker until a signal stops it."""

# ruff: noqa: PLC0415  (the zygote starts before anything heavy is loaded, and `--help` loads none of it)

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import typer

from sluice.cli import output
from sluice.cli.environment import migrate_database, service_settings, start_zygote
from sluice.cli.init import FirstKey, make_first_key

if TYPE_CHECKING:
    import asyncio
    import socket

    from sluice.settings import Settings
    from sluice.wiring.prestart import LaunchedZygote

_CONTEXT: Final = '{"context_key": "claims", "display_name": "Claims"}'


def serve(context: typer.Context) -> None:
    """Serve the API, with the worker inside.

    Migrates the database, listens on SLUICE_HOST:SLUICE_PORT (127.0.0.1:8000) and keeps everything in SLUICE_DATA_DIR
    (.data). The very first start makes a tenant and an admin key and shows both once, with three curl lines to try;
    with SLUICE_PRODUCTION it makes neither: run **sluice init**.

    Ctrl-C or SIGTERM drains: no new connections, and uploads in progress may finish within SLUICE_DRAIN_SECONDS. A
    second Ctrl-C does not wait.
    """
    settings = service_settings()
    launched = start_zygote(context)

    import asyncio
    import resource

    import uvloop

    from sluice.cli.listening import bound
    from sluice.kit.libc import give_large_blocks_back

    give_large_blocks_back()
    # Keys and credentials are in this memory: a crash must not leave them in a core file.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with bound(settings.host, settings.port, "SLUICE_PORT") as listener:
        settings = settings.model_copy(update={"port": listener.getsockname()[1]})
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_serve(settings, listener, launched))


async def _serve(settings: "Settings", listener: "socket.socket", launched: "LaunchedZygote | None") -> None:
    import signal
    from functools import partial

    from sluice.api.app import end_waits
    from sluice.asgi import create_app
    from sluice.cli.listening import Server, connection_table, server_config
    from sluice.observe.log import log

    table = connection_table(settings)
    app = create_app(settings, launched, (table.metrics,))
    server = Server(server_config(app, settings, table), partial(end_waits, app))
    # A signal during the start takes effect at its end. uvicorn raises each signal again after it has drained, and must
    # find a handler that does not kill.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, server.handle_exit)
    await migrate_database(settings)
    # uvicorn would print the traceback of an engine that refuses to start, so it does not run the lifespan.
    async with app.router.lifespan_context(app):
        if server.should_exit:
            return
        first = None if settings.production else await _first_key(settings)
        # Who reads the address may connect at once, so listen before it is printed. Requests are answered only after.
        listener.listen(server.config.backlog)
        url = _local_url(settings)
        output.line(
            *(() if first is None else _welcome(first, url)),
            f"Sluice serves {url}",
            *((f"  API docs  {url}/docs",) if settings.docs else ()),
            f"  data      {settings.data_dir}",
            "Ctrl-C drains and stops.",
        )
        log.info("serving", host=settings.host, port=settings.port)
        await server.serve(sockets=[listener])
    log.info("stopped")


async def _first_key(settings: "Settings") -> FirstKey | None:
    from sluice.wiring.engines import make_database

    database = make_database(settings)
    try:
        return await make_first_key(database, settings.data_dir)
    finally:
        await database.aclose()


def _local_url(settings: "Settings") -> str:
    # Nobody can connect to a wildcard address.
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(settings.host, settings.host)  # noqa: S104  (named, not bound)
    return f"http://[{host}]:{settings.port}" if ":" in host else f"http://{host}:{settings.port}"


def _welcome(first: FirstKey, url: str) -> Sequence[str]:
    create, upload, download = curl_lines(url, first.api_key)
    return (
        "",
        "Welcome to Sluice. This first start made a tenant and an admin key; the key is shown now and never again.",
        "",
        f"  tenant   {first.tenant_id} ({first.tenant_name}, plan {first.plan})",
        f"  api key  {first.api_key}",
        "",
        "Three lines to try: create a context, upload a small file into it (your own: -F file=@NAME), download it.",
        "",
        create,
        "",
        upload,
        "",
        download,
        "",
    )


def curl_lines(url: str, api_key: str) -> tuple[str, str, str]:
    """Return three shell lines that create a context, upload a file into it, and download the newest file.

    Each works alone, needs only curl and sed, and begins with `curl`. `api_key` may be a shell variable.
    """
    key = f'-H "Authorization: Bearer {api_key}"'
    newest = f"""curl -sS {key} '{url}/api/v1/files?page_size=1' | {_sed_field("file_id")}"""
    link = f"""curl -sS {key} "{url}/api/v1/files/$({newest})" | {_sed_field("download_url")}"""
    return (
        f"""curl -sS {key} -H 'Content-Type: application/json' -d '{_CONTEXT}' {url}/api/v1/contexts""",
        f"""curl -sS {key} -F context=claims -F 'file=Hello, Sluice!;filename=hello.txt' {url}/api/v1/files/upload""",
        f"""curl -sS "$({link})\"""",
    )


def _sed_field(name: str) -> str:
    return f"""sed -E 's/.*"{name}":"([^"]+)".*/\\1/'"""


def work(context: typer.Context) -> None:
    """Run the worker alone: purge deleted files, clean up after crashes, remove old decisions.

    Any number of workers may run beside any number of servers; set SLUICE_WORKER_INSIDE=false on the servers then.
    Ctrl-C or SIGTERM ends it after the current round.
    """
    settings = service_settings()
    launched = start_zygote(context) if settings.rescan_per_second else None

    import asyncio
    import signal

    import uvloop

    async def run_until_signal() -> None:
        stop = asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        await migrate_database(settings)
        await _work(settings, launched, stop)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(run_until_signal())


async def _work(settings: "Settings", launched: "LaunchedZygote | None", stop: "asyncio.Event") -> None:
    import os
    from contextlib import AsyncExitStack

    from sluice.observe import traces
    from sluice.observe.log import log
    from sluice.wiring.assembly import assembled_for_work, assembled_scanner, run_worker

    async with AsyncExitStack() as stack:
        stack.enter_context(traces.exported(os.environ))
        services = await stack.enter_async_context(assembled_for_work(settings))
        if settings.worker_port is not None:
            # A worker without a port never loads the HTTP framework.
            from sluice.cli.listening import monitoring

            await stack.enter_async_context(monitoring(settings, settings.worker_port, services))
        log.info("working", pause_seconds=settings.worker_seconds)
        await run_worker(settings, services, assembled_scanner(settings, launched), stop)
    log.info("stopped")
