"""Operations on hash lists: add, remove, find and list entries, and import them from CSV.

Entries of the installation are those of the tenant `INSTALLATION`; only the operator's commands change them.
"""

import csv
from collections.abc import AsyncIterable, AsyncIterator, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from sluice.audit import AuditAction
from sluice.audit.repository import append, append_all
from sluice.db.database import Database, DatabaseUnavailable
from sluice.db.rls import ALL_TENANTS, INSTALLATION, RlsScope
from sluice.db.sql import Connection
from sluice.errors import ImportInterrupted, ImportStopped, Invalid, NotFound, TooManyRequests
from sluice.hash_lists import repository
from sluice.hash_lists.entry import (
    EXPECTED_DIGEST,
    LISTS,
    WEAK_ALLOW,
    EntryFilter,
    HashEntry,
    HashList,
    ListedHash,
    choose,
    parse_digest,
    parse_moment,
)
from sluice.kit.clock import Clock, utc_now
from sluice.kit.ids import new_id
from sluice.kit.paging import Page, PageRequest
from sluice.kit.text import is_plain
from sluice.observe.log import log

MOST_LISTED: Final = repository.MOST_LISTED
MOST_OF_TENANT: Final = 10_000_000  # entries
LONGEST_REASON: Final = 500
_LONGEST_LINE: Final = 4096  # bytes
_SHA256_BYTES: Final = 32
_BATCH: Final = 1000  # entries of one transaction of an import
_COLUMNS: Final = ["digest", "list", "reason", "expires_at"]
_RETRY_SECONDS: Final = 10.0
_SHOWN: Final = 80  # characters of a value that is wrong


@dataclass(frozen=True, slots=True)
class EntryDraft:
    """An entry to be added."""

    digest: bytes
    list: HashList = "deny"
    reason: str | None = None
    expires_at: datetime | None = None

    def is_over(self, now: datetime) -> bool:
        """Return whether its time has passed."""
        return self.expires_at is not None and self.expires_at <= now


@dataclass(frozen=True, slots=True)
class Imported:
    """The result of an import: `lines` of the file were read, of which those that are empty have no entry.

    `skipped` are lines whose `expires_at` has passed.
    """

    import_id: str
    lines: int
    added: int
    changed: int
    skipped: int = 0


class BrokenLine(ValueError):
    """A line of an import is no entry. `str()` names its number, what was found, and what is expected."""

    def __init__(self, number: int, found: str, expected: str) -> None:
        shown = found if len(found) <= _SHOWN else f"{found[:_SHOWN]}…"
        super().__init__(f"line {number}: expected {expected}, found {shown!r}")


class TooManyEntries(Exception):
    """A tenant would have more entries than it may. `str()` says how many."""


class HashLists:
    """The hash lists of all tenants, one tenant at a time."""

    def __init__(self, database: Database, clock: Clock = utc_now) -> None:
        self._database = database
        self._clock = clock
        self._importing: set[str] = set()  # tenants with an import under way in this process

    async def add(self, by: AuditAction, drafts: Sequence[EntryDraft]) -> Sequence[HashEntry]:
        """Add entries, or write them again; return them as they are now. Raise `Invalid`."""
        now = self._clock()
        last = {draft.digest: draft for draft in drafts}
        for number, draft in enumerate(drafts):
            problem = "an expires_at in the future" if draft.is_over(now) else _problem_of(draft)
            if problem is not None:
                raise Invalid(f"entries[{number}]: {problem}")
        entries = [_entry(by, draft, now) for draft in last.values()]
        try:
            async with self._database.transaction(_scope_of(by.tenant_id)) as connection:
                await _put(connection, by.tenant_id, entries)
                if by.tenant_id != INSTALLATION:
                    await append_all(connection, by, [entry.digest.hex() for entry in entries], now)
        except TooManyEntries as many:
            raise Invalid(f"entries: {many}") from many
        _log_of_installation(by, len(entries))
        return entries

    async def remove(self, by: AuditAction, digest: str) -> str:
        """Delete an entry, and return its digest in hexadecimal digits; raise `NotFound`."""
        raw = parse_digest(digest)
        async with self._database.transaction(_scope_of(by.tenant_id)) as connection:
            if raw is None or not await repository.remove(connection, by.tenant_id, [raw]):
                raise NotFound
            if by.tenant_id != INSTALLATION:
                await append(connection, by, raw.hex(), self._clock())
        _log_of_installation(by, 1)
        return raw.hex()

    async def list_page(self, tenant_id: str, wanted: EntryFilter, request: PageRequest) -> Page[HashEntry]:
        """Return one page of a tenant's own entries, newest first; raise `Invalid` for a page beyond the first 10,000
        entries.
        """
        if request.offset >= MOST_LISTED:
            raise Invalid(f"page: expected one of the first {MOST_LISTED} entries; use the filters")
        if not is_plain(wanted.added_by_id or ""):
            return Page((), request, 0)
        async with self._database.reading(_scope_of(tenant_id)) as connection:
            return await repository.list_page(connection, tenant_id, wanted, request)

    async def get(self, tenant_id: str, digest: str) -> HashEntry:
        """Return one entry of a tenant; raise `NotFound`."""
        raw = parse_digest(digest)
        async with self._database.reading(_scope_of(tenant_id)) as connection:
            found = None if raw is None else await repository.find(connection, tenant_id, raw)
        if found is None:
            raise NotFound
        return found

    async def get_denied(self, tenant_id: str, digest: str) -> ListedHash:
        """Return the entry of a tenant, or of the installation, that denies a SHA-256; raise `NotFound`."""
        raw = parse_digest(digest)
        found = await repository.find_listed(self._database, tenant_id, [] if raw is None else [raw])
        entry = choose(found)
        if entry is None or entry.list != "deny" or entry.algorithm != "sha256":
            raise NotFound
        return entry

    async def find_all(self, tenant_id: str, listed: Collection[ListedHash]) -> Mapping[str, HashEntry]:
        """Return those of the entries that are still there, by their digests in hexadecimal digits."""
        if not listed:
            return {}
        found = {}
        # In the tenant's scope, in which entries of the installation can be read.
        async with self._database.reading(tenant_id) as connection:
            for entry in listed:
                owner = INSTALLATION if entry.of_installation else tenant_id
                known = await repository.find(connection, owner, bytes.fromhex(entry.digest))
                if known is not None:
                    found[entry.digest] = known
        return found

    async def import_csv(
        self, by: AuditAction, chunks: AsyncIterable[bytes], *, default_list: HashList = "deny"
    ) -> Imported:
        """Add the entries of a CSV `digest[,list[,reason[,expires_at]]]`, as it comes in.

        Each `_BATCH` entries are one transaction. Raise `ImportStopped`, which says how many lines were applied, at the
        first line that is wrong or for which the tenant has no room, `ImportInterrupted`, which says the same, if the
        database is unavailable, or `TooManyRequests` if another import of the tenant is under way.
        """
        if by.tenant_id in self._importing:
            why = "An import of this tenant is under way already"
            raise TooManyRequests(errors=[why], retry_after=_RETRY_SECONDS, limit=1)
        self._importing.add(by.tenant_id)
        try:
            return await self._import(by, chunks, default_list)
        finally:
            self._importing.discard(by.tenant_id)

    async def _import(self, by: AuditAction, chunks: AsyncIterable[bytes], default_list: HashList) -> Imported:
        done = Imported(new_id("imp"), 0, 0, 0)
        batch: dict[bytes, EntryDraft] = {}
        number = 0
        try:
            async for number, line in _lines_of(chunks):
                draft = parse_line(number, line, default_list)
                if draft is not None and draft.is_over(self._clock()):
                    done = replace(done, skipped=done.skipped + 1)
                elif draft is not None:
                    batch[draft.digest] = draft
                if len(batch) == _BATCH:
                    done = await self._write(by, batch, done, number)
                    batch.clear()
            return await self._write(by, batch, done, number)
        except BrokenLine as broken:
            raise ImportStopped(str(broken), _applied(done)) from broken
        except TooManyEntries as many:
            raise ImportStopped(f"lines {done.lines + 1} to {number}: {many}", _applied(done)) from many
        except DatabaseUnavailable as fault:
            raise ImportInterrupted("The database is unavailable", _applied(done)) from fault

    async def _write(self, by: AuditAction, batch: Mapping[bytes, EntryDraft], done: Imported, lines: int) -> Imported:
        """Write the entries of an import up to the line `lines`; the first ones are entered in the audit log."""
        if not batch:
            return replace(done, lines=lines)
        now = self._clock()
        entries = [_entry(by, draft, now) for draft in batch.values()]
        async with self._database.transaction(_scope_of(by.tenant_id)) as connection:
            written = await _put(connection, by.tenant_id, entries)
            if by.tenant_id != INSTALLATION and not done.lines:
                await append(connection, by, done.import_id, now)
        _log_of_installation(by, len(entries))
        return replace(done, lines=lines, added=done.added + written.added, changed=done.changed + written.changed)


async def _put(connection: Connection, tenant_id: str, entries: Sequence[HashEntry]) -> repository.Written:
    """Write entries; raise `TooManyEntries`, after which the transaction must not commit."""
    written = await repository.put(connection, tenant_id, entries)
    if tenant_id != INSTALLATION and written.total > MOST_OF_TENANT:
        raise TooManyEntries(f"found {written.total} entries of the tenant, expected at most {MOST_OF_TENANT}")
    return written


def parse_line(number: int, line: str, default_list: HashList) -> EntryDraft | None:
    """Return the entry of a line, also one whose time has passed; None for an empty line, and for a first one that
    names the columns.

    Raise `BrokenLine`.
    """
    if not line.strip():
        return None
    digest = parse_digest(line.strip())
    if digest is not None and default_list == "deny":
        return EntryDraft(digest)
    try:
        (cells,) = csv.reader([line], strict=True)
    except (csv.Error, ValueError) as fault:
        raise BrokenLine(number, line, "a line of CSV") from fault
    cells = [cell.strip() for cell in cells]
    if number == 1 and cells[0].lower() == _COLUMNS[0]:
        return None
    if len(cells) > len(_COLUMNS):
        raise BrokenLine(number, line, f"at most {len(_COLUMNS)} columns: {', '.join(_COLUMNS)}")
    digest_text, list_text, reason, moment = [*cells, "", "", ""][: len(_COLUMNS)]
    digest = parse_digest(digest_text)
    if digest is None:
        raise BrokenLine(number, digest_text, EXPECTED_DIGEST)
    on = next((each for each in LISTS if each == (list_text.lower() or default_list)), None)
    if on is None:
        raise BrokenLine(number, list_text, "deny or allow")
    try:
        expires_at = parse_moment(moment) if moment else None
    except ValueError as fault:
        raise BrokenLine(number, moment, "a moment such as 2026-01-31T12:00:00Z") from fault
    draft = EntryDraft(digest, on, reason or None, expires_at)
    if problem := _problem_of(draft):
        raise BrokenLine(number, line, problem)
    return draft


async def _lines_of(chunks: AsyncIterable[bytes]) -> AsyncIterator[tuple[int, str]]:
    """Yield each line with its number, from 1; raise `BrokenLine` for one that is too long, or no UTF-8."""
    number, rest = 0, b""
    async for chunk in chunks:
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            number += 1
            yield number, _decoded(number, line)
        if len(rest) > _LONGEST_LINE:
            raise BrokenLine(number + 1, rest.decode(errors="replace"), f"a line of at most {_LONGEST_LINE} bytes")
    if rest:
        yield number + 1, _decoded(number + 1, rest)


def _decoded(number: int, line: bytes) -> str:
    try:
        return line.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r")
    except UnicodeDecodeError as fault:
        raise BrokenLine(number, line.decode(errors="replace"), "UTF-8") from fault


def _problem_of(draft: EntryDraft) -> str | None:
    """Return what is wrong with an entry, as what is expected; None if nothing is."""
    if draft.list == "allow" and len(draft.digest) != _SHA256_BYTES:
        return f"a SHA-256: {WEAK_ALLOW}"
    if draft.reason is not None and (len(draft.reason) > LONGEST_REASON or not is_plain(draft.reason)):
        return f"a reason of at most {LONGEST_REASON} characters without control characters"
    return None


def _applied(done: Imported) -> str:
    if not done.lines:
        return "Nothing of the file was applied"
    return f"Lines 1 to {done.lines} were applied: {done.added} entries added, {done.changed} changed"


def _entry(by: AuditAction, draft: EntryDraft, at: datetime) -> HashEntry:
    who = by.principal
    return HashEntry(
        by.tenant_id, draft.digest, draft.list, draft.reason, who.actor_id, who.actor_name, at, draft.expires_at
    )


def _scope_of(tenant_id: str) -> RlsScope:
    return ALL_TENANTS if tenant_id == INSTALLATION else tenant_id


def _log_of_installation(by: AuditAction, entries: int) -> None:
    """Log a change of the entries of the installation, which are in no tenant's audit log."""
    if by.tenant_id == INSTALLATION:
        log.info("hash_list_changed", action=by.action, actor_id=by.principal.actor_id, entries=entries)
