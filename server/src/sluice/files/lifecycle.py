"""The life of a file: the states of its row, every change after its upload, and the one place that moves its quota.

                     record (the object is stored)
    reserve ─▶ PENDING ─────────────────────────────▶ STORED ◀──▶ in quarantine (a mark on a stored file)
                  │                                   │    ▲            │
                  │ release (the upload failed)       │    │ restore    │ refuse (a reviewer)
                  │ fence (the lease is over)  delete │    │            │
                  │                            expire ▼    │            │
                  │                                  DELETED ◀──────────┘
                  │                                     │
                  ▼                                     ▼ begin purge (its time is over)
                GONE ────────▶ purge: no row ◀─────── PURGING

A legal hold is a mark on a stored or deleted file, or on its whole context: while there is one, the file can be neither
deleted, expired, refused nor purged. From `PURGING` on nothing brings a file back, since its object may be gone.

Each change is one conditional update, with its audit entry and its event in the same transaction: of two that compete,
one finds the row in its source state and the other changes nothing. So a fenced upload can never become stored, nothing
is released or claimed twice, and no hold is overtaken. Reserve and record are on the path of every upload: their SQL is
in `uploads.sql_postgres` and `uploads.sql_sqlite`, and the decision log replaces their audit entry.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final, Literal

from sluice.access import worker
from sluice.audit import AuditAction
from sluice.audit.repository import add_change, append, append_all
from sluice.db.sql import AnyRow, Connection
from sluice.errors import FileHeld, NoRoomToRestore, OriginalNotReleased, SecondReviewerNeeded
from sluice.events import outbox
from sluice.events.catalogue import (
    FileDeleted,
    FilePurged,
    FileRecalled,
    FileRefused,
    FileReleased,
    FileRestored,
)
from sluice.files import repository
from sluice.files.record import Hold, RetentionRule, Review, ReviewDecision
from sluice.kit.clock import utc_now


class FileState(StrEnum):
    """The states of a file's row. `GONE` was never visible, `DELETED` was; both wait for their object to be purged.

    The object of a file that is `PURGING` may be gone already.
    """

    PENDING = "pending"
    STORED = "stored"
    GONE = "gone"
    DELETED = "deleted"
    PURGING = "purging"


class Change(StrEnum):
    """A change of a file's row."""

    RECORD = "record"
    RELEASE = "release"
    FENCE = "fence"
    DELETE = "delete"
    EXPIRE = "expire"
    REFUSE = "refuse"
    RESTORE = "restore"
    BEGIN_PURGE = "begin_purge"
    PURGE = "purge"


@dataclass(frozen=True, slots=True)
class Transition:
    """The states in which a change may happen, and the state after it (None: the row is deleted).

    `spares_held`: it is forbidden while the file or its context is held.
    """

    sources: frozenset[FileState]
    target: FileState | None
    spares_held: bool = False


TRANSITIONS: Final[Mapping[Change, Transition]] = MappingProxyType(
    {
        Change.RECORD: Transition(frozenset({FileState.PENDING}), FileState.STORED),
        Change.RELEASE: Transition(frozenset({FileState.PENDING}), FileState.GONE),
        Change.FENCE: Transition(frozenset({FileState.PENDING}), FileState.GONE),
        Change.DELETE: Transition(frozenset({FileState.STORED}), FileState.DELETED, spares_held=True),
        Change.EXPIRE: Transition(frozenset({FileState.STORED}), FileState.DELETED, spares_held=True),
        Change.REFUSE: Transition(frozenset({FileState.STORED}), FileState.DELETED, spares_held=True),
        Change.RESTORE: Transition(frozenset({FileState.DELETED}), FileState.STORED),
        Change.BEGIN_PURGE: Transition(frozenset({FileState.DELETED}), FileState.PURGING, spares_held=True),
        Change.PURGE: Transition(frozenset({FileState.GONE, FileState.PURGING}), None),
    }
)
# The states in which a file can be held. In quarantine are stored files only.
HOLDABLE: Final = frozenset({FileState.STORED, FileState.DELETED})

# How long the purge of a held file is postponed before its hold is checked again.
_HELD_AGAIN_AFTER: Final = timedelta(hours=1)

# The audit actions of the first of two reviewers.
_FIRST: Final[Mapping[ReviewDecision, str]] = {"release": "file.release_asked", "refuse": "file.refusal_asked"}

# What a later scan did with a file. `released`: still infected, by the threat for which a reviewer released it.
ScanOutcome = Literal["kept", "quarantined", "released"]
# Why a job left a file as it was: unknown or gone, not deleted, no room for it, or under a legal hold.
Refusal = Literal["not_found", "not_deleted", "storage_quota_exceeded", "held", "second_reviewer_needed"]
# The state of a file after the decision of a reviewer. `awaits_second`: another person has to decide the same.
ReviewOutcome = Literal["released", "refused", "awaits_second"]


class TransitionRefused(Exception):
    """A file in this state cannot change so."""


class RuleChanged(Exception):
    """A context was changed or held while files of it expired by its rule."""


def state_after(state: FileState, change: Change, *, held: bool = False) -> FileState | None:
    """Return the state after the change; None: no row. Raise `TransitionRefused`."""
    transition = TRANSITIONS[change]
    if state not in transition.sources or (held and transition.spares_held):
        raise TransitionRefused(f"a file that is {'held' if held else state} cannot {change}")
    return transition.target


# --- Uploads that fail


async def release(connection: Connection, tenant_id: str, file_id: str) -> bool:
    """End a failed upload: it can never become stored, and all that it reserved is free again.

    Return whether it was pending.

    Its object is due to be purged when its lease would have ended: then no late write can bring it back.
    """
    return await _give_up(connection, Change.RELEASE, tenant_id, file_id, purge_after=None)


async def fence(connection: Connection, tenant_id: str, file_id: str) -> bool:
    """End an upload whose lease is over, as `release` does; its object is due to be purged at once."""
    return await _give_up(connection, Change.FENCE, tenant_id, file_id, purge_after=timedelta(0))


async def _give_up(
    connection: Connection, change: Change, tenant_id: str, file_id: str, *, purge_after: timedelta | None
) -> bool:
    ended = await repository.end_life(connection, _ending(change), tenant_id, [file_id], purge_after=purge_after)
    for row in ended:
        await repository.release_quota(connection, tenant_id, row.context_id, row.size_bytes)
        if row.plan_month is not None:
            await repository.release_plan(connection, tenant_id, row.plan_month)
        if row.upload_token_id is not None:
            await repository.release_token(connection, tenant_id, row.upload_token_id)
    return bool(ended)


# --- Deleting, restoring, purging


async def delete(
    connection: Connection,
    by: AuditAction,
    file_id: str,
    at: datetime,
    purge_after: timedelta,
    *,
    two_persons: bool = False,
) -> bool:
    """Hide a stored file, free its bytes of the quota, and let its object be purged after `purge_after`.

    With `two_persons`, a file in quarantine is left to `review`. Return whether it was stored. Raise `FileHeld` or
    `SecondReviewerNeeded`.
    """
    if two_persons and await repository.lock_quarantined(connection, by.tenant_id, file_id) is not None:
        raise SecondReviewerNeeded(errors=["The file is in quarantine: two persons have to refuse it"])
    return await _delete(connection, Change.DELETE, by, file_id, at, purge_after=purge_after)


async def delete_all(
    connection: Connection,
    by: AuditAction,
    file_ids: Sequence[str],
    at: datetime,
    purge_after: timedelta,
    *,
    two_persons: bool = False,
) -> tuple[int, Mapping[str, Refusal]]:
    """Delete those of the files that are stored, and held neither by themselves nor by their context.

    With `two_persons`, files in quarantine are left to `review`. Return how many were deleted, and why each of the
    others was not.

    Raise `FileHeld` if a context was held at the same moment.
    """
    ending = _ending(Change.DELETE, spares_held_contexts=True, in_quarantine=False if two_persons else None)
    ended = await repository.end_life(connection, ending, by.tenant_id, file_ids, purge_after=purge_after)
    await append_all(connection, by, [row.file_id for row in ended], at)
    await outbox.add_all(connection, [(by.tenant_id, FileDeleted(**_event_fields(row))) for row in ended], at)
    freed = Counter[str]()
    for row in ended:
        freed[row.context_id] += row.size_bytes
    # Last, and in one order, since uploads into these contexts wait for their rows until the commit.
    for context_id, size in sorted(freed.items()):
        if not await repository.release_quota(connection, by.tenant_id, context_id, size, unless_held=True):
            raise FileHeld
    deleted = {row.file_id for row in ended}
    left = [file_id for file_id in file_ids if file_id not in deleted]
    known = await repository.list_states(connection, by.tenant_id, left) if left else {}
    doubtful = await repository.find_quarantined(connection, by.tenant_id, left) if left and two_persons else ()
    why: dict[str, Refusal] = {
        file_id: "held" if known.get(file_id) == FileState.STORED else "not_found" for file_id in left
    }
    return len(ended), {**why, **dict.fromkeys(doubtful, "second_reviewer_needed")}


async def erase_all(connection: Connection, by: AuditAction, file_ids: Sequence[str], at: datetime) -> Sequence[str]:
    """Delete those of the files, stored or deleted, that are not held, forget their names, and begin their purge.

    Nothing brings them back. Return their ids. Raise `FileHeld` if a context was held at the same moment.
    """
    # First, so that the events about them tell no name.
    await repository.erase_filenames(connection, by.tenant_id, file_ids, HOLDABLE)
    await repository.forget_names(connection, by.tenant_id, file_ids, TRANSITIONS[Change.PURGE].sources)
    await delete_all(connection, by, file_ids, at, timedelta(0))
    transition = TRANSITIONS[Change.BEGIN_PURGE]
    begun = await repository.erase_names(connection, by.tenant_id, file_ids, transition.sources, str(transition.target))
    owned = {(by.tenant_id, row.context_id) for row in begun}
    if owned and await repository.lock_held_contexts(connection, owned):
        raise FileHeld
    return [row.file_id for row in begun]


async def expire(connection: Connection, tenant_id: str, file_id: str) -> bool:
    """Delete a test file whose time is over; its object is due to be purged at once.

    Return whether it was stored. Raise `FileHeld`.
    """
    by = AuditAction(worker(tenant_id), "file.expired")
    return await _delete(connection, Change.EXPIRE, by, file_id, utc_now(), purge_after=timedelta(0))


async def expire_all(
    connection: Connection, rule: RetentionRule, file_ids: Sequence[str], purge_after: timedelta
) -> int:
    """Delete those of the files whose time is over by a rule and that have no hold; return how many.

    Raise `RuleChanged`.
    """
    ended = await repository.end_life(
        connection,
        _ending(Change.EXPIRE, retention_starts=rule.retention_starts),
        rule.tenant_id,
        file_ids,
        purge_after=purge_after,
        since=rule.since,
    )
    if not ended:
        return 0
    at, by = utc_now(), AuditAction(worker(rule.tenant_id), "file.expired")
    await append_all(connection, by, [row.file_id for row in ended], at)
    await outbox.add_all(connection, [(rule.tenant_id, FileDeleted(**_event_fields(row))) for row in ended], at)
    freed = sum(row.size_bytes for row in ended)
    # Last, since uploads into the context wait for this row until the commit.
    if not await repository.release_quota(
        connection, rule.tenant_id, rule.context_id, freed, unless_held=True, rules_version=rule.rules_version
    ):
        raise RuleChanged
    return len(ended)


async def restore(connection: Connection, by: AuditAction, file_id: str, at: datetime) -> bool:
    """Make a deleted file visible again, if its context has room for it; return whether it was deleted.

    A file that a hash list denies since is restored into quarantine. Raise `NoRoomToRestore`.
    """
    sources = TRANSITIONS[Change.RESTORE].sources
    rows = await repository.restore(connection, by.tenant_id, [file_id], sources, FileState.STORED)
    if not rows:
        return False
    (row,) = rows
    if not await repository.claim_quota(connection, by.tenant_id, row.context_id, row.size_bytes):
        raise NoRoomToRestore
    await append(connection, by, file_id, at)
    await outbox.add(connection, by.tenant_id, FileRestored(**_event_fields(row)), at)
    await _quarantine_denied(connection, by, rows, at)
    return True


async def restore_all(
    connection: Connection, by: AuditAction, file_ids: Sequence[str], at: datetime
) -> tuple[int, Mapping[str, Refusal]]:
    """Make those of the files visible again that are deleted and for which their contexts have room.

    Return how many, and why each of the others was not restored. In a context without room for all, the first ones by
    their ids for which there is room are restored.

    Raise `NoRoomToRestore` if a context's quota was used up meanwhile: the caller's transaction must not commit.
    """
    sources = TRANSITIONS[Change.RESTORE].sources
    rows = await repository.lock_states(connection, by.tenant_id, file_ids)
    known = {row.file_id: row.state for row in rows}
    refused: dict[str, Refusal] = {
        file_id: "not_deleted" if known.get(file_id) == FileState.STORED else "not_found"
        for file_id in file_ids
        if known.get(file_id) not in sources
    }
    by_context: dict[str, list[AnyRow]] = {}
    for row in rows:
        if row.state in sources:
            by_context.setdefault(row.context_id, []).append(row)
    for context_id, wanted in sorted(by_context.items()):
        size = sum(row.size_bytes for row in wanted)
        if await repository.claim_quota(connection, by.tenant_id, context_id, size):
            continue
        room, size = await repository.lock_room(connection, by.tenant_id, context_id), 0
        for row in wanted:
            if size + row.size_bytes <= room:
                size += row.size_bytes
            else:
                refused[row.file_id] = "storage_quota_exceeded"
        if size and not await repository.claim_quota(connection, by.tenant_id, context_id, size):
            raise NoRoomToRestore
    chosen = [file_id for file_id in file_ids if file_id not in refused]
    restored = await repository.restore(connection, by.tenant_id, chosen, sources, FileState.STORED)
    await append_all(connection, by, [row.file_id for row in restored], at)
    await outbox.add_all(connection, [(by.tenant_id, FileRestored(**_event_fields(row))) for row in restored], at)
    await _quarantine_denied(connection, by, restored, at)
    return len(restored), refused


async def _quarantine_denied(connection: Connection, by: AuditAction, rows: Sequence[AnyRow], at: datetime) -> None:
    """Put those of the restored files into quarantine whose SHA-256 was denied while they were deleted.

    One that a reviewer released although it is denied is not put there again.
    """
    digests = {bytes.fromhex(row.sha256) for row in rows}
    denied = await repository.find_denied(connection, by.tenant_id, digests) if rows else ()
    for row in rows:
        if row.sha256 in denied and row.threat != threat_of_hash(row.sha256):
            quarantined = replace(by, action="file.quarantined")
            await quarantine(connection, quarantined, row.file_id, threat_of_hash(row.sha256), at)


async def begin_purges(connection: Connection, again_after: timedelta, limit: int) -> tuple[Sequence[AnyRow], int]:
    """Claim files whose object is due to be deleted; those that are not purged are due again after `again_after`.

    Return them, and how many held files were put off. Any number of workers may: each row goes to one of them.
    """
    due = await repository.lock_due_purges(connection, limit)
    if not due:
        return (), 0
    held_contexts = await repository.lock_held_contexts(connection, {(row.tenant_id, row.context_id) for row in due})

    def is_held(row: AnyRow) -> bool:
        return row.state == FileState.DELETED and (
            row.held_at is not None or (row.tenant_id, row.context_id) in held_contexts
        )

    held = [(row.tenant_id, row.file_id) for row in due if is_held(row)]
    if held:
        await repository.put_off_purges(connection, held, _HELD_AGAIN_AFTER)
    claimed = [row for row in due if not is_held(row)]
    if claimed:
        owned = [(row.tenant_id, row.file_id) for row in claimed]
        await repository.begin_purges(connection, owned, FileState.DELETED, FileState.PURGING, again_after)
    return claimed, len(held)


async def purge(connection: Connection, owned: Sequence[tuple[str, str]]) -> None:
    """Delete the rows of files (each a tenant and an id) whose objects were deleted.

    What was decided on them stays in the decision log.
    """
    purged = await repository.delete_rows(connection, owned, TRANSITIONS[Change.PURGE].sources)
    # There is no event for those that were never stored.
    known, at = [row for row in purged if row.state == FileState.PURGING], utc_now()
    for tenant_id in sorted({row.tenant_id for row in known}):
        by, theirs = AuditAction(worker(tenant_id), "file.purged"), [row for row in known if row.tenant_id == tenant_id]
        await append_all(connection, by, [row.file_id for row in theirs], at)
    await outbox.add_all(connection, [(row.tenant_id, FilePurged(**_event_fields(row))) for row in known], at)


# --- Legal holds


async def hold(connection: Connection, by: AuditAction, file_id: str, reason: str, at: datetime) -> bool:
    """Hold a stored or deleted file, or replace its hold; return whether there is such a file."""
    value = Hold("file", at, by.principal.actor_id, reason)
    if not await repository.set_hold(connection, by.tenant_id, file_id, HOLDABLE, value):
        return False
    await append(connection, by, file_id, at, reason)
    return True


async def unhold(connection: Connection, by: AuditAction, file_id: str, at: datetime) -> bool:
    """End the hold on a file, if it has one; return whether there is such a file."""
    was_held = await repository.clear_hold(connection, by.tenant_id, file_id, HOLDABLE)
    if was_held:
        await append(connection, by, file_id, at)
    return was_held is not None


async def hold_context(connection: Connection, by: AuditAction, context_key: str, reason: str, at: datetime) -> bool:
    """Hold all files of a context, those to come too, or replace its hold; return whether there is such a context."""
    value = Hold("context", at, by.principal.actor_id, reason)
    if not await repository.set_context_hold(connection, by.tenant_id, context_key, value):
        return False
    event_id = await append(connection, by, context_key, at, reason)
    await add_change(connection, by.tenant_id, event_id, context_key, {})
    return True


async def unhold_context(connection: Connection, by: AuditAction, context_key: str, at: datetime) -> bool:
    """End the hold on a context, if it has one; return whether there is such a context."""
    was_held = await repository.clear_context_hold(connection, by.tenant_id, context_key)
    if was_held:
        event_id = await append(connection, by, context_key, at)
        await add_change(connection, by.tenant_id, event_id, context_key, {})
    return was_held is not None


# --- Quarantine


async def record_rescan(
    connection: Connection,
    tenant_id: str,
    file_id: str,
    engine: str,
    at: datetime,
    *,
    again_after: timedelta | None,
    threat: str | None,
    is_clean: bool = False,
) -> ScanOutcome | None:
    """Record a later scan of a stored file, and quarantine it for a threat that it was not released for.

    Return None if the file was deleted in the meantime. A file in quarantine stays there, whatever the scan found;
    `is_clean`: the scan was complete and found nothing.
    """
    row = await repository.write_verdict(
        connection, tenant_id, file_id, engine, at, again_after=again_after, threat=threat, is_clean=is_clean
    )
    if row is None:
        return None
    if threat is None:
        return "kept"
    if row.quarantined_at is None:
        return "released"
    if row.quarantined_at == at:  # it was not in quarantine before
        await append(connection, AuditAction(worker(tenant_id), "file.quarantined"), file_id, at)
        await outbox.add(
            connection, tenant_id, FileRecalled(**_event_fields(row), download_count=row.download_count), at
        )
    return "quarantined"


def threat_of_hash(digest: str) -> str:
    """Return an entry of hash lists as the threat in a file's row: a release from quarantine is for it alone."""
    return f"hash_list:{digest}"


async def quarantine(connection: Connection, by: AuditAction, file_id: str, threat: str, at: datetime) -> bool:
    """Put a stored file into quarantine; return False if it is there already, or no longer stored."""
    row = await repository.mark_quarantined(connection, by.tenant_id, file_id, threat, at)
    if row is None:
        return False
    await append(connection, by, file_id, at)
    recalled = FileRecalled(**_event_fields(row), download_count=row.download_count)
    await outbox.add(connection, by.tenant_id, recalled, at)
    return True


async def review(
    connection: Connection,
    by: AuditAction,
    file_id: str,
    decision: ReviewDecision,
    *,
    comment: str,
    at: datetime,
    purge_after: timedelta,
    two_persons: bool,
) -> ReviewOutcome | None:
    """Release a file from quarantine, or refuse it; return None if it is not in quarantine.

    With `two_persons` the first one's decision is noted, and the same one of another person carried out; another
    decision takes its place. Raise `FileHeld`, `SecondReviewerNeeded` or `OriginalNotReleased`.
    """
    known = await repository.lock_quarantined(connection, by.tenant_id, file_id)
    if known is None:
        return None
    if decision == "release" and known.sanitised_file_id is not None:
        raise OriginalNotReleased
    if two_persons and known.review_decision != decision:
        noted = Review(decision, by.principal.actor_id, at)
        await repository.note_review(connection, by.tenant_id, file_id, noted)
        await append(connection, replace(by, action=_FIRST[decision]), file_id, at, comment)
        return "awaits_second"
    if two_persons and known.reviewed_by == by.principal.actor_id:
        raise SecondReviewerNeeded
    if decision == "refuse":
        await _delete(connection, Change.REFUSE, by, file_id, at, purge_after=purge_after, reason=comment)
        return "refused"
    row = await repository.clear_quarantine(connection, by.tenant_id, file_id)
    await append(connection, by, file_id, at, comment)
    await outbox.add(connection, by.tenant_id, FileReleased(**_event_fields(row)), at)
    return "released"


async def ask_rescan(
    connection: Connection,
    by: AuditAction,
    file_id: str,
    comment: str,
    at: datetime,
    *,
    only_quarantined: bool = True,
) -> bool:
    """Let the worker scan a stored file again; return whether there is such a file.

    With `only_quarantined`, a file that is not in quarantine is none.
    """
    if not await repository.ask_rescan(connection, by.tenant_id, file_id, only_quarantined=only_quarantined):
        return False
    await append(connection, by, file_id, at, comment)
    return True


async def _delete(
    connection: Connection,
    change: Change,
    by: AuditAction,
    file_id: str,
    at: datetime,
    *,
    purge_after: timedelta,
    reason: str | None = None,
) -> bool:
    sources, tenant_id = TRANSITIONS[change].sources, by.tenant_id
    ending = _ending(change, in_quarantine=True if change is Change.REFUSE else None)
    # Whether its context is held is asked when its bytes are freed.
    ended = await repository.end_life(connection, ending, tenant_id, [file_id], purge_after=purge_after)
    if not ended:
        if await repository.is_held(connection, tenant_id, file_id, sources):
            raise FileHeld
        return False
    (row,) = ended
    if not await repository.release_quota(connection, tenant_id, row.context_id, row.size_bytes, unless_held=True):
        raise FileHeld
    await append(connection, by, file_id, at, reason)
    event = FileRefused if change is Change.REFUSE else FileDeleted
    await outbox.add(connection, tenant_id, event(**_event_fields(row)), at)
    return True


def _ending(
    change: Change,
    *,
    spares_held_contexts: bool = False,
    in_quarantine: bool | None = None,
    retention_starts: str | None = None,
) -> repository.Ending:
    transition = TRANSITIONS[change]
    return repository.Ending(
        transition.sources,
        str(transition.target),
        transition.spares_held,
        spares_held_contexts,
        in_quarantine,
        retention_starts,
    )


def _event_fields(row: AnyRow | None) -> dict[str, Any]:
    return {name: getattr(row, name) for name in ("file_id", "context_key", "original_filename", "size_bytes")}
