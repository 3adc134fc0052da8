"""The shared buffer of a child: what it writes arrives complete, and cannot be changed once the server reads it."""

import errno
import mmap
import os
from collections.abc import AsyncIterator, Iterator
from typing import cast

import pytest

from sluice_inspect.child.shared_buffer import SharedBuffer, SharedBufferWriter
from sluice_inspect.sandbox.engine import ZygoteSandbox
from sluice_inspect.sandbox.protocol import Completed, Crashed, Job, RunResult
from tests.sandbox.conftest import ROOT, Seal
from tests.sandbox.processes import payload_of
from tests.sandbox.shared_buffer_jobs import PIECE

MIB = 2**20
BYTES = b"some bytes of a stranger"
BUFFER_JOBS = "tests.sandbox.shared_buffer_jobs"


@pytest.fixture(params=["strict", "seccomp", "limits-only"])
async def sandbox(request: pytest.FixtureRequest) -> AsyncIterator[ZygoteSandbox]:
    opened = ZygoteSandbox(workers=1, level=request.param, jobs=BUFFER_JOBS, import_path=[ROOT])
    await opened.start()
    yield opened
    await opened.aclose()


@pytest.fixture
def buffer() -> Iterator[SharedBuffer]:
    made = SharedBuffer(20 * MIB)
    yield made
    made.close()


async def run(sandbox: ZygoteSandbox, seal: Seal, job: str, buffer: SharedBuffer, name: str = "") -> RunResult:
    return await sandbox.run(cast("Job", job), seal(BYTES), filename=name, tenant_id="ten_1", buffer=buffer)


def is_sealed(buffer: SharedBuffer) -> bool:
    """Return whether the buffer is read-only."""
    try:
        os.pwrite(buffer.fd, b"x", 0)
    except OSError as fault:
        return fault.errno == errno.EPERM
    return False


async def test_writes_arrive_complete_and_sealed(sandbox: ZygoteSandbox, seal: Seal, buffer: SharedBuffer) -> None:
    payload = payload_of(await run(sandbox, seal, "write pieces", buffer, "19"))
    assert payload == {"accepted": [True] * 20, "at": 19 * MIB + len(BYTES)}
    assert os.pread(buffer.fd, 20 * MIB, 0)[: 19 * MIB + len(BYTES)] == BYTES + 19 * PIECE
    assert is_sealed(buffer)


async def test_write_beyond_buffer_size_is_refused(sandbox: ZygoteSandbox, seal: Seal, buffer: SharedBuffer) -> None:
    payload = payload_of(await run(sandbox, seal, "write pieces", buffer, "21"))
    assert payload["accepted"] == [True] * 20 + [False, False]


@pytest.mark.parametrize(("job", "why"), [("keep mapping", "kept hold of the memory"), ("die", "")])
async def test_child_that_dies_or_keeps_a_writable_mapping_is_a_crash(
    sandbox: ZygoteSandbox, seal: Seal, buffer: SharedBuffer, job: str, why: str
) -> None:
    result = await run(sandbox, seal, job, buffer)
    assert isinstance(result, Crashed)
    assert why in result.why


async def test_child_cannot_write_after_sealing(sandbox: ZygoteSandbox, seal: Seal, buffer: SharedBuffer) -> None:
    assert isinstance(await run(sandbox, seal, "keep descriptor", buffer), Completed)
    assert is_sealed(buffer)
    with pytest.raises(PermissionError):
        mmap.mmap(buffer.fd, 4096)


async def test_retry_in_fresh_child_starts_with_empty_buffer(seal: Seal) -> None:
    sandbox = ZygoteSandbox(workers=1, jobs=BUFFER_JOBS, import_path=[ROOT])
    await sandbox.start()
    for _ in range(2):
        buffer = SharedBuffer(MIB)
        assert isinstance(await run(sandbox, seal, "raise when reused", buffer), Completed)
        assert os.pread(buffer.fd, 5, 0) == b"right"
        buffer.close()
    await sandbox.aclose()


async def test_child_cannot_bypass_buffer_limits(sandbox: ZygoteSandbox, seal: Seal, buffer: SharedBuffer) -> None:
    result = await run(sandbox, seal, "bypass limits", buffer)
    if sandbox.level == "limits-only":
        assert isinstance(result, Crashed)  # the child prevents the server from sealing, which is a crash
    else:
        assert payload_of(result)["succeeded"] == []


def test_buffer_memory_is_allocated_as_it_is_written() -> None:
    buffer = SharedBuffer(512 * MIB)
    assert os.fstat(buffer.fd).st_blocks == 0
    writer = SharedBufferWriter(os.dup(buffer.fd))
    assert writer.write(b"x" * 5000)
    writer.close()
    assert os.fstat(buffer.fd).st_blocks * 512 <= 3 * mmap.PAGESIZE
    buffer.close()
    buffer.close()
