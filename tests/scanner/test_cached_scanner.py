"""A scanner with a verdict cache: which results are cached, for whom, and what happens when it is unavailable."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import pytest

from sluice.kit.health import EngineHealth, EngineState
from sluice.kit.sealed import Sealed
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
from tests.inspection.threats.packed_files import EICAR
from tests.rows import each_row
from tests.scanner.conftest import Seal
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


def report_of(data: bytes) -> UnpackReport:
    """What an honest child says of the bytes."""
    threat = "Eicar-Signature" if data == EICAR else None
    return UnpackReport(threat, "", 1.0)


def resolved(report: UnpackReport | None) -> "asyncio.Future[UnpackReport | None]":
    future: asyncio.Future[UnpackReport | None] = asyncio.get_running_loop().create_future()
    future.set_result(report)
    return future


async def test_same_bytes_are_scanned_once(seal: Seal) -> None:
    scanner = FakeScanner(CLEAN_1, engine_version=VERSION_1)
    wrapped = cached(scanner)
    first = await wrapped.scan(seal(b"x"), tenant_id="ten_1")
    second = await wrapped.scan(seal(b"x"), tenant_id="ten_1")
    assert (first, scanner.scans) == (CLEAN_1, 1)
    assert isinstance(second, Clean)
    assert (second.engine, second.signatures, second.member, second.flags) == ("fake 1", "1", "unix:/a", ("macro",))
    assert second.cached
    assert second.ms < 9.0


async def test_unnumbered_signatures_are_not_cached(seal: Seal) -> None:
    scanner = FakeScanner(Clean("fake 1", "", 9.0), engine_version=EngineVersion("fake 1", ""))
    wrapped = cached(scanner)
    assert [await wrapped.scan(seal(b"x"), tenant_id="ten_1") for _ in range(2)] == [scanner.results[0]] * 2
    assert scanner.scans == 2


async def test_different_bytes_are_scanned(seal: Seal) -> None:
    scanner = FakeScanner(CLEAN_1, engine_version=VERSION_1)
    wrapped = cached(scanner)
    await wrapped.scan(seal(b"x"), tenant_id="ten_1")
    await wrapped.scan(seal(b"y"), tenant_id="ten_1")
    assert scanner.scans == 2


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
    assert [await wrapped.scan(seal(b"x"), tenant_id="ten_1") for _ in range(3)] == [result] * 3
    assert scanner.scans == 3


async def test_new_signatures_cause_another_scan(seal: Seal) -> None:
    infected = Infected("New", "fake 1", "2", 1.0)
    scanner = FakeScanner(CLEAN_1, infected, engine_version=VERSION_1)
    wrapped = cached(scanner)
    await wrapped.scan(seal(b"x"), tenant_id="ten_1")
    scanner.engine_version = VERSION_2
    assert await wrapped.scan(seal(b"x"), tenant_id="ten_1") == infected


async def test_verdict_of_older_signatures_is_not_used_for_newer_ones(seal: Seal) -> None:
    """This happens in a pool whose members are updated one by one."""
    scanner = FakeScanner(CLEAN_1, CLEAN_2, engine_version=VERSION_2)
    wrapped = cached(scanner)
    results = [await wrapped.scan(seal(b"x"), tenant_id="ten_1") for _ in range(3)]
    assert (results[:2], scanner.scans) == ([CLEAN_1, CLEAN_2], 2)


async def test_unknown_engine_version_bypasses_cache(seal: Seal) -> None:
    """The version is unknown when no clamd is in service."""
    scanner = FakeScanner(CLEAN_1, ScannerUnavailable("unreachable", "fake"), engine_version=VERSION_1)
    wrapped = cached(scanner)
    await wrapped.scan(seal(b"x"), tenant_id="ten_1")
    scanner.engine_version = None
    assert isinstance(await wrapped.scan(seal(b"x"), tenant_id="ten_1"), ScannerUnavailable)


async def test_verdict_without_signature_number_is_not_stored(seal: Seal) -> None:
    verdicts = MemoryVerdictCache()
    await cached(FakeScanner(Clean("fake 1", "", 1.0)), verdicts).scan(seal(b"x"), tenant_id="ten_1")
    assert (await verdicts.health()).limits["verdicts"] == 0


async def test_bytes_without_digest_bypass_cache(seal: Seal) -> None:
    scanner = FakeScanner(CLEAN_1, engine_version=VERSION_1)
    wrapped = cached(scanner)
    for data in (b"x", b"y"):
        await wrapped.scan(Sealed(seal(data).fd, 1, b""), tenant_id="ten_1")
    assert scanner.scans == 2


async def test_different_conditions_cause_another_scan(seal: Seal) -> None:
    verdicts, scanner = MemoryVerdictCache(), FakeScanner(CLEAN_1, engine_version=VERSION_1)
    await cached(scanner, verdicts, conditions="passwords allowed").scan(seal(b"x"), tenant_id="ten_1")
    await cached(scanner, verdicts, conditions="passwords refused").scan(seal(b"x"), tenant_id="ten_1")
    assert scanner.scans == 2


@pytest.mark.asvs("15.2.5")
async def test_verdict_is_not_shared_between_tenants(seal: Seal) -> None:
    """A child of one tenant may have been taken over: what it said must not decide on files of others."""
    scanner = FakeScanner(CLEAN_1, engine_version=VERSION_1)
    wrapped = cached(scanner)
    for tenant in ("ten_1", "ten_2", "ten_1"):
        await wrapped.scan(seal(b"x"), tenant_id=tenant)
    assert scanner.scans == 2


async def test_threat_that_the_child_reports_now_wins_over_a_cached_verdict(seal: Seal) -> None:
    wrapped = CachedScanner(BuiltinScanner(InProcessSandbox()), MemoryVerdictCache(), conditions="")
    lie, truth = UnpackReport(None, "", 1.0), report_of(EICAR)
    results = [
        await wrapped.scan(seal(EICAR), tenant_id="ten_1", unpack_report=resolved(report)) for report in (lie, truth)
    ]
    assert [type(result) for result in results] == [Clean, Infected]


@each_row(
    "other",
    [
        UnpackReport(None, "a limit", 1.0),
        UnpackReport(None, "", 1.0, hides=True),
        UnpackReport(None, "", 1.0, encrypted=True),
        UnpackReport(None, "", 1.0, largest=10**9),
        None,
    ],
)
async def test_cached_verdict_counts_only_beside_the_same_report(seal: Seal, other: UnpackReport | None) -> None:
    scanner = FakeScanner(CLEAN_1, engine_version=VERSION_1)
    wrapped = cached(scanner)
    await wrapped.scan(seal(b"x"), tenant_id="ten_1", unpack_report=resolved(report_of(b"x")))
    await wrapped.scan(seal(b"x"), tenant_id="ten_1", unpack_report=resolved(other))
    assert scanner.scans == 2


async def test_cached_verdict_counts_beside_the_same_report_whatever_time_it_took(seal: Seal) -> None:
    scanner = FakeScanner(CLEAN_1, engine_version=VERSION_1)
    wrapped = cached(scanner)
    for ms in (1.0, 2.0):
        report = replace(report_of(b"x"), ms=ms)
        await wrapped.scan(seal(b"x"), tenant_id="ten_1", unpack_report=resolved(report))
    assert scanner.scans == 1


async def test_cached_verdict_waits_for_the_report_of_the_check(seal: Seal) -> None:
    scanner = FakeScanner(CLEAN_1, Infected("x", "builtin", "1", 1.0), engine_version=VERSION_1)
    wrapped = cached(scanner)
    await wrapped.scan(seal(b"x"), tenant_id="ten_1", unpack_report=resolved(report_of(b"x")))
    pending: asyncio.Future[UnpackReport | None] = asyncio.get_running_loop().create_future()
    scanning = asyncio.create_task(wrapped.scan(seal(b"x"), tenant_id="ten_1", unpack_report=pending))
    asyncio.get_running_loop().call_soon(pending.set_result, report_of(EICAR))
    assert isinstance(await scanning, Infected)


async def test_unavailable_cache_degrades_health_but_not_scans(seal: Seal) -> None:
    scanner = FakeScanner(CLEAN_1, engine_version=VERSION_1)
    wrapped = CachedScanner(
        scanner, RedisVerdictCache(f"redis://127.0.0.1:{free_port()}/0", secret=b"s" * 32), conditions=""
    )
    assert [await wrapped.scan(seal(b"x"), tenant_id="ten_1") for _ in range(2)] == [CLEAN_1] * 2
    health = await wrapped.health()
    assert (health.kind, health.state) == ("scanner", EngineState.DEGRADED)
    assert "the verdict cache is unavailable" in health.detail


async def test_cached_scanner_delegates_to_its_scanner(seal: Seal) -> None:
    scanner = FakeScanner(CLEAN_1, engine_version=VERSION_1)
    wrapped = cached(scanner)
    assert (wrapped.name, wrapped.engine_version, wrapped.scan_limit) == ("fake", VERSION_1, 7)
    assert isinstance(wrapped, FindsScanLimit)
    await wrapped.find_scan_limit(1)
    health = await wrapped.health()
    assert (health.state, health.limits["signatures"], health.limits["cache"]) == (EngineState.UP, "1", "memory")
    await wrapped.aclose()
    assert scanner.closed


async def test_cached_builtin_scanner_finds_virus_every_time(seal: Seal) -> None:
    wrapped = CachedScanner(BuiltinScanner(InProcessSandbox()), MemoryVerdictCache(), conditions="")
    results = [await wrapped.scan(seal(data), tenant_id="ten_1") for data in (b"x", EICAR, b"x", EICAR)]
    assert [type(result) for result in results] == [Clean, Infected, Clean, Infected]
    assert [isinstance(result, Clean) and result.cached for result in results] == [False, False, True, False]
