"""How an upload sees its context and its caller: as they were a moment ago, until something is to be said on that; then as they are.

Whatever is done on a remembered look is confirmed by the database before it is answered: an acceptance by the reserving statement, which
asks for the same editions; a refusal by a fresh look (docs/decisions/0013).
"""

from collections.abc import Awaitable, Callable
from dataclasses import replace

from sluice.access import Principal
from sluice.db.database import Database
from sluice.errors import NotFound
from sluice.kit.brief import Brief
from sluice.kit.clock import Clock
from sluice.kit.text import is_plain
from sluice.uploads import repository
from sluice.uploads.values import Look


class Sight:
    """Looks at contexts."""

    def __init__(self, database: Database, clock: Clock, *, remember_seconds: float = 0.0) -> None:
        self._database = database
        self._clock = clock
        self._known: Brief[tuple[str, str], Look] = Brief(remember_seconds)

    async def glance(self, tenant_id: str, context_key: str) -> Look:
        """Answer a context as it was seen a moment ago (then the look is `remembered`), or is; raises `NotFound`."""
        known = self._known.find((tenant_id, context_key))
        return known or await self.look(tenant_id, context_key)

    async def look(self, tenant_id: str, context_key: str) -> Look:
        """Look at a context that somebody wants to upload into; raises `NotFound`."""
        found = await repository.look(self._database, tenant_id, context_key, self._clock()) if is_plain(context_key) else None
        if found is None:
            raise NotFound
        self._known.keep((tenant_id, context_key), replace(found, remembered=True))
        return found


class Uploader:
    """Who uploads, as believed when the request began."""

    def __init__(self, principal: Principal, ask: Callable[[], Awaitable[Principal]]) -> None:
        """`ask` answers who is asking as the database has it now, or raises why nobody may."""
        self.principal = principal
        self._ask = ask

    async def confirm(self) -> Principal:
        """Have the database confirm a remembered caller, once; raises `Unauthenticated`, `ScopeMissing` for one who may not any more."""
        if self.principal.remembered:
            self.principal = await self._ask()
        return self.principal
