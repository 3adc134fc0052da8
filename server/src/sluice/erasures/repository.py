"""All queries of erasures: a tenant's rows in portions, what is blanked of them, and the list of what was erased."""

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, Literal

from sqlalchemy import (
    Column,
    ColumnElement,
    Select,
    Table,
    bindparam,
    case,
    delete,
    exists,
    func,
    insert,
    or_,
    select,
    update,
)

from sluice.db.schema import (
    IS_STORED,
    audit_events,
    console_links,
    console_passkeys,
    console_sessions,
    console_users,
    contexts,
    count_deltas,
    decisions,
    erased_files,
    events,
    file_metadata,
    files,
    hash_entries,
    idempotency_keys,
    jobs,
    resumable_uploads,
    upload_tokens,
    webhook_deliveries,
)
from sluice.db.sql import AnyRow, Connection, now
from sluice.decisions.record import NOT_UPLOADS
from sluice.erasures.subject import ERASED

_KEYS: Final = {
    table.name: next(iter(table.primary_key))
    for table in (files, decisions, events, audit_events, upload_tokens, resumable_uploads, jobs)
}

HoldKind = Literal["file", "context"]
_HELD: Final[Mapping[HoldKind, tuple[Table, Column[Any]]]] = MappingProxyType(
    {"file": (files, files.c.file_id), "context": (contexts, contexts.c.context_id)}
)


async def newest_ids(connection: Connection, tenant_id: str) -> Mapping[str, str]:
    """Return the highest id that a tenant has of files, reports, events and jobs, by their prefixes.

    Ids begin with the time at which a server made them, and the clock of another may have been ahead.
    """
    newest = [
        select(func.max(_KEYS[table.name])).where(table.c.tenant_id == tenant_id).scalar_subquery()
        for table in (files, decisions, events, jobs)
    ]
    found = (await connection.execute(select(*newest))).one()
    return {file_id.partition("_")[0]: file_id for file_id in found if file_id is not None}


async def load_files(connection: Connection, tenant_id: str, after: str, limit: int) -> Sequence[AnyRow]:
    """Return files of the tenant in any state, with ids after `after`, in their order."""
    names = ("file_id", "state", "original_filename", "uploaded_by", "uploaded_by_name", "metadata", "sha256")
    more = ("size_bytes", "held_by", "reviewed_by")
    return await _load(connection, files, [files.c[name] for name in (*names, *more)], tenant_id, after, limit=limit)


async def load_decisions(connection: Connection, tenant_id: str, after: str, limit: int) -> Sequence[AnyRow]:
    """Return decisions of the tenant with ids after `after`, in their order, without their facts."""
    columns = [decisions.c[name] for name in ("report_id", "file_id", "actor", "actor_id")]
    return await _load(connection, decisions, columns, tenant_id, after, limit=limit)


async def load_facts(connection: Connection, tenant_id: str, report_ids: Collection[str]) -> Sequence[AnyRow]:
    """Return the facts and the actors of decisions."""
    query = select(decisions.c.report_id, decisions.c.facts, decisions.c.actor).where(
        decisions.c.tenant_id == tenant_id, decisions.c.report_id.in_(report_ids)
    )
    return (await connection.execute(query)).all()


async def load_events(connection: Connection, tenant_id: str, after: str, limit: int) -> Sequence[AnyRow]:
    """Return events of the tenant with ids after `after`, in their order."""
    return await _load(connection, events, [events.c.event_id, events.c.data], tenant_id, after, limit=limit)


async def load_audit(connection: Connection, tenant_id: str, after: str, limit: int) -> Sequence[AnyRow]:
    """Return entries of the tenant's audit log with ids after `after`, in their order."""
    columns = [audit_events.c[name] for name in ("event_id", "actor_id", "actor_name", "via", "target", "reason")]
    return await _load(connection, audit_events, columns, tenant_id, after, limit=limit)


async def load_tokens(connection: Connection, tenant_id: str, after: str, limit: int) -> Sequence[AnyRow]:
    """Return upload tokens of the tenant with ids after `after`, in their order."""
    names = ("token_id", "end_user", "metadata", "created_by", "revoked_at")
    return await _load(
        connection, upload_tokens, [upload_tokens.c[name] for name in names], tenant_id, after, limit=limit
    )


async def load_resumable(connection: Connection, tenant_id: str, after: str, limit: int) -> Sequence[AnyRow]:
    """Return resumable uploads of the tenant with ids after `after`, in their order."""
    columns = [resumable_uploads.c[name] for name in ("upload_id", "actor_id", "metadata", "state")]
    return await _load(connection, resumable_uploads, columns, tenant_id, after, limit=limit)


async def load_jobs(connection: Connection, tenant_id: str, after: str, limit: int) -> Sequence[AnyRow]:
    """Return jobs of the tenant with ids after `after`, in their order."""
    columns = [jobs.c[name] for name in ("job_id", "kind", "state", "params", "actor_id", "actor_name")]
    return await _load(connection, jobs, columns, tenant_id, after, limit=limit)


async def _load(
    connection: Connection, table: Table, columns: Sequence[Column[Any]], tenant_id: str, after: str, *, limit: int
) -> Sequence[AnyRow]:
    key = _KEYS[table.name]
    query = select(*columns).where(table.c.tenant_id == tenant_id, key > after).order_by(key).limit(limit)
    return (await connection.execute(query)).all()


async def find_tokens(connection: Connection, tenant_id: str, token_ids: Collection[str]) -> Sequence[AnyRow]:
    """Return those of the upload tokens that there are, with whom they name."""
    columns = (upload_tokens.c.token_id, upload_tokens.c.end_user, upload_tokens.c.metadata)
    theirs = (upload_tokens.c.tenant_id == tenant_id, upload_tokens.c.token_id.in_(token_ids))
    return (await connection.execute(select(*columns).where(*theirs))).all()


async def blank_reviewers(connection: Connection, tenant_id: str, name: str, file_ids: Collection[str]) -> None:
    """Blank the person as who held or reviewed files."""
    for column in (files.c.held_by, files.c.reviewed_by):
        theirs = (files.c.tenant_id == tenant_id, files.c.file_id.in_(file_ids), column == name)
        await connection.execute(update(files).where(*theirs).values({column: ERASED}))


async def blank_context_holds(connection: Connection, tenant_id: str, name: str) -> None:
    """Blank the person as who held contexts."""
    theirs = (contexts.c.tenant_id == tenant_id, contexts.c.held_by == name)
    await connection.execute(update(contexts).where(*theirs).values(held_by=ERASED))


async def load_hold_reasons(
    connection: Connection, tenant_id: str, held: HoldKind, after: str, limit: int
) -> Sequence[AnyRow]:
    """Return files or contexts of the tenant with ids after `after`, in their order: `id` and `hold_reason`."""
    table, key = _HELD[held]
    columns = [key.label("id"), table.c.hold_reason]
    query = select(*columns).where(table.c.tenant_id == tenant_id, key > after).order_by(key).limit(limit)
    return (await connection.execute(query)).all()


async def blank_hold_reasons(connection: Connection, tenant_id: str, held: HoldKind, targets: Collection[str]) -> None:
    """Blank why files or contexts are held."""
    table, key = _HELD[held]
    theirs = (table.c.tenant_id == tenant_id, key.in_(targets), table.c.hold_reason.is_not(None))
    await connection.execute(update(table).where(*theirs).values(hold_reason=ERASED))


async def blank_decisions(connection: Connection, tenant_id: str, blanked: Sequence[Mapping[str, Any]]) -> None:
    """Blank all names in decisions: each with its `id`, its `actor`, and its `facts` without names."""
    is_one = (decisions.c.tenant_id == tenant_id, decisions.c.report_id == bindparam("id"))
    values: dict[str, Any] = {
        "actor": bindparam("new_actor"),
        "facts": bindparam("new_facts"),
        "actor_id": ERASED,
        "original_filename": ERASED,
        "detail": ERASED,
        "repeat_key": None,
    }
    rows = [{"id": row["id"], "new_actor": row["actor"], "new_facts": row["facts"]} for row in blanked]
    await connection.execute(update(decisions).where(*is_one).values(values), rows)


async def forget_keys(connection: Connection, tenant_id: str, report_ids: Collection[str]) -> None:
    """Delete the idempotency keys of uploads that were decided on under these ids."""
    theirs = (idempotency_keys.c.tenant_id == tenant_id, idempotency_keys.c.report_id.in_(report_ids))
    await connection.execute(delete(idempotency_keys).where(*theirs))


async def blank_events(connection: Connection, tenant_id: str, changed: Mapping[str, Mapping[str, Any]]) -> None:
    """Replace the data of events, each by its id, and forget the responses of receivers."""
    is_one = (events.c.tenant_id == tenant_id, events.c.event_id == bindparam("id"))
    rows = [{"id": event_id, "new_data": data} for event_id, data in changed.items()]
    await connection.execute(update(events).where(*is_one).values(data=bindparam("new_data")), rows)
    theirs = (webhook_deliveries.c.tenant_id == tenant_id, webhook_deliveries.c.event_id.in_(list(changed)))
    await connection.execute(
        update(webhook_deliveries).where(*theirs).values(response_headers=None, response_body=None, error=None)
    )


async def blank_audit(connection: Connection, tenant_id: str, blanked: Sequence[Mapping[str, Any]]) -> None:
    """Replace the names in entries of the audit log; the database refuses any other change of one."""
    is_one = (audit_events.c.tenant_id == tenant_id, audit_events.c.event_id == bindparam("id"))
    names = ("actor_id", "actor_name", "target", "reason")
    rows = [{"id": row["event_id"], **{f"new_{name}": row[name] for name in names}} for row in blanked]
    values: dict[str, Any] = {name: bindparam(f"new_{name}") for name in names}
    await connection.execute(update(audit_events).where(*is_one).values(values), rows)


async def revoke_tokens(connection: Connection, tenant_id: str, token_ids: Collection[str]) -> None:
    """Revoke upload tokens that are not revoked yet."""
    theirs = (upload_tokens.c.tenant_id == tenant_id, upload_tokens.c.token_id.in_(token_ids))
    await connection.execute(
        update(upload_tokens).where(*theirs, upload_tokens.c.revoked_at.is_(None)).values(revoked_at=now())
    )


async def blank_tokens(connection: Connection, tenant_id: str, token_ids: Collection[str]) -> None:
    """Forget whom upload tokens name."""
    theirs = (upload_tokens.c.tenant_id == tenant_id, upload_tokens.c.token_id.in_(token_ids))
    forgotten = dict.fromkeys(("end_user", "redirect_ok", "redirect_error", "page_sentence"))
    await connection.execute(update(upload_tokens).where(*theirs).values(forgotten | {"metadata": {}}))


async def blank_creators(connection: Connection, tenant_id: str, name: str) -> None:
    """Blank the person as who created upload tokens."""
    theirs = (upload_tokens.c.tenant_id == tenant_id, upload_tokens.c.created_by == name)
    await connection.execute(update(upload_tokens).where(*theirs).values(created_by=ERASED))


async def blank_hash_entries(
    connection: Connection, tenant_id: str, name: str, after: bytes, limit: int
) -> bytes | None:
    """Blank the person as who added any of the next `limit` entries of hash lists that come after a digest.

    Return the digest after which the next portion begins, None after the last.
    """
    columns = hash_entries.c
    portion: tuple[ColumnElement[bool], ...] = (columns.tenant_id == tenant_id, columns.digest > after)
    query = select(columns.digest).where(*portion).order_by(columns.digest).offset(limit - 1).limit(1)
    last: bytes | None = (await connection.execute(query)).scalar_one_or_none()
    if last is not None:
        portion = (*portion, columns.digest <= last)
    blanked = update(hash_entries).where(*portion, columns.added_by_id == name)
    await connection.execute(blanked.values(added_by_id=ERASED, added_by_name=ERASED))
    return last


async def end_resumable(connection: Connection, tenant_id: str, upload_ids: Collection[str]) -> None:
    """Let the worker end resumable uploads now, and forget the names in them."""
    theirs = (resumable_uploads.c.tenant_id == tenant_id, resumable_uploads.c.upload_id.in_(upload_ids))
    columns = resumable_uploads.c
    is_open = columns.state == "open"
    forgotten: dict[str, Any] = {"filename": ERASED, "metadata": None, "sent_metadata": None}
    cancelled = {  # the event of an upload that expires contains its sender
        "state": case((is_open, "cancelled"), else_=columns.state),
        "generation": columns.generation + case((is_open, 1), else_=0),
    }
    await connection.execute(
        update(resumable_uploads).where(*theirs).values(**forgotten, **cancelled, expires_at=now(), due_at=now())
    )


async def end_sessions(connection: Connection, tenant_id: str, user_id: str) -> None:
    """Delete the person's sessions of the console, links to it, passkeys, and the user that it is there."""
    for table in (console_sessions, console_links, console_passkeys, console_users):
        await connection.execute(delete(table).where(table.c.tenant_id == tenant_id, table.c.user_id == user_id))


async def blank_jobs(connection: Connection, tenant_id: str, blanked: Sequence[Mapping[str, Any]]) -> None:
    """Replace what jobs were asked for, and by whom."""
    is_one = (jobs.c.tenant_id == tenant_id, jobs.c.job_id == bindparam("id"))
    names = ("params", "actor_id", "actor_name")
    rows = [{"id": row["job_id"], **{f"new_{name}": row[name] for name in names}} for row in blanked]
    values: dict[str, Any] = {name: bindparam(f"new_{name}") for name in names}
    await connection.execute(update(jobs).where(*is_one).values(values), rows)


async def add_listed(connection: Connection, tenant_id: str, job_id: str, listed: Sequence[Mapping[str, Any]]) -> None:
    """Add files to the list of an erasure, each with `file_id`, `sha256`, `size_bytes` and `outcome`."""
    rows = [{**row, "tenant_id": tenant_id, "job_id": job_id} for row in listed]
    await connection.execute(insert(erased_files), rows)


async def find_listed(
    connection: Connection, tenant_id: str, job_id: str, file_ids: Collection[str]
) -> Mapping[str, str]:
    """Return the outcomes of those of the files that are on the list of an erasure, by their ids."""
    query = select(erased_files.c.file_id, erased_files.c.outcome).where(
        erased_files.c.tenant_id == tenant_id, erased_files.c.job_id == job_id, erased_files.c.file_id.in_(file_ids)
    )
    return {row.file_id: row.outcome for row in (await connection.execute(query)).all()}


async def load_listed(connection: Connection, tenant_id: str, job_id: str, offset: int, limit: int) -> Sequence[AnyRow]:
    """Return a part of the list of an erasure, in the order of ids."""
    listed = erased_files.c
    query = (
        select(listed.file_id, listed.sha256, listed.size_bytes, listed.outcome)
        .where(listed.tenant_id == tenant_id, listed.job_id == job_id)
        .order_by(listed.file_id)
    )
    return (await connection.execute(query.offset(offset).limit(limit))).all()


async def has_objects(connection: Connection, tenant_id: str, job_id: str) -> bool:
    """Return whether a file that was erased still has its row: its object is not purged yet."""
    query = (
        select(files.c.file_id)
        .join(erased_files, erased_files.c.file_id == files.c.file_id)
        .where(
            files.c.tenant_id == tenant_id,
            erased_files.c.tenant_id == tenant_id,
            erased_files.c.job_id == job_id,
            erased_files.c.outcome == ERASED,
        )
    )
    return (await connection.execute(query.limit(1))).one_or_none() is not None


async def has_resumable(connection: Connection, tenant_id: str) -> bool:
    """Return whether a resumable upload that an erasure ended still has its row: its bytes are not deleted yet."""
    columns = resumable_uploads.c
    is_erased = (columns.filename == ERASED, columns.expires_at <= now())
    query = select(columns.upload_id).where(columns.tenant_id == tenant_id, *is_erased)
    return (await connection.execute(query.limit(1))).one_or_none() is not None


async def has_counts(connection: Connection, tenant_id: str, terms: Collection[str]) -> bool:
    """Return whether a change of a count that names the person waits to be folded."""
    query = select(count_deltas.c.delta_id).where(
        count_deltas.c.tenant_id == tenant_id,
        or_(count_deltas.c.facet_1.in_(terms), count_deltas.c.facet_2.in_(terms)),
    )
    return (await connection.execute(query.limit(1))).one_or_none() is not None


async def list_token_ids(connection: Connection, tenant_id: str, end_user: str, limit: int) -> Sequence[str]:
    """Return the upload tokens that name an end user, at most `limit`."""
    columns = upload_tokens.c
    query = select(columns.token_id).where(columns.tenant_id == tenant_id, columns.end_user == end_user)
    return (await connection.execute(query.order_by(columns.token_id).limit(limit))).scalars().all()


async def count_files(connection: Connection, tenant_id: str, sources: Collection[str], limit: int) -> tuple[int, int]:
    """Return how many files of these uploaders are stored, counted to `limit`, and how many of these are held."""
    is_theirs = (files.c.tenant_id == tenant_id, IS_STORED, files.c.uploaded_by.in_(sources))
    return await _count_files(connection, tenant_id, select(files.c.file_id).where(*is_theirs), limit)


async def count_described(
    connection: Connection, tenant_id: str, pairs: Sequence[tuple[str, str]], limit: int
) -> tuple[int, int]:
    """Return how many stored files have all of these metadata, counted to `limit`, and how many of these are held."""
    first, *others = pairs
    searched = file_metadata.c
    ids = select(searched.file_id).where(
        searched.tenant_id == tenant_id, searched.name == first[0], searched.value == first[1]
    )
    for name, value in others:
        other = file_metadata.alias()
        is_one = (other.c.tenant_id == tenant_id, other.c.name == name, other.c.value == value)
        ids = ids.where(exists().where(other.c.file_id == searched.file_id, *is_one))
    return await _count_files(connection, tenant_id, ids, limit)


async def _count_files(connection: Connection, tenant_id: str, ids: Select[Any], limit: int) -> tuple[int, int]:
    held = select(contexts.c.context_id).where(contexts.c.tenant_id == tenant_id, contexts.c.held_at.is_not(None))
    is_held = or_(files.c.held_at.is_not(None), files.c.context_id.in_(held))
    counted = ids.limit(limit).subquery()  # first in an index, and then their rows
    query = (
        select(func.count(), func.coalesce(func.sum(case((is_held, 1), else_=0)), 0))
        .select_from(counted)
        .join(files, files.c.file_id == counted.c.file_id)
        .where(files.c.tenant_id == tenant_id)
    )
    number, number_held = (await connection.execute(query)).one()
    return int(number), int(number_held)


async def count_decisions(
    connection: Connection, tenant_id: str, sources: Collection[str], limit: int
) -> tuple[int, bool]:
    """Return how many of the newest `limit` decisions on uploads are on those of these uploaders.

    The second is whether there are no more decisions than that.
    """
    columns = decisions.c
    newest = (
        select(columns.actor_id)
        .where(columns.tenant_id == tenant_id, columns.mode.not_in(NOT_UPLOADS))
        .order_by(columns.report_id.desc())
        .limit(limit + 1)
        .subquery()
    )
    theirs = func.coalesce(func.sum(case((newest.c.actor_id.in_(sources), 1), else_=0)), 0)
    number, compared = (await connection.execute(select(theirs, func.count()).select_from(newest))).one()
    return int(number), int(compared) <= limit
