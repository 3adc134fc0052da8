"""The scanner engine `clamd`: what one or several ClamAV daemons say, as results. Which of them is asked is decided in `clamd_pool`."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Final

from sluice.engines.health import EngineHealth, EngineState
from sluice.engines.scanner.clamd_answers import Verdict, Version
from sluice.engines.scanner.clamd_member import Care, Member
from sluice.engines.scanner.clamd_pool import ClamdPool, Deadlines, Heard, NoVerdict
from sluice.engines.scanner.clamd_talk import Patience
from sluice.engines.scanner.policy import EncryptedPolicy
from sluice.engines.scanner.protocol import Clean, Edition, Incomplete, Infected, ScanResult, Unavailable
from sluice.kit.clock import Clock, utc_now
from sluice.kit.sealed import Sealed

_NAME: Final = "clamd"
_LARGEST_BYTES: Final = 500 * 1024**2
"""The largest file that any context takes."""


class ClamdScanner:
    """Scans with several clamds. A scan may be repeated, so a fault of one costs time, not the upload.

    `addresses` are `unix:/path` or `tcp:host:port`; `concurrency` scans are under way at each. A verdict takes at most `base_seconds` plus the
    size divided by `bytes_per_second`, never more than `scan_seconds`, all waiting included. One that shows no sign of life for
    `stall_seconds` is left for another that does. `encrypted` says what becomes of `Heuristics.Encrypted.*`. Signatures older than
    `signature_age` are told by `health`. Raises `ValueError` for an address that is none, and for no address.
    """

    name = _NAME

    def __init__(
        self,
        addresses: Sequence[str],
        *,
        connect_seconds: float = 2.0,
        stall_seconds: float = 10.0,
        base_seconds: float = 30.0,
        bytes_per_second: float = 4_000_000.0,
        scan_seconds: float = 300.0,
        concurrency: int = 8,
        care: Care | None = None,
        encrypted: EncryptedPolicy = "allow",
        largest_bytes: int = _LARGEST_BYTES,
        signature_age: timedelta = timedelta(days=7),
        folder: Path | None = None,
        clock: Clock = utc_now,
    ) -> None:
        self._pool = ClamdPool(
            addresses,
            Patience(connect_seconds, stall_seconds),
            care or Care(),
            Deadlines(base_seconds, bytes_per_second, scan_seconds),
            concurrency=concurrency,
            largest=largest_bytes,
            folder=folder,
        )
        self._find_out_seconds = 2 * connect_seconds + stall_seconds
        self._concurrency = concurrency
        self._encrypted: EncryptedPolicy = encrypted
        self._signature_age = signature_age
        self._clock = clock

    @property
    def edition(self) -> Edition | None:
        """The newest signatures of those in service, None where none has a number."""
        versions = [version for version in self._versions() if version.signatures]
        newest = max(versions, key=lambda version: int(version.signatures), default=None)
        return None if newest is None else Edition(_engine(newest), newest.signatures)

    @property
    def reach(self) -> int | None:
        """Bytes of the largest file that every clamd in service scans to its end; None while that is not known."""
        found = [member.known for member in self._pool.members if member.known is not None]
        if not found or not all(known.reach_is_found for known in found):
            return None
        return min(known.reach for known in found)

    async def scan(self, sealed: Sealed, *, tenant_id: str) -> ScanResult:
        """Scan all of the bytes; `Unavailable` when no daemon gave an answer that can be understood in time."""
        try:
            heard = await self._pool.ask(sealed, tenant_id=tenant_id)
        except NoVerdict as none:
            return Unavailable(str(none), _NAME)
        return self._result(heard)

    async def start(self) -> None:
        """Look at every clamd, and watch them from now on. Returns when it is known which are well, at the latest after some seconds."""
        try:
            async with asyncio.timeout(self._find_out_seconds):
                await self._pool.start()
        except TimeoutError:
            return  # those that are slow come into service when they answer

    @property
    def tells_limits(self) -> bool:
        """Whether every clamd in service says when it skipped something. The OK of one that does not is never believed."""
        return all(member.known.names_limits for member in self._pool.members if member.known is not None)

    async def find_reach(self, seconds: float) -> None:
        """Wait, at most `seconds`, until `reach` is known."""
        try:
            async with asyncio.timeout(seconds):
                await self._pool.reach_found()
        except TimeoutError:
            return

    def is_quick(self, number: int) -> bool:
        """Answer whether the clamd of that number, counted from 0, is in service and shows signs of life."""
        member = self._pool.members[number]
        return member.in_service and not member.slow

    async def health(self) -> EngineHealth:
        """Answer `down` when no daemon is in service, `degraded` when one is away, slow, too lenient, or has old signatures."""
        await self.start()
        members, places = self._pool.members, self._pool.places
        complaints = [f"{member.address}: {complaint}" for member in members if (complaint := self._complaint(member))]
        in_service = sum(member.in_service for member in members)
        state = EngineState.DOWN if not in_service else EngineState.DEGRADED if complaints else EngineState.UP
        return EngineHealth(
            kind="scanner",
            name=_NAME,
            state=state,
            version=", ".join(sorted({_full(version) for version in self._versions()})),
            detail="; ".join(complaints),
            limits={
                "daemons": len(members),
                "in_service": in_service,
                "concurrency": self._concurrency,
                "running": places.running,
                "waiting": places.waiting,
                "encrypted": self._encrypted,
                "scanned_bytes": self.reach if self.reach is not None else "unknown",
                **self._signatures(),
            },
        )

    async def aclose(self) -> None:
        """Refuse further scans and end the watches. A second call is a no-op."""
        await self._pool.aclose()

    def _result(self, heard: Heard) -> ScanResult:
        said, version, by = heard.said, heard.known.version, heard.address
        engine, signatures = _engine(version), version.signatures
        if said.verdict is Verdict.INFECTED:
            return Infected(said.detail, engine, signatures, heard.ms, member=by)
        may_pass = said.verdict is Verdict.CLEAN or (said.verdict is Verdict.ENCRYPTED and self._encrypted == "allow")
        if not may_pass:
            return Incomplete(said.detail, engine, signatures, heard.ms, member=by)
        if not heard.known.names_limits:
            return Incomplete(
                "this clamd does not tell what it skips: set AlertExceedsMax yes", engine, signatures, heard.ms, member=by
            )
        return Clean(engine, signatures, heard.ms, member=by)

    def _versions(self) -> list[Version]:
        return [member.known.version for member in self._pool.members if member.known is not None]

    def _signatures(self) -> dict[str, int | str]:
        edition = self.edition
        if edition is None:
            return {"signatures": "unknown"}
        ages = [self._clock() - version.built for version in self._versions() if version.built is not None]
        hours = {} if not ages else {"signature_age_hours": int(max(ages).total_seconds() // 3600)}
        return {"signatures": edition.signatures, **hours}

    def _complaint(self, member: Member) -> str:
        known = member.known
        if known is None:
            return member.fault
        old = known.version.built is not None and self._clock() - known.version.built > self._signature_age
        return "; ".join(
            complaint
            for complaint, applies in (
                ("shows no sign of life at the moment: it may be loading signatures", member.slow),
                ("says OK of what it skips: set AlertExceedsMax yes", not known.names_limits),
                (f"its signatures are older than {self._signature_age.days} days: see freshclam", old),
            )
            if applies
        )


def _engine(version: Version) -> str:
    return f"{_NAME} {version.engine}"


def _full(version: Version) -> str:
    return f"ClamAV {version.engine}" + (f"/{version.signatures}" if version.signatures else "")
