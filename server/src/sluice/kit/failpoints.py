"""Named points at which a process can be made to die as by `kill -9`, for tests of crashes.

Off unless armed at the start.
"""

import itertools
import os
import signal
from typing import Final

# Every failpoint, and how far the work has come there.
POINTS: Final = {
    "receive.sealed": "all bytes of an upload are in the spool, nothing is inspected",
    "unit.open": "a claim, a record or a decision is written to SQLite, not committed (PostgreSQL: one statement)",
    "reserve.done": "the row is pending, no byte is stored",
    "local.drafted": "the local store has all bytes in a draft without a name",
    "local.linked": "the object has its name, the folder is not yet synced",
    "parts.read": "the first part of a multipart upload is on its way",
    "store.done": "the object is there, the row still pending",
    "record.done": "the file is stored, its 201 not sent",
    "part.stored": "a part of a resumable upload is stored, its row not written",
    "part.noted": "a part of a resumable upload has its row, the response not sent",
    "judging.begun": "an attempt to judge a resumable upload has its lease, its parts are not read",
    "judging.settled": "the verdict is noted at the resumable upload, the response not sent",
    "incoming.removed": "the parts of a resumable upload that has ended are deleted, their rows still there",
    "delete.open": "a file is marked deleted, the transaction not committed",
    "delete.done": "a file is deleted, the response not sent",
    "restore.open": "a deleted file is marked stored, the transaction not committed",
    "restore.done": "a deleted file is restored, the response not sent",
    "review.open": "a file in quarantine is released or refused, the transaction not committed",
    "review.done": "a file in quarantine is released or refused, the response not sent",
    "retention.open": "files whose time is over are marked deleted, the transaction not committed",
    "retention.done": "files whose time is over are deleted, their context not noted as looked through",
    "settle.open": "an expired lease is fenced, the transaction not committed",
    "settle.done": "an expired lease is fenced, its object still there",
    "audit.appended": "a change and its audit entry are written, the transaction not committed",
    "event.written": "a change and its event are written, the transaction not committed",
    "events.numbered": "events have their numbers, the transaction not committed",
    "webhook.sent": "a webhook has its response, the delivery not recorded",
    "erasure.open": "an erasure is complete with its entry and its event, the transaction not committed",
    "job.open": "a step of a job and its progress are written, the transaction not committed",
    "job.step": "a step of a job is committed, the next not begun",
    "export.written": "a part of an export is stored, its step not noted",
    "preview.drawn": "a preview is drawn, nothing of it stored",
    "preview.kept": "a preview is stored beside its file, that the file is still there not yet checked",
    "response.made": "a change is committed, the response not sent",
    "purge.claimed": "objects are claimed for removal, none removed",
    "purge.removed": "an object is removed, its row still there",
    "purge.done": "objects and rows are gone",
}

_passes: dict[str, "itertools.count[int]"] = {}
_fatal_pass: dict[str, int] = {}


def arm(words: str) -> None:
    """Make the process die at a point: `NAME`, or `NAME:N` for the N-th pass. Raise `ValueError` for an unknown one."""
    name, _, times = words.partition(":")
    if name not in POINTS or not (times or "1").isdecimal() or times == "0":
        raise ValueError(f"expected NAME or NAME:N, with a name of {', '.join(POINTS)}")
    _passes[name], _fatal_pass[name] = itertools.count(1), int(times or "1")


def failpoint(name: str) -> None:
    """Mark that the work has come to this point; kill the process if it is armed."""
    if name in _passes and next(_passes[name]) == _fatal_pass[name]:
        os.kill(os.getpid(), signal.SIGKILL)
