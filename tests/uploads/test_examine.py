"""The check of a file that is scanned as well: one child does both for a small one, and what goes wrong there is found out part by part."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pytest

from sluice.engines.sandbox import Away, Died, Overran, Ran, RunResult
from sluice.engines.sandbox.jobs import JOBS
from sluice.engines.sandbox.protocol import Job
from sluice.engines.sandbox.tray import Tray
from sluice.engines.scanner import Glance
from sluice.errors import Unavailable
from sluice.formats.verdict import Outcome
from sluice.kit.sealed import Sealed
from sluice.uploads.stages.examine import examine
from tests.engines.scanner.twin import InProcessSandbox

LIE = {"check": {"format": "png"}, "scan": {}}


class Children(InProcessSandbox):
    """Does every job here but those whose answers are given."""

    def __init__(self, given: Mapping[Job, RunResult] | None = None) -> None:
        super().__init__()
        self._given = given or {}

    async def run(self, job: Job, sealed: Sealed, *, filename: str, tenant_id: str, tray: Tray | None = None) -> RunResult:
        assert tray is None
        self.asked.append((job, filename, tenant_id))
        return self._given.get(job) or Ran(JOBS[job](sealed.fd, filename), 1.0)


@contextmanager
def sealed(content: bytes) -> Iterator[Sealed]:
    fd = os.memfd_create("test")
    try:
        os.write(fd, content)
        yield Sealed(fd, len(content), b"")
    finally:
        os.close(fd)


async def test_a_small_file_is_checked_and_looked_through_by_one_child_in_one_go() -> None:
    children, glance = Children(), Glance()
    with sealed(b"a line of text\n") as file:
        fact = await examine(file, "a.txt", "ten_1", children, glance)
    look = await glance.had()
    assert (fact.report and fact.report.format, look and look.why) == ("text", "")
    assert children.asked == [("inspect", "a.txt", "ten_1")]


async def test_where_the_check_finds_fault_the_look_is_left_to_the_scanner() -> None:
    children, glance = Children(), Glance()
    with sealed(b"%PDF-1.4\n" + b"\xff\x00" * 50) as file:
        fact = await examine(file, "a.pdf", "ten_1", children, glance)
    assert (fact.report and fact.report.integrity, await glance.had()) == (Outcome.CORRUPT, None)
    assert [job for job, *_ in children.asked] == ["inspect"]


async def test_a_large_file_is_checked_alone_while_the_scanner_looks_for_itself() -> None:
    children, glance = Children(), Glance()
    with sealed(b"a line of text\n" * 100_000) as file:
        fact = await examine(file, "a.txt", "ten_1", children, glance)
    assert (fact.report and fact.report.format, glance.is_left, await glance.had()) == ("text", True, None)
    assert children.asked == [("check", "a.txt", "ten_1")]


async def test_where_no_child_is_to_be_had_for_a_large_file_a_look_is_no_longer_waited_for() -> None:
    glance = Glance()
    with sealed(b"a line of text\n" * 100_000) as file, pytest.raises(Unavailable):
        await examine(file, "a.txt", "ten_1", Children({"check": Away("none")}), glance)
    assert await glance.had() is None


@pytest.mark.parametrize(
    "ended", [Died("by signal 11", 1.0), Overran("cpu", 1.0), Overran("memory", 1.0), Ran(LIE, 1.0), Ran({}, 1.0)]
)
async def test_where_one_go_does_not_succeed_each_part_is_asked_for_by_itself(ended: RunResult) -> None:
    children, glance = Children({"inspect": ended}), Glance()
    with sealed(b"a line of text\n") as file:
        fact = await examine(file, "a.txt", "ten_1", children, glance)
    assert (fact.report and fact.report.format, await glance.had()) == ("text", None)
    assert [job for job, *_ in children.asked] == ["inspect", "check"]


async def test_a_look_that_says_what_no_child_says_is_not_believed_and_the_check_beside_it_neither() -> None:
    with sealed(b"a line of text\n") as file:
        honest = JOBS["inspect"](file.fd, "a.txt")
        children, glance = Children({"inspect": Ran({**honest, "scan": {**LIE}}, 1.0)}), Glance()
        await examine(file, "a.txt", "ten_1", children, glance)
    assert await glance.had() is None
    assert [job for job, *_ in children.asked] == ["inspect", "check"]


async def test_without_a_child_there_is_no_answer_and_none_is_waited_for_twice() -> None:
    children = Children({"inspect": Away("none was free")})
    with sealed(b"x") as file, pytest.raises(Unavailable):
        await examine(file, "a.txt", "ten_1", children, Glance())
    assert len(children.asked) == 1
