"""Bodies of the hash list endpoints."""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Final, Literal, Self

from pydantic import ConfigDict, Field

from sluice.api.schemas.envelope import PLAIN, RequestBody, ResponseBody, expecting, is_none
from sluice.api.schemas.moment import Moment
from sluice.hash_lists import HashEntry, HashList
from sluice.hash_lists.entry import EXPECTED_DIGEST, Algorithm, parse_digest
from sluice.hash_lists.service import LONGEST_REASON, EntryDraft

MOST_ENTRIES: Final = 1000
_EXAMPLE: Final = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"

Digest = Annotated[
    str,
    Field(max_length=80, examples=[_EXAMPLE], description="SHA-256, SHA-1 or MD5 in hexadecimal digits."),
    expecting(EXPECTED_DIGEST, lambda text: parse_digest(text) is not None),
]


class NewHash(RequestBody):
    """An entry to be added."""

    model_config = ConfigDict(strict=False)

    digest: Digest
    list: HashList = Field(default="deny", description="`deny`: rejected; `allow`: not scanned for malware.")
    reason: Annotated[str, Field(max_length=LONGEST_REASON), PLAIN] | None = Field(
        default=None, description="Why; shown in reports, but not to senders."
    )
    expires_at: Moment | None = Field(default=None, description="From then on it has no effect. Null: never.")

    def to_draft(self) -> EntryDraft:
        """Return the entry as the service takes it."""
        return EntryDraft(parse_digest(self.digest) or b"", self.list, self.reason or None, self.expires_at)


class AddHashes(RequestBody):
    """Entries to be added. One with the digest of an entry that is there replaces it."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"entries": [{"digest": _EXAMPLE, "list": "deny", "reason": "INC-42"}]}]}
    )

    entries: list[NewHash] = Field(
        min_length=1, max_length=MOST_ENTRIES, description="The entries, of which the last one with a digest counts."
    )


class HashEntryOut(ResponseBody):
    """An entry of the tenant's hash lists."""

    digest: str = Field(description="In hexadecimal digits.")
    algorithm: Algorithm = Field(description="Of the digest.")
    list: HashList = Field(description="`deny` or `allow`.")
    reason: str | None = Field(description="Why; null if nothing was said.")
    added_by: str = Field(description="API key ID or user ID.")
    added_by_name: str = Field(description="The name of it.")
    created_at: datetime = Field(description="When it was added, or written again.")
    expires_at: datetime | None = Field(description="From then on it has no effect. Null: never.")

    @classmethod
    def of(cls, entry: HashEntry) -> Self:
        """Return an entry as it is shown."""
        return cls(**_shown(entry))


class HashAdded(HashEntryOut):
    """An entry that was added, and the stored files that it denies."""

    stored_files: int | None = Field(
        None,
        exclude_if=is_none,
        description="Of a SHA-256 that is denied: how many stored files have it, and are not in quarantine.",
    )
    quarantine_path: str | None = Field(
        None, exclude_if=is_none, description="A `POST` to it puts these files into quarantine, as a job."
    )

    @classmethod
    def of_added(cls, entry: HashEntry, stored: Mapping[str, int]) -> Self:
        """Return an entry; `stored` are the numbers of stored files by their SHA-256."""
        digest = entry.digest.hex()
        if entry.list != "deny" or entry.algorithm != "sha256":
            return cls(**_shown(entry))
        files = stored.get(digest, 0)
        path = f"/api/v1/hash-lists/{digest}/quarantine" if files else None
        return cls(**_shown(entry), stored_files=files, quarantine_path=path)


class HashesAdded(ResponseBody):
    """The entries as they are now."""

    entries: list[HashAdded] = Field(description="The entries, each digest once.")


class HashRemoved(ResponseBody):
    """An entry was removed."""

    digest: str = Field(description="In hexadecimal digits.")
    removed: Literal[True] = Field(default=True, description="Always true.")


class HashesImported(ResponseBody):
    """The result of an import: all lines were applied."""

    import_id: str = Field(description="Names the import in the audit log.")
    lines: int = Field(description="Lines of the file.")
    added: int = Field(description="Entries that are new.")
    changed: int = Field(description="Entries that were there before.")
    skipped: int = Field(description="Lines whose `expires_at` has passed, which added no entry.")


def _shown(entry: HashEntry) -> dict[str, Any]:
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
