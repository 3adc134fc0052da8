"""The engine `clamd` against a real clamd: verdicts, limits, passwords, several daemons, health."""

import asyncio
import gzip
import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from sluice.engines.scanner import Clean, Incomplete, Infected, Unavailable
from sluice.engines.scanner.clamd import ClamdScanner
from sluice.kit.health import EngineState
from sluice.threats.scan import scan_source
from tests.engines.scanner.conftest import Seal
from tests.engines.scanner.twin import InProcessSandbox
from tests.servers import free_port, missing
from tests.servers.clamd import Clamd, running_clamd
from tests.threats.packing import EICAR, zipped

TESTFILES = Path("/usr/share/clamav-testfiles")
FOUND_BY_HASH = (
    "clam.exe",
    "clam.zip",
    "clam.tar.gz",
    "clam.cab",
    "clam.exe.bz2",
    "clam.7z",
    "clam.chm",
    "clam.mail",
    "clam.ole.doc",
    "clam.pdf",
)
WAYS = ("unix", "tcp")


def address_of(server: Clamd, way: str) -> str:
    return server.address if way == "unix" else server.tcp_address


def deeply_packed() -> bytes:
    data = b"deep"
    for _ in range(40):
        data = gzip.compress(data)
    return data


def locked(data: bytes) -> bytes:
    """Mark the first member of a zip archive as encrypted."""
    changed = bytearray(data)
    changed[6] |= 1
    changed[changed.index(b"PK\x01\x02") + 8] |= 1
    return bytes(changed)


def open_descriptors() -> list[str]:
    return sorted(path.name for path in Path("/proc/self/fd").iterdir())


@pytest.fixture(scope="module")
def small_clamd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clamd]:
    """A clamd that takes files of at most 1 MiB and says what it skips."""
    with running_clamd(tmp_path_factory.mktemp("small"), {"StreamMaxLength": "1M", "MaxFileSize": "1M"}) as server:
        yield server


@pytest.fixture(scope="module")
def silent_clamd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clamd]:
    """A clamd as distributions set it up: it says OK of what it skips."""
    with running_clamd(tmp_path_factory.mktemp("silent"), {"MaxFileSize": "25M", "AlertExceedsMax": "no"}) as server:
        yield server


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", FOUND_BY_HASH)
async def test_the_test_files_of_clamav_are_infected(clamd: Clamd, seal: Seal, name: str, way: str) -> None:
    if not (TESTFILES / name).is_file():
        missing(name, apt="clamav-testfiles")
    result = await ClamdScanner([address_of(clamd, way)], InProcessSandbox()).scan(
        seal((TESTFILES / name).read_bytes()), tenant_id="ten_1"
    )
    assert isinstance(result, Infected)
    assert result.threat == "ClamAV-Test-File.UNOFFICIAL"
    assert result.engine.startswith("clamd 1.")


@pytest.mark.parametrize("way", WAYS)
async def test_past_the_size_limit_it_is_incomplete(small_clamd: Clamd, seal: Seal, way: str) -> None:
    result = await ClamdScanner([address_of(small_clamd, way)], InProcessSandbox()).scan(
        seal(random.Random(1).randbytes(9_000_000)), tenant_id="ten_1"
    )
    assert isinstance(result, Incomplete)
    assert result.why == ("Heuristics.Limits.Exceeded.MaxFileSize" if way == "unix" else "INSTREAM size limit exceeded")


@pytest.mark.parametrize("way", WAYS)
async def test_past_the_recursion_limit_it_is_incomplete(clamd: Clamd, seal: Seal, way: str) -> None:
    result = await ClamdScanner([address_of(clamd, way)], InProcessSandbox()).scan(seal(deeply_packed()), tenant_id="ten_1")
    assert isinstance(result, Incomplete)
    assert result.why == "Heuristics.Limits.Exceeded.MaxRecursion"


async def test_a_password_is_no_threat_by_default_and_incomplete_by_policy(clamd: Clamd, seal: Seal) -> None:
    sealed = seal(locked(zipped({"secret": random.Random(1).randbytes(99)})))
    assert isinstance(await ClamdScanner([clamd.address], InProcessSandbox()).scan(sealed, tenant_id="ten_1"), Clean)
    result = await ClamdScanner([clamd.address], InProcessSandbox(), encrypted="incomplete").scan(sealed, tenant_id="ten_1")
    assert isinstance(result, Incomplete)
    assert result.why == "Heuristics.Encrypted.Zip"


async def test_a_password_hides_no_threat(clamd: Clamd, seal: Seal) -> None:
    sealed = seal(locked(zipped({"secret": random.Random(1).randbytes(99), "b": EICAR})))
    assert isinstance(await ClamdScanner([clamd.address], InProcessSandbox()).scan(sealed, tenant_id="ten_1"), Infected)


async def test_a_password_hides_no_limit_although_clamd_names_either_by_chance(clamd: Clamd, seal: Seal) -> None:
    sealed = seal(locked(zipped({"secret": random.Random(1).randbytes(99), "b": deeply_packed()})))
    scanner = ClamdScanner([clamd.address], InProcessSandbox())
    results = [await scanner.scan(sealed, tenant_id="ten_1") for _ in range(20)]
    assert {type(result) for result in results} == {Incomplete}, results


async def test_a_clamd_that_is_silent_about_its_limits_is_not_believed_alone(silent_clamd: Clamd, seal: Seal) -> None:
    scanner = ClamdScanner([silent_clamd.address], InProcessSandbox())
    result = await scanner.scan(seal(bytes(2**20)), tenant_id="ten_1")
    assert isinstance(result, Incomplete)
    assert "AlertExceedsMax" in result.why
    health = await scanner.health()
    assert health.state is EngineState.DEGRADED
    assert "AlertExceedsMax" in health.detail
    assert not scanner.tells_limits


async def test_a_clamd_that_does_not_look_into_archives_is_of_no_use(tmp_path: Path, seal: Seal) -> None:
    with running_clamd(tmp_path, {"ScanArchive": "no"}) as blind:
        scanner = ClamdScanner([blind.address], InProcessSandbox())
        result = await scanner.scan(seal(b"x"), tenant_id="ten_1")
        assert isinstance(result, Unavailable)
        assert "does not find the EICAR test virus inside a zip" in result.why
        assert (await scanner.health()).state is EngineState.DOWN
        await scanner.aclose()


async def test_another_daemon_is_asked_when_one_is_away(clamd: Clamd, seal: Seal, tmp_path: Path) -> None:
    away = [f"unix:{tmp_path}/none.sock", f"tcp:127.0.0.1:{free_port()}"]
    scanner = ClamdScanner([*away, clamd.address], InProcessSandbox())
    assert isinstance(await scanner.scan(seal(EICAR), tenant_id="ten_1"), Infected)
    health = await scanner.health()
    assert health.state is EngineState.DEGRADED
    assert "No such file" in health.detail
    assert "refused" in health.detail


async def test_a_daemon_that_ends_during_scans_costs_none_of_them(clamd: Clamd, seal: Seal, tmp_path: Path) -> None:
    with running_clamd(tmp_path) as other:
        scanner = ClamdScanner([other.address, clamd.address], InProcessSandbox(), concurrency=4)
        sealed = [seal(os.urandom(3_000_000)) for _ in range(8)]
        scans = [asyncio.create_task(scanner.scan(one, tenant_id="ten_1")) for one in sealed]
        await asyncio.wait(scans, return_when=asyncio.FIRST_COMPLETED)
    results = await asyncio.gather(*scans)
    assert {type(result) for result in results} == {Clean}


async def test_a_daemon_that_comes_back_is_asked_again(tmp_path: Path, seal: Seal) -> None:
    with running_clamd(tmp_path) as server:
        scanner = ClamdScanner([server.address], InProcessSandbox())
        assert isinstance(await scanner.scan(seal(EICAR), tenant_id="ten_1"), Infected)
    assert isinstance(await scanner.scan(seal(EICAR), tenant_id="ten_1"), Unavailable)
    with running_clamd(tmp_path):
        assert isinstance(await scanner.scan(seal(EICAR), tenant_id="ten_1"), Infected)


@pytest.mark.parametrize("way", WAYS)
async def test_how_much_it_scans_is_found_out(small_clamd: Clamd, way: str) -> None:
    scanner = ClamdScanner([address_of(small_clamd, way)], InProcessSandbox(), largest_bytes=8 * 2**20)
    await scanner.start()
    await scanner.find_reach(20)
    assert scanner.reach == 2**20


async def test_how_much_a_silent_one_scans_is_found_out(silent_clamd: Clamd) -> None:
    scanner = ClamdScanner([silent_clamd.address], InProcessSandbox(), largest_bytes=100 * 2**20)
    await scanner.start()
    await scanner.find_reach(20)
    assert scanner.reach == 25 * 2**20


async def test_many_scans_at_once_each_get_their_own_answer(clamd: Clamd, seal: Seal) -> None:
    scanner = ClamdScanner([clamd.tcp_address, clamd.address], InProcessSandbox(), concurrency=5)
    sealed = [seal(EICAR if number % 3 == 0 else b"clean %d" % number) for number in range(60)]
    results = await asyncio.gather(*(scanner.scan(one, tenant_id="ten_1") for one in sealed))
    assert [isinstance(result, Infected) for result in results] == [number % 3 == 0 for number in range(60)]
    assert {type(result) for result in results} == {Clean, Infected}


async def test_a_host_is_found_by_name(clamd: Clamd, seal: Seal) -> None:
    scanner = ClamdScanner([f"tcp:localhost:{clamd.port}"], InProcessSandbox())
    assert isinstance(await scanner.scan(seal(EICAR), tenant_id="ten_1"), Infected)


async def test_a_closed_scanner_is_unavailable(clamd: Clamd, seal: Seal) -> None:
    scanner = ClamdScanner([clamd.address], InProcessSandbox())
    await scanner.aclose()
    assert await scanner.scan(seal(b"x"), tenant_id="ten_1") == Unavailable("the scanner was closed", "clamd")


async def test_no_descriptor_is_left_open(clamd: Clamd, seal: Seal) -> None:
    sealed = seal(EICAR)
    scan_source(sealed.fd, "")  # libraries that our own look loads keep theirs
    before = open_descriptors()
    scanner = ClamdScanner([clamd.address, clamd.tcp_address], InProcessSandbox(), largest_bytes=2**20)
    for _ in range(5):
        await scanner.scan(sealed, tenant_id="ten_1")
    await scanner.aclose()
    async with asyncio.timeout(20):
        # a closed connection gives its descriptor back at the loop's next turn, and watches end with theirs
        while open_descriptors() != before:  # noqa: ASYNC110  (the end of a descriptor is no event that could be awaited)
            await asyncio.sleep(0.01)
