"""`sluice doctor`: start every engine of the settings as the service would, change nothing, print how each is."""

# ruff: noqa: PLC0415  (the zygote starts before anything heavy is loaded, and `--help` loads none of it)

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Final

import typer

from sluice.cli.environment import missing_in_production, require_file, start_zygote, task_settings
from sluice.cli.faults import explain
from sluice.cli.processes import process_count
from sluice_client.cli import output
from sluice_client.cli.options import Json
from sluice_client.cli.output import CommandRefused, Exit

if TYPE_CHECKING:
    from pathlib import Path

    from sluice.db.database import Database
    from sluice.kit.health import EngineHealth
    from sluice.settings import Settings
    from sluice.wiring.prestart import LaunchedZygote

# Finding the largest file that clamd scans takes some seconds on an idle machine.
_MAX_NAMED_BUCKETS: Final = 20
_WIDTH: Final = 100  # columns of the output in a file, such as that of a report to support
_SCAN_LIMIT_SECONDS: Final = 30.0


def doctor(context: typer.Context, *, json: Json = False) -> int:
    """Print the health of every engine, the worst first: reachable, version, limits, and what is wrong with it.

    Exits with 1 when one is down. It opens what the service would open, with the same settings, beside a running
    service or without one, and changes nothing.
    """
    settings = task_settings()
    launched = start_zygote(context)

    import asyncio
    import platform
    import sys

    from sluice.kit.health import EngineState

    worst_first = (EngineState.DOWN, EngineState.DEGRADED, EngineState.UP)
    with _without_traces(settings) as tried:
        healths = asyncio.run(_examine(settings, tried, launched))
    healths = sorted(healths, key=lambda health: worst_first.index(health.state))
    worst = healths[0].state
    if json:
        engines = [asdict(replace(health, limits=dict(health.limits))) for health in healths]
        output.as_json({"status": worst.value, "engines": engines})
    else:
        headings = ("kind", "engine", "state", "version", "detail", "limits")
        output.table(headings, [_row(health) for health in healths], most=_WIDTH)
        output.line(f"Python {platform.python_version()} on {sys.platform} {platform.release()}: {worst.value}")
    return Exit.ERROR if worst is EngineState.DOWN else Exit.DONE


def _row(health: "EngineHealth") -> Sequence[str]:
    limits = ", ".join(f"{name} {value}" for name, value in health.limits.items())
    return (health.kind, health.name, health.state.value, health.version or "-", health.detail or "-", limits or "-")


@contextmanager
def _without_traces(settings: "Settings") -> "Iterator[Settings]":
    """Yield settings with which the scanner and the verifiers make nothing in the folders of the installation.

    Secret files that the first start would make are made in a temporary folder.
    """
    import tempfile
    from pathlib import Path

    from sluice.wiring.start import missing_secret_files

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        changed: dict[str, object] = {"spool_dir": folder / "spool"}
        if not settings.production and missing_secret_files(settings):
            changed["data_dir"] = folder
            (folder / "keys").mkdir(mode=0o700)
            for path in settings.keys_dir.glob("*"):
                (folder / "keys" / path.name).symlink_to(path.absolute())
        yield settings.model_copy(update=changed)


async def _examine(
    settings: "Settings", tried: "Settings", launched: "LaunchedZygote | None"
) -> "Sequence[EngineHealth]":
    import asyncio

    async with AsyncExitStack() as stack:
        found = await asyncio.gather(
            _reported("database", lambda: _database(settings, stack)),
            _reported("storage", lambda: _storage(settings, stack)),
            _reported("limiter", lambda: _limiter(settings if settings.limiter == "database" else tried, stack)),
            _sandbox_and_scanner(settings, tried, stack, launched),
            _reported("identity", lambda: _identity(tried, stack)),
            _reported("secrets", lambda: _secrets(settings)),
            _reported("settings", lambda: _server(settings)),
        )
    return [health for healths in found for health in healths]


async def _reported(kind: str, examine: "Callable[[], Awaitable[Sequence[EngineHealth]]]") -> "Sequence[EngineHealth]":
    """Return what `examine` returns. An engine that cannot even be created is down, and hides no other engine."""
    from sluice.kit.health import EngineHealth, EngineState

    try:
        return await examine()
    except Exception as fault:
        known = explain(fault)
        if known is None:
            raise
        return [EngineHealth(kind, "-", EngineState.DOWN, detail=known[0])]


def _open_database(settings: "Settings", stack: AsyncExitStack) -> "Database":
    from sluice.wiring.engines import make_database

    database = make_database(settings)
    stack.push_async_callback(database.aclose)
    return database


async def _database(settings: "Settings", stack: AsyncExitStack) -> "Sequence[EngineHealth]":
    from sluice.db import migrate
    from sluice.kit.health import EngineState
    from sluice.wiring.start import is_open_to_others

    require_file(settings)
    database = _open_database(settings, stack)
    health = await database.health()
    if health.state is EngineState.DOWN:
        return [health]
    schema = await migrate.revision(database)
    if settings.resolved_database_url.startswith("sqlite:") and is_open_to_others(settings.data_dir):
        detail = f"others can enter the folder {settings.data_dir}: run chmod 700 on it"
        health = replace(health, state=EngineState.DEGRADED, detail=detail)
    if not migrate.serves(schema):
        detail = f"at schema {schema or 'none'}, this release needs {migrate.newest()}: run `sluice migrate`"
        return [replace(health, state=EngineState.DOWN, detail=detail)]
    row_security = {True: {"row_security": "on"}, False: {"row_security": "off"}, None: {}}
    return [
        replace(health, limits={**health.limits, "schema": schema or "", **row_security[await database.row_security()]})
    ]


async def _storage(settings: "Settings", stack: AsyncExitStack) -> "Sequence[EngineHealth]":
    from sluice.kit.health import EngineState
    from sluice.wiring.storage import make_buckets, open_stores

    if settings.resolved_storage_url is None and not settings.resolved_storage_dir.exists():
        return [_unmade_folder(settings.resolved_storage_dir)]
    stores = open_stores(settings)
    stack.push_async_callback(stores.aclose)
    health = await stores.platform.health()
    database = await _migrated_database(settings, stack)
    if database is None:
        return [health]
    unusable = [bucket.config_id async for bucket in make_buckets(settings, database, stores).not_allowed()]
    if not unusable:
        return [health]
    named = ", ".join(unusable[:_MAX_NAMED_BUCKETS])
    detail = f"{len(unusable)} bucket(s) at endpoints that SLUICE_BUCKET_ENDPOINT_HOSTS does not allow: {named}"
    state = EngineState.DOWN if health.state is EngineState.DOWN else EngineState.DEGRADED
    return [replace(health, state=state, detail="; ".join(filter(None, (health.detail, detail))))]


def _unmade_folder(folder: "Path") -> "EngineHealth":
    """Return the health of a local store whose folder the first start would make."""
    import os

    from sluice.kit.health import EngineHealth, EngineState

    parent = next(path for path in folder.absolute().parents if path.exists())
    if parent.is_dir() and os.access(parent, os.W_OK | os.X_OK):
        return EngineHealth("storage", "local", EngineState.UP, detail="not made yet: the first start makes it")
    detail = f"The folder {folder} cannot be made in {parent}: set SLUICE_STORAGE_DIR to one that can be written to."
    return EngineHealth("storage", "local", EngineState.DOWN, detail=detail)


async def _limiter(settings: "Settings", stack: AsyncExitStack) -> "Sequence[EngineHealth]":
    from sluice.wiring.engines import make_limiter

    if settings.limiter == "database":
        require_file(settings)
    limiter = make_limiter(settings, _open_database(settings, stack))
    stack.push_async_callback(limiter.aclose)
    return [await limiter.health()]


async def _sandbox_and_scanner(
    settings: "Settings", tried: "Settings", stack: AsyncExitStack, launched: "LaunchedZygote | None"
) -> "Sequence[EngineHealth]":
    from sluice.kit.health import EngineHealth, EngineState
    from sluice.scanner import FindsScanLimit, healths_of
    from sluice.wiring.engines import make_contexts, make_scanner, scanner_healths
    from sluice.wiring.refusal import StartRefused
    from sluice.wiring.sandbox import make_sandbox, sandbox_health
    from sluice_inspect.format import missing_readers
    from sluice_inspect.sandbox.ocr import try_ocr

    try:
        sandbox = make_sandbox(settings, launched)
    except StartRefused as fault:
        return [EngineHealth(kind, "-", EngineState.DOWN, detail=str(fault)) for kind in ("sandbox", "scanner")]
    stack.push_async_callback(sandbox.aclose)

    async def examine_sandbox() -> "Sequence[EngineHealth]":
        await sandbox.start()
        health = await sandbox_health(sandbox)
        if fault := await try_ocr(sandbox):
            health = replace(health, state=EngineState.DEGRADED, detail=fault)
        return [replace(health, detail="; ".join(filter(None, (health.detail, *missing_readers()))))]

    async def examine_scanner() -> "Sequence[EngineHealth]":
        scanner = await make_scanner(tried, sandbox, keeps_rules=False)
        stack.push_async_callback(scanner.aclose)
        if isinstance(scanner, FindsScanLimit):
            await scanner.find_scan_limit(_SCAN_LIMIT_SECONDS)
        database = await _migrated_database(settings, stack)
        if database is None:
            return await healths_of(scanner)
        return await scanner_healths(scanner, make_contexts(database, scanner), named=True)

    # The builtin scanner works in the sandbox, so the sandbox comes first. clamd is asked even if the sandbox fails.
    return [*await _reported("sandbox", examine_sandbox), *await _reported("scanner", examine_scanner)]


async def _migrated_database(settings: "Settings", stack: AsyncExitStack) -> "Database | None":
    """Return the database if contexts can be read from it. What is wrong with it is in its own line of the report."""
    from sluice.db import migrate
    from sluice.db.database import DatabaseUnavailable
    from sluice.wiring.refusal import StartRefused

    try:
        require_file(settings)
        database = _open_database(settings, stack)
        return database if migrate.serves(await migrate.revision(database)) else None
    except (CommandRefused, StartRefused, DatabaseUnavailable):
        return None


async def _server(settings: "Settings") -> "Sequence[EngineHealth]":
    """Return whether `serve` would start with these settings, and in how many processes."""
    from sluice.kit.health import EngineHealth, EngineState

    missing = missing_in_production(settings)
    if missing:
        return [EngineHealth("settings", "environment", EngineState.DOWN, detail=missing)]
    processes = process_count(settings)
    limits = {"processes": processes}
    shared = processes > 1 and settings.limiter == "memory"
    detail = "rate limits are counted in the database: in memory they are exact within one process" if shared else ""
    return [EngineHealth("settings", "environment", EngineState.UP, detail=detail, limits=limits)]


async def _secrets(settings: "Settings") -> "Sequence[EngineHealth]":
    from sluice.kit.health import EngineHealth, EngineState
    from sluice.wiring.start import missing_secret_files, refused_secret_files

    names = ", ".join(str(path) for path in missing_secret_files(settings))
    refused = refused_secret_files(settings)
    if names and settings.production:
        refused = [*refused, f"Missing: {names}; run `sluice init` once and keep a copy, or put your copy there."]
    if refused:
        return [EngineHealth("secrets", "files", EngineState.DOWN, detail=" ".join(refused))]
    detail = f"the first start makes {names}" if names else ""
    return [EngineHealth("secrets", "files", EngineState.UP, detail=detail)]


async def _identity(settings: "Settings", stack: AsyncExitStack) -> "Sequence[EngineHealth]":
    from sluice.wiring.engines import make_verifiers

    verifiers = make_verifiers(settings)
    stack.push_async_callback(verifiers.aclose)
    return await verifiers.health()
