"""Named places at which a process can be told to die as by `kill -9`: how tests show what a crash leaves. Off unless armed at the start."""

import itertools
import os
import signal
from typing import Final

POINTS: Final = {
    "receive.sealed": "all bytes of an upload are in the spool, nothing is judged",
    "unit.open": "a claim, a record or a decision is written to SQLite, not committed (on PostgreSQL it is one statement)",
    "reserve.done": "the row is pending, no byte is stored",
    "local.drafted": "the local store has all bytes in a draft without a name",
    "local.linked": "the object has its name, the folder is not yet synced",
    "parts.read": "the first part of a multipart upload is on its way",
    "store.done": "the object is there, the row still pending",
    "record.done": "the file is stored, its 201 not sent",
    "delete.open": "a file is marked deleted, the transaction not committed",
    "delete.done": "a file is deleted, the answer not sent",
    "settle.open": "an expired lease is fenced, the transaction not committed",
    "settle.done": "an expired lease is fenced, its object still there",
    "deed.noted": "what somebody does to things of a tenant and its audit entry are written, the transaction not committed",
    "answer.made": "what somebody did is committed, the answer not sent",
    "purge.claimed": "objects are claimed for removal, none removed",
    "purge.removed": "an object is removed, its row still there",
    "purge.done": "objects and rows are gone",
}
"""Every failpoint, and how far the work has come there."""

_armed: dict[str, "itertools.count[int]"] = {}
_deadly: dict[str, int] = {}


def arm(words: str) -> None:
    """Let the process die at a point: `NAME`, or `NAME:N` for the N-th time that it gets there. Raises `ValueError` for no such point."""
    name, _, times = words.partition(":")
    if name not in POINTS or not (times or "1").isdecimal() or times == "0":
        raise ValueError(f"expected NAME or NAME:N, with a name of {', '.join(POINTS)}")
    _armed[name], _deadly[name] = itertools.count(1), int(times or "1")


def reach(name: str) -> None:
    """Say that the work has come to this point; where it is armed, this may be the end."""
    if name in _armed and next(_armed[name]) == _deadly[name]:
        os.kill(os.getpid(), signal.SIGKILL)
