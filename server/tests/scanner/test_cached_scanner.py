"""A scanner with a verdict cache: which results are cached, for whom, and what happens when it is unavailable."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import pytest

from sluice.kit.health import EngineHealth, EngineState
from sluice.scanner import (
    Clean,
    EngineVersion,
    FindsScanLimit,
    Incomplete,
    Infected,
    ScannerUnavailable,
    ScanResult,
    UnpackReport,
)
from sluice.scanner.builtin import BuiltinScanner
from sluice.scanner.redis_verdict_cache import RedisVerdictCache
from sluice.scanner.verdict_cache import CachedScanner, MemoryVerdictCache
from sluice_inspect.sandbox.sealed import Sealed
from tests.inspection.threats.packed_files import EICAR
from tests.rows import each_row
from tests.scanner.conftest import Seal, scanned
from tests.scanner.in_process_sandbox import InProcessSandbox
from tests.servers import free_port


class FakeScanner:
    """A scanner that returns the given results in order and repeats the last one. `engine_version` is current."""

    name = "fake"
    scan_limit: int | None = 7

    def __init__(self, *results: ScanResult, engine_version: EngineVersion | None = None) -> None:
        self.results: Sequence[ScanResult] = results
        self.engine_version = engine_version
        self.scans = 0
        self.closed = False

    async def scan(
        self,
        sealed: Sealed,  # noqa: ARG002  (signature of the protocol)
        *,
        tenant_id: str,  # noqa: ARG002  (the same)
        unpack_report: "asyncio.Future[UnpackReport | None] | None" = None,  # noqa: ARG002  (the same)
    ) -> ScanResult:
        self.scans += 1
        return self.results[min(self.scans, len(self.results)) - 1]

    async def health(self) -> EngineHealth:
        return EngineHealth("scanner", self.name, EngineState.UP, limits={"signatures": "1"})

    async def aclose(self) -> None:
        self.closed = True


VERSION_1, VERSION_2 = EngineVersion("fake 1", "1"), EngineVersion("fake 1", "2")
CLEAN_1, CLEAN_2 = Clean("fake 1", "1", 9.0, "unix:/a", flags=("macro",)), Clean("fake 1", "2", 9.0)


def cached(scanner: FakeScanner, verdicts: MemoryVerdictCache | None = None, *, conditions: str = "") -> CachedScanner:
    return CachedScanner(scanner, verdicts or MemoryVerdictCache(), conditions=conditions)


@pytest.fixture
def scanner() -> FakeScanner:
    """A scanner whose files are clean."""
    return FakeScanner(CLEAN_1, engine_version=VERSION_1)


@pytest.fixture
def wrapped(scanner: FakeScanner) -> CachedScanner:
    return cached(scanner)


def report_of(data: bytes) -> UnpackReport:
    """What an honest child says of the bytes."""
    threat = "Eicar-Signature" if data == EICAR else None
    return UnpackReport(threat, "", 1.0)


def resolved(report: UnpackReport | None) -> "asyncio.Future[UnpackReport | None]":
    future: asyncio.Future[UnpackReport | None] = asyncio.get_running_loop().create_future()
    future.set_result(report)
    return future


async def test_same_bytes_are_scanned_once(seal: Seal, scanner: FakeScanner, wrapped: CachedScanner) -> None:
    first, second = [await scanned(wrapped, seal(b"x")) for _ in range(2)]
    assert (first, scanner.scans) == (CLEAN_1, 1)
    assert isinstance(second, Clean)
    assert replace(second, ms=9.0) == replace(CLEAN_1, cached=True)
    assert second.ms < 9.0
    await scanned(wrapped, seal(b"y"))
    assert scanner.scans == 2


async def test_verdict_of_unnumbered_signatures_is_not_stored(seal: Seal) -> None:
    scanner = FakeScanner(Clean("fake 1", "", 9.0), engine_version=EngineVersion("fake 1", ""))
    verdicts = MemoryVerdictCache()
    wrapped = cached(scanner, verdicts)
    assert [await scanned(wrapped, seal(b"x")) for _ in range(2)] == [scanner.results[0]] * 2
    scanner.engine_version = None
    await scanned(wrapped, seal(b"x"))
    assert scanner.scans == 3
    assert (await verdicts.health()).limits["verdicts"] == 0


@each_row(
    "result",
    [
        Infected("Eicar", "fake 1", "1", 1.0),
        Incomplete("a limit", "fake 1", "1", 1.0),
        ScannerUnavailable("unreachable", "fake"),
    ],
)
async def test_only_clean_verdicts_are_cached(seal: Seal, result: ScanResult) -> None:
    scanner = FakeScanner(result, engine_version=VERSION_1)
    wrapped = cached(scanner)
    assert [await scanned(wrapped, seal(b"x")) for _ in range(3)] == [result] * 3
    assert scanner.scans == 3


@each_row(
    "version, result",
    [
        (VERSION_2, Infected("New", "fake 1", "2", 1.0)),
        (None, ScannerUnavailable("unreachable", "fake")),  # no clamd is in service
    ],
)
async def test_new_signatures_and_an_unknown_version_cause_another_scan(
    seal: Seal, version: EngineVersion | None, result: ScanResult
) -> None:
    scanner = FakeScanner(CLEAN_1, result, engine_version=VERSION_1)
    wrapped = cached(scanner)
    await scanned(wrapped, seal(b"x"))
    scanner.engine_version = version
    assert await scanned(wrapped, seal(b"x")) == result


async def test_verdict_of_older_signatures_is_not_used_for_newer_ones(seal: Seal) -> None:
    """This happens in a pool whose members are updated one by one."""
    scanner = FakeScanner(CLEAN_1, CLEAN_2, engine_version=VERSION_2)
    wrapped = cached(scanner)
    results = [await scanned(wrapped, seal(b"x")) for _ in range(3)]
    assert (results[:2], scanner.scans) == ([CLEAN_1, CLEAN_2], 2)


async def test_no_digest_and_different_conditions_cause_another_scan(seal: Seal, scanner: FakeScanner) -> None:
    verdicts = MemoryVerdictCache()
    for data in (b"x", b"y"):
        await scanned(cached(scanner, verdicts), Sealed(seal(data).fd, 1, b""))
    assert scanner.scans == 2
    for conditions in ("passwords allowed", "passwords refused"):
        await scanned(cached(scanner, verdicts, conditions=conditions), seal(b"x"))
    assert scanner.scans == 4


@pytest.mark.asvs("15.2.5")
async def test_verdict_is_not_shared_between_tenants(seal: Seal, scanner: FakeScanner, wrapped: CachedScanner) -> None:
    """A child of one tenant may have been taken over: what it said must not decide on files of others."""
    for tenant in ("ten_1", "ten_2", "ten_1"):
        await wrapped.scan(seal(b"x"), tenant_id=tenant)
    assert scanner.scans == 2


async def test_threat_that_the_child_reports_now_wins_over_a_cached_verdict(seal: Seal) -> None:
    wrapped = CachedScanner(BuiltinScanner(InProcessSandbox()), MemoryVerdictCache(), conditions="")
    lie, truth = UnpackReport(None, "", 1.0), report_of(EICAR)
    results = [await scanned(wrapped, seal(EICAR), unpack_report=resolved(report)) for report in (lie, truth)]
    assert [type(result) for result in results] == [Clean, Infected]


@each_row(
    "other, scans",
    [
        (UnpackReport(None, "a limit", 1.0), 2),
        (UnpackReport(None, "", 1.0, hides=True), 2),
        (UnpackReport(None, "", 1.0, encrypted=True), 2),
        (UnpackReport(None, "", 1.0, largest=10**9), 2),
        (None, 2),
        (UnpackReport(None, "", 2.0), 1),  # the same report, which took longer
    ],
)
async def test_cached_verdict_counts_for_the_same_report(seal: Seal, other: UnpackReport | None, scans: int) -> None:
    scanner = FakeScanner(CLEAN_1, engine_version=VERSION_1)
    wrapped = cached(scanner)
    for report in (report_of(b"x"), other):
        await scanned(wrapped, seal(b"x"), unpack_report=resolved(report))
    assert scanner.scans == scans


async def test_cached_verdict_waits_for_the_report_of_the_check(seal: Seal) -> None:
    scanner = FakeScanner(CLEAN_1, Infected("x", "builtin", "1", 1.0), engine_version=VERSION_1)
    wrapped = cached(scanner)
    await scanned(wrapped, seal(b"x"), unpack_report=resolved(report_of(b"x")))
    pending: asyncio.Future[UnpackReport | None] = asyncio.get_running_loop().create_future()
    scanning = asyncio.create_task(scanned(wrapped, seal(b"x"), unpack_report=pending))
    asyncio.get_running_loop().call_soon(pending.set_result, report_of(EICAR))
    assert isinstance(await scanning, Infected)


async def test_unavailable_cache_degrades_health_but_not_scans(seal: Seal, scanner: FakeScanner) -> None:
    unavailable = RedisVerdictCache(f"redis://127.0.0.1:{free_port()}/0", secret=b"s" * 32)
    wrapped = CachedScanner(scanner, unavailable, conditions="")
    assert [await scanned(wrapped, seal(b"x")) for _ in range(2)] == [CLEAN_1] * 2
    health = await wrapped.health()
    assert (health.kind, health.state) == ("scanner", EngineState.DEGRADED)
    assert "the verdict cache is unavailable" in health.detail


async def test_cached_scanner_delegates_to_its_scanner(scanner: FakeScanner, wrapped: CachedScanner) -> None:
    assert (wrapped.name, wrapped.engine_version, wrapped.scan_limit) == ("fake", VERSION_1, 7)
    assert isinstance(wrapped, FindsScanLimit)
    await wrapped.find_scan_limit(1)
    health = await wrapped.health()
    assert (health.state, health.limits["signatures"], health.limits["cache"]) == (EngineState.UP, "1", "memory")
    await wrapped.aclose()
    assert scanner.closed


async def test_cached_builtin_scanner_finds_virus_every_time(seal: Seal) -> None:
    wrapped = CachedScanner(BuiltinScanner(InProcessSandbox()), MemoryVerdictCache(), conditions="")
    results = [await scanned(wrapped, seal(data)) for data in (b"x", EICAR, b"x", EICAR)]
    assert [type(result) for result in results] == [Clean, Infected, Clean, Infected]
    assert [isinstance(result, Clean) and result.cached for result in results] == [False, False, True, False]
