"""What the role may do that the service works in, on PostgreSQL: what its queries need, and nothing with the tables themselves.

The owner of the tables runs the migrations and grants this after them. Making roles is the operator's (docs/operations.md).
"""

from collections.abc import Mapping
from typing import Final

from sqlalchemy import text

from sluice.db.database import Database
from sluice.db.whose import NOBODY

RIGHTS: Final[Mapping[str, str]] = {
    "tenants": "SELECT, INSERT, UPDATE",
    "storage_configs": "SELECT, INSERT, UPDATE, DELETE",
    "default_buckets": "SELECT, INSERT, UPDATE",
    "contexts": "SELECT, INSERT, UPDATE",
    "files": "SELECT, INSERT, UPDATE, DELETE",
    "api_keys": "SELECT, INSERT, UPDATE",
    "plan_usage": "SELECT, INSERT, UPDATE",
    "rate_takes": "SELECT, INSERT, DELETE",
    "audit_events": "SELECT, INSERT, DELETE",
    "decisions": "SELECT, INSERT, DELETE",
    "row_counts": "SELECT, INSERT, UPDATE, DELETE",
    "count_deltas": "SELECT, INSERT, UPDATE, DELETE",
    "alembic_version": "SELECT",
}
"""By table. What is append-only cannot even be asked to change."""


async def role_of(database: Database) -> str:
    """Answer as whom the database knows these connections. Raises `DatabaseAway`."""
    async with database.reading(NOBODY) as connection:
        return str((await connection.execute(text("SELECT current_user"))).scalar_one())


async def grant(owner: Database, role: str) -> None:
    """Let `role` work with the tables of `owner`; granting twice changes nothing. Raises `DatabaseAway`."""
    async with owner.transaction(NOBODY) as connection:
        names = (await connection.execute(text("SELECT quote_ident(:role), quote_ident(current_schema())"), {"role": role})).one()
        quoted, schema = names
        await connection.execute(text(f"GRANT USAGE ON SCHEMA {schema} TO {quoted}"))
        for table, rights in RIGHTS.items():
            await connection.execute(text(f"GRANT {rights} ON {schema}.{table} TO {quoted}"))
        await connection.execute(text(f"GRANT EXECUTE ON FUNCTION {schema}.presented_key(text) TO {quoted}"))
