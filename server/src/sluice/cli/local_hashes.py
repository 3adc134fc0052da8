"""The hash lists of the installation in the database of this machine: `sluice hashes` with `--installation`.

Every function returns what the API would, so that `hashes` prints both alike.
"""

# ruff: noqa: PLC0415  (commands load their work when they run: `--help` must not wait for the database's library)

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

from sluice.cli.environment import on_database, operator_action
from sluice_client.cli.output import CommandRefused, Exit

if TYPE_CHECKING:
    from sluice.hash_lists import HashEntry
    from sluice.hash_lists.service import HashLists

_PAGE: Final = 100
_PIECE_BYTES: Final = 1024**2
T = TypeVar("T")


def add(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Add one entry, and return it."""
    from sluice.db.rls import INSTALLATION
    from sluice.hash_lists.entry import EXPECTED_DIGEST, parse_digest
    from sluice.hash_lists.service import EntryDraft

    digest = parse_digest(entry["digest"])
    if digest is None:
        raise CommandRefused(f"{entry['digest']}: expected {EXPECTED_DIGEST}.", Exit.USAGE)
    try:
        expires_at = datetime.fromisoformat(entry["expires_at"]) if "expires_at" in entry else None
    except ValueError as fault:
        raise CommandRefused("--expires-at: expected a moment such as 2026-01-31T12:00:00Z.", Exit.USAGE) from fault
    if expires_at is not None and expires_at.tzinfo is None:
        expires_at = expires_at.replace(tzinfo=UTC)
    draft = EntryDraft(digest, entry["list"], entry.get("reason"), expires_at)
    action = operator_action("hash_entry.added", INSTALLATION)
    (made,) = _on_lists(lambda lists: lists.add(action, [draft]))
    return _shown(made)


def remove(digest: str) -> dict[str, Any]:
    """Remove one entry."""
    from sluice.db.rls import INSTALLATION

    action = operator_action("hash_entry.removed", INSTALLATION)
    return {"digest": _on_lists(lambda lists: lists.remove(action, digest)), "removed": True}


def list_all(query: Mapping[str, Any], limit: int) -> list[dict[str, Any]]:
    """Return the newest entries, at most `limit`."""
    from sluice.db.rls import INSTALLATION
    from sluice.hash_lists import EntryFilter
    from sluice.hash_lists.entry import parse_digest
    from sluice.kit.paging import PageRequest

    digest = None if query.get("digest") is None else parse_digest(query["digest"])
    wanted = EntryFilter(query.get("list"), query.get("algorithm"), digest, query.get("added_by"))

    async def act(lists: "HashLists") -> "list[HashEntry]":
        found: list[HashEntry] = []
        for number in range(1, -(-limit // _PAGE) + 1):
            page = await lists.list_page(INSTALLATION, wanted, PageRequest(number, _PAGE))
            found += page.items
            if len(page.items) < _PAGE:
                break
        return found[:limit]

    return [_shown(entry) for entry in _on_lists(act)]


def import_file(path: Path, default_list: Literal["deny", "allow"]) -> dict[str, Any]:
    """Add the entries of a CSV file."""
    from dataclasses import asdict

    from sluice.db.rls import INSTALLATION

    async def pieces() -> AsyncIterator[bytes]:
        with path.open("rb") as file:
            while piece := file.read(_PIECE_BYTES):
                yield piece

    action = operator_action("hash_list.imported", INSTALLATION)
    return asdict(_on_lists(lambda lists: lists.import_csv(action, pieces(), default_list=default_list)))


def _shown(entry: "HashEntry") -> dict[str, Any]:
    return {
        "digest": entry.digest.hex(),
        "algorithm": entry.algorithm,
        "list": entry.list,
        "reason": entry.reason,
        "added_by": entry.added_by_id,
        "added_by_name": entry.added_by_name,
        "created_at": entry.created_at,
        "expires_at": entry.expires_at,
    }


def _on_lists(act: "Callable[[HashLists], Awaitable[T]]") -> T:
    from sluice.errors import NotFound, SluiceError
    from sluice.hash_lists.service import HashLists

    try:
        return on_database(lambda database: act(HashLists(database)))
    except NotFound as fault:
        raise CommandRefused("The installation has no entry with this digest.", Exit.NOT_FOUND) from fault
    except SluiceError as fault:
        raise CommandRefused(f"{fault.message} ({'; '.join(fault.errors)}).", Exit.USAGE) from fault
