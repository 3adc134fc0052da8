"""Later scans, the quarantine, and the reviews of files in it."""

from collections.abc import Callable, Collection, Mapping
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, and_, case, func, literal, not_, or_, select, union_all, update
from sqlalchemy.ext.asyncio import AsyncConnection

from sluice.db.rls import INSTALLATION
from sluice.db.schema import IS_STORED, decisions, files, hash_entries
from sluice.db.sql import AnyRow, now, now_plus
from sluice.files.record import FileRecord, LastScan, Quarantined, Review
from sluice.files.repository.rows import EVENT_COLUMNS, SHOWN, is_in_quarantine, record_of, stored_row
from sluice.kit.ids import first_id

# A rescan and its decision have the same moment; the id of the decision is made a little later.
_AROUND = timedelta(seconds=10)
_QUARANTINED = (
    *(files.c[name] for name in Quarantined.__slots__ if name in files.c),
    decisions.c.reason,
    case((decisions.c.reason.is_not(None), decisions.c.detail)).label("detail"),
)
# of the upload, as long as it is kept
_WITH_DECISION = files.outerjoin(
    decisions, and_(decisions.c.report_id == files.c.report_id, decisions.c.tenant_id == files.c.tenant_id)
)


async def find_stale_verdicts(
    connection: AsyncConnection, is_current: Callable[[str], bool], limit: int, *, prefix: str = ""
) -> list[FileRecord]:
    """Return stored files last scanned by an engine version that is not current, oldest verdict first.

    Only versions that begin with `prefix` are considered.
    Files that were never scanned, are in quarantine, or are postponed are left out. Versions are few, and each is one
    descent of an index, so the query is cheap however many files there are.
    """
    found: list[AnyRow] = []
    version: str | None = prefix
    while version is not None:
        later = select(func.min(files.c.scanned_with)).where(files.c.state == "stored", files.c.scanned_with > version)
        version = (await connection.execute(later)).scalar_one()
        if version is None or not version.startswith(prefix):
            break
        if not is_current(version):
            query = select(*SHOWN, files.c.scanned_at).where(files.c.scanned_with == version, *_may_be_rescanned())
            found += (await connection.execute(query.order_by(files.c.scanned_at).limit(limit))).all()
    found.sort(key=lambda row: row.scanned_at)
    shown = FileRecord.__slots__
    return [FileRecord(**{name: getattr(row, name) for name in shown}) for row in found[:limit]]


def _may_be_rescanned() -> tuple[ColumnElement[bool], ...]:
    is_free = or_(files.c.rescan_at.is_(None), files.c.rescan_at <= now())
    return files.c.state == "stored", files.c.quarantined_at.is_(None), is_free


async def find_asked_rescans(connection: AsyncConnection, limit: int) -> list[FileRecord]:
    """Return files that a reviewer wants to be scanned: those in quarantine first, each kind in the order asked."""
    asked = (files.c.quarantined_at.is_not(None), files.c.rescan_at <= now(), files.c.state == "stored")
    first = select(*SHOWN, literal(1).label("place"), files.c.rescan_at.label("asked_at")).where(*asked)
    others = select(*SHOWN, literal(2).label("place"), files.c.rescan_asked_at.label("asked_at")).where(
        files.c.rescan_asked_at.is_not(None), *_may_be_rescanned()
    )
    # One statement, since most find none; each part by its own index.
    parts = [part.order_by("asked_at").limit(limit).subquery() for part in (first, others)]
    found = union_all(*map(select, parts)).subquery()
    shown = [found.c[column.name] for column in SHOWN]
    rows = await connection.execute(select(*shown).order_by(found.c.place, found.c.asked_at).limit(limit))
    return [record_of(row) for row in rows.all()]


async def claim_rescan(
    connection: AsyncConnection, tenant_id: str, file_id: str, engine: str, lease: timedelta
) -> bool:
    """Claim a stored file for a scan by `engine`; return whether it was neither claimed nor scanned meanwhile.

    A file that a reviewer wants to be scanned is claimed whatever scanned it last; of those in quarantine no other is.
    """
    is_current = or_(files.c.scanned_with == engine, files.c.scanned_with.startswith(f"{engine};", autoescape=True))
    is_wanted = or_(not_(is_current), files.c.rescan_asked_at.is_not(None))
    is_stale = and_(is_wanted, *_may_be_rescanned())
    is_asked = and_(files.c.quarantined_at.is_not(None), files.c.rescan_at <= now())
    statement = (
        update(files)
        .where(*stored_row(tenant_id, file_id), or_(is_stale, is_asked))
        .values(rescan_at=now_plus(lease))
        .returning(files.c.file_id)
    )
    return (await connection.execute(statement)).one_or_none() is not None


async def postpone_rescan(connection: AsyncConnection, tenant_id: str, file_id: str, pause: timedelta) -> None:
    """Return a claimed file unscanned: it is due again after the pause."""
    claimed = (files.c.tenant_id == tenant_id, files.c.file_id == file_id)
    await connection.execute(update(files).where(*claimed).values(rescan_at=now_plus(pause)))


async def forget_rescan(connection: AsyncConnection, tenant_id: str, file_id: str) -> None:
    """Note that a stored file is not scanned again although a user asked for it."""
    await connection.execute(update(files).where(*stored_row(tenant_id, file_id)).values(rescan_asked_at=None))


async def write_verdict(
    connection: AsyncConnection,
    tenant_id: str,
    file_id: str,
    engine: str,
    at: datetime,
    *,
    again_after: timedelta | None,
    threat: str | None,
    is_clean: bool,
) -> AnyRow | None:
    """Write the verdict of a later scan.

    Return the file with `quarantined_at`, which is not None if it is in quarantine; None if it is no longer stored.
    """
    mark: dict[str, ColumnElement[Any] | str | None] = {}
    if threat is not None:
        # The threat outlives a release from quarantine, which is for this threat alone.
        is_known = or_(is_in_quarantine(), files.c.threat == threat)
        mark = {"quarantined_at": case((is_known, files.c.quarantined_at), else_=at), "threat": threat}
    elif is_clean:
        mark = {"threat": case((is_in_quarantine(), None), else_=files.c.threat)}
    statement = (
        update(files)
        .where(*stored_row(tenant_id, file_id))
        .values(
            scanned_with=engine,
            scanned_at=at,
            rescan_asked_at=None,
            # In quarantine it would be a reviewer's wish.
            rescan_at=None
            if again_after is None or threat is not None
            else case((is_in_quarantine(), None), else_=now_plus(again_after)),
            **mark,
        )
        .returning(files.c.quarantined_at, files.c.download_count, *EVENT_COLUMNS)
    )
    return (await connection.execute(statement)).one_or_none()


async def count_by_sha256(connection: AsyncConnection, tenant_id: str, digests: Collection[str]) -> Mapping[str, int]:
    """Return how many stored files that are not in quarantine have each SHA-256."""
    columns = files.c
    is_one = (columns.tenant_id == tenant_id, columns.sha256.in_(list(digests)), IS_STORED)
    query = select(columns.sha256, func.count()).where(*is_one, columns.quarantined_at.is_(None))
    return {row[0]: row[1] for row in (await connection.execute(query.group_by(columns.sha256))).all()}


async def find_by_sha256(connection: AsyncConnection, tenant_id: str, digest: str, limit: int) -> list[FileRecord]:
    """Return stored files with a SHA-256 that are not in quarantine, at most `limit`."""
    columns = files.c
    is_one = (columns.tenant_id == tenant_id, columns.sha256 == digest, IS_STORED, columns.quarantined_at.is_(None))
    rows = (await connection.execute(select(*SHOWN).where(*is_one).limit(limit))).all()
    return [record_of(row) for row in rows]


async def find_denied(connection: AsyncConnection, tenant_id: str, digests: Collection[bytes]) -> Collection[str]:
    """Return those of the SHA-256, in hexadecimal digits, that a list of the tenant or the installation denies now."""
    columns = hash_entries.c
    is_valid = or_(columns.expires_at.is_(None), columns.expires_at > now())
    is_denied = (columns.tenant_id.in_([tenant_id, INSTALLATION]), columns.list == "deny", is_valid)
    query = select(columns.digest).where(*is_denied, columns.digest.in_(list(digests)))
    return {digest.hex() for digest in (await connection.execute(query)).scalars()}


async def mark_quarantined(
    connection: AsyncConnection, tenant_id: str, file_id: str, threat: str, at: datetime
) -> AnyRow | None:
    """Put a stored file into quarantine for a threat; return what events tell of it, None if it was there already."""
    statement = (
        update(files)
        .where(*stored_row(tenant_id, file_id), files.c.quarantined_at.is_(None))
        .values(quarantined_at=at, threat=threat, rescan_at=None, rescan_asked_at=None)
        .returning(files.c.download_count, *EVENT_COLUMNS)
    )
    return (await connection.execute(statement)).one_or_none()


async def find_quarantine_mark(connection: AsyncConnection, tenant_id: str, file_id: str) -> Quarantined | None:
    """Return since when a file is in quarantine, and why; None if it is not."""
    found = select(*_QUARANTINED).select_from(_WITH_DECISION)
    query = found.where(*stored_row(tenant_id, file_id), files.c.quarantined_at.is_not(None))
    row = (await connection.execute(query)).one_or_none()
    return None if row is None else Quarantined(**row._mapping)  # noqa: SLF001  (documented)


async def list_quarantined(
    connection: AsyncConnection, tenant_id: str | None, context_key: str | None, after: str, limit: int
) -> list[Quarantined]:
    """Return files in quarantine whose id comes after `after`, in the order of ids.

    They are of one tenant or of all, and of one context or of all.
    """
    conditions: list[ColumnElement[bool]] = [is_in_quarantine(), files.c.state == "stored", files.c.file_id > after]
    if tenant_id is not None:
        conditions.append(files.c.tenant_id == tenant_id)
    if context_key is not None:
        conditions.append(files.c.context_key == context_key)
    # First the ids, which one index has: so that no other order of the files is followed to find those of a context.
    page = select(files.c.file_id).where(*conditions).order_by(files.c.file_id).limit(limit).subquery()
    found = select(*_QUARANTINED).select_from(_WITH_DECISION.join(page, page.c.file_id == files.c.file_id))
    if tenant_id is not None:
        found = found.where(files.c.tenant_id == tenant_id)
    rows = (await connection.execute(found.order_by(files.c.file_id))).all()
    return [Quarantined(**row._mapping) for row in rows]  # noqa: SLF001  (documented)


async def lock_quarantined(connection: AsyncConnection, tenant_id: str, file_id: str) -> AnyRow | None:
    """Lock a file in quarantine and return what its review depends on; None if it is not in quarantine."""
    columns = (files.c.review_decision, files.c.reviewed_by, files.c.sanitised_file_id)
    query = select(*columns).where(*stored_row(tenant_id, file_id), is_in_quarantine())
    return (await connection.execute(query.with_for_update())).one_or_none()


async def note_review(connection: AsyncConnection, tenant_id: str, file_id: str, review: Review) -> None:
    """Write what the first of two reviewers decided on a file in quarantine."""
    values = {name: getattr(review, name) for name in Review.__slots__}
    await connection.execute(update(files).where(*stored_row(tenant_id, file_id)).values(values))


async def clear_quarantine(connection: AsyncConnection, tenant_id: str, file_id: str) -> AnyRow | None:
    """Take a file out of quarantine; return what events tell of it, None if it was not in quarantine."""
    statement = (
        update(files)
        .where(*stored_row(tenant_id, file_id), is_in_quarantine())
        .values(quarantined_at=None, rescan_at=None, review_decision=None, reviewed_by=None, reviewed_at=None)
        .returning(*EVENT_COLUMNS)
    )
    return (await connection.execute(statement)).one_or_none()


async def ask_rescan(
    connection: AsyncConnection, tenant_id: str, file_id: str, *, only_quarantined: bool = True
) -> bool:
    """Let the worker scan a stored file next; return whether there is such a file.

    With `only_quarantined`, a file that is not in quarantine is none.
    """
    conditions = [*stored_row(tenant_id, file_id), *([is_in_quarantine()] if only_quarantined else [])]
    statement = (
        update(files)
        .where(*conditions)
        .values(
            rescan_at=case((is_in_quarantine(), now()), else_=files.c.rescan_at),
            rescan_asked_at=case((is_in_quarantine(), None), else_=now()),
        )
        .returning(files.c.file_id)
    )
    return (await connection.execute(statement)).one_or_none() is not None


async def find_last_scan(connection: AsyncConnection, tenant_id: str, file_id: str) -> LastScan | None:
    """Return what is known of the last scan of a stored file; None if there is no such file."""
    columns = (files.c.scanned_at, files.c.scanned_with, files.c.threat, files.c.rescan_asked_at)
    row = (await connection.execute(select(*columns).where(*stored_row(tenant_id, file_id)))).one_or_none()
    if row is None or row.scanned_at is None:
        return None if row is None else LastScan(*row)
    # By the id, which begins with the moment: decisions are in no index by their file.
    found = select(decisions.c.reason, decisions.c.detail).where(
        decisions.c.tenant_id == tenant_id,
        decisions.c.report_id >= first_id("rep", row.scanned_at - _AROUND),
        decisions.c.report_id < first_id("rep", row.scanned_at + _AROUND),
        decisions.c.file_id == file_id,
        decisions.c.mode == "rescan",
    )
    decision = (await connection.execute(found.order_by(decisions.c.report_id.desc()).limit(1))).one_or_none()
    if decision is None:
        return LastScan(*row)
    return LastScan(*row, is_rescan=True, reason=decision.reason, detail=decision.detail)
