"""Several scanners at once: a file is infected if any says so, and clean only if every required one says so.

All scan the same bytes at the same time. An optional scanner that is unavailable, or did not scan all of the file, does
not refuse it: the verdict names it, and health shows it.
"""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from sluice.kit.health import EngineHealth, EngineState
from sluice.scanner.protocol import (
    Clean,
    EngineVersion,
    FindsScanLimit,
    Incomplete,
    Infected,
    Scanner,
    ScannerUnavailable,
    ScanResult,
    SingleResult,
    reload_rules,
    version_of,
)
from sluice_inspect.sandbox.sealed import Sealed
from sluice_inspect.sandbox.unpack import UnpackReport

_OPTIONAL_SECONDS: Final = 5.0  # how long an optional engine is waited for once all required ones have replied
_LATE: Final = f"no verdict within {_OPTIONAL_SECONDS:g} s after the others"
_STATES: Final = list(EngineState)  # the worst last


@dataclass(frozen=True, slots=True)
class ConfiguredScanner:
    """One of several scanners."""

    scanner: Scanner
    is_required: bool = True


class SeveralScanners:
    """Asks all of its engines, and closes them with itself. At least one is required."""

    def __init__(self, engines: Sequence[ConfiguredScanner]) -> None:
        if not any(engine.is_required for engine in engines):
            raise ValueError("expected at least one scanner that is not optional")
        self.name = "+".join(engine.scanner.name for engine in engines)
        self._engines = tuple(engines)

    @property
    def engine_version(self) -> EngineVersion | None:
        """The versions of the engines together; None while a required one is away.

        While an optional one is away, only the required ones count: its verdicts hold until it is back.
        """
        known = [(engine.scanner.engine_version, engine.is_required) for engine in self._engines]
        if any(version is None and is_required for version, is_required in known):
            return None
        whole = version_of(
            [
                SingleResult(version.engine, version.signatures, "clean", 0.0, is_required=is_required)
                for version, is_required in known
                if version is not None
            ]
        )
        return whole if all(version is not None for version, _ in known) else replace(whole, optional="")

    @property
    def clean_results(self) -> Sequence[SingleResult]:
        """The results of all engines that a cached verdict represents; see `HasEngines`."""
        versions = [(engine.scanner.engine_version, engine.is_required) for engine in self._engines]
        if not all(version is not None and version.signatures for version, _ in versions):
            return ()
        return tuple(
            SingleResult(version.engine, version.signatures, "clean", 0.0, is_required=is_required)
            for version, is_required in versions
            if version is not None
        )

    @property
    def scan_limit(self) -> int | None:
        """Bytes of the largest file that every required engine scans to its end; None if unknown or without a limit."""
        scanners = [engine.scanner for engine in self._engines if engine.is_required]
        limited = [scanner.scan_limit for scanner in scanners if isinstance(scanner, FindsScanLimit)]
        known = [limit for limit in limited if limit is not None]
        return min(known, default=None) if len(known) == len(limited) else None

    async def scan(
        self,
        sealed: Sealed,
        *,
        tenant_id: str,
        unpack_report: "asyncio.Future[UnpackReport | None] | None" = None,
    ) -> ScanResult:
        """Have every engine scan all of the bytes; see `Scanner.scan`."""
        began = time.perf_counter()
        scans = [
            asyncio.create_task(engine.scanner.scan(sealed, tenant_id=tenant_id, unpack_report=unpack_report))
            for engine in self._engines
        ]
        try:
            required = [task for task, engine in zip(scans, self._engines, strict=True) if engine.is_required]
            await asyncio.gather(*required)
            await asyncio.wait(scans, timeout=_OPTIONAL_SECONDS)
            results: list[ScanResult] = [
                task.result() if task.done() else ScannerUnavailable(_LATE, engine.scanner.name)
                for task, engine in zip(scans, self._engines, strict=True)
            ]
        finally:
            for task in scans:
                task.cancel()
            await asyncio.gather(*scans, return_exceptions=True)
        return self._verdict(results, (time.perf_counter() - began) * 1000)

    async def find_scan_limit(self, seconds: float, size: int | None = None) -> None:
        """Have every engine find its limit, in at most `seconds`."""
        searches = [
            engine.scanner.find_scan_limit(seconds, size)
            for engine in self._engines
            if isinstance(engine.scanner, FindsScanLimit)
        ]
        await asyncio.gather(*searches)

    def reload(self) -> None:
        """Have every engine with rules of the operator read them again."""
        for engine in self._engines:
            reload_rules(engine.scanner)

    async def health(self) -> EngineHealth:
        """Return the health of the engine that is worst off."""
        return max(await self.healths(), key=lambda health: _STATES.index(health.state))

    async def healths(self) -> Sequence[EngineHealth]:
        """Return the health of every engine: an optional one that is down leaves the scanner degraded."""
        found = await asyncio.gather(*(engine.scanner.health() for engine in self._engines))
        return [_as_part(health, engine) for engine, health in zip(self._engines, found, strict=True)]

    async def aclose(self) -> None:
        """Close all engines."""
        await asyncio.gather(*(engine.scanner.aclose() for engine in self._engines))

    def _verdict(self, results: Sequence[ScanResult], ms: float) -> ScanResult:
        each = tuple(
            _single(result, is_required=engine.is_required)
            for engine, result in zip(self._engines, results, strict=True)
        )
        required = [result for one, result in zip(self._engines, results, strict=True) if one.is_required]
        whole = version_of(each)
        engine, signatures = whole.engine, whole.signatures
        rules = tuple(
            match for result in results if not isinstance(result, ScannerUnavailable) for match in result.rules
        )
        found = [result for result in results if isinstance(result, Infected)]
        for threat in sorted(found, key=lambda threat: threat.quarantines):
            if not threat.quarantines:
                return replace(threat, engine=engine, signatures=signatures, ms=ms, each=each, rules=rules)
        for result in required:
            if isinstance(result, ScannerUnavailable):
                return ScannerUnavailable(f"{result.engine}: {result.why}", self.name)
        for result in required:
            if isinstance(result, Incomplete):
                return Incomplete(f"{result.engine}: {result.why}", engine, signatures, ms, result.member, each, rules)
        if found:
            return replace(found[0], engine=engine, signatures=signatures, ms=ms, each=each, rules=rules)
        clean = [result for result in results if isinstance(result, Clean)]
        flags = tuple(dict.fromkeys(flag for result in clean for flag in result.flags))
        member = next((result.member for result in clean if result.member), "")
        return Clean(engine, signatures, ms, member, flags=flags, each=each, rules=rules)


def _as_part(health: EngineHealth, engine: ConfiguredScanner) -> EngineHealth:
    if engine.scanner.name == "builtin" and health.state is EngineState.DEGRADED:
        return replace(health, state=EngineState.UP, detail="")  # it stands beside an antivirus, not in place of one
    if engine.is_required:
        return health
    state = EngineState.DEGRADED if health.state is EngineState.DOWN else health.state
    return replace(health, state=state, detail="; ".join(filter(None, ("optional", health.detail))))


def _single(result: ScanResult, *, is_required: bool) -> SingleResult:
    match result:
        case Clean(engine=engine, signatures=signatures, ms=ms):
            return SingleResult(engine, signatures, "clean", ms, is_required=is_required)
        case Infected(engine=engine, signatures=signatures, ms=ms, threat=threat):
            return SingleResult(engine, signatures, "infected", ms, threat, is_required)
        case Incomplete(engine=engine, signatures=signatures, ms=ms, why=why):
            return SingleResult(engine, signatures, "incomplete", ms, why, is_required)
        case ScannerUnavailable(engine=engine, why=why):
            return SingleResult(engine, "", "unavailable", 0.0, why, is_required)
