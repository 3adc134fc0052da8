"""The examination of a file that is also scanned.

A small file is checked and unpacked by one child process. If that fails, the check is repeated alone.
"""

import asyncio
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest

from sluice.errors import ServiceUnavailable
from sluice.scanner import UnpackReport
from sluice.uploads.inspection import examine
from sluice_inspect.child.jobs import JOBS
from sluice_inspect.child.shared_buffer import SharedBuffer
from sluice_inspect.report import Outcome
from sluice_inspect.sandbox import Completed, Crashed, NoWorker, OverLimit, RunResult
from sluice_inspect.sandbox.protocol import Job
from sluice_inspect.sandbox.sealed import Sealed
from tests.rows import each_row
from tests.scanner.in_process_sandbox import InProcessSandbox

INVALID_REPORT = {"check": {"format": "png"}, "scan": {}}


class FakeSandbox(InProcessSandbox):
    """Runs each job in this process, except those whose result is given."""

    def __init__(self, given: Mapping[Job, RunResult] | None = None) -> None:
        super().__init__()
        self._given = given or {}

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
        assert buffer is None
        self.asked.append((job, filename, tenant_id))
        return self._given.get(job) or Completed(JOBS[job](sealed.fd, filename), 1.0)


def pending() -> "asyncio.Future[UnpackReport | None]":
    return asyncio.get_running_loop().create_future()


@contextmanager
def sealed(content: bytes) -> Iterator[Sealed]:
    fd = os.memfd_create("test")
    try:
        os.write(fd, content)
        yield Sealed(fd, len(content), b"")
    finally:
        os.close(fd)


LINE = b"a line of text\n"


async def examined(content: bytes, name: str, given: dict[Job, RunResult] | None = None) -> tuple[Any, Any, list[Any]]:
    """Examine a file; return the report of the check, that of the unpacking, and what the sandbox was asked."""
    sandbox, unpack_report = FakeSandbox(given), pending()
    with sealed(content) as file:
        fact = await examine(file, name, "ten_1", sandbox, unpack_report)
    return fact.report, unpack_report.result(), sandbox.asked


async def test_a_small_file_is_checked_and_unpacked_by_one_child() -> None:
    report, unpacked, asked = await examined(LINE, "a.txt")
    assert (report.format, unpacked.why) == ("text", "")
    assert asked == [("check_and_scan", "a.txt", "ten_1")]


async def test_a_rejected_file_is_not_unpacked_by_the_check() -> None:
    report, unpacked, asked = await examined(b"%PDF-1.4\n" + b"\xff\x00" * 50, "a.pdf")
    assert (report.integrity, unpacked) == (Outcome.CORRUPT, None)
    assert [job for job, *_ in asked] == ["check_and_scan"]


async def test_a_large_file_is_checked_without_unpacking() -> None:
    report, unpacked, asked = await examined(LINE * 100_000, "a.txt")
    assert (report.format, unpacked) == ("text", None)
    assert asked == [("check", "a.txt", "ten_1")]


@each_row("job, content", [("check", LINE * 100_000), ("check_and_scan", b"x")])
async def test_a_file_without_a_free_child_is_unavailable_after_one_attempt(job: Job, content: bytes) -> None:
    sandbox, unpack_report = FakeSandbox({job: NoWorker("none was free")}), pending()
    with sealed(content) as file, pytest.raises(ServiceUnavailable):
        await examine(file, "a.txt", "ten_1", sandbox, unpack_report)
    assert (len(sandbox.asked), unpack_report.result()) == (1, None)


def with_invalid_scan() -> RunResult:
    with sealed(LINE) as file:
        return Completed({**JOBS["check_and_scan"](file.fd, "a.txt"), "scan": INVALID_REPORT}, 1.0)


@each_row(
    "result",
    lambda: [
        *(Crashed("by signal 11", 1.0), OverLimit("cpu", 1.0), OverLimit("memory", 1.0)),
        *(Completed(INVALID_REPORT, 1.0), Completed({}, 1.0), with_invalid_scan()),
    ],
)
async def test_a_failed_combined_job_is_repeated_as_a_check_alone(result: RunResult) -> None:
    report, unpacked, asked = await examined(LINE, "a.txt", {"check_and_scan": result})
    assert (report.format, unpacked) == ("text", None)
    assert [job for job, *_ in asked] == ["check_and_scan", "check"]
