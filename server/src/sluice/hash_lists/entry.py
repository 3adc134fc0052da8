"""The values of hash lists: an entry, its digest, and the entry that a file was found on."""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Final, Literal, Self

HashList = Literal["deny", "allow"]
LISTS: Final[tuple[HashList, ...]] = ("allow", "deny")
Algorithm = Literal["md5", "sha1", "sha256"]
# By the length of a digest in bytes.
ALGORITHMS: Final[Mapping[int, Algorithm]] = MappingProxyType({16: "md5", 20: "sha1", 32: "sha256"})
NAMES: Final[Mapping[Algorithm, str]] = MappingProxyType({"md5": "MD5", "sha1": "SHA-1", "sha256": "SHA-256"})
NO_ALGORITHMS: Final = frozenset[Algorithm]()
EXPECTED_DIGEST: Final = "a SHA-256, SHA-1 or MD5 in hexadecimal digits"
# Two files with the same MD5 or SHA-1 can be made: one that is harmless, to be allowed, and one that is not.
WEAK_ALLOW: Final = "allow entries need a SHA-256"
_DIGEST: Final = re.compile(r"(?:sha256:|sha1:|md5:)?([0-9a-fA-F]{64}|[0-9a-fA-F]{40}|[0-9a-fA-F]{32})", re.ASCII)


def parse_digest(text: str) -> bytes | None:
    """Return the digest of its hexadecimal form, which may begin with `sha256:`; None if it is none."""
    found = _DIGEST.fullmatch(text)
    return None if found is None else bytes.fromhex(found[1])


def parse_moment(text: str) -> datetime:
    """Return the moment of its ISO 8601 form, in UTC; one without a zone is in UTC.

    Raise `ValueError` for any other text, and for a moment that is in no year from 1 to 9999 of UTC.
    """
    moment = datetime.fromisoformat(text)
    try:
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except OverflowError as fault:
        raise ValueError("a moment beyond the years of UTC") from fault


@dataclass(frozen=True, slots=True)
class ListedAlgorithms:
    """The algorithms of the digests on each list, of a tenant and of the installation together."""

    deny: frozenset[Algorithm] = NO_ALGORITHMS
    allow: frozenset[Algorithm] = NO_ALGORITHMS

    @property
    def all(self) -> frozenset[Algorithm]:
        """The algorithms of the digests on any list; empty if there are no entries."""
        return self.deny | self.allow

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the algorithms of their text, as in `allow:sha256,deny:md5`."""
        words = set(text.split(","))
        deny, allow = (
            frozenset(algorithm for algorithm in NAMES if f"{on}:{algorithm}" in words) for on in ("deny", "allow")
        )
        return cls(deny, allow)

    def __str__(self) -> str:
        kinds = [f"allow:{algorithm}" for algorithm in self.allow] + [f"deny:{algorithm}" for algorithm in self.deny]
        return ",".join(sorted(kinds))


NO_ENTRIES: Final = ListedAlgorithms()


@dataclass(frozen=True, slots=True)
class HashEntry:
    """One entry of a tenant, or of the installation, whose `tenant_id` is `INSTALLATION`.

    A file with this digest is denied, or not scanned for malware, until `expires_at`.
    """

    tenant_id: str
    digest: bytes
    list: HashList
    reason: str | None
    added_by_id: str
    added_by_name: str
    created_at: datetime
    expires_at: datetime | None

    @property
    def algorithm(self) -> Algorithm:
        """The algorithm of the digest, by its length."""
        return ALGORITHMS[len(self.digest)]


@dataclass(frozen=True, slots=True)
class EntryFilter:
    """A filter of entries; None matches any."""

    list: HashList | None = None
    algorithm: Algorithm | None = None
    digest: bytes | None = None
    added_by_id: str | None = None


@dataclass(frozen=True, slots=True)
class ListedHash:
    """An entry that a file, or one of its members, was found on. It holds no name of a person.

    `digest` is in hexadecimal digits; `member` is the name of the member, empty for the file itself.
    """

    digest: str
    list: HashList
    reason: str | None
    of_installation: bool
    member: str = ""

    @property
    def algorithm(self) -> Algorithm:
        """The algorithm of the digest, by its length."""
        return ALGORITHMS[len(self.digest) // 2]


def choose(found: Collection[ListedHash]) -> ListedHash | None:
    """Return the entry that decides about a file: one that denies it before one that allows it, its tenant's own first.

    None if there is no entry.
    """
    return min(found, key=lambda entry: (entry.list == "allow", entry.of_installation, entry.digest), default=None)
