"""The scanner engine `clamd`: ClamAV daemons look at a file while we look at what they do not see. What follows is decided in `clamd_verdict`.

Which daemon is asked is decided in `clamd_pool`; what is packed where they do not look is unpacked in the sandbox, and handed to them in turn.
"""

import asyncio
import time
from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Final

from sluice.engines.sandbox import Sandbox
from sluice.engines.sandbox.protocol import Job
from sluice.engines.sandbox.tray import Tray
from sluice.engines.scanner import clamd_verdict
from sluice.engines.scanner.clamd_address import reason
from sluice.engines.scanner.clamd_answers import Version
from sluice.engines.scanner.clamd_member import Care, Member
from sluice.engines.scanner.clamd_pool import ClamdPool, Deadlines, Heard, NoVerdict
from sluice.engines.scanner.clamd_talk import Patience
from sluice.engines.scanner.clamd_verdict import Scope
from sluice.engines.scanner.own_look import NOT_LOOKED, Glance, LookAway, OwnLook, laid_out, own_look
from sluice.engines.scanner.policy import EncryptedPolicy
from sluice.engines.scanner.protocol import Edition, ScanResult, Unavailable
from sluice.kit.clock import Clock, utc_now
from sluice.kit.health import EngineHealth, EngineState
from sluice.kit.sealed import Sealed

_NAME: Final = "clamd"
_LARGEST_BYTES: Final = 500 * 1024**2
"""The largest file that any context takes."""
_TRAY_BYTES: Final = 256 * 1024**2
_SMALL_TRAY_BYTES: Final = 8 * 1024**2
"""Each scan may lay out so much. What needs more is unpacked again, by `_LARGE_AT_ONCE` scans at a time: memory stays bounded."""
_LARGE_AT_ONCE: Final = 2
_CHECK_SECONDS: Final = 10.0
"""So long our look at a large file waits for the end of its check."""


@dataclass(frozen=True, slots=True)
class _Work:
    """One file to be scanned, and when that began."""

    sealed: Sealed
    tenant_id: str
    glance: Glance | None
    began: float

    @property
    def ms(self) -> float:
        return (time.perf_counter() - self.began) * 1000


class ClamdScanner:
    """Scans with several clamds, and with a child of `sandbox`, which is lent. A scan may be repeated: a fault of one costs time, not the upload.

    `addresses` are `unix:/path` or `tcp:host:port`; `concurrency` scans are under way at each. An answer of clamd takes at most `base_seconds` plus
    the size divided by `bytes_per_second`, a verdict on the file and its parts never more than `scan_seconds`, all waiting included. One that shows no sign of life for
    `stall_seconds` is left for another that does. What clamd does not see is unpacked into at most `tray_bytes` of memory a scan. `encrypted`
    says what becomes of what is behind a password. Signatures older than `signature_age` are told by `health`. Raises `ValueError` for an address that is none, and for no address.
    """

    name = _NAME

    def __init__(
        self,
        addresses: Sequence[str],
        sandbox: Sandbox,
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
        tray_bytes: int = _TRAY_BYTES,
        signature_age: timedelta = timedelta(days=7),
        folder: Path | None = None,
        clock: Clock = utc_now,
    ) -> None:
        self._sandbox = sandbox
        self._tray_bytes = tray_bytes
        self._large_trays = asyncio.Semaphore(_LARGE_AT_ONCE)
        self._scan_seconds = scan_seconds
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
        """The newest signatures of those in service; where none has a number, the engine alone if all have the same."""
        versions = self._versions()
        newest = max(
            (version for version in versions if version.signatures), key=lambda version: int(version.signatures), default=None
        )
        if newest is not None:
            return Edition(f"{_NAME} {newest.engine}", newest.signatures)
        engines = {version.engine for version in versions}
        return Edition(f"{_NAME} {engines.pop()}", "") if len(engines) == 1 else None

    @property
    def reach(self) -> int | None:
        """Bytes of the largest file that every clamd in service scans to its end; None while that is not known."""
        found = [member.known for member in self._pool.members if member.known is not None]
        if not found or not all(known.reach_is_found for known in found):
            return None
        return min(known.reach for known in found)

    async def scan(self, sealed: Sealed, *, tenant_id: str, glance: Glance | None = None) -> ScanResult:
        """Scan all of the bytes; `Unavailable` when no daemon gave an answer that can be understood in time, or no child could be had."""
        try:
            async with asyncio.timeout(self._scan_seconds):
                return await self._scan(_Work(sealed, tenant_id, glance, time.perf_counter()))
        except TimeoutError:
            return Unavailable(f"no verdict on the file and all of its parts within {self._scan_seconds:g} s", _NAME)
        except (NoVerdict, LookAway) as none:
            return Unavailable(str(none), _NAME)
        except OSError as fault:  # no descriptor or no memory left, of this process or of the machine
            return Unavailable(f"no room to lay out what clamd does not see: {reason(fault)}", _NAME)

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

    async def _scan(self, work: _Work) -> ScanResult:
        heard, look = await self._ask_and_look(work)
        if found := clamd_verdict.threat(heard, look):
            return found
        in_parts = clamd_verdict.can_be_rescued(heard)
        if not (in_parts or look.hides):
            return await self._judge(work, heard, look, None)
        if not in_parts:
            with closing(Tray(min(_SMALL_TRAY_BYTES, self._tray_bytes))) as tray:
                look = await self._look("uncover", work, tray)
                if not look.crowded:
                    return clamd_verdict.threat(None, look) or await self._judge(work, heard, look, tray)
        async with self._large_trays:
            with closing(Tray(self._tray_bytes)) as tray:
                look = await self._look("unpack" if in_parts else "uncover", work, tray)
                return clamd_verdict.threat(None, look) or await self._judge(work, heard, look, tray)

    async def _ask_and_look(self, work: _Work) -> tuple[Heard, OwnLook]:
        """Answer what clamd says and what we see, both at once; what we see is not waited for where clamd names a threat.

        Nothing is laid out at first: most files hide nothing from clamd, and memory that is lent costs more than a small file's look.
        """
        if work.glance is not None and work.glance.is_under_way:
            heard = await self._pool.ask(work.sealed, tenant_id=work.tenant_id)
            return heard, NOT_LOOKED if clamd_verdict.threat(heard, None) else await self._first_look(work)
        looking = asyncio.create_task(self._first_look(work))
        try:
            heard = await self._pool.ask(work.sealed, tenant_id=work.tenant_id)
            return heard, NOT_LOOKED if clamd_verdict.threat(heard, None) else await looking
        finally:
            if not looking.done():
                looking.cancel()
                await asyncio.gather(looking, return_exceptions=True)  # a child may still be at work for it

    async def _first_look(self, work: _Work) -> OwnLook:
        return (work.glance and await self._had(work.glance)) or await self._look("scan", work, None)

    async def _had(self, glance: Glance) -> OwnLook | None:
        """Wait for the look that a child takes. Where it is left to us, wait for the end of the check: three at work on a large file
        would take from clamd, which takes longest. But not for long, since the scan's own time runs.
        """
        if not glance.is_left:
            return await glance.had()
        with suppress(TimeoutError):
            async with asyncio.timeout(min(_CHECK_SECONDS, self._scan_seconds / 4)):
                await glance.had()
        return None

    async def _look(self, job: Job, work: _Work, tray: Tray | None) -> OwnLook:
        return await own_look(self._sandbox, job, work.sealed, tenant_id=work.tenant_id, tray=tray)

    async def _judge(self, work: _Work, heard: Heard, look: OwnLook, tray: Tray | None) -> ScanResult:
        """Answer for the file when its parts that lie on the tray have been scanned as well."""
        in_parts = clamd_verdict.can_be_rescued(heard)
        scope = Scope(self._encrypted, await self._reach_for(heard, look))
        if gap := clamd_verdict.gap(heard, look, scope, in_parts=in_parts):
            return clamd_verdict.incomplete(heard, gap, work.ms)
        if tray is not None:
            for part in look.laid:
                async with laid_out(tray, part) as alone:
                    said = await self._pool.ask(alone, tenant_id=work.tenant_id)
                if found := clamd_verdict.threat(said, None):
                    return found
                scope = Scope(self._encrypted, await self._reach_for(said, look))
                if gap := clamd_verdict.gap_in_part(said, look, scope, opened=part.opened and in_parts):
                    return clamd_verdict.incomplete(said, gap, work.ms)
        return clamd_verdict.clean(heard, look, work.ms)

    async def _reach_for(self, heard: Heard, look: OwnLook) -> int:
        """Answer how many bytes the clamd that spoke is known to scan to the end. Where a larger part decides, the search is waited for."""
        known = heard.known
        if known.reach_is_found or look.largest <= known.reach:
            return known.reach
        await self.find_reach(self._find_out_seconds)
        if self.reach is None:
            raise NoVerdict(f"{heard.address}: how large files it scans is still being found out")
        return self.reach

    def _versions(self) -> list[Version]:
        return [member.known.version for member in self._pool.members if member.known is not None]

    def _signatures(self) -> dict[str, int | str]:
        edition = self.edition
        if edition is None or not edition.signatures:
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


def _full(version: Version) -> str:
    return f"ClamAV {version.engine}" + (f"/{version.signatures}" if version.signatures else "")
