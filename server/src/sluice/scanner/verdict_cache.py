"""Cache clean verdicts, so that the same bytes are not scanned twice while the signatures are the same.

A verdict on a file rests on what a child process of one tenant reported, and a child may have been taken over by a
file: so it is kept for that tenant alone. Tenants share only clamd's OK on plain bytes (`clamd.scanner`).

Holds the contract of a cache, the cache in this process's memory, and the scanner that uses one. The shared cache is
`redis_verdict_cache`.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Final, Protocol

from sluice.kit.health import EngineHealth, EngineState
from sluice.scanner.protocol import (
    Clean,
    EngineVersion,
    FindsScanLimit,
    Scanner,
    ScanResult,
    SingleResult,
    clean_results_of,
    healths_of,
    reload_rules,
    version_of,
    version_of_all,
)
from sluice_inspect.sandbox.sealed import Sealed
from sluice_inspect.sandbox.unpack import CHECK_AND_SCAN_BYTES, UnpackReport

SHA256_BYTES: Final = 32


@dataclass(frozen=True, slots=True)
class VerdictKey:
    """The key of a verdict: the bytes (a raw SHA-256), an engine with its version, and its signatures.

    `conditions` is all else that a verdict depends on, such as the policy on passwords. `tenant_id` is empty for what
    holds for all tenants.
    """

    sha256: bytes
    engine: str
    signatures: str
    conditions: str
    tenant_id: str = ""

    @property
    def digest(self) -> bytes:
        """The key as 32 bytes.

        Each part is hashed with its length before it, so that no two keys are hashed from the same bytes.
        """
        texts = (self.engine, self.signatures, self.conditions, self.tenant_id)
        parts = (self.sha256, *(text.encode() for text in texts))
        return blake2b(b"".join(len(part).to_bytes(4, "big") + part for part in parts), digest_size=32).digest()


@dataclass(frozen=True, slots=True)
class CleanVerdict:
    """A cached verdict.

    Only clean ones are cached: what is infected, or was not scanned completely, is scanned again each time.

    `member` is the daemon that gave it, if any; `flags` are those of `Clean`; `report` is the digest of the unpack
    report that it rests on, empty if the caller had none.
    """

    member: str = ""
    flags: tuple[str, ...] = ()
    report: str = ""


class VerdictCache(Protocol):
    """Keeps a bounded number of clean verdicts for a bounded time.

    It may forget any of them at any time, and never raises.
    """

    name: str

    async def get(self, key: VerdictKey) -> CleanVerdict | None:
        """Return the verdict stored under exactly this key; None if there is none or the cache is unavailable."""
        ...

    async def put(self, key: VerdictKey, verdict: CleanVerdict) -> None:
        """Store a verdict, evicting another if there is no room. A no-op while the cache is unavailable."""
        ...

    async def health(self) -> EngineHealth:
        """Return the engine's health.

        An unavailable cache is `degraded`: scans take longer and nothing else happens.
        """
        ...

    async def aclose(self) -> None:
        """Close all connections. A second call is a no-op."""
        ...


class MemoryVerdictCache:
    """Keeps the `max_verdicts` verdicts used last in this process, each for `life_seconds` from when it was stored.

    About 300 bytes each.
    """

    name = "memory"

    def __init__(
        self,
        *,
        max_verdicts: int = 50_000,
        life_seconds: float = 86_400.0,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._max_verdicts = max_verdicts
        self._life_seconds = life_seconds
        self._monotonic = monotonic
        self._entries: dict[bytes, tuple[float, CleanVerdict]] = {}  # the least recently used comes first

    async def get(self, key: VerdictKey) -> CleanVerdict | None:
        """Return the verdict of this key; see the protocol."""
        digest = key.digest
        entry = self._entries.pop(digest, None)
        if entry is None or entry[0] <= self._monotonic():
            return None
        self._entries[digest] = entry
        return entry[1]

    async def put(self, key: VerdictKey, verdict: CleanVerdict) -> None:
        """Store the verdict; see the protocol."""
        digest = key.digest
        self._entries.pop(digest, None)
        self._entries[digest] = (self._monotonic() + self._life_seconds, verdict)
        while len(self._entries) > self._max_verdicts:
            del self._entries[next(iter(self._entries))]

    async def health(self) -> EngineHealth:
        """Return `up`: it is a dictionary."""
        limits = {"verdicts": len(self._entries), "most_verdicts": self._max_verdicts}
        return EngineHealth("verdicts", self.name, EngineState.UP, detail="of this process only", limits=limits)

    async def aclose(self) -> None:
        """Forget everything."""
        self._entries.clear()


class CachedScanner:
    """Returns a clean verdict that the same engine version gave the same tenant on the same bytes, else asks `scanner`.

    Closes both with itself.

    `conditions` is what verdicts depend on besides the engine version. While that version is unknown, or its signatures
    have no number, nothing is cached: a change of them would go unnoticed. Where the sandbox scans the file now, a
    cached verdict counts only if it rests on the same report: a threat that is found now always wins.
    """

    def __init__(self, scanner: Scanner, cache: VerdictCache, *, conditions: str) -> None:
        self.name = scanner.name
        self._scanner = scanner
        self._cache = cache
        self._conditions = conditions

    @property
    def engine_version(self) -> EngineVersion | None:
        """That of the scanner behind the cache."""
        return self._scanner.engine_version

    @property
    def clean_results(self) -> Sequence[SingleResult]:
        """Those of the scanner behind the cache."""
        return clean_results_of(self._scanner)

    @property
    def scan_limit(self) -> int | None:
        """That of the scanner behind the cache."""
        return self._scanner.scan_limit

    async def scan(
        self,
        sealed: Sealed,
        *,
        tenant_id: str,
        unpack_report: "asyncio.Future[UnpackReport | None] | None" = None,
    ) -> ScanResult:
        """Return the cached verdict, whose `ms` is the time of the lookup, or scan the bytes."""
        started = time.perf_counter()
        # The check of a larger file does not scan it, so there is no report to compare with.
        expected = unpack_report if sealed.size <= CHECK_AND_SCAN_BYTES else None
        each = clean_results_of(self._scanner)
        version = version_of_all(each)
        if version is not None:
            verdict = await self._cache.get(self._key(sealed, version, tenant_id))
            if verdict is not None and (expected is None or await _digest(expected) == verdict.report):
                ms = (time.perf_counter() - started) * 1000
                whole = version_of(each)
                return Clean(
                    whole.engine,
                    whole.signatures,
                    ms,
                    verdict.member,
                    cached=True,
                    flags=verdict.flags,
                    each=tuple(each) if len(each) > 1 else (),
                )
        result = await self._scanner.scan(sealed, tenant_id=tenant_id, unpack_report=unpack_report)
        # Rules that match are in the report of each upload, and not in a cached verdict.
        is_kept = isinstance(result, Clean) and result.signatures and not result.rules
        if isinstance(result, Clean) and is_kept and len(sealed.sha256) == SHA256_BYTES:
            # Under the version that gave the verdict, which may be older than the newest: a pool's members are updated
            # one by one. What not all of several engines called clean is not cached.
            given_by = version_of_all(result.each) if result.each else EngineVersion(result.engine, result.signatures)
            if given_by is None:
                return result
            await self._cache.put(
                self._key(sealed, given_by, tenant_id),
                CleanVerdict(result.member, result.flags, "" if expected is None else await _digest(expected) or ""),
            )
        return result

    async def find_scan_limit(self, seconds: float, size: int | None = None) -> None:
        """Wait for the scanner behind the cache, if it needs time for that."""
        if isinstance(self._scanner, FindsScanLimit):
            await self._scanner.find_scan_limit(seconds, size)

    def reload(self) -> None:
        """Have rules of the operator read again."""
        reload_rules(self._scanner)

    async def health(self) -> EngineHealth:
        """Return the health of the scanner; an unavailable cache makes it `degraded` at most."""
        return self._with_cache(await self._scanner.health(), await self._cache.health())

    async def healths(self) -> Sequence[EngineHealth]:
        """Return the health of every engine of the scanner, the cache beside the first."""
        first, *more = await healths_of(self._scanner)
        return [self._with_cache(first, await self._cache.health()), *more]

    @staticmethod
    def _with_cache(health: EngineHealth, cache: EngineHealth) -> EngineHealth:
        limits = {**health.limits, "cache": cache.name, **cache.limits}
        if cache.state is EngineState.UP:
            return replace(health, limits=limits)
        state = EngineState.DEGRADED if health.state is EngineState.UP else health.state
        detail = "; ".join(filter(None, (health.detail, f"the verdict cache is unavailable: {cache.detail}")))
        return replace(health, state=state, detail=detail, limits=limits)

    async def aclose(self) -> None:
        """Close the scanner and the cache."""
        await self._scanner.aclose()
        await self._cache.aclose()

    def _key(self, sealed: Sealed, version: EngineVersion, tenant_id: str) -> VerdictKey:
        return VerdictKey(sealed.sha256, version.engine, version.signatures, self._conditions, tenant_id)


async def _digest(report: "asyncio.Future[UnpackReport | None]") -> str | None:
    """Return the digest of what the sandbox found in the file; None if it found out nothing."""
    found = await asyncio.shield(report)
    if found is None:
        return None
    # The same bytes give the same report, but for the time that it took.
    return blake2b(repr(replace(found, ms=0.0)).encode(), digest_size=16).hexdigest()
