"""How an upload sees its context and its caller: as they were a moment ago, until something is to be said on that; then as they are.

Whatever is done on a remembered look is confirmed by the database before it is answered: an acceptance by the reserving statement, which
asks for the same editions; a refusal by a fresh look (docs/decisions/0013).
"""

import asyncio
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
        self._remembers = remember_seconds > 0
        self._looks: dict[tuple[str, str], asyncio.Future[None]] = {}

    async def glance(self, tenant_id: str, context_key: str) -> Look:
        """Answer a context as it was seen a moment ago (then the look is `remembered`), or is; raises `NotFound`."""
        if not self._remembers:
            return await self.look(tenant_id, context_key)
        return self._known.find((tenant_id, context_key)) or await self._look_with_others(tenant_id, context_key)

    async def _look_with_others(self, tenant_id: str, context_key: str) -> Look:
        """Look, or wait for the look of another upload that is under way: what is remembered runs out for all at the same moment."""
        key = (tenant_id, context_key)
        under_way = self._looks.get(key)
        if under_way is not None:
            await asyncio.wait([under_way])
            return self._known.find(key) or await self.look(tenant_id, context_key)
        looking = self._looks[key] = asyncio.get_running_loop().create_future()
        try:
            return await self.look(tenant_id, context_key)
        finally:
            del self._looks[key]
            looking.set_result(None)

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
