"""Row-level-security scopes: which tenant's rows a unit of work may touch.

The policies that enforce them are in `db.triggers`.

Every statement names its tenant, but for the listed ones of the worker and the operator
(`server/tests/db/test_tenant_in_statements.py`). As a second barrier each unit of work sets its scope
on PostgreSQL, so that a query which
forgets its tenant finds nothing (docs/decisions). SQLite has no such barrier.
"""

from enum import Enum
from typing import Any, Final

import asyncpg

TENANT_SETTING: Final = "sluice.tenant"
ALL_TENANTS_SETTING: Final = "sluice.everybody"


class SpecialScope(Enum):
    """Scopes other than one tenant. An enum, so that no text from a caller can be one."""

    NO_TENANT = "no tenant"
    ALL_TENANTS = "all tenants"


# For what concerns no tenant's rows: health, versions, rate limits.
NO_TENANT: Final = SpecialScope.NO_TENANT
# For the worker, the operator's commands, and signed download links, which name no tenant.
ALL_TENANTS: Final = SpecialScope.ALL_TENANTS

# Owns the hash lists that hold for every tenant. `kit.text.is_tenant_id` accepts no such id, so no tenant has it.
INSTALLATION: Final = "*"

# A tenant's id, or one of the two above.
RlsScope = str | SpecialScope


class TenantConnection(asyncpg.Connection):  # type: ignore[misc]  # asyncpg ships no type information
    """A connection of the upload path that remembers its tenant, and sends it to the server only when it changes."""

    __slots__ = ("_tenant",)

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self._tenant: str | None = None

    async def set_tenant(self, tenant_id: str) -> None:
        """Set the scope of the next statements; no round trip if it is set already."""
        if self._tenant == tenant_id:
            return
        # Unknown until the server has responded: a caller that is cancelled in between must not leave a wrong value
        # behind.
        self._tenant = None
        await self.execute(f"SELECT {set_config(TENANT_SETTING, tenant_id, for_session=True)}")
        self._tenant = tenant_id


def set_config(name: str, value: str, *, for_session: bool = False) -> str:
    """Return the SQL call that sets `name` until the transaction ends, or for the whole session.

    Quotes are doubled, which is enough while `standard_conforming_strings` is on (the default since PostgreSQL 9.1).
    """
    quoted = value.replace("'", "''")
    return f"set_config('{name}', '{quoted}', {'false' if for_session else 'true'})"
