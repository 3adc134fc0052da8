"""All queries of hash lists. Entries and their counts change together, by one transaction of a tenant at a time."""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Final

from sqlalchemy import JSON, ColumnElement, delete, exists, func, literal_column, or_, select, text, update
from sqlalchemy.dialects.postgresql import insert as postgres_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert

from sluice.db.database import Database
from sluice.db.rls import INSTALLATION
from sluice.db.schema import hash_entries, hash_entry_counts
from sluice.db.sql import AnyRow, Connection, now
from sluice.db.statement import Statement
from sluice.hash_lists.entry import (
    ALGORITHMS,
    LISTS,
    EntryFilter,
    HashEntry,
    HashList,
    ListedAlgorithms,
    ListedHash,
)
from sluice.kit.paging import Page, PageRequest

MOST_LISTED: Final = 10_000  # entries of a list that can be paged to
MOST_COMPARED: Final = 100_000  # of the newest entries, those that are compared with a filter that is in no index
MOST_ASKED: Final = 1000  # digests of one statement

_KEY: Final = ("tenant_id", "digest")
_columns = hash_entries.c
_ENTRY = [_columns[name] for name in HashEntry.__slots__]
_counts = hash_entry_counts.c
_IS_ALLOWED: ColumnElement[bool] = _columns.list == literal_column("'allow'")  # as the condition of its index has it
_IS_EXPIRED = _columns.expires_at <= now()
ANY_EXPIRED: Final = exists().where(_IS_EXPIRED)

# The digests of an upload, and of members of it, that are on a list of its tenant or of the installation. SQLite takes
# no lists: it gets the digests of each length one behind another.
LISTED_SQL: Final = f"""
SELECT coalesce(json_agg(json_build_array(encode(digest, 'hex'), list, reason, tenant_id = '{INSTALLATION}')),
                '[]'::json) AS entries
  FROM hash_entries
 WHERE tenant_id IN (:tenant_id, '{INSTALLATION}')
   AND digest = ANY(:digests::bytea[])
   AND (expires_at IS NULL OR expires_at > now())
"""  # noqa: S608  (composed of constants)
_FIND_SQLITE: Final = f"""
WITH RECURSIVE numbers (number) AS (
    SELECT 0 UNION ALL SELECT number + 1 FROM numbers WHERE number + 1 < :most
),
asked (digest) AS (
    SELECT substr(:sha256, 32 * number + 1, 32) FROM numbers WHERE 32 * number < length(:sha256)
    UNION ALL
    SELECT substr(:sha1, 20 * number + 1, 20) FROM numbers WHERE 20 * number < length(:sha1)
    UNION ALL
    SELECT substr(:md5, 16 * number + 1, 16) FROM numbers WHERE 16 * number < length(:md5)
)
SELECT json_group_array(json_array(lower(hex(digest)), list, reason, tenant_id = '{INSTALLATION}')) AS entries
  FROM hash_entries
 WHERE tenant_id IN (:tenant_id, '{INSTALLATION}')
   AND digest IN (SELECT digest FROM asked)
   AND (expires_at IS NULL OR expires_at > strftime('%Y-%m-%d %H:%M:%f000', 'now'))
"""  # noqa: S608  (composed of constants)
# One statement for all entries of a batch: an import writes millions.
_PUT_POSTGRES: Final = text(
    """
INSERT INTO hash_entries AS known (tenant_id, digest, list, reason, added_by_id, added_by_name, created_at, expires_at)
SELECT CAST(:tenant_id AS varchar), given.*
  FROM unnest(CAST(:digest AS bytea[]), CAST(:list AS varchar[]), CAST(:reason AS varchar[]),
              CAST(:added_by_id AS varchar[]), CAST(:added_by_name AS varchar[]), CAST(:created_at AS timestamptz[]),
              CAST(:expires_at AS timestamptz[])) AS given
ON CONFLICT (tenant_id, digest) DO UPDATE
   SET list = excluded.list, reason = excluded.reason, added_by_id = excluded.added_by_id,
       added_by_name = excluded.added_by_name, created_at = excluded.created_at, expires_at = excluded.expires_at
 WHERE known.tenant_id = :tenant_id
"""
)
_LISTED: Final = Statement(postgres=LISTED_SQL, sqlite=[_FIND_SQLITE], types={"entries": JSON()})


async def find_listed(database: Database, tenant_id: str, digests: Sequence[bytes]) -> Sequence[ListedHash]:
    """Return the entries of a tenant and of the installation with one of the digests, at most `MOST_ASKED`.

    One statement, by the primary key. Raise `DatabaseUnavailable`.
    """
    of_length = {length: b"".join(one for one in digests if len(one) == length) for length in ALGORITHMS}
    values: dict[str, Any] = {"tenant_id": tenant_id, "digests": list(digests), "most": len(digests)}
    values |= {algorithm: of_length[length] for length, algorithm in ALGORITHMS.items()}
    row = await database.fetch(_LISTED, values)
    entries = [] if row is None else row["entries"]
    return [ListedHash(digest, on, reason, bool(of_installation)) for digest, on, reason, of_installation in entries]


@dataclass(frozen=True, slots=True)
class Written:
    """How many entries were added, how many that were there before were written again, and how many there are now."""

    added: int
    changed: int
    total: int


async def put(connection: Connection, tenant_id: str, entries: Sequence[HashEntry]) -> Written:
    """Write entries of one tenant, each with another digest; an entry with the same digest is replaced."""
    await _lock(connection, tenant_id)
    known = await _load_lists(connection, tenant_id, [entry.digest for entry in entries])
    if connection.dialect.name == "postgresql":
        of_each = (name for name in HashEntry.__slots__ if name != "tenant_id")
        arrays: dict[str, Any] = {name: [getattr(entry, name) for entry in entries] for name in of_each}
        await connection.execute(_PUT_POSTGRES, {"tenant_id": tenant_id, **arrays})
    else:
        statement = sqlite_insert(hash_entries)
        changed = {name: statement.excluded[name] for name in HashEntry.__slots__ if name not in _KEY}
        statement = statement.on_conflict_do_update(index_elements=_KEY, set_=changed)
        await connection.execute(
            statement, [{name: getattr(one, name) for name in HashEntry.__slots__} for one in entries]
        )
    sums = Counter((entry.list, len(entry.digest)) for entry in entries)
    sums.subtract((on, len(digest)) for digest, on in known.items())
    await _count(connection, tenant_id, sums)
    total = await _load_total(connection, tenant_id, EntryFilter())
    return Written(len(entries) - len(known), len(known), total)


async def remove(connection: Connection, tenant_id: str, digests: Collection[bytes]) -> Sequence[bytes]:
    """Delete entries of one tenant; return the digests of those that were there."""
    await _lock(connection, tenant_id)
    is_one = (_columns.tenant_id == tenant_id, _columns.digest.in_(list(digests)))
    gone = await connection.execute(delete(hash_entries).where(*is_one).returning(_columns.digest, _columns.list))
    rows = gone.all()
    await _count(connection, tenant_id, _taken(rows))
    return [row.digest for row in rows]


async def find(connection: Connection, tenant_id: str, digest: bytes) -> HashEntry | None:
    """Return one entry of a tenant, also one whose time has passed; None if there is none."""
    query = select(*_ENTRY).where(_columns.tenant_id == tenant_id, _columns.digest == digest)
    row = (await connection.execute(query)).one_or_none()
    return None if row is None else _entry(row)


async def load_algorithms(connection: Connection, tenant_id: str) -> ListedAlgorithms:
    """Return of which algorithms there are digests on lists of a tenant and of the installation."""
    owners = _counts.tenant_id.in_([tenant_id, INSTALLATION])
    query = select(_counts.list, _counts.algorithm).where(owners, _counts.entries > 0).distinct()
    rows = (await connection.execute(query)).all()
    return ListedAlgorithms.parse(",".join(f"{row.list}:{row.algorithm}" for row in rows))


async def list_page(
    connection: Connection, tenant_id: str, wanted: EntryFilter, request: PageRequest
) -> Page[HashEntry]:
    """Return one page of a tenant's entries, newest first.

    The total of a whole list is exact. Other filters are compared with the newest `MOST_COMPARED` entries, of which the
    total counts at most `MOST_LISTED`.
    """
    if wanted.digest is not None:
        found = await find(connection, tenant_id, wanted.digest)
        is_one = found is not None and _meets(found, wanted)
        return Page((found,) if found is not None and is_one and request.page == 1 else (), request, int(is_one))
    own = (_columns.tenant_id == tenant_id,)
    conditions = _conditions(tenant_id, wanted)
    newest = (_columns.created_at.desc(), _columns.digest.desc())
    query = select(*_ENTRY).where(*own, *conditions).order_by(*newest).offset(request.offset).limit(request.page_size)
    rows = (await connection.execute(query)).all()
    if wanted.algorithm is None and wanted.added_by_id is None:
        total = await _load_total(connection, tenant_id, wanted)
    else:
        counted = select(_columns.digest).where(*own, *conditions).limit(MOST_LISTED).subquery()
        total = int((await connection.execute(select(func.count()).select_from(counted))).scalar_one())
    return Page(tuple(_entry(row) for row in rows), request, total)


async def delete_expired(connection: Connection, limit: int) -> int:
    """Delete entries of all tenants whose time has passed, at most `limit`; return how many."""
    query = select(_columns.tenant_id, _columns.digest).where(_IS_EXPIRED).order_by(_columns.expires_at).limit(limit)
    rows = (await connection.execute(query)).all()
    deleted = 0
    for tenant_id in sorted({row.tenant_id for row in rows}):
        await _lock(connection, tenant_id)
        digests = [row.digest for row in rows if row.tenant_id == tenant_id]
        own = (_columns.tenant_id == tenant_id, _columns.digest.in_(digests), _IS_EXPIRED)
        gone = await connection.execute(delete(hash_entries).where(*own).returning(_columns.digest, _columns.list))
        found = gone.all()
        await _count(connection, tenant_id, _taken(found))
        deleted += len(found)
    return deleted


async def _lock(connection: Connection, tenant_id: str) -> None:
    """Hold the counts of a tenant until the transaction ends, so that they agree with its entries."""
    kinds = product(sorted(LISTS), sorted(ALGORITHMS.values()))
    rows = [{"tenant_id": tenant_id, "list": on, "algorithm": algorithm, "entries": 0} for on, algorithm in kinds]
    upsert = sqlite_insert if connection.dialect.name == "sqlite" else postgres_insert
    statement = upsert(hash_entry_counts).values(rows)
    held = statement.on_conflict_do_update(
        index_elements=["tenant_id", "list", "algorithm"], set_={"entries": _counts.entries}
    )
    await connection.execute(held)


async def _count(connection: Connection, tenant_id: str, sums: Counter[tuple[HashList, int]]) -> None:
    for (on, length), change in sorted(sums.items()):
        if change:
            is_one = (_counts.tenant_id == tenant_id, _counts.list == on, _counts.algorithm == ALGORITHMS[length])
            await connection.execute(update(hash_entry_counts).where(*is_one).values(entries=_counts.entries + change))


def _taken(rows: Iterable[AnyRow]) -> Counter[tuple[HashList, int]]:
    sums: Counter[tuple[HashList, int]] = Counter()
    sums.subtract((row.list, len(row.digest)) for row in rows)
    return sums


async def _load_lists(connection: Connection, tenant_id: str, digests: Sequence[bytes]) -> dict[bytes, HashList]:
    is_one = (_columns.tenant_id == tenant_id, _columns.digest.in_(list(digests)))
    query = select(_columns.digest, _columns.list).where(*is_one)
    return {row.digest: row.list for row in (await connection.execute(query)).all()}


async def _load_total(connection: Connection, tenant_id: str, wanted: EntryFilter) -> int:
    conditions = [_counts.tenant_id == tenant_id]
    if wanted.list is not None:
        conditions.append(_counts.list == wanted.list)
    query = select(func.coalesce(func.sum(_counts.entries), 0)).where(*conditions)
    return int((await connection.execute(query)).scalar_one())


def _conditions(tenant_id: str, wanted: EntryFilter) -> list[ColumnElement[bool]]:
    conditions: list[ColumnElement[bool]] = []
    if wanted.list == "allow":
        conditions.append(_IS_ALLOWED)
    elif wanted.list is not None:
        conditions.append(_columns.list == wanted.list)
    if wanted.algorithm is not None:
        length = next(length for length, name in ALGORITHMS.items() if name == wanted.algorithm)
        conditions.append(func.length(_columns.digest) == length)
    if wanted.added_by_id is not None:
        conditions.append(_columns.added_by_id == wanted.added_by_id)
    if wanted.algorithm is not None or wanted.added_by_id is not None:
        # Neither is in an index: only this many of the newest entries are read.
        own = select(_columns.created_at).where(_columns.tenant_id == tenant_id)
        oldest = own.order_by(_columns.created_at.desc()).offset(MOST_COMPARED).limit(1).scalar_subquery()
        conditions.append(or_(oldest.is_(None), _columns.created_at > oldest))
    return conditions


def _meets(entry: HashEntry, wanted: EntryFilter) -> bool:
    return (
        wanted.list in {None, entry.list}
        and wanted.algorithm in {None, entry.algorithm}
        and wanted.added_by_id in {None, entry.added_by_id}
    )


def _entry(row: AnyRow) -> HashEntry:
    return HashEntry(**{name: getattr(row, name) for name in HashEntry.__slots__})
