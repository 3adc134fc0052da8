"""The scanner engine `yara`: the operator's YARA rules, applied in the sandbox to a file and all that is packed in it.

Rules are compiled in a process of their own. A changed folder is noticed within half a minute; while a file of it
cannot be compiled, the rules from before are used, and health says so: the last that any process of the server has
compiled, also before its last start.
"""

import asyncio
import hashlib
import os
import time
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from sluice.kit.health import EngineHealth, EngineState
from sluice.observe.log import log
from sluice.scanner.protocol import (
    Clean,
    EngineVersion,
    Incomplete,
    Infected,
    ScannerUnavailable,
    ScanResult,
)
from sluice_inspect.sandbox import Sandbox
from sluice_inspect.sandbox.protocol import CompiledRules, RulesBroken, RulesUnavailable
from sluice_inspect.sandbox.sealed import Sealed
from sluice_inspect.sandbox.unpack import CHECK_AND_SCAN_BYTES, UnpackReport, UnpackUnavailable, unpack

_NAME: Final = "yara"
_CHECK_SECONDS: Final = 10.0  # as long as the scan for clamd waits for the check: both scans are then one
_STAMPED_MAX: Final = 20_000  # files of the folder that are watched
_NAMED_MAX: Final = 5
_RETRY_PAUSE_MAX: Final = 900.0
_NO_RULES: Final = "a worker did not apply the rules of this version"

Compile = Callable[[Path], Awaitable[CompiledRules]]
# Returns the rules that were compiled last, None if it is given their version, or there are none.
CompileKept = Callable[[str], Awaitable[CompiledRules | None]]


class YaraScanner:
    """Finds what the rules of `folder` find. `sandbox` is started and closed by the caller.

    `after_check`: large files are scanned once their check has ended, as the scan beside clamd is, whose run of the
    sandbox is then shared. The folder is checked every `pause_seconds`.
    """

    name = _NAME
    scan_limit = None

    def __init__(
        self,
        folder: Path,
        sandbox: Sandbox,
        compile_rules: Compile,
        *,
        compile_kept: CompileKept | None = None,
        after_check: bool = False,
        pause_seconds: float = 30.0,
    ) -> None:
        self._folder = folder
        self._sandbox = sandbox
        self._compile = compile_rules
        self._compile_kept = compile_kept
        self._after_check = after_check
        self._pause_seconds = pause_seconds
        self._compiled: CompiledRules | None = None
        self._versions: deque[str] = deque(maxlen=2)  # a scan that began before a change ends by the rules from before
        self._fault = ""
        self._stamp = ""  # of the folder that was compiled last, or found broken
        self._failed_stamp = ""  # of the folder that is compiled again from `_retry_at` on
        self._retry_at = 0.0
        self._retry_pause = pause_seconds
        self._refreshing = asyncio.Lock()
        self._wake = asyncio.Event()
        self._watching: asyncio.Task[None] | None = None

    @property
    def engine_version(self) -> EngineVersion | None:
        """The digest of the rules; None while there are none that can be used."""
        return None if self._compiled is None else EngineVersion(_NAME, self._compiled.rules.version)

    async def start(self) -> str:
        """Compile the rules and watch their folder. Return why there are none that can be used, or nothing."""
        await self.refresh()
        self._watching = asyncio.create_task(self._watch())
        return self._fault if self._compiled is None else ""

    def reload(self) -> None:
        """Have the folder compiled again soon."""
        self._stamp = self._failed_stamp = ""
        self._wake.set()

    async def refresh(self) -> None:
        """Compile the folder if it has changed, and have the sandbox apply its rules."""
        async with self._refreshing:
            stamp = await asyncio.to_thread(_stamp, self._folder)
            if stamp == self._stamp or (stamp == self._failed_stamp and time.monotonic() < self._retry_at):
                if self._fault:  # another process may have compiled the folder before it was broken
                    await self._use_kept()
                return
            try:
                compiled = await self._compile(self._folder)
                fault = await self._use(compiled)
            except RulesBroken as broken:
                await self._use_kept()
                self._note_fault(str(broken))
                self._stamp = stamp
            except RulesUnavailable as error:
                await self._use_kept()
                self._retry_later(stamp, str(error))
            else:
                if fault:
                    self._retry_later(stamp, f"the sandbox cannot load the rules: {fault}")
                else:
                    self._note_fault("")
                    self._stamp, self._failed_stamp = stamp, ""

    def _retry_later(self, stamp: str, fault: str) -> None:
        """Note a fault that may not be that of the folder: it is compiled again after a pause, even if unchanged."""
        again = stamp == self._failed_stamp
        self._retry_pause = min(self._retry_pause * 2, _RETRY_PAUSE_MAX) if again else self._pause_seconds
        self._failed_stamp, self._retry_at = stamp, time.monotonic() + self._retry_pause
        self._note_fault(fault)

    async def _use_kept(self) -> None:
        """Use the rules that this process or another one has compiled last, if they are not in use."""
        if self._compile_kept is None:
            return
        try:
            compiled = await self._compile_kept("" if self._compiled is None else self._compiled.rules.version)
            fault = "" if compiled is None else await self._use(compiled)
        except RulesUnavailable as error:
            fault = str(error)
        if fault:  # the next look at the folder tries it again
            log.error("yara_rules_broken", why=f"the rules from before: {fault}")

    async def _use(self, compiled: CompiledRules) -> str:
        if self._compiled is not None and self._compiled.rules.version == compiled.rules.version:
            os.close(compiled.rules.fd)
            return ""
        if fault := await self._sandbox.use_rules(compiled.rules):
            return fault
        self._compiled = compiled
        self._versions.append(compiled.rules.version)
        log.info("yara_rules", version=compiled.rules.version, files=compiled.files)
        return ""

    def _note_fault(self, fault: str) -> None:
        if fault and self._compiled is not None:
            fault = f"{fault}; the rules from before are used"
        if fault and fault != self._fault:
            log.error("yara_rules_broken", why=fault)
        self._fault = fault

    async def _watch(self) -> None:
        """Look at the folder again and again. Runs until cancelled."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._pause_seconds):
                    await self._wake.wait()
            self._wake.clear()
            try:
                await self.refresh()
            except Exception:  # noqa: BLE001  (without its watcher no change would be noticed)
                log.exception("scanner_check_failed", engine=_NAME)

    async def scan(
        self,
        sealed: Sealed,
        *,
        tenant_id: str,
        unpack_report: "asyncio.Future[UnpackReport | None] | None" = None,
    ) -> ScanResult:
        """Scan all of the bytes within the sandbox's own limits."""
        if self._compiled is None:
            return ScannerUnavailable(self._fault, _NAME)
        report = None
        if unpack_report is not None and sealed.size <= CHECK_AND_SCAN_BYTES:
            report = await asyncio.shield(unpack_report)
        elif unpack_report is not None and self._after_check:
            await asyncio.wait({asyncio.shield(unpack_report)}, timeout=_CHECK_SECONDS)
        try:
            if report is None:
                report = await unpack(self._sandbox, "scan", sealed, tenant_id=tenant_id)
            if not self._is_by_these_rules(report):
                # Another process of the server has loaded other rules: it has seen a change of the folder earlier.
                await self.refresh()
                report = await unpack(self._sandbox, "scan", sealed, tenant_id=tenant_id)
        except UnpackUnavailable as error:
            return ScannerUnavailable(str(error), _NAME)
        if not self._is_by_these_rules(report):
            return ScannerUnavailable(_NO_RULES, _NAME)
        return self._verdict(report, self._compiled)

    def _is_by_these_rules(self, report: UnpackReport) -> bool:
        """Return whether the rules were applied, or the scan ended before its worker could reply."""
        return report.why != "" if report.yara is None else report.yara.version in self._versions

    @staticmethod
    def _verdict(report: UnpackReport, compiled: CompiledRules) -> ScanResult:
        found, ms = report.yara, report.ms
        signatures = compiled.rules.version if found is None else found.version
        matches = () if found is None else found.matches
        by_severity = {match.severity: match for match in reversed(matches)}
        if (match := by_severity.get("reject")) is not None:
            return Infected(f"{_NAME}:{match.rule}", _NAME, signatures, ms, rules=matches)
        why = report.why or ("" if found is None else found.why)
        if why:
            slow = [name for name, _ms in compiled.slow] or compiled.slow_patterns
            slowest = f"; the slowest rules: {slow[0]}" if slow else ""
            return Incomplete(f"{why}{slowest}", _NAME, signatures, ms, rules=matches)
        if report.threat is not None:
            why = "the scan ended at a threat that Sluice's own rules found"
            return Incomplete(why, _NAME, signatures, ms, rules=matches)
        if (match := by_severity.get("quarantine")) is not None:
            return Infected(f"{_NAME}:{match.rule}", _NAME, signatures, ms, rules=matches, quarantines=True)
        flags = tuple(dict.fromkeys(f"{_NAME}.{match.rule}" for match in matches))
        return Clean(_NAME, signatures, ms, flags=flags, rules=matches)

    async def health(self) -> EngineHealth:
        """Return `down` without rules, `degraded` if the folder is broken, or has rules that need attention."""
        compiled = self._compiled
        if compiled is None:
            return EngineHealth("scanner", _NAME, EngineState.DOWN, detail=self._fault)
        complaints = [self._fault] if self._fault else []
        complaints += [f"slow rules: {name} ({ms} ms for 1 MiB)" for name, ms in compiled.slow]
        if compiled.match_everything:
            complaints.append(f"rules that match every file: {', '.join(compiled.match_everything)}")
        if compiled.not_kept:
            complaints.append(f"the rules cannot be kept for a start while others are broken: {compiled.not_kept}")
        limits: dict[str, int | str] = {
            "signatures": compiled.rules.version,
            "files": compiled.files,
            "ms_per_mb": round(compiled.ms_per_mb),
        }
        if compiled.slow_patterns:
            limits["slow_patterns"] = ", ".join(compiled.slow_patterns[:_NAMED_MAX])
        state = EngineState.DEGRADED if complaints else EngineState.UP
        version = f"rules {compiled.rules.version}"
        return EngineHealth("scanner", _NAME, state, version=version, detail="; ".join(complaints), limits=limits)

    async def aclose(self) -> None:
        """Stop watching. A second call is a no-op."""
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.gather(self._watching, return_exceptions=True)


def _stamp(folder: Path) -> str:
    """Return a digest of names, sizes and times of the files in the folder."""
    digest = hashlib.sha256()
    count = 0
    for root, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(files):
            if name.startswith(".") or count >= _STAMPED_MAX:
                continue
            count += 1
            path = Path(root, name)
            with suppress(OSError):  # it has gone, or is a link to nothing
                found = path.stat()
                digest.update(f"{path}\0{found.st_size}\0{found.st_mtime_ns}\0{found.st_ino}\0".encode())
    return digest.hexdigest()
