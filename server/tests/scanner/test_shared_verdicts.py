"""What tenants share of scans by clamd: its OK on the plain bytes of a file, and nothing that a child has said."""

from collections.abc import Sequence

import pytest

from sluice.scanner import Clean, Infected, ScanResult
from sluice.scanner.clamd.scanner import ClamdScanner
from sluice.scanner.verdict_cache import CachedScanner, MemoryVerdictCache
from sluice_inspect.child.shared_buffer import SharedBuffer
from sluice_inspect.sandbox import Completed, RunResult
from sluice_inspect.sandbox.protocol import Job
from sluice_inspect.sandbox.sealed import Sealed
from sluice_inspect.threats import RULES_VERSION
from tests.inspection.threats.containers import pdf_with
from tests.inspection.threats.packed_files import EICAR, tarred
from tests.rows import each_row
from tests.scanner.conftest import Seal
from tests.scanner.faulty_clamd import Peer, faulty_clamd, read_stream
from tests.scanner.in_process_sandbox import InProcessSandbox

NOTHING_FOUND = {"complete": True, "signatures": RULES_VERSION}
PLAIN = b"an ordinary file"
MARKED = b"what only the signatures of clamd know"


class SandboxWithLiar(InProcessSandbox):
    """A sandbox in which the children of `ten_liar` were taken over and call every file clean."""

    async def run(
        self,
        job: Job,
        sealed: Sealed,
        *,
        filename: str,
        tenant_id: str,
        buffer: SharedBuffer | None = None,
        **_: object,
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


async def results_of(
    clamd: Counting, sealed: Sealed, *tenants: str, shared: MemoryVerdictCache | None = None
) -> list[ScanResult]:
    """Scan a file for each tenant, with a cache of verdicts for each, and with one of what clamd said."""
    async with faulty_clamd(clamd) as daemon:
        own = ClamdScanner([daemon.address], SandboxWithLiar(), largest_bytes=2**20, verdicts=shared)
        scanner = CachedScanner(own, shared or MemoryVerdictCache(), conditions="")
        results = [await scanner.scan(sealed, tenant_id=tenant) for tenant in tenants]
        await scanner.aclose()
    return results


async def test_tenants_share_the_ok_of_clamd_on_the_same_bytes(seal: Seal) -> None:
    clamd = Counting()
    results = await results_of(clamd, seal(PLAIN), "ten_1", "ten_2", shared=MemoryVerdictCache())
    found = [(one.engine, one.signatures, one.cached) for one in results if isinstance(one, Clean)]
    assert found == [("clamd 1.4.6", "27500", False), ("clamd 1.4.6", "27500", True)]
    assert clamd.sent == [PLAIN]


@pytest.mark.asvs("15.2.5")
@each_row("data", [tarred({"a.txt": EICAR}), pdf_with(MARKED)])
async def test_lie_of_a_child_decides_on_no_file_of_another_tenant(seal: Seal, data: bytes) -> None:
    clamd = Counting(infected=[MARKED])
    results = await results_of(clamd, seal(data), "ten_liar", "ten_1", shared=MemoryVerdictCache())
    assert [type(result) for result in results] == [Clean, Infected]


async def test_threat_of_clamd_is_asked_for_each_time(seal: Seal) -> None:
    clamd = Counting(infected=[PLAIN])
    results = await results_of(clamd, seal(PLAIN), "ten_1", "ten_2", shared=MemoryVerdictCache())
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
    results = await results_of(clamd, seal(PLAIN), "ten_1", "ten_2", "ten_1")
    assert {type(result) for result in results} == {Clean}
    assert clamd.sent == [PLAIN] * 2
