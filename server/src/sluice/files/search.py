"""Search among the stored files of one tenant: the same work at most, however many files there are.

One filter, the *lead*, is looked up in its index. If it has at most `MOST_SEARCHED` files, all other filters are
compared with these, and the result is complete. If every filter has more, the first `MOST_SEARCHED` files of one index,
in the order asked for, are compared, and the result says that it may not be complete. A single filter that an index
holds in order needs no comparison.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from sqlalchemy import ColumnElement, Select, exists, func, literal, or_, select, union_all
from sqlalchemy.sql.base import ReadOnlyColumnCollection

from sluice.db.schema import IS_DELETED, IS_STORED, decisions, file_metadata, files
from sluice.db.sql import Connection
from sluice.files.record import FileFilter, FileOrder, FileRecord, metadata_text
from sluice.kit.ids import first_id
from sluice.kit.paging import Page, PageRequest

MOST_SEARCHED: Final = 10_000
REASONS_SEARCHED: Final = 2_000  # newest uploads with a reason

_columns = files.c
_Columns = ReadOnlyColumnCollection[str, Any]
_COMPARED: Final = [
    _columns[name]
    for name in (
        *("file_id", "context_key", "uploaded_by", "sha256", "content_type", "original_filename", "size_bytes"),
        "quarantined_at",
    )
]
_SHOWN: Final = [_columns[name] for name in FileRecord.__slots__]


@dataclass(frozen=True, slots=True)
class FoundFiles:
    """One page of a search, whose total counts to `MOST_SEARCHED`, and whether every file was compared."""

    page: Page[FileRecord]
    is_complete: bool


@dataclass(frozen=True, slots=True)
class _Lead:
    """Ids of files that an index holds, and the filter that they meet. `in_order`: of their ids, that is of time."""

    ids: Select[Any]
    meets: FileFilter
    in_order: bool = True


async def search(
    connection: Connection, tenant_id: str, wanted: FileFilter, order: FileOrder, request: PageRequest
) -> FoundFiles:
    """Return one page of the files that meet `wanted`."""
    by_size, descending = order.endswith("size_bytes"), order.startswith("-")
    lead, is_complete = await _choose(connection, tenant_id, wanted, by_id=not by_size)
    if by_size and not is_complete:
        lead = _by_size(tenant_id, wanted)
    rest = wanted != lead.meets
    ids = lead.ids.limit(MOST_SEARCHED)
    if not is_complete:
        (column,) = lead.ids.selected_columns
        ids = ids.order_by(*_in_order([_columns.size_bytes, column] if by_size else [column], descending=descending))
    sources = [_compared(ids, tenant_id) if rest or by_size else ids]
    if not is_complete and rest and wanted.filename is not None:
        # The whole name, which an index finds among all files, beside its parts among the first.
        named = _ids(tenant_id, _columns.original_filename == wanted.filename).limit(MOST_SEARCHED)
        sources.append(_compared(named, tenant_id))
    keys = ("size_bytes", "file_id") if by_size else ("file_id",)
    matching = []
    for source in sources:
        columns = source.subquery().c
        met = _conditions(columns, tenant_id, wanted) if rest else ()
        matching.append(select(*(columns[key] for key in keys)).where(*met))
    found = union_all(*matching).subquery().c if len(matching) > 1 else matching[0].subquery().c
    ids = select(*(found[key] for key in keys))
    if len(matching) > 1:
        ids = ids.distinct()
    total = await _count(connection, ids, MOST_SEARCHED)
    # First the ids of the page, and then its rows: so that no wide row is sorted.
    chosen = ids.order_by(*_in_order([found[key] for key in keys], descending=descending))
    page = chosen.offset(request.offset).limit(request.page_size).subquery()
    query = select(*_SHOWN).join(page, page.c.file_id == _columns.file_id).where(_columns.tenant_id == tenant_id)
    shown = (await connection.execute(query)).all()
    records = [FileRecord(**row._mapping) for row in shown]  # noqa: SLF001  (SQLAlchemy's documented name)
    records.sort(key=lambda file: (file.size_bytes if by_size else 0, file.file_id), reverse=descending)
    return FoundFiles(Page(tuple(records), request, total), is_complete=is_complete or not rest)


async def walk(
    connection: Connection, tenant_id: str, wanted: FileFilter, after: str, limit: int
) -> tuple[Sequence[str], str | None]:
    """Compare the next `limit` files after the id `after`, in the order of their ids.

    Return the ids of those that meet `wanted`, and the id after which to continue, None at the end.
    """
    lead, _is_small = await _choose(connection, tenant_id, wanted, by_id=True)
    (column,) = lead.ids.selected_columns
    rows = (await connection.execute(lead.ids.where(column > after).order_by(column).limit(limit))).all()
    compared = [row.file_id for row in rows]
    conditions = [_columns.tenant_id == tenant_id, IS_STORED, _columns.file_id.in_(compared)]
    query = (
        select(_columns.file_id)
        .where(*conditions, *_conditions(_columns, tenant_id, wanted))
        .order_by(_columns.file_id)
    )
    found = (await connection.execute(query)).scalars().all() if compared else []
    return list(found), compared[-1] if len(compared) == limit else None


async def walk_deleted(
    connection: Connection, tenant_id: str, wanted: FileFilter, after: str, limit: int
) -> tuple[Sequence[str], str | None]:
    """Compare the next `limit` deleted files, as `walk` does with those that are stored."""
    deleted = [_columns.tenant_id == tenant_id, IS_DELETED, _columns.file_id > after]
    window = select(_columns.file_id).where(*deleted, *period(_columns.file_id, wanted))
    window_rows = (await connection.execute(window.order_by(_columns.file_id).limit(limit))).all()
    compared = [row.file_id for row in window_rows]
    if not compared:
        return (), None
    # The index of metadata holds stored files only.
    conditions = [
        *deleted[:2],
        _columns.file_id.in_(compared),
        *_conditions(_columns, tenant_id, replace(wanted, metadata=())),
    ]
    query = select(_columns.file_id, _columns.metadata).where(*conditions).order_by(_columns.file_id)
    rows = (await connection.execute(query)).all()
    found = [
        row.file_id
        for row in rows
        if all(metadata_text(row.metadata.get(name)) == value for name, value in wanted.metadata)
    ]
    return found, compared[-1] if len(compared) == limit else None


async def _choose(connection: Connection, tenant_id: str, wanted: FileFilter, *, by_id: bool) -> tuple[_Lead, bool]:
    """Return a lead with at most `MOST_SEARCHED` files and True; if there is none, one that is in order and False.

    A lead that is the whole filter is taken as it is if the files are read `by_id`.
    """
    leads = _leads(tenant_id, wanted)
    for lead in leads:
        if by_id and lead.in_order and lead.meets == wanted:
            return lead, False  # nothing is left to compare, so it may have any number
        if await _count(connection, lead.ids, MOST_SEARCHED + 1) <= MOST_SEARCHED:
            return lead, True
    return next(lead for lead in leads if lead.in_order), False


def _leads(tenant_id: str, wanted: FileFilter) -> list[_Lead]:
    """Return the filters that an index serves, each alone with the period, the likely rarest first.

    The last one, which is always there, is the list of all files.
    """
    in_period = FileFilter(created_after=wanted.created_after, created_before=wanted.created_before)
    leads = [
        _Lead(
            select(file_metadata.c.file_id).where(
                file_metadata.c.tenant_id == tenant_id,
                file_metadata.c.name == name,
                file_metadata.c.value == value,
                *period(file_metadata.c.file_id, wanted),
            ),
            replace(in_period, metadata=((name, value),)),
        )
        for name, value in wanted.metadata
    ]
    if wanted.sha256 is not None:
        leads.append(
            _Lead(_ids(tenant_id, _columns.sha256 == wanted.sha256), FileFilter(sha256=wanted.sha256), in_order=False)
        )
    if wanted.status == "quarantined":
        is_marked = _columns.quarantined_at.is_not(None)
        for context_key in dict.fromkeys((wanted.context_key, None)):
            of_context = [] if context_key is None else [_columns.context_key == context_key]
            ids = _ids(tenant_id, is_marked, *of_context, *period(_columns.file_id, wanted))
            leads.append(_Lead(ids, replace(in_period, status="quarantined", context_key=context_key)))
    for names in (("content_type",), ("context_key", "uploaded_by"), ("uploaded_by",), ("context_key",)):
        named = {name: getattr(wanted, name) for name in names}
        if None not in named.values():
            equal = [_columns[name] == value for name, value in named.items()]
            leads.append(_Lead(_ids(tenant_id, *equal, *period(_columns.file_id, wanted)), replace(in_period, **named)))
    if wanted.contexts:
        ids = _ids(tenant_id, _columns.context_key.in_(wanted.contexts), *period(_columns.file_id, wanted))
        leads.append(_Lead(ids, replace(in_period, contexts=wanted.contexts), in_order=False))
    if wanted.min_size is not None:
        leads.append(_by_size(tenant_id, wanted))
    return [*leads, _Lead(_ids(tenant_id, *period(_columns.file_id, wanted)), in_period)]


def _by_size(tenant_id: str, wanted: FileFilter) -> _Lead:
    large = () if wanted.min_size is None else (_columns.size_bytes >= wanted.min_size,)
    return _Lead(_ids(tenant_id, *large), FileFilter(min_size=wanted.min_size), in_order=False)


def _ids(tenant_id: str, *conditions: ColumnElement[bool]) -> Select[Any]:
    return select(_columns.file_id).where(_columns.tenant_id == tenant_id, IS_STORED, *conditions)


def period(column: ColumnElement[str], wanted: FileFilter) -> list[ColumnElement[bool]]:
    """Return the conditions of the period of a filter, on a column with ids of files."""
    # By the id, which begins with its moment: so every index that ends with it serves the period too.
    conditions = []
    if wanted.created_after is not None:
        conditions.append(column >= first_id("file", wanted.created_after))
    if wanted.created_before is not None:
        conditions.append(column < first_id("file", wanted.created_before))
    return conditions


def has_reason(tenant_id: str, reason: str, file_id: ColumnElement[str] = _columns.file_id) -> ColumnElement[bool]:
    """Return the condition that the upload of a file was put into quarantine for a reason."""
    columns = decisions.c
    # As a literal: with a parameter in its place, no planner would know that the index holds every such row.
    is_found = (columns.outcome == literal("quarantined", literal_execute=True), columns.reason == reason)
    newest = (
        select(columns.file_id)
        .where(columns.tenant_id == tenant_id, *is_found, columns.file_id.is_not(None))
        .order_by(columns.report_id.desc())
        .limit(REASONS_SEARCHED)
    )
    return file_id.in_(select(newest.subquery().c.file_id))


def _compared(ids: Select[Any], tenant_id: str) -> Select[Any]:
    """Return the rows of these ids, with the columns that they are compared by.

    They are read with the ids, not joined to them: for a join PostgreSQL may read the whole table.
    """
    if ids.get_final_froms() == [files]:
        return ids.with_only_columns(*_COMPARED)
    found = ids.subquery()
    of_tenant = _columns.tenant_id == tenant_id
    return select(*_COMPARED).join(found, found.c.file_id == _columns.file_id).where(of_tenant, IS_STORED)


def _conditions(columns: _Columns, tenant_id: str, wanted: FileFilter) -> list[ColumnElement[bool]]:
    """Return what each row is compared with."""
    conditions = period(columns.file_id, wanted)
    for name in ("context_key", "uploaded_by", "sha256", "content_type"):
        value = getattr(wanted, name)
        if value is not None:
            conditions.append(columns[name] == value)
    if wanted.contexts:
        conditions.append(columns.context_key.in_(wanted.contexts))
    if wanted.filename is not None:
        lowered = func.lower(columns.original_filename)
        # SQLite folds the case of ASCII letters alone.
        conditions.append(
            or_(
                lowered.contains(wanted.filename.lower(), autoescape=True),
                columns.original_filename == wanted.filename,
            )
        )
    if wanted.min_size is not None:
        conditions.append(columns.size_bytes >= wanted.min_size)
    if wanted.status is not None:
        is_marked = columns.quarantined_at.is_not(None)
        conditions.append(is_marked if wanted.status == "quarantined" else ~is_marked)
    if wanted.reason is not None:
        conditions.append(has_reason(tenant_id, wanted.reason, columns.file_id))
    for name, value in wanted.metadata:
        conditions.append(
            exists().where(
                file_metadata.c.tenant_id == tenant_id,
                file_metadata.c.file_id == columns.file_id,
                file_metadata.c.name == name,
                file_metadata.c.value == value,
            )
        )
    return conditions


def _in_order(keys: Sequence[ColumnElement[Any]], *, descending: bool) -> list[ColumnElement[Any]]:
    return [key.desc() if descending else key.asc() for key in keys]


async def _count(connection: Connection, ids: Select[Any], limit: int) -> int:
    counted = ids.limit(limit).subquery()
    return int((await connection.execute(select(func.count()).select_from(counted))).scalar_one())
