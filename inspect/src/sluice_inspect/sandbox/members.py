"""Have the sandbox hash everything that is packed in a file, and read the worker's records."""

import os
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Final

from sluice_inspect.child.shared_buffer import SharedBuffer
from sluice_inspect.member_digests import MOST_MEMBERS, RECORD_BYTES, MemberDigests, unpack_member
from sluice_inspect.sandbox import Crashed, NoWorker, OverLimit, Sandbox
from sluice_inspect.sandbox.protocol import Job
from sluice_inspect.sandbox.sealed import Sealed

_MOST_TEXT: Final = 500


class MembersUnavailable(Exception):
    """No worker was available. `str()` says why."""


@dataclass(frozen=True, slots=True)
class HashedMembers:
    """The members of a file. `why` says why not all that is packed in it was hashed, and is empty if all was."""

    members: Sequence[MemberDigests]
    why: str


async def hash_members(sandbox: Sandbox, sealed: Sealed, *, tenant_id: str, weak: bool) -> HashedMembers:
    """Return the members of a file with their SHA-256, and `weak` their MD5 and SHA-1. Raise `MembersUnavailable`."""
    with closing(SharedBuffer(MOST_MEMBERS * RECORD_BYTES)) as buffer:
        job: Job = "hash_members_weak" if weak else "hash_members"
        result = await sandbox.run(job, sealed, filename="", tenant_id=tenant_id, buffer=buffer)
        match result:
            case NoWorker():
                raise MembersUnavailable(result.why)
            case Crashed():
                return HashedMembers((), f"the walk through it ended early: {result.why}")
            case OverLimit():
                return HashedMembers((), f"the walk through it was stopped at its {result.limit} limit")
        number, why = result.payload.get("members"), result.payload.get("why")
        if type(number) is not int or not 0 <= number <= MOST_MEMBERS:
            return HashedMembers((), "the walk through it returned a number that is none")
        if not isinstance(why, str) or len(why) > _MOST_TEXT or not (why == "" or why.isprintable()):
            return HashedMembers((), "the walk through it returned a reason that is none")
        records = [os.pread(buffer.fd, RECORD_BYTES, index * RECORD_BYTES) for index in range(number)]
        return HashedMembers([unpack_member(record, weak=weak) for record in records], why)
