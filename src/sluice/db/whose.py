"""Whose rows a unit of work may touch, and how PostgreSQL is told. The policies that hold it to that are in the migrations.

Every query names its tenant. Behind that stands a second wall: each unit of work says whose rows it is about, and row level security
shows it no others, so that a query which forgets its tenant finds nothing (docs/decisions). SQLite has no such wall.
"""

from enum import Enum
from typing import Any, Final

import asyncpg

TENANT: Final = "sluice.tenant"
EVERYBODY_FLAG: Final = "sluice.everybody"


class Reach(Enum):
    """What reaches further, or less far, than one tenant."""

    NOBODY = "nobody"
    EVERYBODY = "everybody"


NOBODY: Final = Reach.NOBODY
"""For what concerns no tenant's rows: health, versions, counters without a name."""
EVERYBODY: Final = Reach.EVERYBODY
"""For the worker, the operator's commands, and what a signature stands for. No text that a caller sends can mean this."""

Whose = str | Reach
"""A tenant's id, or one of the two above."""


class TenantConnection(asyncpg.Connection):  # type: ignore[misc]  # asyncpg ships no type information
    """A connection of the hot path that knows for whom it was last used: the server is told only when that changes."""

    __slots__ = ("_tenant",)

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self._tenant: str | None = None

    async def stand_for(self, tenant_id: str) -> None:
        """Tell the server whose rows the next statements are about; no round trip when it knows."""
        if self._tenant == tenant_id:
            return
        # Unknown until it is answered: a caller that gives up in between leaves nothing behind that anybody relies on.
        self._tenant = None
        await self.execute(f"SELECT {set_config(TENANT, tenant_id, for_session=True)}")
        self._tenant = tenant_id


def set_config(name: str, value: str, *, for_session: bool = False) -> str:
    """Answer the SQL call that sets `name`, as text: until the transaction ends, or for the whole session.

    The value is quoted by the standard's rule, which holds since `standard_conforming_strings` is on (the default since PostgreSQL 9.1).
    """
    quoted = value.replace("'", "''")
    return f"set_config('{name}', '{quoted}', {'false' if for_session else 'true'})"
