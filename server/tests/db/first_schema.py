"""The schema of 0.1.0, at which migration steps begin: the statements that create it, in `first_schema.json`.

Until 0.1.0 is released, `python -m tests.db.first_schema` writes the file again after a change of the declaration. From
then on it stays as it is, and a change of the declaration comes with a migration step (docs/decisions/0015).
"""

import json
from itertools import groupby
from pathlib import Path
from typing import Any, Final

from sqlalchemy import create_mock_engine

from sluice.db import migrate, triggers
from sluice.db.database import Database
from sluice.db.rls import ALL_TENANTS
from sluice.db.schema import metadata

FILE: Final = Path(__file__).with_suffix(".json")
_DRIVERS: Final = {"sqlite": "sqlite://", "postgresql": "postgresql+asyncpg://"}


def declared(dialect: str) -> list[str]:
    """Return the statements that create the declared schema, in the schema `public` on PostgreSQL."""
    found: list[str] = []

    def add(statement: Any, *_values: object) -> None:
        found.append(" ".join(str(statement.compile(dialect=engine.dialect)).split()))

    engine = create_mock_engine(_DRIVERS[dialect], add)
    metadata.create_all(engine, checkfirst=False)
    # SQLAlchemy keeps the indexes of a table in a set: their order differs from run to run.
    runs = groupby(found, key=lambda statement: " INDEX " in statement.partition(" ON ")[0])
    ordered = [each for are_indexes, run in runs for each in (sorted(run) if are_indexes else run)]
    return [*ordered, *triggers.statements(dialect, "public")]


def first_schema(dialect: str) -> list[str]:
    """Return the statements that create the schema of 0.1.0."""
    statements: list[str] = json.loads(FILE.read_text(encoding="utf-8"))[dialect]
    return statements


async def create(database: Database, statements: list[str]) -> None:
    """Run the statements on an empty database, which is then at the revision of 0.1.0."""
    async with database.transaction(ALL_TENANTS) as connection:
        for statement in [*statements, migrate.VERSION_TABLE, "INSERT INTO alembic_version VALUES ('0001')"]:
            await connection.exec_driver_sql(statement)


if __name__ == "__main__":
    FILE.write_text(json.dumps({name: declared(name) for name in _DRIVERS}, indent=0) + "\n", encoding="utf-8")
