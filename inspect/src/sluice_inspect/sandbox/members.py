"""Have the sandbox hash everything that is packed in a file, and read the worker's records."""

import asyncio
import os
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Final

from sluice_inspect.child.shared_buffer import SharedBuffer
from sluice_inspect.member_digests import MOST_MEMBERS, RECORD_BYTES, digests_in, name_of
from sluice_inspect.sandbox import Crashed, NoWorker, OverLimit, Sandbox
from sluice_inspect.sandbox.protocol import Job
from sluice_inspect.sandbox.sealed import Sealed

_MOST_TEXT: Final = 500
_NO_SHA256: Final = bytes(32)


class MembersUnavailable(Exception):
    """No worker was available. `str()` says why."""


@dataclass(frozen=True, slots=True)
class HashedMembers:
    """The records of `number` members of a file, and by each digest where the first record with it begins.

    `why` says why not all that is packed in the file was hashed, and is empty if all was. `is_stopped`: the walk
    through the file ended early, so that nothing is known of the members that come later.
    """

    number: int
    records: bytes
    offsets: Mapping[bytes, int]
    why: str
    is_stopped: bool

    def name_of(self, digest: bytes) -> str:
        """Return the name of the first member with a digest."""
        begin = self.offsets[digest]
        return name_of(self.records[begin : begin + RECORD_BYTES])


async def hash_members(sandbox: Sandbox, sealed: Sealed, *, tenant_id: str, weak: bool) -> HashedMembers:
    """Return the members of a file with their SHA-256, and `weak` their MD5 and SHA-1. Raise `MembersUnavailable`.

    Of a walk that ended early those are returned that it had hashed.
    """
    with closing(SharedBuffer(MOST_MEMBERS * RECORD_BYTES)) as buffer:
        job: Job = "hash_members_weak" if weak else "hash_members"
        result = await sandbox.run(job, sealed, filename="", tenant_id=tenant_id, buffer=buffer)
        number, why, is_stopped = MOST_MEMBERS, "", True
        match result:
            case NoWorker():
                raise MembersUnavailable(result.why)
            case Crashed():
                why = f"the walk through it ended early: {result.why}"
            case OverLimit():
                why = f"the walk through it was stopped at its {result.limit} limit"
            case _:
                number, why, is_stopped = _parse(result.payload)
        # In a thread: there may be 100,000 records.
        records, offsets = await asyncio.to_thread(_read, buffer, number, weak=weak)
        return HashedMembers(len(records) // RECORD_BYTES, records, offsets, why, is_stopped)


def _parse(payload: Mapping[str, object]) -> tuple[int, str, bool]:
    """Return the number of members of a walk, why it missed some, and whether it was stopped.

    A child that a file may have taken over wrote it: with anything else in it the walk counts as stopped.
    """
    number, why, stopped = (payload.get(name) for name in ("members", "why", "stopped"))
    if type(number) is not int or not 0 <= number <= MOST_MEMBERS:
        return MOST_MEMBERS, f"the walk through it returned no number of members up to {MOST_MEMBERS}", True
    if not isinstance(why, str) or len(why) > _MOST_TEXT or not (why == "" or why.isprintable()):
        return number, f"the walk through it returned no reason of at most {_MOST_TEXT} printable characters", True
    return number, why, stopped is not False


def _read(buffer: SharedBuffer, most: int, *, weak: bool) -> tuple[bytes, Mapping[bytes, int]]:
    """Return the records in the buffer, at most `most`, and by each digest where the first record with it begins."""
    records, offsets = os.pread(buffer.fd, most * RECORD_BYTES, 0), dict[bytes, int]()
    for begin in range(0, len(records), RECORD_BYTES):
        digests = digests_in(records[begin : begin + RECORD_BYTES], weak=weak)
        if digests[0] == _NO_SHA256:  # nothing was written behind it
            return records[:begin], offsets
        for digest in digests:
            offsets.setdefault(digest, begin)
    return records, offsets
