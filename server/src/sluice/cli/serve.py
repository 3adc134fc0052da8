"""`sluice serve` and `sluice work`: run the server or the worker until a signal stops it."""

# ruff: noqa: PLC0415  (the zygote starts before anything heavy is loaded, and `--help` loads none of it)

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Final

import typer

from sluice.cli.environment import migrate_database, missing_in_production, service_settings, start_zygote
from sluice.cli.init import FirstKey, make_first_key
from sluice.cli.processes import MOST_PROCESSES, ServerProcess, of_one_process, process_count
from sluice_client.cli import output
from sluice_client.cli.output import CommandRefused, Exit

if TYPE_CHECKING:
    import asyncio
    import socket
    from pathlib import Path

    from sluice.settings import Settings
    from sluice.wiring.prestart import EarlyZygote, LaunchedZygote

_COLLECT_AFTER: Final = (5000, 10, 10)  # Python's own first number is 700: a few uploads
_CONTEXT: Final = '{"context_key": "claims", "display_name": "Claims"}'


def serve(
    context: typer.Context,
    *,
    processes: Annotated[
        int | None,
        typer.Option(min=1, max=MOST_PROCESSES, help="Processes that share the port; default: SLUICE_PROCESSES."),
    ] = None,
) -> int:
    """Serve the API, with the worker inside.

    Migrates the database, listens on SLUICE_HOST:SLUICE_PORT (127.0.0.1:8000) and keeps everything in SLUICE_DATA_DIR
    (.data). The very first start makes a tenant and an admin key and shows both once, with three curl lines to try;
    with SLUICE_PRODUCTION it makes neither: run **sluice init**.

    Ctrl-C, SIGTERM or the end of the terminal drains: no new connections, and uploads in progress may finish within
    SLUICE_DRAIN_SECONDS. A second Ctrl-C does not wait. With several processes SIGHUP replaces them one by one. A
    single one without a terminal has the rules of SLUICE_YARA_RULES read again.
    """
    settings = service_settings()
    if processes is not None:
        settings = settings.model_copy(update={"processes": processes})
    if missing := missing_in_production(settings):
        raise CommandRefused(missing, Exit.USAGE)
    count = process_count(settings)
    launched: EarlyZygote | None = start_zygote(context) if count == 1 else None

    import asyncio
    import gc
    import resource

    # Nearly everything that is loaded stays: the collector would look through it again and again, a tenth of the start.
    gc.disable()

    import uvloop

    from sluice.cli.sockets import bound
    from sluice.kit.libc import give_large_blocks_back

    give_large_blocks_back()
    # Keys and credentials are in this memory: a crash must not leave them in a core file.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with bound(settings.host, settings.port, "SLUICE_PORT") as listener:
        settings = settings.model_copy(update={"port": listener.getsockname()[1]})
        process = ServerProcess()
        if count > 1:
            came = _supervised(settings, count, listener)
            if isinstance(came, int):
                return came
            process = came
            launched = process.zygote
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_serve(of_one_process(settings, process.number, count), listener, launched, process))
    return Exit.DONE


def _supervised(settings: "Settings", count: int, listener: "socket.socket") -> ServerProcess | int:
    """Return in each process what it is, and in the supervisor its exit code."""
    from sluice.cli.supervisor import ProcessSupervisor
    from sluice.observe.log import log

    if settings.limiter == "memory":
        log.info("limiter_database", why="SLUICE_LIMITER=memory is exact within one process only", processes=count)
    return ProcessSupervisor(count, listener, settings.drain_seconds, load_server).run()


def load_server() -> None:
    """Load what every process of a server needs; the processes share this memory."""
    import sluice.asgi
    import sluice.cli.listening
    import sluice.db.migrate  # noqa: F401
    from sluice.wiring.storage import load_s3

    load_s3()


async def _serve(
    settings: "Settings", listener: "socket.socket", launched: "EarlyZygote | None", process: ServerProcess
) -> None:
    import asyncio
    import gc
    import signal
    from functools import partial

    from sluice.api.app import end_waits
    from sluice.asgi import create_app
    from sluice.cli.listening import Server, connection_table, server_config
    from sluice.observe.log import log
    from sluice.observe.siblings import Siblings

    table = connection_table(settings)
    siblings = None if process.folder is None else Siblings(process.folder, process.number, process.count)
    app = create_app(settings, launched, (table.metrics,), siblings)
    server = Server(server_config(app, settings, table), partial(end_waits, app))
    # A signal during the start takes effect at its end. uvicorn raises each signal again after it has drained, and must
    # find a handler that does not kill.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, server.handle_exit)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_DFL:  # not under nohup, nor under a supervisor
        signal.signal(signal.SIGHUP, server.handle_exit)
    if process.is_first:
        await migrate_database(settings)
    # uvicorn would print the traceback of an engine that refuses to start, so it does not run the lifespan.
    async with app.router.lifespan_context(app):
        if server.should_exit:
            return
        has_default = signal.getsignal(signal.SIGHUP) == server.handle_exit
        if settings.yara_rules is not None and has_default and not _has_terminal():  # whose end is a SIGHUP too
            asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, app.state.reload_rules)
        first, link = await _first_start(settings) if process.is_first and not settings.production else (None, None)
        url = _url_of(settings)
        welcome = () if first is None else _welcome(first, url, settings.keys_dir)
        # Who reads the address may connect at once, so listen before it is printed. Requests are served only after.
        listener.listen(server.config.backlog)
        if process.is_first:
            _print_start(settings, url, welcome, link, process.count)
        # What is loaded stays, so the collector need not look through it again and again: it took a tenth of the
        # server's time for small uploads. A collection first would find 1,500 objects, and take a tenth of the start.
        gc.freeze()
        gc.set_threshold(*_COLLECT_AFTER)
        gc.enable()
        log.info("serving", host=settings.host, port=settings.port, process=process.number)
        process.announce()
        await server.serve(sockets=[listener])
    log.info("stopped")


def _has_terminal() -> bool:
    """Return whether this process has a controlling terminal."""
    import os

    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
    except OSError:
        return False
    return True


def _url_of(settings: "Settings") -> str:
    """Return the address at which a client on this machine reaches the service; none can connect to a wildcard."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(settings.host, settings.host)  # noqa: S104  (named, not bound)
    return f"http://[{host}]:{settings.port}" if ":" in host else f"http://{host}:{settings.port}"


def _print_start(settings: "Settings", url: str, welcome: Sequence[str], link: str | None, processes: int) -> None:
    console = f"{url}/console (sign in: sluice console login)"
    if link is not None:
        console = f"{url}/console/login/{link} (works once, for a minute; later: sluice console login)"
    output.line(
        *welcome,
        f"Sluice serves {url}",
        *((f"  console   {console}",) if settings.console else ()),
        *((f"  API docs  {url}/docs",) if settings.docs else ()),
        f"  data      {settings.data_dir}",
        *((f"  processes {processes}",) if processes > 1 else ()),
        "Ctrl-C drains and stops.",
    )


async def _first_start(settings: "Settings") -> tuple[FirstKey | None, str | None]:
    """Return the key of a first start and, on a terminal, the text of a link that signs in to the console."""
    import sys

    from sluice.access import Scope
    from sluice.cli.environment import operator_action
    from sluice.sessions.service import Sessions
    from sluice.wiring.engines import make_database

    database = make_database(settings)
    try:
        first = await make_first_key(database, settings.data_dir)
        if first is None or not settings.console or not sys.stdout.isatty():
            return first, None
        by = operator_action("console.link_created", first.tenant_id)
        user = by.principal
        issued = await Sessions(database).create_link(by, user.actor_id, user.actor_name, [Scope.ADMIN.value])
        return first, issued.text
    finally:
        await database.aclose()


def _welcome(first: FirstKey, url: str, folder: "Path") -> Sequence[str]:
    """Return the first lines of a first start.

    The key is among them only on a terminal: a log keeps it, and others may read the log. Otherwise it is in a file
    that only the service's user can read.
    """
    import shlex
    import sys

    from sluice.kit.secret_files import replace_secret_file

    key = shown = first.api_key or ""
    about = "; the key is shown now and never again"
    if not sys.stdout.isatty():
        path = (folder / "first-key").absolute()
        replace_secret_file(path, f"{key}\n".encode())
        key, shown, about = f"$(cat {shlex.quote(str(path))})", f"in {path}, which only this user can read", ""
    create, upload, download = curl_lines(url, key)
    return (
        "",
        f"Welcome to Sluice. This first start made a tenant and an admin key{about}.",
        "",
        f"  tenant   {first.tenant_id} ({first.tenant_name}, plan {first.plan})",
        f"  api key  {shown}",
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
