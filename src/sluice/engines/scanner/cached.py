"""A scanner that is not asked twice about the same bytes while its signatures are the same. Where verdicts are kept lives in `engines.verdicts`."""

import time
from dataclasses import replace
from typing import Final

from sluice.engines.scanner.own_look import Glance
from sluice.engines.scanner.protocol import Clean, Edition, FindsReach, Scanner, ScanResult
from sluice.engines.verdicts import Cleared, VerdictCache, VerdictKey
from sluice.kit.health import EngineHealth, EngineState
from sluice.kit.sealed import Sealed

_SHA256_BYTES: Final = 32


class CachedScanner:
    """Answers with a clean verdict that the same edition of `scanner` gave on the same bytes, else asks it. Closes both with itself.

    `terms` is what verdicts depend on besides the edition. An edition that is not known, or of signatures without a number, keeps nothing:
    it could not be told when they change. With `per_tenant`, no tenant can tell by the time it takes that another has sent the same.
    """

    def __init__(self, scanner: Scanner, verdicts: VerdictCache, *, terms: str, per_tenant: bool = False) -> None:
        self.name = scanner.name
        self._scanner = scanner
        self._verdicts = verdicts
        self._terms = terms
        self._per_tenant = per_tenant

    @property
    def edition(self) -> Edition | None:
        """That of the scanner behind it."""
        return self._scanner.edition

    @property
    def reach(self) -> int | None:
        """That of the scanner behind it."""
        return self._scanner.reach

    async def scan(self, sealed: Sealed, *, tenant_id: str, glance: Glance | None = None) -> ScanResult:
        """Answer what is known of the bytes, or scan them; `ms` is then the time of the look into the cache."""
        began = time.perf_counter()
        if (edition := self.edition) is not None and edition.signatures:
            known = await self._verdicts.find(self._key(sealed, edition, tenant_id))
            if known is not None:
                ms = (time.perf_counter() - began) * 1000
                return Clean(edition.engine, edition.signatures, ms, known.member, cached=True, flags=known.flags)
        result = await self._scanner.scan(sealed, tenant_id=tenant_id, glance=glance)
        if isinstance(result, Clean) and result.signatures and len(sealed.sha256) == _SHA256_BYTES:
            # The edition that gave the verdict, which may be another than the newest: a pool's members are updated one by one.
            given_by = Edition(result.engine, result.signatures)
            await self._verdicts.keep(self._key(sealed, given_by, tenant_id), Cleared(result.member, result.flags))
        return result

    async def find_reach(self, seconds: float) -> None:
        """Wait as the scanner behind it does, where it needs time for that."""
        if isinstance(self._scanner, FindsReach):
            await self._scanner.find_reach(seconds)

    async def health(self) -> EngineHealth:
        """Answer how the scanner is; a cache that is away makes it `degraded` at most."""
        health, cache = await self._scanner.health(), await self._verdicts.health()
        limits = {**health.limits, "cache": cache.name, **cache.limits}
        if cache.state is EngineState.UP:
            return replace(health, limits=limits)
        state = EngineState.DEGRADED if health.state is EngineState.UP else health.state
        detail = "; ".join(filter(None, (health.detail, f"the cache of verdicts is away: {cache.detail}")))
        return replace(health, state=state, detail=detail, limits=limits)

    async def aclose(self) -> None:
        """Close the scanner and the cache."""
        await self._scanner.aclose()
        await self._verdicts.aclose()

    def _key(self, sealed: Sealed, edition: Edition, tenant_id: str) -> VerdictKey:
        terms = f"{self._terms}; {tenant_id}" if self._per_tenant else self._terms
        return VerdictKey(sealed.sha256, edition.engine, edition.signatures, terms)
