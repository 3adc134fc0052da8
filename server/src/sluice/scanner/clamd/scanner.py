"""The scanner engine `clamd`: ClamAV daemons scan a file while the sandbox scans and unpacks what they do not see.

Which daemon scans is decided in `pool`, what follows from the two results in `verdict`. Parts that clamd does not see
are extracted in the sandbox and given to it one by one.
"""

import asyncio
import time
from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Final

from sluice.kit.clock import Clock, utc_now
from sluice.kit.health import EngineHealth, EngineState
from sluice.scanner.clamd import verdict
from sluice.scanner.clamd.connection import ClamdTimeouts, describe_os_error
from sluice.scanner.clamd.member import ClamdMember, HealthPolicy
from sluice.scanner.clamd.pool import ClamdPool, Deadlines, MemberReply, NoVerdict
from sluice.scanner.clamd.probe import Capabilities, PackedLimits
from sluice.scanner.clamd.replies import ClamdVerdict, ClamdVersion, ScanReply
from sluice.scanner.clamd.verdict import ScanScope
from sluice.scanner.protocol import EncryptedPolicy, EngineVersion, ScannerUnavailable, ScanResult
from sluice.scanner.verdict_cache import SHA256_BYTES, CleanVerdict, VerdictCache, VerdictKey
from sluice_inspect.child.shared_buffer import SharedBuffer
from sluice_inspect.sandbox import Sandbox
from sluice_inspect.sandbox.protocol import Job
from sluice_inspect.sandbox.sealed import Sealed
from sluice_inspect.sandbox.unpack import CHECK_AND_SCAN_BYTES, UnpackReport, UnpackUnavailable, extracted_part, unpack

_NAME: Final = "clamd"
# The largest file that any context accepts.
_LARGEST_BYTES: Final = 500 * 1024**2
# Each scan may extract parts into a small buffer. A file that needs more is extracted again into a large one,
# `_LARGE_BUFFERS` at a time: memory stays bounded.
_SMALL_BUFFER_BYTES: Final = 8 * 1024**2
_LARGE_BUFFER_BYTES: Final = 256 * 1024**2
_LARGE_BUFFERS: Final = 2
# The condition under which the OK of clamd is kept.
_PLAIN_BYTES: Final = "plain bytes"
# How long the scan of a large file in the sandbox waits for its check there.
_CHECK_SECONDS: Final = 10.0

_PendingReport = asyncio.Future[UnpackReport | None]


@dataclass(frozen=True, slots=True)
class _FileScan:
    """One file to be scanned, and when its scan began."""

    sealed: Sealed
    tenant_id: str
    unpack_report: _PendingReport | None
    started: float

    @property
    def ms(self) -> float:
        return (time.perf_counter() - self.started) * 1000


class ClamdScanner:
    """Scans with several clamds, and in `sandbox`, which the caller starts and closes.

    A scan may be repeated: a fault of one costs only time.

    `addresses` are `unix:/path` or `tcp:host:port`; `concurrency` scans run at each. A reply of clamd takes at most
    `base_seconds` plus the size divided by `bytes_per_second`, and a verdict on the file with its parts `scan_seconds`,
    all waiting included. A clamd that shows no sign of life for `stall_seconds` is abandoned for another one. What
    clamd does not see is extracted into at most `buffer_bytes` of memory a scan. `encrypted` is the policy on content
    behind a password. Signatures older than `signature_age` are reported by `health`. `verdicts`, which the caller
    closes, keeps for all tenants on which plain bytes clamd said OK. Raise `ValueError` for an invalid address, and for
    no address.
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
        health_policy: HealthPolicy | None = None,
        encrypted: EncryptedPolicy = "allow",
        largest_bytes: int = _LARGEST_BYTES,
        buffer_bytes: int = _LARGE_BUFFER_BYTES,
        signature_age: timedelta = timedelta(days=7),
        folder: Path | None = None,
        verdicts: VerdictCache | None = None,
        clock: Clock = utc_now,
    ) -> None:
        self._sandbox = sandbox
        self._buffer_bytes = buffer_bytes
        self._large_buffers = asyncio.Semaphore(_LARGE_BUFFERS)
        self._scan_seconds = scan_seconds
        self._pool = ClamdPool(
            addresses,
            ClamdTimeouts(connect_seconds, stall_seconds),
            health_policy or HealthPolicy(),
            Deadlines(base_seconds, bytes_per_second, scan_seconds),
            concurrency=concurrency,
            largest=largest_bytes,
            folder=folder,
        )
        self._probe_seconds = 2 * connect_seconds + stall_seconds
        self._concurrency = concurrency
        self._encrypted: EncryptedPolicy = encrypted
        self._signature_age = signature_age
        self._verdicts = verdicts
        self._clock = clock

    @property
    def engine_version(self) -> EngineVersion | None:
        """The newest signatures in service; if none has a number, the engine alone if all members have the same."""
        versions = self._versions()
        newest = max(
            (version for version in versions if version.signatures),
            key=lambda version: int(version.signatures),
            default=None,
        )
        if newest is not None:
            return EngineVersion(f"{_NAME} {newest.engine}", newest.signatures)
        engines = {version.engine for version in versions}
        return EngineVersion(f"{_NAME} {engines.pop()}", "") if len(engines) == 1 else None

    @property
    def scan_limit(self) -> int | None:
        """Size in bytes of the largest file that every member in service scans to its end; None while unknown.

        Files of up to 32 MB are tried at once, larger ones by `find_scan_limit`. Of a member that was restarted, the
        limit from before holds until it is found again; without any member in service, those of all.
        """
        members = [member for member in self._pool.members if member.capabilities is not None] or self._pool.members
        limits = [member.scan_limit for member in members]
        return None if None in limits else min((limit for limit in limits if limit is not None), default=None)

    @property
    def reports_limits(self) -> bool:
        """Whether every member in service reports what it skips (`AlertExceedsMax yes`)."""
        return not self._silent_members()

    async def start(self) -> None:
        """Check every clamd, and watch them from now on.

        Return when it is known which are healthy, at the latest after some seconds.
        """
        with suppress(TimeoutError):  # slow ones come into service when they reply
            async with asyncio.timeout(self._probe_seconds):
                await self._pool.start()

    async def find_scan_limit(self, seconds: float, size: int | None = None) -> None:
        """Find `scan_limit`, in at most `seconds`; do nothing if files of `size` bytes are known to be scanned."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._pool.find_scan_limits(size)

    def is_responsive(self, index: int) -> bool:
        """Return whether the clamd of that index is in service and shows signs of life."""
        member = self._pool.members[index]
        return member.in_service and not member.is_slow

    async def health(self) -> EngineHealth:
        """Return `down` if no clamd is in service, `degraded` if one of them has a fault or old signatures."""
        await self.start()
        members, slots = self._pool.members, self._pool.slots
        complaints = [f"{member.address}: {complaint}" for member in members if (complaint := self._complaint(member))]
        in_service = sum(member.in_service for member in members)
        state = EngineState.DOWN if not in_service else EngineState.DEGRADED if complaints else EngineState.UP
        names = {
            f"ClamAV {version.engine}" + (f"/{version.signatures}" if version.signatures else "")
            for version in self._versions()
        }
        return EngineHealth(
            kind="scanner",
            name=_NAME,
            state=state,
            version=", ".join(sorted(names)),
            detail="; ".join(complaints),
            limits={
                "daemons": len(members),
                "in_service": in_service,
                "concurrency": self._concurrency,
                "running": slots.running,
                "waiting": slots.waiting,
                "encrypted": self._encrypted,
                "scanned_bytes": self._scanned_bytes(),
                **self._signature_limits(),
            },
        )

    async def aclose(self) -> None:
        """Refuse further scans and stop watching. A second call is a no-op."""
        await self._pool.aclose()

    async def scan(self, sealed: Sealed, *, tenant_id: str, unpack_report: _PendingReport | None = None) -> ScanResult:
        """Scan all of the bytes; see `Scanner.scan`."""
        try:
            async with asyncio.timeout(self._scan_seconds):
                return await self._scan(_FileScan(sealed, tenant_id, unpack_report, time.perf_counter()))
        except TimeoutError:
            why = f"no verdict on the file and all of its parts within {self._scan_seconds:g} s"
        except (NoVerdict, UnpackUnavailable) as error:
            why = str(error)
        except OSError as error:  # no descriptor or no memory left, of this process or of the machine
            why = f"no room to lay out what clamd does not see: {describe_os_error(error)}"
        return ScannerUnavailable(why, _NAME)

    async def _scan(self, scan: _FileScan) -> ScanResult:
        """Have clamd and the sandbox scan the file at the same time, then have clamd scan what it did not see."""
        # The check of a small file scans it as well; otherwise the sandbox scans it in a job of its own. Nothing is
        # extracted at first: most files hide nothing from clamd, and lending memory costs more than the scan of a small
        # file.
        unpacking: _PendingReport | asyncio.Task[UnpackReport]
        if scan.unpack_report is not None and scan.sealed.size <= CHECK_AND_SCAN_BYTES:
            unpacking = asyncio.shield(scan.unpack_report)
        else:
            unpacking = asyncio.create_task(self._unpack_after_check(scan))
        try:
            reply = await self._scan_plain_bytes(scan.sealed, scan.tenant_id)
            if found := verdict.find_threat(reply):
                return found
            report = await unpacking or await self._unpack("scan", scan)
        finally:
            if not unpacking.done():
                unpacking.cancel()
                await asyncio.gather(unpacking, return_exceptions=True)  # a worker may still read the file
            elif not unpacking.cancelled():
                unpacking.exception()  # retrieved, so that asyncio does not log it if no task waited for the report
        if found := verdict.find_own_threat(report):
            return found
        # An OK that may be silent on what was skipped counts for little: each part is scanned by itself as well.
        may_skip = report.members > 0 and not (self.reports_limits and reply.capabilities.reports_limits)
        is_limited = verdict.is_limited_to_parts(reply)
        if not (is_limited or may_skip or report.hides):
            return await self._decide(scan, reply, report, None)
        job: Job = "extract_all" if is_limited or may_skip else "extract_hidden"
        in_parts = job == "extract_all"
        if not is_limited:
            with closing(SharedBuffer(min(_SMALL_BUFFER_BYTES, self._buffer_bytes))) as buffer:
                report = await self._unpack(job, scan, buffer)
                if not report.crowded:
                    return verdict.find_own_threat(report) or await self._decide(
                        scan, reply, report, buffer, in_parts=in_parts
                    )
        async with self._large_buffers:
            with closing(SharedBuffer(self._buffer_bytes)) as buffer:
                report = await self._unpack(job, scan, buffer)
                return verdict.find_own_threat(report) or await self._decide(
                    scan, reply, report, buffer, in_parts=in_parts
                )

    async def _scan_plain_bytes(self, sealed: Sealed, tenant_id: str) -> MemberReply:
        """Have a member scan the file as it is, unless one of the newest version has said OK to the same bytes.

        No child process has a part in that, so the OK holds for every tenant.
        """
        started = time.perf_counter()
        if self._verdicts is None or len(sealed.sha256) != SHA256_BYTES:
            return await self._pool.scan(sealed, tenant_id=tenant_id)
        newest = self.engine_version
        if newest is not None and newest.signatures:
            found = await self._verdicts.get(VerdictKey(sealed.sha256, newest.engine, newest.signatures, _PLAIN_BYTES))
            # What is unpacked from the file is judged by the limits of a member that could have said the same now.
            known = None if found is None else self._find_capabilities(newest)
            if found is not None and known is not None:
                ms = (time.perf_counter() - started) * 1000
                return MemberReply(ScanReply(ClamdVerdict.CLEAN), known, found.member, ms, cached=True)
        reply = await self._pool.scan(sealed, tenant_id=tenant_id)
        engine, signatures = verdict.engine_of(reply)
        if reply.reply.verdict is ClamdVerdict.CLEAN and reply.capabilities.reports_limits and signatures:
            key = VerdictKey(sealed.sha256, engine, signatures, _PLAIN_BYTES)
            await self._verdicts.put(key, CleanVerdict(reply.address))
        return reply

    def _scanned_bytes(self) -> int | str:
        if self.scan_limit is not None:
            return self.scan_limit
        found = [member.capabilities.scan_limit for member in self._pool.members if member.capabilities is not None]
        return f"at least {min(found)}" if found else "unknown"

    def _find_capabilities(self, version: EngineVersion) -> Capabilities | None:
        """Return the capabilities of a member in service that has this version, of the one with the lowest limit."""
        found = [
            member.capabilities
            for member in self._pool.members
            if member.capabilities is not None
            and (f"{_NAME} {member.capabilities.version.engine}", member.capabilities.version.signatures)
            == (version.engine, version.signatures)
        ]
        return min(found, key=lambda capabilities: capabilities.scan_limit, default=None)

    async def _unpack_after_check(self, scan: _FileScan) -> UnpackReport:
        """Scan the file in the sandbox, if possible once its check there has ended."""
        if scan.unpack_report is not None:
            # Three processes at work on a large file would take time from clamd, which takes longest. The wait is
            # short, since the scan's own deadline runs.
            with suppress(TimeoutError):
                async with asyncio.timeout(min(_CHECK_SECONDS, self._scan_seconds / 4)):
                    await asyncio.shield(scan.unpack_report)
        return await self._unpack("scan", scan)

    async def _unpack(self, job: Job, scan: _FileScan, buffer: SharedBuffer | None = None) -> UnpackReport:
        return await unpack(self._sandbox, job, scan.sealed, tenant_id=scan.tenant_id, buffer=buffer)

    async def _decide(
        self,
        scan: _FileScan,
        reply: MemberReply,
        report: UnpackReport,
        buffer: SharedBuffer | None,
        *,
        in_parts: bool = False,
    ) -> ScanResult:
        """Have clamd scan the extracted parts, with `in_parts` all, and return the verdict on the whole file."""
        scope = await self._require_scope(scan, reply, report)
        if gap := verdict.find_gap(reply, report, scope, in_parts=in_parts):
            return verdict.incomplete(reply, gap, scan.ms)
        if buffer is not None:
            for extent in report.extents:
                async with extracted_part(buffer, extent) as part:
                    part_reply = await self._pool.scan(part, tenant_id=scan.tenant_id)
                if found := verdict.find_threat(part_reply):
                    return found
                if not (in_parts or part_reply.capabilities.reports_limits):
                    raise NoVerdict(f"{part_reply.address}: it came into service meanwhile, and does not report limits")
                scope = await self._require_scope(scan, part_reply, report)
                if gap := verdict.find_gap_in_part(part_reply, report, scope, opened=extent.opened and in_parts):
                    return verdict.incomplete(part_reply, gap, scan.ms)
        return verdict.clean(reply, report, scan.ms)

    async def _require_scope(self, scan: _FileScan, reply: MemberReply, report: UnpackReport) -> ScanScope:
        """Return the limits of the member that replied, waiting for its search if the verdict depends on that.

        Raise `NoVerdict`.
        """
        found = reply.capabilities
        is_silent = not found.reports_limits
        largest = max(report.largest, scan.sealed.size) if is_silent else report.largest
        needs_search = largest > found.scan_limit or (is_silent and report.members > 0)
        if found.is_scan_limit_final or not needs_search:
            return ScanScope(self._encrypted, scan.sealed.size, found.scan_limit, found.packed)
        await self.find_scan_limit(self._probe_seconds)
        if self.scan_limit is None:
            raise NoVerdict(f"{reply.address}: how large files it scans is still being found out")
        # By now another clamd may be the one that scans least.
        packed = [member.capabilities.packed for member in self._silent_members() if member.capabilities is not None]
        return ScanScope(
            self._encrypted,
            scan.sealed.size,
            self.scan_limit,
            PackedLimits(
                min((limits.size for limits in packed), default=0),
                min((limits.members for limits in packed), default=0),
                min((limits.depth for limits in packed), default=0),
            ),
        )

    def _silent_members(self) -> list[ClamdMember]:
        return [
            member
            for member in self._pool.members
            if member.capabilities is not None and not member.capabilities.reports_limits
        ]

    def _versions(self) -> list[ClamdVersion]:
        return [member.capabilities.version for member in self._pool.members if member.capabilities is not None]

    def _signature_limits(self) -> dict[str, int | str]:
        version = self.engine_version
        if version is None or not version.signatures:
            return {"signatures": "unknown"}
        ages = [self._clock() - known.built for known in self._versions() if known.built is not None]
        hours = {} if not ages else {"signature_age_hours": int(max(ages).total_seconds() // 3600)}
        return {"signatures": version.signatures, **hours}

    def _complaint(self, member: ClamdMember) -> str:
        """Return what is wrong with a member, empty if nothing is."""
        capabilities = member.capabilities
        if capabilities is None:
            return member.fault
        built = capabilities.version.built
        complaints: list[str] = []
        if member.is_slow:
            complaints.append("shows no sign of life at the moment: it may be loading signatures")
        if built is not None and self._clock() - built > self._signature_age:
            complaints.append(f"its signatures are older than {self._signature_age.days} days: see freshclam")
        return "; ".join(complaints)
