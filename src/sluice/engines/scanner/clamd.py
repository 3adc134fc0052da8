"""The scanner engine `clamd`: one or several ClamAV daemons, asked one after another until one answers. The wire lives in `clamd_talk`."""

import asyncio
import time
from collections.abc import Sequence
from typing import Final

from sluice.engines.health import EngineHealth, EngineState
from sluice.engines.scanner.clamd_address import ClamdAddress, ClamdAway, reason
from sluice.engines.scanner.clamd_answers import Said, Verdict
from sluice.engines.scanner.clamd_daemon import Daemon, Known
from sluice.engines.scanner.clamd_talk import Patience
from sluice.engines.scanner.policy import EncryptedPolicy
from sluice.engines.scanner.protocol import Clean, Incomplete, Infected, ScanResult, Unavailable
from sluice.kit.sealed import Sealed

_NAME: Final = "clamd"


class ClamdScanner:
    """Scans with the first clamd that answers. A scan may be repeated, so a fault of one daemon costs time, not the upload.

    `addresses` are `unix:/path` or `tcp:host:port`, in the order of preference. A verdict takes at most `base_seconds` plus the size
    divided by `bytes_per_second`, never more than `scan_seconds`, waiting for one of the `concurrency` places included. A daemon that
    shows no sign of life for `stall_seconds` is given up earlier, and asked last for `rest_seconds`. `version_seconds` is how long the
    answer to VERSION is believed; `encrypted` says what becomes of `Heuristics.Encrypted.*`. Raises `ValueError` for an address that is none, and for no address.
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
        version_seconds: float = 10.0,
        rest_seconds: float = 5.0,
        encrypted: EncryptedPolicy = "allow",
    ) -> None:
        if not addresses:
            raise ValueError("a clamd scanner needs at least one address")
        patience = Patience(connect_seconds, stall_seconds)
        self._daemons = [Daemon(ClamdAddress.parse(text), patience, version_seconds=version_seconds) for text in addresses]
        self._find_out_seconds = 2 * connect_seconds + stall_seconds
        self._base_seconds = base_seconds
        self._bytes_per_second = bytes_per_second
        self._scan_seconds = scan_seconds
        self._rest_seconds = rest_seconds
        self._encrypted: EncryptedPolicy = encrypted
        self._concurrency = concurrency
        self._places = asyncio.Semaphore(concurrency)
        self._closed = False

    async def scan(self, sealed: Sealed, *, tenant_id: str) -> ScanResult:  # noqa: ARG002  (part of the contract; clamd knows no tenants)
        """Scan all of the bytes; `Unavailable` when no daemon gave an answer that can be understood in time."""
        if self._closed:
            return Unavailable("the scanner was closed", _NAME)
        began = time.perf_counter()
        allowed = min(self._scan_seconds, self._base_seconds + sealed.size / self._bytes_per_second)
        deadline = asyncio.get_running_loop().time() + allowed
        try:
            async with asyncio.timeout_at(deadline):
                await self._places.acquire()
        except TimeoutError:
            return Unavailable(f"all {self._concurrency} places were taken for {allowed:g} s", _NAME)
        try:
            return await self._scan_somewhere(sealed, began, deadline)
        finally:
            self._places.release()

    async def health(self) -> EngineHealth:
        """Answer `down` when no daemon answers, `degraded` when one is away or less strict than it should be."""
        findings = await asyncio.gather(*(self._look_at(daemon) for daemon in self._daemons))
        known = [finding for finding, _ in findings if finding is not None]
        complaints = [complaint for _, complaint in findings if complaint]
        state = EngineState.DOWN if not known else EngineState.DEGRADED if complaints else EngineState.UP
        return EngineHealth(
            kind="scanner",
            name=_NAME,
            state=state,
            version=", ".join(sorted({_full_version(finding) for finding in known})),
            detail="; ".join(complaints),
            limits={"concurrency": self._concurrency, "daemons": len(self._daemons), "encrypted": self._encrypted},
        )

    async def reachable(self) -> bool:
        """Answer whether any daemon answers at this moment. For the choice at the start: a process keeps its scanner until it ends."""
        return (await self.health()).state is not EngineState.DOWN

    async def aclose(self) -> None:
        """Refuse further scans. No connection outlives its scan, so there is nothing else to let go of."""
        self._closed = True

    async def _scan_somewhere(self, sealed: Sealed, began: float, deadline: float) -> ScanResult:
        clock = asyncio.get_running_loop().time
        whys: list[str] = []
        for daemon in sorted(self._daemons, key=lambda daemon: daemon.is_resting):
            if whys and clock() >= deadline:
                break
            try:
                async with asyncio.timeout_at(deadline):
                    said, known = await daemon.scan(sealed)
            except (ClamdAway, OSError) as fault:
                daemon.rest(self._rest_seconds)
                whys.append(f"{daemon.address}: {_why(fault)}")
            else:
                return self._result(said, known, ms=(time.perf_counter() - began) * 1000)
        return Unavailable("; ".join(whys), _NAME)

    def _result(self, said: Said, known: Known, *, ms: float) -> ScanResult:
        engine, signatures = f"{_NAME} {known.version.engine}", known.version.signatures
        if said.verdict is Verdict.INFECTED:
            return Infected(said.detail, engine, signatures, ms)
        may_pass = said.verdict is Verdict.CLEAN or (said.verdict is Verdict.ENCRYPTED and self._encrypted == "allow")
        return Clean(engine, signatures, ms) if may_pass else Incomplete(said.detail, engine, signatures, ms)

    async def _look_at(self, daemon: Daemon) -> tuple[Known | None, str]:
        try:
            async with asyncio.timeout(self._find_out_seconds):
                known = await daemon.known()
        except (ClamdAway, OSError) as fault:
            return None, f"{daemon.address}: {_why(fault)}"
        weaknesses = [
            "" if known.finds_test_virus else "does not find the EICAR test virus",
            "" if known.names_limits else "says OK of what it skips: set AlertExceedsMax yes",
        ]
        return known, "; ".join(f"{daemon.address}: {weakness}" for weakness in weaknesses if weakness)


def _full_version(known: Known) -> str:
    return f"ClamAV {known.version.engine}" + (f"/{known.version.signatures}" if known.version.signatures else "")


def _why(fault: ClamdAway | OSError) -> str:
    if isinstance(fault, TimeoutError):
        return "no verdict in time"
    return reason(fault) if isinstance(fault, OSError) else str(fault)
