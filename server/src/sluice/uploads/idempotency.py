"""Requests that are sent again: by an idempotency key, and a file that was just rejected.

With an `Idempotency-Key`, a row names the credential, the key, and what was sent. Its `report_id` is the one under
which the upload is decided on, so whether the upload has ended, and how, is in the decision log: the row needs no note
of it, and a crash between the two cannot happen. The transaction that reserves a file holds the row as well, so of two
requests that both believe the key to be theirs, only one can write a file.

Without a key, the same file that was rejected for its content a minute ago is rejected by that decision.
"""

import hashlib
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from typing import Final

from sluice.access import Principal
from sluice.db.database import Database, DatabaseUnavailable
from sluice.db.sql import Connection
from sluice.decisions import DecisionRecord
from sluice.decisions import repository as decision_rows
from sluice.errors import FileRejected, IdempotencyKeyInUse, IdempotencyKeyReused
from sluice.idempotency_keys import KeyClaim, hash_of_key
from sluice.idempotency_keys import repository as key_rows
from sluice.kit.ids import first_id, new_id
from sluice.uploads.reasons import EXTERNAL, WORDS, Reason, stored_reason
from sluice.uploads.report import VerdictReport
from sluice.uploads.values import Decision, ReceivedFile, Stored

_REJECTED_AGO: Final = timedelta(seconds=60)
# How a check ended that ran into the limits of the service, or crashed: the same bytes may pass at another time.
_BY_CHANCE: Final = frozenset({Reason.UNPROCESSABLE_FILE, Reason.VALIDATION_LIMITS_EXCEEDED})
_NOT_CONTENT: Final = frozenset(
    # an external check may answer otherwise at another time
    {"extension", "size", "rate", "plan", "quota", "hash_list", EXTERNAL}
    | {"policy.filename_pattern", "policy.min_size_bytes", "policy.duplicates"}
)
CONTENT_REASONS: Final = frozenset(
    reason for reason, words in WORDS.items() if words.check not in _NOT_CONTENT and reason not in _BY_CHANCE
)


async def claim_key(
    database: Database, key: str, *, caller: Principal, context_key: str, file: ReceivedFile, lease: timedelta
) -> KeyClaim | Stored:
    """Claim a key for one upload, or return the file that an earlier upload with it stored.

    Raise `FileRejected` if that is how the earlier one ended, `IdempotencyKeyInUse` while it has not, and
    `IdempotencyKeyReused` if it sent something else.
    """
    claim = KeyClaim(
        tenant_id=caller.tenant_id,
        key_hash=hash_of_key(caller.via, caller.actor_id, key),
        fingerprint=_hash(context_key, file.name.original, file.sealed.sha256.hex(), dict(file.metadata)),
        report_id=new_id("rep"),
        lease=lease,
    )
    if await key_rows.add(database, claim):
        return claim
    async with database.transaction(caller.tenant_id) as connection:
        earlier = await _take_over(connection, claim)
    if earlier is None:
        return claim
    if earlier.outcome == "rejected":
        raise _rejected(earlier)
    return _stored(earlier, file)


@asynccontextmanager
async def releasing(claim: KeyClaim, database: Database) -> AsyncIterator[None]:
    """Let go of the key if the block raises. What ends without that, a crash, holds the key until its lease is over."""
    try:
        yield
    except BaseException:
        with suppress(DatabaseUnavailable):
            async with database.transaction(claim.tenant_id) as connection:
                await key_rows.release(connection, claim)
        raise


async def _take_over(connection: Connection, claim: KeyClaim) -> DecisionRecord | None:
    """Claim a key that has a row; return the decision on the earlier upload with it, if that has ended for good."""
    earlier = await key_rows.lock(connection, claim)
    if earlier is None:  # it expired, and the worker deleted it in between
        raise IdempotencyKeyInUse
    if not earlier.is_expired:
        if earlier.fingerprint != claim.fingerprint:
            raise IdempotencyKeyReused
        decision = await decision_rows.find(connection, claim.tenant_id, earlier.report_id)
        if decision is not None and _is_final(decision):
            return decision
        if decision is None and earlier.may_run:
            raise IdempotencyKeyInUse
    if earlier.file_state == "pending":  # it may still become stored, until the worker has fenced it
        raise IdempotencyKeyInUse
    await key_rows.take_over(connection, claim)
    return None


def _is_final(decision: DecisionRecord) -> bool:
    """Return whether the same bytes would end the same way: temporary conditions are judged again.

    So is a file that the next release rejected, during an upgrade, for a reason that this one does not know.
    """
    if decision.outcome == "undecided":
        return False
    if decision.reason is None or decision.outcome != "rejected":
        return True
    reason = stored_reason(decision.reason)
    return reason is not None and not WORDS[reason].retryable


# A file that was rejected a moment ago


def repeat_key(decision: Decision) -> str:
    """Return what is the same if the same caller sends the same file again, to be judged by the same rules."""
    facts, actor = decision.facts, decision.actor
    sent = (decision.context_key, facts.filename, facts.sent_sha256)
    return _hash(actor.via, actor.actor_id, *sent, decision.rules.version, decision.all_checks)


async def find_rejected(database: Database, decision: Decision) -> FileRejected | None:
    """Return how the same file was rejected for its content in the last minute, or None.

    `decision` is to reject it now: for its content again, or by the rate limit, which would otherwise hide from the
    sender that the file is not accepted.
    """
    reason = None if decision.rejection is None else decision.rejection.reason
    if decision.facts.sha256 is None or reason not in {*CONTENT_REASONS, Reason.RATE_LIMIT_EXCEEDED}:
        return None
    since = first_id("rep", decision.created_at - _REJECTED_AGO)
    record = await decision_rows.find_repeated(database, decision.tenant_id, repeat_key(decision), since)
    return None if record is None or stored_reason(record.reason) is None else _rejected(record)


def _rejected(decision: DecisionRecord) -> FileRejected:
    report = VerdictReport.of(decision)
    if report.rejection is None:
        raise RuntimeError("a rejection without a reason in the decision log")
    error = FileRejected(WORDS[report.rejection.reason].message, [report.rejection.reason.value])
    error.report, error.is_replayed = report, True
    return error


def _stored(decision: DecisionRecord, file: ReceivedFile) -> Stored:
    """Return the response to the earlier upload. What is not in the decision log was sent again."""
    report = VerdictReport.of(decision)
    return Stored(
        file_id=report.file_id or "",
        report_id=report.report_id,
        outcome=report.outcome,
        original_filename=report.facts.filename,
        content_type=report.facts.content_type,
        size_bytes=report.facts.size_bytes,
        context_key=report.context_key,
        metadata=file.metadata,
        rate=None,
        rate_limit=None,
        is_replayed=True,
    )


def _hash(*values: object) -> str:
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()
