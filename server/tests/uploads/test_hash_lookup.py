"""The lookup of a file's members on hash lists, without a database and without a sandbox process."""

import hashlib
import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from sluice.hash_lists import ListedHash
from sluice.uploads import hash_lookup
from sluice.uploads.examined import ExamineFact
from sluice.uploads.hash_lookup import look_up_members, may_hold_files
from sluice.uploads.reasons import Reason
from sluice.uploads.rules import failure_by_lists
from sluice.uploads.values import HashListFact
from sluice_inspect.child.shared_buffer import SharedBuffer
from sluice_inspect.format_list import FORMAT_NAMES
from sluice_inspect.member_digests import pack_member
from sluice_inspect.report import Finding, Outcome, Report
from sluice_inspect.sandbox import Completed, Crashed, OverLimit, RunResult
from sluice_inspect.sandbox.protocol import Job
from sluice_inspect.sandbox.sealed import Sealed
from tests.rows import each_row
from tests.scanner.in_process_sandbox import InProcessSandbox

_FILE = Sealed(-1, 1, bytes(32))  # the sandbox of these tests does not open it
DENIED = hashlib.sha256(b"denied").digest()


class WalkingSandbox(InProcessSandbox):
    """A sandbox whose job writes the records of some members, and then ends with a result."""

    def __init__(self, result: RunResult, *members: bytes) -> None:
        super().__init__(result)
        self._members = members

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
        assert buffer is not None
        os.pwrite(buffer.fd, b"".join(pack_member(f"{digest[0]}", b"", b"", digest) for digest in self._members), 0)
        return await super().run(job, sealed, filename=filename, tenant_id=tenant_id, buffer=buffer)


async def look_up(sandbox: WalkingSandbox) -> HashListFact:
    async def find(digests: Sequence[bytes]) -> Sequence[ListedHash]:
        return [ListedHash(DENIED.hex(), "deny", None, of_installation=False)] if DENIED in digests else []

    return await look_up_members(find, sandbox, "ten_1", _FILE, {"sha256"})


@each_row(
    "result",
    [
        Crashed("by signal 11", 1.0),
        OverLimit("cpu", 1.0),
        Completed({"members": 2, "why": "more than 2 members", "stopped": True}, 1.0),
        Completed({"members": -1, "why": "", "stopped": False}, 1.0),
    ],
)
async def test_members_of_a_walk_that_ended_early_are_compared_and_the_file_is_rejected(result: RunResult) -> None:
    other = hashlib.sha256(b"other").digest()
    fact = await look_up(WalkingSandbox(result, other, DENIED))
    assert fact.denied_member is not None
    assert (fact.denied_member.member, fact.members) == (str(DENIED[0]), 2)
    failure = failure_by_lists(await look_up(WalkingSandbox(result, other)))
    assert failure is not None
    assert (failure.reason, failure.check) == (Reason.SCAN_INCOMPLETE, "hash_list")
    assert failure.detail.startswith("not all files in it could be compared with the deny list: ")


async def test_members_behind_a_password_reject_nothing() -> None:
    result = Completed({"members": 0, "why": "a part behind a password", "stopped": False}, 1.0)
    fact = await look_up(WalkingSandbox(result))
    assert (fact.why, failure_by_lists(fact)) == ("a part behind a password", None)
    assert failure_by_lists(replace(fact, is_stopped=True)) is not None


HOLD_NONE: list[dict[str, Any]] = [{"format": "png"}, {"format": "text"}]
MAY_HOLD_SOME: list[dict[str, Any]] = [
    {"format": "zip"},
    {"format": "pdf"},
    {"format": None},
    {"format": "png", "finding": Finding.POLYGLOT},
    {"format": "png", "integrity": Outcome.CORRUPT},
]


def test_members_are_looked_up_of_files_that_may_hold_some() -> None:
    sound = Report("png", "image/png", Outcome.OK, Outcome.OK, None, blank=False, detail="")
    for rows, expected in ((HOLD_NONE, False), (MAY_HOLD_SOME, True)):
        for row in rows:
            examined = ExamineFact(replace(sound, **row), died=False, overran=None, detail="", ms=1.0)
            assert may_hold_files(examined) is expected, row
    assert FORMAT_NAMES >= hash_lookup._WITHOUT_FILES
