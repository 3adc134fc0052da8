"""The environment of a command: the settings, the database, and the zygote that it starts early.

Nothing here loads a library before a command asks for it: `--help` must not wait for the database's.
"""

# ruff: noqa: PLC0415  (see above)

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

import typer

from sluice_client.cli.output import CommandRefused, Exit

if TYPE_CHECKING:
    from sluice.audit import AuditAction
    from sluice.db.database import Database
    from sluice.settings import Settings
    from sluice.wiring.prestart import Launch, LaunchedZygote

T = TypeVar("T")
_NAMED: Final = 5  # columns in a sentence


def read_settings() -> "Settings":
    """Return the settings of the environment. Raise `CommandRefused` that names every variable that is wrong."""
    import os

    from pydantic import ValidationError
    from pydantic_settings import SettingsError

    from sluice.settings import Settings, unknown_variables

    unknown = unknown_variables(os.environ)
    if unknown:
        named = ", ".join(name if like is None else f"{name} (did you mean {like}?)" for name, like in unknown.items())
        raise CommandRefused(f"These variables are no settings: {named}. Correct or remove them.", Exit.USAGE)
    try:
        return Settings()
    except ValidationError as fault:
        # What concerns several settings names them itself.
        places = ("".join(f"_{part}" for part in error["loc"]).upper() for error in fault.errors())
        messages = (error["msg"].removeprefix("Value error, ") for error in fault.errors())
        wrong = "; ".join(
            f"SLUICE{name}: {text}" if name else text for name, text in zip(places, messages, strict=True)
        )
        raise CommandRefused(f"The settings are wrong. {wrong}.", Exit.USAGE) from fault
    except SettingsError as fault:
        raise CommandRefused(f"The settings cannot be read: {fault}.", Exit.USAGE) from fault


def task_settings() -> "Settings":
    """Return the settings for a command that talks to a person: it logs nothing unless the log level is `debug`."""
    from sluice.observe import log

    settings = read_settings()
    log.configure("debug" if settings.log_level == "debug" else "critical", settings.log_format)
    return settings


def settings_if_set() -> "Settings | None":
    """Return the settings for a task, None if no variable sets one: loading them takes longer than a small check."""
    import os

    return task_settings() if any(name.startswith("SLUICE_") for name in os.environ) else None


def service_settings() -> "Settings":
    """Return the settings for a process that runs until a signal stops it, and configure its log."""
    from sluice.observe import log

    settings = read_settings()
    log.configure(settings.log_level, settings.log_format)
    return settings


def missing_in_production(settings: "Settings") -> str:
    """Return a sentence on the setting that production needs and that is missing, empty if there is none."""
    if settings.production and settings.public_url is None:
        return "SLUICE_PRODUCTION needs SLUICE_PUBLIC_URL: without it download links lead to this machine only."
    return ""


def start_zygote(context: typer.Context) -> "LaunchedZygote | None":
    """Start the sandbox's zygote now: it loads on another core while this process loads the rest of the command."""
    from sluice.wiring.prestart import launch_early

    launch: Launch = context.obj or launch_early
    return launch()


def on_database(act: "Callable[[Database], Awaitable[T]]") -> T:
    """Return what `act` returns for the database of the environment's settings. Raise as `opened_database` does."""
    import asyncio

    settings = task_settings()

    async def call() -> T:
        async with opened_database(settings) as database:
            return await act(database)

    return asyncio.run(call())


@asynccontextmanager
async def opened_database(settings: "Settings") -> "AsyncIterator[Database]":
    """Open the database for one command. Raise `CommandRefused` if there is none, or none of this release."""
    from sluice.db import migrate
    from sluice.wiring.engines import make_database

    require_file(settings)
    database = make_database(settings)
    try:
        schema = await migrate.revision(database)
        if not migrate.serves(schema):
            raise CommandRefused(
                f"The database is at schema {schema or 'none'} and this release needs {migrate.newest()}: run `sluice "
                "migrate`.",
                Exit.ERROR,
            )
        yield database
    finally:
        await database.aclose()


def require_file(settings: "Settings") -> None:
    """Raise `CommandRefused` if the database is a file of SQLite that does not exist."""
    url = settings.resolved_database_url
    path = Path(url.removeprefix("sqlite:///"))
    # SQLite would create an empty database in whatever folder the command was run in.
    if url.startswith("sqlite:///") and not path.exists():
        raise CommandRefused(
            f"There is no database at {path}: run `sluice init` first, or set SLUICE_DATA_DIR to the folder of the "
            "service.",
            Exit.ERROR,
        )


async def migrate_database(settings: "Settings") -> tuple[str | None, str | None]:
    """Migrate the database to the schema of this release, without a time limit. Return the schema before and after.

    If the tables belong to another role than the service's, grant the service's role what it needs. Raise
    `DatabaseUnavailable`, or `CommandRefused` if the service's role would have to migrate and may not, or if the
    database is of a clone from before 0.1.0.
    """
    from sluice.db import migrate
    from sluice.wiring.engines import make_database, make_owners_database

    async with AsyncExitStack() as stack:
        owner = make_owners_database(settings)
        stack.push_async_callback(owner.aclose)
        before = await migrate.revision(owner)
        if not migrate.serves(before):
            try:
                await migrate.upgrade(owner)
            except migrate.NotTheOwner as fault:
                raise CommandRefused(
                    f"The database is at schema {before or 'none'}, this release needs {migrate.newest()}, and "
                    "SLUICE_DATABASE_URL names a role that may not change it: run `sluice migrate` with "
                    "SLUICE_MIGRATION_DATABASE_URL, the same database as its owner.",
                    Exit.ERROR,
                ) from fault
        if absent := await migrate.absent_columns(owner):
            names = ", ".join(absent[:_NAMED]) + (", and others" if len(absent) > _NAMED else "")
            raise CommandRefused(
                f"The database lacks {names}: it is from before 0.1.0. UPGRADING.md has the statements that bring it "
                "to the schema of this release.",
                Exit.ERROR,
            )
        if settings.migration_database_url is not None:
            database = make_database(settings)
            stack.push_async_callback(database.aclose)
            role = await migrate.current_role(database)
            if role != await migrate.current_role(owner):
                await migrate.grant(owner, role)
        return before, await migrate.revision(owner)


def operator_action(action: str, tenant_id: str) -> "AuditAction":
    """Return an action for the audit log in the name of the user of this machine who runs the command."""
    import getpass
    import os

    from sluice.access import operator
    from sluice.audit import AuditAction

    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a user without a name; KeyError until Python 3.12
        user = str(os.getuid())
    return AuditAction(operator(tenant_id, user), action)
