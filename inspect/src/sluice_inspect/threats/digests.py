"""The digests of everything that is packed in a file, for lists of hashes: the walk of the scan, without its rules."""

import hashlib
from collections.abc import Iterator
from typing import Any, Final

from sluice_inspect.member_digests import MOST_MEMBERS, pack_member
from sluice_inspect.source import RandomAccess, Source, read_pieces
from sluice_inspect.threats.budget import Meter, OverBudget, ScanBudget
from sluice_inspect.threats.walk import PartWriter, ThreatWalk

_BUDGET: Final = ScanBudget(max_members=MOST_MEMBERS)
_PIECE_BYTES: Final = 1024**2


class _Digests:
    """The digests of one member, whose bytes come in order."""

    def __init__(self, *, weak: bool) -> None:
        self._sha256 = hashlib.sha256()
        self._weak = [hashlib.md5(usedforsecurity=False), hashlib.sha1(usedforsecurity=False)] if weak else []

    def update(self, piece: bytes | bytearray | memoryview) -> None:
        for each in (self._sha256, *self._weak):
            each.update(piece)

    def pack(self, name: str) -> bytes:
        md5, sha1 = (each.digest() for each in self._weak) if self._weak else (b"", b"")
        return pack_member(name, md5, sha1, self._sha256.digest())


class _DigestWalk(ThreatWalk):
    """Writes a record of each member. `weak`: with its MD5 and its SHA-1, too."""

    def __init__(self, meter: Meter, writer: PartWriter, *, weak: bool) -> None:
        super().__init__(meter, everything=True)
        self._records = writer
        self._weak = weak
        self.members = 0

    def scan(
        self, source: RandomAccess, name: str, depth: int = 0, *, format_name: str = "", records_known: bool = False
    ) -> bool:
        if depth:
            digests = _Digests(weak=self._weak)
            for piece in read_pieces(source, piece_bytes=_PIECE_BYTES):
                digests.update(piece)
            self._record(name, digests)
        return super().scan(source, name, depth, format_name=format_name, records_known=records_known)

    def _scan_large(
        self, held: bytearray, rest: Iterator[bytes], name: str, depth: int, *, records_known: bool
    ) -> None:
        digests = _Digests(weak=self._weak)
        digests.update(held)

        def hashed() -> Iterator[bytes]:
            for piece in rest:
                digests.update(piece)
                yield piece

        try:
            super()._scan_large(held, hashed(), name, depth, records_known=records_known)
        finally:
            self._record(name, digests)

    def _apply_rules(self, *_arguments: Any) -> None:
        """Find nothing: a threat would end the walk."""

    def _record(self, name: str, digests: _Digests) -> None:
        if not self._records.write(digests.pack(name)):
            raise OverBudget(f"more than {MOST_MEMBERS} members")
        self.members += 1


def hash_members(fd: int, writer: PartWriter, *, weak: bool) -> dict[str, object]:
    """Write a record of each member of the file behind `fd`, which stays open and is not moved.

    Return their number as `members`, and as `why` a reason why not all that is packed in the file was hashed; `stopped`
    says whether that is a limit that the walk reached.
    """
    with Source(fd) as source:
        walk = _DigestWalk(Meter(_BUDGET, source.size), writer, weak=weak)
        why, stopped = "", False
        try:
            walk.scan(source, "")
        except OverBudget as limit:
            why, stopped = str(limit), True
        findings = walk.findings
        if not why and findings.encrypted:
            why = "a part behind a password"
        elif not why and (findings.unopened or findings.foreign):
            why = f"a packing that is not opened: {', '.join(sorted((*findings.unopened, *findings.foreign)))[:200]}"
        return {"members": walk.members, "why": why, "stopped": stopped}


def preload() -> None:
    """Use each hash once: a locked child cannot load what it needs."""
    digests = _Digests(weak=True)
    digests.update(b"x")
    digests.pack("")
