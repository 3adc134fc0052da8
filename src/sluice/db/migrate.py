"""Bringing a database to the schema of this release, and telling whether it is there. The steps are in `migrations/versions`."""

from pathlib import Path
from typing import Final

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, text
from sqlalchemy.exc import ProgrammingError

from sluice.db.database import Database, DatabaseAway
from sluice.db.whose import EVERYBODY, NOBODY

_SCRIPTS: Final = Path(__file__).parent / "migrations"
_LOCK: Final = 7_305_441_926
_INSUFFICIENT_PRIVILEGE: Final = "42501"
_DEADLOCK: Final = "40P01"
"""PostgreSQL, appendix A."""
_TRIES: Final = 10


class NotTheOwner(Exception):
    """The role that was to migrate may not change the tables."""


async def upgrade(database: Database, *, to: str = "head") -> None:
    """Run every step that is missing up to the revision `to`, in one transaction; several processes may start at once.

    A database that a later release has been at is left as it is. Raises `DatabaseAway`, `NotTheOwner`.
    """
    for left in reversed(range(_TRIES)):
        try:
            await _upgrade_all(database, to)
        except ProgrammingError as fault:
            if _sqlstate(fault) != _INSUFFICIENT_PRIVILEGE:
                raise
            raise NotTheOwner from fault
        except DatabaseAway as fault:
            # Servers go on meanwhile, and lock the same tables in an order of their own. Nothing was changed: the next try is a whole one.
            if not left or _sqlstate(fault.__cause__) != _DEADLOCK:
                raise
        else:
            return


def _sqlstate(fault: BaseException | None) -> str | None:
    return getattr(getattr(fault, "orig", fault), "sqlstate", None)


async def _upgrade_all(database: Database, to: str) -> None:
    async with database.transaction(EVERYBODY) as connection:
        if not database.is_sqlite:
            await connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
        await connection.run_sync(_upgrade, to)


async def revision(database: Database) -> str | None:
    """Answer the revision that the database is at, None when it was never migrated."""
    async with database.reading(NOBODY) as connection:
        return await connection.run_sync(lambda sync: MigrationContext.configure(sync).get_current_revision())


def newest() -> str | None:
    """Answer the revision of this release."""
    return ScriptDirectory.from_config(_config()).get_current_head()


def steps() -> list[str]:
    """Answer the revisions, the first one first."""
    return [step.revision for step in reversed(list(ScriptDirectory.from_config(_config()).walk_revisions()))]


def serves(at: str | None) -> bool:
    """Say whether this release works on a database at that revision: at its own, or at one that a later release has brought it to.

    Steps only expand what the release before uses (decision 15), so its processes may go on, and start again, while others are replaced.
    """
    return at is not None and (at == newest() or _is_later(at))


def _is_later(at: str) -> bool:
    return at.isdecimal() and at > (newest() or "")


def _upgrade(connection: Connection, to: str) -> None:
    at = MigrationContext.configure(connection).get_current_revision()
    if at is not None and _is_later(at):
        return
    config = _config()
    config.attributes["connection"] = connection
    command.upgrade(config, to)


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(_SCRIPTS))
    config.set_main_option("path_separator", "os")
    return config
