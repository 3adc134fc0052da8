"""What tenants share of scans by clamd: its OK on the plain bytes of a file, and nothing that a child has said."""

from collections.abc import Sequence

import pytest

from sluice.kit.sealed import Sealed
from sluice.sandbox import Completed, RunResult
from sluice.sandbox.protocol import Job
from sluice.scanner import Clean, Infected
from sluice.scanner.clamd.scanner import ClamdScanner
from sluice.scanner.verdict_cache import CachedScanner, MemoryVerdictCache
from sluice_inspect.child.shared_buffer import SharedBuffer
from sluice_inspect.threats import RULES_VERSION
from tests.inspection.threats.containers import pdf_with
from tests.inspection.threats.packed_files import EICAR, tarred
from tests.scanner.conftest import Seal
from tests.scanner.faulty_clamd import FaultyClamd, Peer, faulty_clamd, read_stream
from tests.scanner.in_process_sandbox import InProcessSandbox

NOTHING_FOUND = {"complete": True, "signatures": RULES_VERSION}
PLAIN = b"an ordinary file"
MARKED = b"what only the signatures of clamd know"


class SandboxWithLiar(InProcessSandbox):
    """A sandbox in which the children of `ten_liar` were taken over and call every file clean."""

    async def run(
        self, job: Job, sealed: Sealed, *, filename: str, tenant_id: str, buffer: SharedBuffer | None = None
    ) -> RunResult:
        if tenant_id == "ten_liar":
            return Completed(NOTHING_FOUND, ms=1.0)
        return await super().run(job, sealed, filename=filename, tenant_id=tenant_id, buffer=buffer)


class Counting:
    """The response of a clamd that finds nothing but a threat in `infected`; keeps what it was sent."""

    def __init__(self, infected: Sequence[bytes] = ()) -> None:
        self.infected = infected
        self.sent: list[bytes] = []

    async def __call__(self, peer: Peer) -> None:
        data = await read_stream(peer)
        self.sent.append(data)
        await peer.send(b"stream: Found FOUND\0" if data in self.infected else b"stream: OK\0")


def shared_scanner(daemon: FaultyClamd, verdicts: MemoryVerdictCache) -> CachedScanner:
    clamd = ClamdScanner([daemon.address], SandboxWithLiar(), largest_bytes=2**20, verdicts=verdicts)
    return CachedScanner(clamd, verdicts, conditions="")


async def test_tenants_share_the_ok_of_clamd_on_the_same_bytes(seal: Seal) -> None:
    clamd = Counting()
    async with faulty_clamd(clamd) as daemon:
        scanner = shared_scanner(daemon, MemoryVerdictCache())
        results = [await scanner.scan(seal(PLAIN), tenant_id=tenant) for tenant in ("ten_1", "ten_2")]
        await scanner.aclose()
    assert [isinstance(result, Clean) and result.cached for result in results] == [False, True]
    assert [(result.engine, result.signatures) for result in results if isinstance(result, Clean)] == [
        ("clamd 1.4.6", "27500")
    ] * 2
    assert clamd.sent == [PLAIN]


@pytest.mark.asvs("15.2.5")
async def test_lie_of_a_child_decides_on_no_file_of_another_tenant(seal: Seal) -> None:
    packed = tarred({"a.txt": EICAR})
    async with faulty_clamd(Counting()) as daemon:
        scanner = shared_scanner(daemon, MemoryVerdictCache())
        results = [await scanner.scan(seal(packed), tenant_id=tenant) for tenant in ("ten_liar", "ten_1")]
        await scanner.aclose()
    assert [type(result) for result in results] == [Clean, Infected]


async def test_part_that_a_child_concealed_is_scanned_for_another_tenant(seal: Seal) -> None:
    document = pdf_with(MARKED)
    async with faulty_clamd(Counting(infected=[MARKED])) as daemon:
        scanner = shared_scanner(daemon, MemoryVerdictCache())
        results = [await scanner.scan(seal(document), tenant_id=tenant) for tenant in ("ten_liar", "ten_1")]
        await scanner.aclose()
    assert [type(result) for result in results] == [Clean, Infected]


async def test_threat_of_clamd_is_asked_for_each_time(seal: Seal) -> None:
    clamd = Counting(infected=[PLAIN])
    async with faulty_clamd(clamd) as daemon:
        scanner = shared_scanner(daemon, MemoryVerdictCache())
        results = [await scanner.scan(seal(PLAIN), tenant_id=tenant) for tenant in ("ten_1", "ten_2")]
        await scanner.aclose()
    assert [type(result) for result in results] == [Infected] * 2
    assert clamd.sent == [PLAIN] * 2


async def test_new_signatures_end_a_shared_ok(seal: Seal) -> None:
    clamd, verdicts = Counting(), MemoryVerdictCache()
    for signatures in ("27500", "27501"):
        async with faulty_clamd(clamd) as daemon:
            daemon.version = f"ClamAV 1.4.6/{signatures}/Mon Jan  5 09:00:00 2026".encode()
            scanner = ClamdScanner([daemon.address], SandboxWithLiar(), largest_bytes=2**20, verdicts=verdicts)
            result = await scanner.scan(seal(PLAIN), tenant_id="ten_1")
            await scanner.aclose()
        assert isinstance(result, Clean)
        assert (result.signatures, result.cached) == (signatures, False)
    assert clamd.sent == [PLAIN] * 2


async def test_without_a_shared_cache_each_tenant_has_its_own_scan(seal: Seal) -> None:
    clamd = Counting()
    async with faulty_clamd(clamd) as daemon:
        scanner = CachedScanner(
            ClamdScanner([daemon.address], SandboxWithLiar(), largest_bytes=2**20), MemoryVerdictCache(), conditions=""
        )
        for tenant in ("ten_1", "ten_2", "ten_1"):
            assert isinstance(await scanner.scan(seal(PLAIN), tenant_id=tenant), Clean)
        await scanner.aclose()
    assert clamd.sent == [PLAIN] * 2
