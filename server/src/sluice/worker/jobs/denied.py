"""Stored files that are denied since: they go into quarantine, with a decision that names the entry."""

from datetime import datetime

from sluice.access import Principal
from sluice.audit import AuditAction
from sluice.db.sql import Connection
from sluice.decisions import DecisionRecord
from sluice.decisions import repository as decision_rows
from sluice.files import FileRecord, lifecycle
from sluice.hash_lists import ListedHash
from sluice.kit.ids import new_id
from sluice.uploads.names import extension_of
from sluice.uploads.rules import denial_of
from sluice.uploads.values import Facts, HashListFact


def threat_of(entry: ListedHash) -> str:
    """Return an entry as the threat in a file's row: a release from quarantine is for this entry alone."""
    return lifecycle.threat_of_hash(entry.digest)


async def quarantine_denied(
    connection: Connection, by: AuditAction, file: FileRecord, entry: ListedHash, at: datetime
) -> bool:
    """Put a stored file into quarantine; return False if it is there already, or no longer stored."""
    if not await lifecycle.quarantine(connection, by, file.file_id, threat_of(entry), at):
        return False
    await log_denial(connection, by.principal, file, HashListFact((entry,)), outcome="quarantined", at=at)
    return True


async def log_denial(
    connection: Connection, who: Principal, file: FileRecord, listed: HashListFact, *, outcome: str, at: datetime
) -> None:
    """Log the decision about a stored file that hash lists deny, or do not let be scanned."""
    entry, name = listed.own, file.original_filename
    denial = None if entry is None or entry.list != "deny" else denial_of(entry)
    decision = DecisionRecord(
        report_id=new_id("rep"),
        tenant_id=file.tenant_id,
        file_id=file.file_id,
        context_key=file.context_key,
        mode="rescan",
        rules={},  # no rules of the context are applied
        rules_version=0,
        facts=Facts(name, extension_of(name), file.size_bytes, file.sha256, listed=listed).to_json(),
        engines={},
        outcome=outcome,
        reason=None if denial is None else denial.reason.value,
        detail="" if denial is None else denial.detail,
        actor={"id": who.actor_id, "name": who.actor_name, "via": who.via},
        created_at=at,
        original_filename=name,
        actor_id=who.actor_id,
        duration_ms=0,
    )
    await decision_rows.add(connection, decision)
