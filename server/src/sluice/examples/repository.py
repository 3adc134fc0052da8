"""All queries of examples. The tenant comes first in every one."""

from sqlalchemy import delete, insert, select

from sluice.db.schema import context_examples
from sluice.db.sql import Connection
from sluice.examples.example import Example
from sluice_inspect.document_kinds import Features


async def load(connection: Connection, tenant_id: str, context_id: str) -> tuple[Example, ...]:
    """Return all examples of a context, the oldest first."""
    columns = context_examples.c
    query = (
        select(*(columns[name] for name in Example.__slots__))
        .where(columns.tenant_id == tenant_id, columns.context_id == context_id)
        .order_by(columns.example_id)
    )
    rows = (await connection.execute(query)).mappings().all()
    return tuple(Example(**{**row, "features": Features.from_json(row["features"])}) for row in rows)


async def add(connection: Connection, tenant_id: str, context_id: str, example: Example) -> None:
    """Insert one example; a constraint refuses it (`Conflict`) if the context has one of the same bytes."""
    plain = {name: getattr(example, name) for name in Example.__slots__}
    own = {"tenant_id": tenant_id, "context_id": context_id, "features": example.features.to_json()}
    await connection.execute(insert(context_examples).values(plain | own))


async def remove(connection: Connection, tenant_id: str, context_id: str, example_id: str) -> None:
    """Delete one example of a context."""
    columns = context_examples.c
    its = (columns.tenant_id == tenant_id, columns.context_id == context_id, columns.example_id == example_id)
    await connection.execute(delete(context_examples).where(*its))
