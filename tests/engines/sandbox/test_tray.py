"""The memory that is lent to a child: what it lays there arrives whole, and nobody can change it once the server reads it."""

import errno
import mmap
import os
from collections.abc import AsyncIterator, Callable, Iterator
from typing import cast

import pytest

from sluice.engines.sandbox.protocol import Died, Job, Ran, RunResult
from sluice.engines.sandbox.spawn import SpawnSandbox
from sluice.engines.sandbox.tray import Tray, TrayWriter
from sluice.engines.sandbox.zygote import ZygoteSandbox
from sluice.kit.sealed import Sealed
from tests.engines.sandbox.conftest import ROOT
from tests.engines.sandbox.tray_jobs import PIECE

MIB = 2**20
BYTES = b"some bytes of a stranger"
TRAY_JOBS = "tests.engines.sandbox.tray_jobs"


@pytest.fixture(params=["strict", "seccomp", "limits-only", "spawn"])
async def sandbox(request: pytest.FixtureRequest) -> AsyncIterator[ZygoteSandbox | SpawnSandbox]:
    opened: ZygoteSandbox | SpawnSandbox
    if request.param == "spawn":
        opened = SpawnSandbox(workers=1, jobs=TRAY_JOBS, import_path=[ROOT])
    else:
        opened = ZygoteSandbox(workers=1, level=request.param, jobs=TRAY_JOBS, import_path=[ROOT])
    await opened.start()
    yield opened
    await opened.aclose()


@pytest.fixture
def tray() -> Iterator[Tray]:
    made = Tray(20 * MIB)
    yield made
    made.close()


async def run(
    sandbox: ZygoteSandbox | SpawnSandbox, seal: Callable[[bytes], Sealed], job: str, tray: Tray, name: str = ""
) -> RunResult:
    return await sandbox.run(cast("Job", job), seal(BYTES), filename=name, tenant_id="ten_1", tray=tray)


def is_fixed(tray: Tray) -> bool:
    """Answer whether nobody can write to the memory."""
    try:
        os.pwrite(tray.fd, b"x", 0)
    except OSError as fault:
        return fault.errno == errno.EPERM
    return False


async def test_what_a_child_lays_down_arrives_whole_and_fixed(
    sandbox: ZygoteSandbox | SpawnSandbox, seal: Callable[[bytes], Sealed], tray: Tray
) -> None:
    result = await run(sandbox, seal, "lays", tray, "19")
    assert isinstance(result, Ran)
    assert result.payload == {"laid": [True] * 20, "at": 19 * MIB + len(BYTES)}
    assert os.pread(tray.fd, 20 * MIB, 0)[: 19 * MIB + len(BYTES)] == BYTES + 19 * PIECE
    assert is_fixed(tray)


async def test_what_does_not_fit_is_not_laid_down(
    sandbox: ZygoteSandbox | SpawnSandbox, seal: Callable[[bytes], Sealed], tray: Tray
) -> None:
    result = await run(sandbox, seal, "lays", tray, "21")
    assert isinstance(result, Ran)
    assert result.payload["laid"] == [True] * 20 + [False, False]


async def test_a_child_that_could_still_write_is_not_believed(
    sandbox: ZygoteSandbox | SpawnSandbox, seal: Callable[[bytes], Sealed], tray: Tray
) -> None:
    result = await run(sandbox, seal, "keeps a mapping", tray)
    assert isinstance(result, Died)
    assert "kept hold of the memory" in result.why


async def test_a_descriptor_that_was_kept_is_of_no_use(
    sandbox: ZygoteSandbox | SpawnSandbox, seal: Callable[[bytes], Sealed], tray: Tray
) -> None:
    assert isinstance(await run(sandbox, seal, "keeps the descriptor", tray), Ran)
    assert is_fixed(tray)
    with pytest.raises(PermissionError):
        mmap.mmap(tray.fd, 4096)


async def test_a_child_that_died_over_it_has_died(
    sandbox: ZygoteSandbox | SpawnSandbox, seal: Callable[[bytes], Sealed], tray: Tray
) -> None:
    assert isinstance(await run(sandbox, seal, "dies", tray), Died)


async def test_a_second_try_in_a_fresh_child_begins_from_the_start(seal: Callable[[bytes], Sealed]) -> None:
    sandbox = ZygoteSandbox(workers=1, jobs=TRAY_JOBS, import_path=[ROOT])
    await sandbox.start()
    for _ in range(2):
        tray = Tray(MIB)
        assert isinstance(await run(sandbox, seal, "raises when used", tray), Ran)
        assert os.pread(tray.fd, 5, 0) == b"right"
        tray.close()
    await sandbox.aclose()


async def test_a_child_finds_no_way_around(
    sandbox: ZygoteSandbox | SpawnSandbox, seal: Callable[[bytes], Sealed], tray: Tray
) -> None:
    result = await run(sandbox, seal, "ways around", tray)
    if sandbox.level == "limits-only":
        assert isinstance(result, Died)  # it keeps the server from sealing, and gains nothing by it
    else:
        assert isinstance(result, Ran)
        assert result.payload["done"] == []


def test_memory_is_taken_as_it_is_written() -> None:
    tray = Tray(512 * MIB)
    assert os.fstat(tray.fd).st_blocks == 0
    writer = TrayWriter(os.dup(tray.fd))
    assert writer.lay(b"x" * 5000)
    writer.close()
    assert os.fstat(tray.fd).st_blocks * 512 <= 3 * mmap.PAGESIZE
    tray.close()
    tray.close()
