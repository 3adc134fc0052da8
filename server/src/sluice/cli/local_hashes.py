"""Hash lists on this machine: those of the installation in its database, for `sluice hashes` with `--installation`, and
one in a file, for `sluice check --hashes`.

Functions on the database return what the API would, so that `hashes` prints both alike.
"""

# ruff: noqa: PLC0415  (commands load their work when they run: `--help` must not wait for the database's library)

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

from sluice.cli.environment import on_database, operator_action
from sluice.hash_lists.entry import ALGORITHMS, ListedHash
from sluice_client.cli import output
from sluice_client.cli.output import CommandRefused, Exit

if TYPE_CHECKING:
    from sluice.hash_lists import HashEntry
    from sluice.hash_lists.service import EntryDraft, HashLists
    from sluice.uploads.examined import ExamineFact
    from sluice.uploads.values import HashListFact
    from sluice_inspect.sandbox import Sandbox
    from sluice_inspect.sandbox.sealed import Sealed

_PAGE: Final = 100
_PIECE_BYTES: Final = 1024**2
T = TypeVar("T")


def add(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Add one entry, and return it."""
    from sluice.db.rls import INSTALLATION
    from sluice.hash_lists.entry import EXPECTED_DIGEST, parse_digest, parse_moment
    from sluice.hash_lists.service import EntryDraft

    digest = parse_digest(entry["digest"])
    if digest is None:
        raise CommandRefused(f"{entry['digest']}: expected {EXPECTED_DIGEST}.", Exit.USAGE)
    try:
        expires_at = parse_moment(entry["expires_at"]) if "expires_at" in entry else None
    except ValueError as fault:
        raise CommandRefused("--expires-at: expected a moment such as 2026-01-31T12:00:00Z.", Exit.USAGE) from fault
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


class LocalHashes:
    """The entries of a CSV file, in memory."""

    def __init__(self, entries: "Mapping[bytes, EntryDraft]") -> None:
        self._entries = entries
        self._algorithms = frozenset(ALGORITHMS[len(digest)] for digest in entries)
        self._denied = frozenset(ALGORITHMS[len(one.digest)] for one in entries.values() if one.list == "deny")

    async def look_up(
        self, sealed: "Sealed", examined: "ExamineFact", sandbox: "Sandbox", tenant_id: str
    ) -> "HashListFact":
        """Return the entries that the file and its members are on. Raise `ServiceUnavailable` without a checker."""
        from sluice.uploads.hash_lookup import digests_of, look_up_members, may_hold_files
        from sluice.uploads.values import HashListFact

        async def find(digests: "Sequence[bytes]") -> "Sequence[ListedHash]":
            found = [self._entries[digest] for digest in digests if digest in self._entries]
            return [ListedHash(one.digest.hex(), one.list, one.reason, of_installation=False) for one in found]

        own = await find(await digests_of(sealed, self._algorithms))
        if not self._denied or not may_hold_files(examined):
            return HashListFact(tuple(own))
        members = await look_up_members(find, sandbox, tenant_id, sealed, self._denied)
        return replace(members, entries=(*own, *members.entries))


def read_hashes(path: Path) -> LocalHashes:
    """Return the entries of a CSV file. Raise `CommandRefused` that names the line that is wrong."""
    from sluice.hash_lists.service import BrokenLine, parse_line
    from sluice.kit.clock import utc_now

    entries, skipped, now = {}, 0, utc_now()
    try:
        with path.open(encoding="utf-8-sig") as file:
            for number, line in enumerate(file, 1):
                draft = parse_line(number, line.rstrip("\r\n"), "deny")
                if draft is not None and draft.is_over(now):
                    skipped += 1
                elif draft is not None:
                    entries[draft.digest] = draft
    except BrokenLine as fault:
        raise CommandRefused(f"{path}: {fault}.", Exit.USAGE) from fault
    except (OSError, UnicodeDecodeError) as fault:
        raise CommandRefused(f"{path} cannot be read as UTF-8.", Exit.USAGE) from fault
    if skipped:
        output.say(f"{path}: {skipped} lines were skipped that have expired.")
    return LocalHashes(entries)


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
