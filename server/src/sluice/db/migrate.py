"""Bringing a database to the schema of this release, and granting the service's role its rights.

A new database is created from the declaration, `db.schema` and `db.triggers`, and gets the newest revision. An existing
one runs the migration steps that it lacks, from `migrations/versions`, by Alembic, which is loaded only then. Each new
step comes with the same change of the declaration; `tests/db/test_migrations.py` compares a created database with one
that went through all steps (docs/decisions/0015).

On PostgreSQL the owner of the tables migrates, and the service may work in a role that cannot change them. Creating
roles is the operator's task (docs/operations.md).
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sqlalchemy import Connection, inspect, text
from sqlalchemy.exc import ProgrammingError
from sqlalchemy.schema import CreateIndex, CreateTable

from sluice.db import triggers
from sluice.db.database import Database, DatabaseUnavailable
from sluice.db.rls import ALL_TENANTS, NO_TENANT
from sluice.db.schema import metadata

if TYPE_CHECKING:
    from alembic.config import Config

_SCRIPTS: Final = Path(__file__).parent / "migrations"
STEPS: Final = _SCRIPTS / "versions"
# As Alembic would create it.
VERSION_TABLE: Final = (
    "CREATE TABLE alembic_version "
    "(version_num VARCHAR(32) NOT NULL, CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num))"
)
_LOCK: Final = 7_305_441_926
_TRIES: Final = 10
# PostgreSQL, appendix A.
_INSUFFICIENT_PRIVILEGE: Final = "42501"
_DEADLOCK: Final = "40P01"

# What the service's role may do, by table. An append-only table grants no UPDATE.
RIGHTS: Final[Mapping[str, str]] = {
    "tenants": "SELECT, INSERT, UPDATE",
    "storage_configs": "SELECT, INSERT, UPDATE, DELETE",
    "default_buckets": "SELECT, INSERT, UPDATE, DELETE",
    "contexts": "SELECT, INSERT, UPDATE, DELETE",
    "context_examples": "SELECT, INSERT, DELETE",
    "files": "SELECT, INSERT, UPDATE, DELETE",
    "file_metadata": "SELECT, INSERT, DELETE",
    "api_keys": "SELECT, INSERT, UPDATE",
    "upload_tokens": "SELECT, INSERT, UPDATE, DELETE",
    "idempotency_keys": "SELECT, INSERT, UPDATE, DELETE",
    "cors_origins": "SELECT, INSERT, DELETE",
    "hash_entries": "SELECT, INSERT, UPDATE, DELETE",
    "hash_entry_counts": "SELECT, INSERT, UPDATE, DELETE",
    "console_links": "SELECT, INSERT, UPDATE, DELETE",
    "console_sessions": "SELECT, INSERT, DELETE",
    "console_users": "SELECT, INSERT, UPDATE, DELETE",
    "console_passkeys": "SELECT, INSERT, UPDATE, DELETE",
    "console_challenges": "SELECT, INSERT, DELETE",
    "resumable_uploads": "SELECT, INSERT, UPDATE, DELETE",
    "resumable_parts": "SELECT, INSERT, DELETE",
    "plan_usage": "SELECT, INSERT, UPDATE, DELETE",
    "rate_takes": "SELECT, INSERT, DELETE",
    # Of entries and decisions an erasure replaces the names.
    "audit_events": "SELECT, INSERT, DELETE, UPDATE (actor_id, actor_name, target, reason)",
    "audit_changes": "SELECT, INSERT, DELETE",
    "rejection_marks": "SELECT, INSERT, UPDATE, DELETE",
    "decisions": "SELECT, INSERT, DELETE, UPDATE (actor, actor_id, facts, detail, original_filename, repeat_key)",
    "row_counts": "SELECT, INSERT, UPDATE, DELETE",
    "count_deltas": "SELECT, INSERT, UPDATE, DELETE",
    "events": "SELECT, INSERT, UPDATE, DELETE",
    "event_counters": "SELECT, INSERT, UPDATE, DELETE",
    "webhook_endpoints": "SELECT, INSERT, UPDATE, DELETE",
    "webhook_deliveries": "SELECT, INSERT, UPDATE, DELETE",
    "event_levels": "SELECT, INSERT, UPDATE, DELETE",
    "usage_days": "SELECT, INSERT, UPDATE, DELETE",
    "usage_deltas": "SELECT, INSERT, UPDATE, DELETE",
    "jobs": "SELECT, INSERT, UPDATE, DELETE",
    "erased_files": "SELECT, INSERT, DELETE",
    "bucket_outages": "SELECT, INSERT, UPDATE, DELETE",
    "alembic_version": "SELECT",
}


class NotTheOwner(Exception):
    """The role that should migrate may not change the tables."""


async def upgrade(database: Database) -> None:
    """Create the schema, or run every missing step, in one transaction; several processes may start at once.

    A database that a later release has migrated is left as it is. Raise `DatabaseUnavailable`, `NotTheOwner`.
    """
    for left in reversed(range(_TRIES)):
        try:
            async with database.transaction(ALL_TENANTS) as connection:
                if not database.is_sqlite:
                    await connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
                await connection.run_sync(_upgrade)
        except ProgrammingError as fault:
            if _sqlstate(fault) != _INSUFFICIENT_PRIVILEGE:
                raise
            raise NotTheOwner from fault
        except DatabaseUnavailable as fault:
            # Running servers lock the same tables in another order. The transaction was rolled back: the next try
            # repeats all of it.
            if not left or _sqlstate(fault.__cause__) != _DEADLOCK:
                raise
        else:
            return


async def revision(database: Database) -> str | None:
    """Return the revision of the database, None if it was never migrated."""
    async with database.reading(NO_TENANT) as connection:
        return await connection.run_sync(_revision)


def newest() -> str:
    """Return the revision of this release: that of its newest step, `0001` as long as there is none."""
    return max(path.name.partition("_")[0] for path in STEPS.glob("[0-9]*_*.py"))


def serves(at: str | None) -> bool:
    """Return whether this release works on a database at that revision: its own, or a later one.

    Steps only expand what the previous release uses (decision 15), so its processes may run, and restart, while others
    are replaced.
    """
    return at is not None and (at == newest() or _is_later(at))


async def absent_columns(database: Database) -> list[str]:
    """Return what this release declares and a database at its own revision lacks, as `table.column`; in order.

    That is a database of a clone from before 0.1.0. A later release may have dropped what this one no longer uses.
    """
    sqlite = (
        "SELECT tables.name, columns.name FROM sqlite_master AS tables JOIN pragma_table_info(tables.name) AS columns "
        "WHERE tables.type = 'table'"
    )
    postgres = (
        "SELECT tables.relname, columns.attname FROM pg_class AS tables JOIN pg_attribute AS columns "
        "ON columns.attrelid = tables.oid WHERE tables.relnamespace = current_schema()::regnamespace "
        "AND columns.attnum > 0 AND NOT columns.attisdropped"
    )
    async with database.reading(NO_TENANT) as connection:
        if await connection.run_sync(_revision) != newest():
            return []
        rows = await connection.execute(text(sqlite if database.is_sqlite else postgres))
        found = {(str(table), str(column)) for table, column in rows}
    declared = [(table.name, column.name) for table in metadata.sorted_tables for column in table.columns]
    return sorted(f"{table}.{column}" for table, column in declared if (table, column) not in found)


async def current_role(database: Database) -> str:
    """Return the role of these connections. Raise `DatabaseUnavailable`."""
    async with database.reading(NO_TENANT) as connection:
        return str((await connection.execute(text("SELECT current_user"))).scalar_one())


async def grant(owner: Database, role: str) -> None:
    """Let `role` work with the tables of `owner`; a second call changes nothing. Raise `DatabaseUnavailable`."""
    async with owner.transaction(NO_TENANT) as connection:
        question = text("SELECT quote_ident(:role), quote_ident(current_schema())")
        quoted, schema = (await connection.execute(question, {"role": role})).one()
        await connection.execute(text(f"GRANT USAGE ON SCHEMA {schema} TO {quoted}"))
        for table, rights in RIGHTS.items():
            await connection.execute(text(f"GRANT {rights} ON {schema}.{table} TO {quoted}"))
        for function in ("presented_api_key", "presented_upload_token"):
            await connection.execute(text(f"GRANT EXECUTE ON FUNCTION {schema}.{function}(text) TO {quoted}"))


def _sqlstate(fault: BaseException | None) -> str | None:
    return getattr(getattr(fault, "orig", fault), "sqlstate", None)


def _is_later(at: str) -> bool:
    return at.isdecimal() and at > newest()


def _upgrade(connection: Connection) -> None:
    at = _revision(connection)
    if at is None:
        _create(connection)
    elif not serves(at):
        from alembic import command  # noqa: PLC0415  (see above)

        config = alembic_config(STEPS)
        config.attributes["connection"] = connection
        command.upgrade(config, "head")


def _create(connection: Connection) -> None:
    for table in metadata.sorted_tables:
        connection.execute(CreateTable(table))
        # By name: of two indexes that cost the same PostgreSQL reads the one that was created last.
        for index in sorted(table.indexes, key=lambda one: str(one.name)):
            connection.execute(CreateIndex(index))
    triggers.create(connection)
    connection.exec_driver_sql(VERSION_TABLE)
    connection.execute(text("INSERT INTO alembic_version (version_num) VALUES (:newest)"), {"newest": newest()})


def _revision(connection: Connection) -> str | None:
    """Return what Alembic noted in its table, None if there is no table or no row."""
    if not inspect(connection).has_table("alembic_version"):
        return None
    at = connection.execute(text("SELECT version_num FROM alembic_version")).scalar_one_or_none()
    return None if at is None else str(at)


def alembic_config(steps: Path) -> "Config":
    """Return the settings by which Alembic finds the steps in a folder; `env.py` needs the connection besides."""
    from alembic.config import Config  # noqa: PLC0415  (see above)

    config = Config()
    config.set_main_option("script_location", str(_SCRIPTS))
    config.set_main_option("version_locations", str(steps))
    config.set_main_option("path_separator", "os")
    return config
