"""The examination of a file that is also scanned.

A small file is checked and unpacked by one child process. If that fails, the check is repeated alone.
"""

import asyncio
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pytest

from sluice.errors import ServiceUnavailable
from sluice.kit.sealed import Sealed
from sluice.sandbox import Completed, Crashed, NoWorker, OverLimit, RunResult
from sluice.sandbox.protocol import Job
from sluice.scanner import UnpackReport
from sluice.uploads.inspection import examine
from sluice_inspect.child.jobs import JOBS
from sluice_inspect.child.shared_buffer import SharedBuffer
from sluice_inspect.report import Outcome
from tests.rows import each_row
from tests.scanner.in_process_sandbox import InProcessSandbox

INVALID_REPORT = {"check": {"format": "png"}, "scan": {}}


class FakeSandbox(InProcessSandbox):
    """Runs each job in this process, except those whose result is given."""

    def __init__(self, given: Mapping[Job, RunResult] | None = None) -> None:
        super().__init__()
        self._given = given or {}

    async def run(
        self, job: Job, sealed: Sealed, *, filename: str, tenant_id: str, buffer: SharedBuffer | None = None
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


async def test_a_small_file_is_checked_and_unpacked_by_one_child() -> None:
    sandbox, unpack_report = FakeSandbox(), pending()
    with sealed(b"a line of text\n") as file:
        fact = await examine(file, "a.txt", "ten_1", sandbox, unpack_report)
    unpacked = unpack_report.result()
    assert (fact.report and fact.report.format, unpacked and unpacked.why) == ("text", "")
    assert sandbox.asked == [("check_and_scan", "a.txt", "ten_1")]


async def test_a_rejected_file_is_not_unpacked_by_the_check() -> None:
    sandbox, unpack_report = FakeSandbox(), pending()
    with sealed(b"%PDF-1.4\n" + b"\xff\x00" * 50) as file:
        fact = await examine(file, "a.pdf", "ten_1", sandbox, unpack_report)
    assert (fact.report and fact.report.integrity, unpack_report.result()) == (Outcome.CORRUPT, None)
    assert [job for job, *_ in sandbox.asked] == ["check_and_scan"]


async def test_a_large_file_is_checked_without_unpacking() -> None:
    sandbox, unpack_report = FakeSandbox(), pending()
    with sealed(b"a line of text\n" * 100_000) as file:
        fact = await examine(file, "a.txt", "ten_1", sandbox, unpack_report)
    assert (fact.report and fact.report.format, unpack_report.result()) == ("text", None)
    assert sandbox.asked == [("check", "a.txt", "ten_1")]


async def test_no_free_child_for_a_large_file_ends_the_wait_for_an_unpack_report() -> None:
    unpack_report = pending()
    with sealed(b"a line of text\n" * 100_000) as file, pytest.raises(ServiceUnavailable):
        await examine(file, "a.txt", "ten_1", FakeSandbox({"check": NoWorker("none")}), unpack_report)
    assert unpack_report.result() is None


@each_row(
    "result",
    [
        Crashed("by signal 11", 1.0),
        OverLimit("cpu", 1.0),
        OverLimit("memory", 1.0),
        Completed(INVALID_REPORT, 1.0),
        Completed({}, 1.0),
    ],
)
async def test_a_failed_combined_job_is_repeated_as_a_check_alone(result: RunResult) -> None:
    sandbox, unpack_report = FakeSandbox({"check_and_scan": result}), pending()
    with sealed(b"a line of text\n") as file:
        fact = await examine(file, "a.txt", "ten_1", sandbox, unpack_report)
    assert (fact.report and fact.report.format, unpack_report.result()) == ("text", None)
    assert [job for job, *_ in sandbox.asked] == ["check_and_scan", "check"]


async def test_an_invalid_unpack_report_also_discards_the_check_beside_it() -> None:
    with sealed(b"a line of text\n") as file:
        valid = JOBS["check_and_scan"](file.fd, "a.txt")
        sandbox, unpack_report = (
            FakeSandbox({"check_and_scan": Completed({**valid, "scan": {**INVALID_REPORT}}, 1.0)}),
            pending(),
        )
        await examine(file, "a.txt", "ten_1", sandbox, unpack_report)
    assert unpack_report.result() is None
    assert [job for job, *_ in sandbox.asked] == ["check_and_scan", "check"]


async def test_a_small_file_without_a_free_child_is_unavailable_after_one_attempt() -> None:
    sandbox, unpack_report = FakeSandbox({"check_and_scan": NoWorker("none was free")}), pending()
    with sealed(b"x") as file, pytest.raises(ServiceUnavailable):
        await examine(file, "a.txt", "ten_1", sandbox, unpack_report)
    assert (len(sandbox.asked), unpack_report.result()) == (1, None)
