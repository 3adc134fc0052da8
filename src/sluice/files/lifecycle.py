"""The life of a file: the states of its row, every change after its upload, and the one place that releases quota.

                     record (the object is stored)
    reserve ─▶ PENDING ─────────────────────────────▶ STORED ◀──▶ in quarantine (a mark on a stored file)
                  │                                     │
                  │ release (the upload failed)         │ delete (a user), expire (a test file's time is over)
                  │ fence (the lease is over)           │
                  ▼                                     ▼
                GONE ────────▶ purge: no row ◀─────── DELETED

Each change is one conditional update, with its event in the same transaction: of two that compete, one finds the row in
its source state and the other changes nothing. So a fenced upload can never become stored, and nothing is released
twice. Reserve and record are on the path of every upload: their SQL is in `uploads.sql_postgres` and
`uploads.sql_sqlite`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final, Literal

from sluice.db.sql import AnyRow, Connection
from sluice.events import outbox
from sluice.events.catalogue import FileDeleted, FilePurged, FileRecalled
from sluice.files import repository


class FileState(StrEnum):
    """The states of a file's row. `GONE` was never visible, `DELETED` was; both wait for their object to be purged."""

    PENDING = "pending"
    STORED = "stored"
    GONE = "gone"
    DELETED = "deleted"


class Change(StrEnum):
    """What can happen to a file's row once it exists."""

    RECORD = "record"
    RELEASE = "release"
    FENCE = "fence"
    DELETE = "delete"
    EXPIRE = "expire"
    PURGE = "purge"


@dataclass(frozen=True, slots=True)
class Transition:
    """The states in which a change may happen, and the state after it; None: the row is deleted."""

    sources: frozenset[FileState]
    target: FileState | None


TRANSITIONS: Final[Mapping[Change, Transition]] = MappingProxyType(
    {
        Change.RECORD: Transition(frozenset({FileState.PENDING}), FileState.STORED),
        Change.RELEASE: Transition(frozenset({FileState.PENDING}), FileState.GONE),
        Change.FENCE: Transition(frozenset({FileState.PENDING}), FileState.GONE),
        Change.DELETE: Transition(frozenset({FileState.STORED}), FileState.DELETED),
        Change.EXPIRE: Transition(frozenset({FileState.STORED}), FileState.DELETED),
        Change.PURGE: Transition(frozenset({FileState.GONE, FileState.DELETED}), None),
    }
)

# What a later scan did with a file. `released`: still infected, by the threat for which an operator released it.
ScanOutcome = Literal["kept", "quarantined", "released"]


class TransitionRefused(Exception):
    """A file in this state cannot change so."""


def state_after(state: FileState, change: Change) -> FileState | None:
    """Return the state after the change; None: no row. Raise `TransitionRefused`."""
    transition = TRANSITIONS[change]
    if state not in transition.sources:
        raise TransitionRefused(f"a file that is {state} cannot {change}")
    return transition.target


async def release(connection: Connection, tenant_id: str, file_id: str) -> bool:
    """End a failed upload: it can never become stored, and all that it reserved is free again.

    Return whether it was pending.

    Its object is due to be purged when its lease would have ended: then no late write can bring it back.
    """
    return await _end(connection, Change.RELEASE, tenant_id, file_id, purge_after=None)


async def fence(connection: Connection, tenant_id: str, file_id: str) -> bool:
    """End an upload whose lease is over, as `release` does; its object is due to be purged at once."""
    return await _end(connection, Change.FENCE, tenant_id, file_id, purge_after=timedelta(0))


async def delete(connection: Connection, tenant_id: str, file_id: str, purge_after: timedelta) -> bool:
    """Hide a stored file, free its bytes of the quota, and let its object be purged after `purge_after`.

    Return whether it was stored.
    """
    return await _end(connection, Change.DELETE, tenant_id, file_id, purge_after=purge_after)


async def expire(connection: Connection, tenant_id: str, file_id: str) -> bool:
    """Delete a test file whose time is over; its object is due to be purged at once."""
    return await _end(connection, Change.EXPIRE, tenant_id, file_id, purge_after=timedelta(0))


async def purge(connection: Connection, owned: Sequence[tuple[str, str]]) -> None:
    """Delete the rows of files (each a tenant and an id) whose objects were deleted.

    What was decided on them stays in the decision log.
    """
    purged = await repository.delete_rows(connection, owned, TRANSITIONS[Change.PURGE].sources)
    # Those that were never stored are told nobody of.
    told = [(row.tenant_id, FilePurged(**_event_fields(row))) for row in purged if row.state == FileState.DELETED]
    await outbox.add_all(connection, told)


async def record_rescan(
    connection: Connection,
    tenant_id: str,
    file_id: str,
    engine: str,
    at: datetime,
    *,
    again_after: timedelta | None,
    threat: str | None,
) -> ScanOutcome | None:
    """Record a later scan of a stored file, and quarantine it for a threat that it was not released for.

    Return None if the file was deleted in the meantime.
    """
    row = await repository.write_verdict(
        connection, tenant_id, file_id, engine, at, again_after=again_after, threat=threat
    )
    if row is None:
        return None
    if threat is None:
        return "kept"
    if row.quarantined_at is None:
        return "released"
    if row.quarantined_at == at:  # it was not in quarantine before
        await outbox.add(
            connection, tenant_id, FileRecalled(**_event_fields(row), download_count=row.download_count), at
        )
    return "quarantined"


async def release_from_quarantine(connection: Connection, file_id: str) -> str | None:
    """Make a file in quarantine available again; return its tenant, None if it is not in quarantine."""
    tenant_id = await repository.find_tenant(connection, file_id)
    if tenant_id is None or not await repository.clear_quarantine(connection, tenant_id, file_id):
        return None
    return tenant_id


async def _end(
    connection: Connection, change: Change, tenant_id: str, file_id: str, *, purge_after: timedelta | None
) -> bool:
    transition = TRANSITIONS[change]
    if transition.target is None:
        raise ValueError("a purged file has no row")
    ended = await repository.end_life(
        connection, tenant_id, file_id, transition.sources, transition.target, purge_after=purge_after
    )
    if ended is None:
        return False
    # A plan counts uploads of a month, and a token those of its holder: one that was stored stays counted when its file
    # is deleted.
    never_stored = FileState.PENDING in transition.sources
    month = ended.plan_month if never_stored else None
    await repository.release_quota(connection, tenant_id, ended.context_id, ended.size_bytes, plan_month=month)
    if never_stored and ended.upload_token_id is not None:
        await repository.release_token(connection, tenant_id, ended.upload_token_id)
    if not never_stored:
        await outbox.add(connection, tenant_id, FileDeleted(**_event_fields(ended)))
    return True


def _event_fields(row: AnyRow) -> dict[str, Any]:
    return {name: getattr(row, name) for name in ("file_id", "context_key", "original_filename", "size_bytes")}
