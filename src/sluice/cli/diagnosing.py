"""`sluice doctor`: every engine of the settings, started as the service would start it and asked how it is. One that fails hides no other."""

import asyncio
import platform
import sys
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict, replace
from functools import partial
from typing import Final

from sluice.cli import show
from sluice.cli.faults import worded
from sluice.cli.outcomes import Exit
from sluice.db import migrate
from sluice.db.database import Database, DatabaseAway
from sluice.engines.scanner import FindsReach
from sluice.formats.optional_readers import missing_readers
from sluice.kit.health import EngineHealth, EngineState
from sluice.settings import Settings
from sluice.wiring.ahead import Launched
from sluice.wiring.engines import make_database, make_limiter, make_sandbox, make_verifiers
from sluice.wiring.scanning import make_contexts, make_scanner, scanner_health
from sluice.wiring.start import StartRefused
from sluice.wiring.storing import make_stores

_REACH_SECONDS: Final = 30.0
"""Longest wait for how large a file clamd scans: some seconds where nothing else is to do."""
_WORST_LAST: Final = (EngineState.UP, EngineState.DEGRADED, EngineState.DOWN)


def doctor(settings: Settings, *, json: bool, launched: Launched | None = None) -> int:
    """Print how every engine is; the exit code is 1 when one is down. `launched` is the zygote that was begun while this was loaded."""
    healths = asyncio.run(_examine(settings, launched))
    worst = max((health.state for health in healths), key=_WORST_LAST.index)
    if json:
        engines = [asdict(replace(health, limits=dict(health.limits))) for health in healths]
        show.as_json({"status": worst.value, "engines": engines})
    else:
        show.table(("kind", "engine", "state", "version", "detail", "limits"), [_row(health) for health in healths])
        show.line(f"Python {platform.python_version()} on {sys.platform} {platform.release()}: {worst.value}")
    return Exit.REFUSED if worst is EngineState.DOWN else Exit.DONE


async def _examine(settings: Settings, launched: Launched | None) -> Sequence[EngineHealth]:
    async with AsyncExitStack() as stack:
        looks = (_database, _storage, _limiter, partial(_sandbox_and_scanner, launched=launched), _identity)
        found = await asyncio.gather(*(look(settings, stack) for look in looks))
    return [health for healths in found for health in healths]


async def _database(settings: Settings, stack: AsyncExitStack) -> Sequence[EngineHealth]:
    async def look() -> Sequence[EngineHealth]:
        database = make_database(settings)
        stack.push_async_callback(database.aclose)
        health = await database.health()
        return [health if health.state is EngineState.DOWN else await _with_schema(health, database)]

    return await _answered("database", look)


async def _storage(settings: Settings, stack: AsyncExitStack) -> Sequence[EngineHealth]:
    async def look() -> Sequence[EngineHealth]:
        stores = make_stores(settings)
        stack.push_async_callback(stores.aclose)
        return [await stores.platform.health()]

    return await _answered("storage", look)


async def _limiter(settings: Settings, stack: AsyncExitStack) -> Sequence[EngineHealth]:
    async def look() -> Sequence[EngineHealth]:
        database = make_database(settings)
        stack.push_async_callback(database.aclose)
        limiter = make_limiter(settings, database)
        stack.push_async_callback(limiter.aclose)
        return [await limiter.health()]

    return await _answered("limiter", look)


async def _sandbox_and_scanner(settings: Settings, stack: AsyncExitStack, launched: Launched | None) -> Sequence[EngineHealth]:
    """The builtin scanner works in the sandbox, so they are looked at one after the other; clamd is asked even where the sandbox fails."""
    sandbox = make_sandbox(settings, launched)
    stack.push_async_callback(sandbox.aclose)

    async def look_at_sandbox() -> Sequence[EngineHealth]:
        await sandbox.start()
        health = await sandbox.health()
        return [replace(health, detail="; ".join(filter(None, (health.detail, *missing_readers()))))]

    async def look_at_scanner() -> Sequence[EngineHealth]:
        scanner = await make_scanner(settings, sandbox)
        stack.push_async_callback(scanner.aclose)
        if isinstance(scanner, FindsReach):
            await scanner.find_reach(_REACH_SECONDS)
        database = await _migrated(settings, stack)
        health = scanner.health() if database is None else scanner_health(scanner, make_contexts(database, scanner), named=True)
        return [await health]

    return [*await _answered("sandbox", look_at_sandbox), *await _answered("scanner", look_at_scanner)]


async def _migrated(settings: Settings, stack: AsyncExitStack) -> Database | None:
    """Answer the database where it can be asked for contexts; what is wrong with it where not is told by its own line."""
    try:
        database = make_database(settings)
        stack.push_async_callback(database.aclose)
        return database if migrate.serves(await migrate.revision(database)) else None
    except (StartRefused, DatabaseAway):
        return None


async def _identity(settings: Settings, stack: AsyncExitStack) -> Sequence[EngineHealth]:
    async def look() -> Sequence[EngineHealth]:
        verifiers = make_verifiers(settings)
        stack.push_async_callback(verifiers.aclose)
        return await verifiers.health()

    return await _answered("identity", look)


async def _answered(kind: str, look: Callable[[], Awaitable[Sequence[EngineHealth]]]) -> Sequence[EngineHealth]:
    """Answer what `look` finds; an engine that cannot even be made is down, with the sentence that the service would end on."""
    try:
        return await look()
    except Exception as fault:
        known = worded(fault)
        if known is None:
            raise
        return [EngineHealth(kind, "-", EngineState.DOWN, detail=known[0])]


async def _with_schema(health: EngineHealth, database: Database) -> EngineHealth:
    at = await migrate.revision(database)
    if migrate.serves(at):
        wall = {True: {"row_security": "on"}, False: {"row_security": "off"}, None: {}}[await database.row_security()]
        return replace(health, limits={**health.limits, "schema": at or "", **wall})
    detail = f"at schema {at or 'none'}, this release needs {migrate.newest()}: run `sluice migrate`"
    return replace(health, state=EngineState.DOWN, detail=detail)


def _row(health: EngineHealth) -> Sequence[str]:
    limits = ", ".join(f"{name} {value}" for name, value in health.limits.items())
    return (health.kind, health.name, health.state.value, health.version or "-", health.detail or "-", limits or "-")
