"""Inspect strangers' files in locked processes.

A parser that a file takes over can do in its process what the process can do. `Inspector` runs the parsers in processes
without network, files and new programs, with limits of memory, processor time and time.
"""

import asyncio
import hashlib
import os
import tempfile
import threading
import weakref
from collections.abc import Coroutine
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Final, Self, TypeVar

from sluice_inspect.child.protocol import Level
from sluice_inspect.report import Outcome, Report
from sluice_inspect.sandbox import Completed, Crashed, FewFiles, JobLimits, NoWorker, OverLimit
from sluice_inspect.sandbox.engine import ZygoteSandbox
from sluice_inspect.sandbox.sealed import Sealed
from sluice_inspect.sandbox.unpack import CHECK_AND_SCAN_BYTES, UnpackUnavailable, parse_unpack_report, unpack

_T = TypeVar("_T")
_CHUNK_BYTES: Final = 1024**2
_REFUSED: Final = frozenset({Outcome.CORRUPT, Outcome.BLANK, Outcome.TOO_COMPLEX})


class InspectorUnavailable(Exception):
    """No locked process could be had. It says nothing of the file: try again later. `str()` says why."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was found in one file.

    `report` is None if the file ended the process that read it, or reached a limit. `threat` is the name of a known
    threat. `fault` says in one sentence why there is no report, or why not all of the file was searched for threats; it
    is empty otherwise.
    """

    report: Report | None
    threat: str | None = None
    fault: str = ""

    @property
    def is_refused(self) -> bool:
        """True unless the file is sound, not blank, what its name claims, and searched without a known threat.

        A file behind a password (`encrypted`) and one that the installed libraries cannot judge (`unsupported`) are not
        refused: whether to take them is up to the caller.
        """
        return (
            self.report is None
            or self.threat is not None
            or bool(self.fault)
            or self.report.finding is not None
            or self.report.outcome in _REFUSED
        )

    @property
    def reason(self) -> str:
        """The verdict in one word, which does not change between versions.

        `threat`, `unreadable` (no report), a `Finding`, an `Outcome` that is not `ok`, `not_scanned`, or `ok`.
        """
        if self.threat is not None:
            return "threat"
        if self.report is None:
            return "unreadable"
        if self.report.finding is not None:
            return str(self.report.finding)
        if self.report.outcome is not Outcome.OK:
            return str(self.report.outcome)
        return "not_scanned" if self.fault else "ok"

    @property
    def detail(self) -> str:
        """What is wrong, in a sentence that a person can act on; empty if nothing is."""
        if self.threat is not None:
            return f"the file contains {self.threat}"
        if self.report is None:
            return self.fault
        return self.report.detail or self.report.blank_detail or self.fault


class Inspector:
    """A pool of locked processes that inspect files. Linux only.

    It starts with the first file, or with `start`, in one to two seconds, and once more in each process that was forked
    after that; so one at the level of a module is right for servers and workers that fork. Any number of threads may
    call `inspect`.
    """

    def __init__(
        self,
        *,
        workers: int | None = None,
        limits: JobLimits | None = None,
        least: Level = "seccomp",
        wait_seconds: float = 60.0,
        only: FewFiles | None = None,
    ) -> None:
        """Set the pool up; nothing runs yet.

        `workers` files are inspected at once (default: one per core, at least two). `least` is the weakest confinement
        to accept: `strict` (Landlock and seccomp), `seccomp`, or `limits-only`, which limits memory and time alone. A
        file waits at most `wait_seconds` for a process. `only` is for a program that inspects a few files: it starts
        several times as fast if no more is loaded than they need, and the first other file has the rest loaded.
        """
        self._workers = workers
        self._limits = limits
        self._least: Level = least
        self._wait_seconds = wait_seconds
        self._only = only
        self._lock = threading.Lock()
        self._pool: _Pool | None = None
        _inspectors.add(self)

    def __enter__(self) -> Self:
        """Start the pool. Raise `SandboxBroken`."""
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close the pool."""
        self.close()

    def start(self) -> None:
        """Start the pool, unless it runs. Raise `SandboxBroken` if parsers cannot be confined here."""
        self._running_pool()

    def inspect(
        self, file: str | os.PathLike[str] | IO[bytes], *, filename: str | None = None, group: str = ""
    ) -> Verdict:
        """Return what was found in a file.

        `file` is a path or a binary file object, which is read from its beginning and left at its end. `filename` is
        the name that its sender gave it, by default that of the path: its extension is what the content is compared
        with. A process that has read a file is used again for files of the same `group` only, such as a customer's.

        Raise `OSError` if the file cannot be read, `ValueError` if there is no name, `InspectorUnavailable`, and
        `SandboxBroken` with the first file.
        """
        if filename is None:
            if not isinstance(file, str | os.PathLike):
                raise ValueError("a file object needs the filename that its sender gave it")
            filename = Path(file).name
        pool = self._running_pool()
        with tempfile.TemporaryFile() as copy:
            return pool.call(pool.judge(_sealed_copy(file, copy), filename, group))

    def close(self) -> None:
        """End the processes. A later `inspect` starts them again."""
        with self._lock:
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.close()

    def _running_pool(self) -> "_Pool":
        with self._lock:
            if self._pool is None:
                sandbox = ZygoteSandbox(
                    workers=self._workers, limits=self._limits, least=self._least, wait_seconds=self._wait_seconds
                )
                self._pool = _Pool(sandbox, self._only)
            return self._pool

    def forget_pool(self) -> None:
        """Forget the pool of the process that this one was forked from: its thread does not run here."""
        self._lock = threading.Lock()
        self._pool = None


_inspectors: Final = weakref.WeakSet[Inspector]()


def _forget_pools() -> None:
    for inspector in _inspectors:
        inspector.forget_pool()


os.register_at_fork(after_in_child=_forget_pools)


class _Pool:
    """A started sandbox, and the thread of its event loop."""

    def __init__(self, sandbox: ZygoteSandbox, only: FewFiles | None) -> None:
        """Start both. Raise `SandboxBroken`."""
        self._sandbox = sandbox
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="sluice-inspect", daemon=True)
        self._thread.start()
        try:
            self.call(sandbox.start(every_format=False, only=only))
        except BaseException:
            self._end()
            raise

    def call(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Run `work` in the loop and return its result."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def close(self) -> None:
        """End the processes and the thread."""
        self.call(self._sandbox.aclose())
        self._end()

    def _end(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def judge(self, sealed: Sealed, filename: str, group: str) -> Verdict:
        """Check the file and search it for threats. Raise `InspectorUnavailable`."""
        if sealed.size <= CHECK_AND_SCAN_BYTES:
            verdict = await self._check_and_scan(sealed, filename, group)
            if verdict is not None:
                return verdict
        report, fault = await self._check(sealed, filename, group)
        if report is None or report.finding is not None or report.outcome in {Outcome.CORRUPT, Outcome.TOO_COMPLEX}:
            return Verdict(report, fault=fault)
        try:
            scanned = await unpack(self._sandbox, "scan", sealed, tenant_id=group)
        except UnpackUnavailable as gone:
            raise InspectorUnavailable(str(gone)) from gone
        return Verdict(report, scanned.threat, scanned.why)

    async def _check_and_scan(self, sealed: Sealed, filename: str, group: str) -> Verdict | None:
        """Do both in one short job; return None if it did not finish: each has limits of its own then."""
        result = await self._sandbox.run("check_and_scan", sealed, filename=filename, tenant_id=group)
        if not isinstance(result, Completed):
            return None
        report, scan = _report(result.payload.get("check")), result.payload.get("scan")
        scanned = parse_unpack_report(scan, result.ms)
        if report is None or (scanned is None and scan is not None):
            return None
        return Verdict(report) if scanned is None else Verdict(report, scanned.threat, scanned.why)

    async def _check(self, sealed: Sealed, filename: str, group: str) -> tuple[Report | None, str]:
        """Return the report, or None and why there is none. Raise `InspectorUnavailable`."""
        result = await self._sandbox.run("check", sealed, filename=filename, tenant_id=group)
        if isinstance(result, NoWorker):
            raise InspectorUnavailable(result.why)
        if isinstance(result, OverLimit):
            return None, f"reading the file reached the limit of {_LIMITS[result.limit]}"
        if isinstance(result, Crashed):
            return None, f"reading the file ended its process: {result.why}"
        report = _report(result.payload)
        return report, "" if report is not None else "the process that read the file returned an invalid report"


_LIMITS: Final = {"cpu": "processor time", "memory": "memory"}


def _report(payload: object) -> Report | None:
    try:
        return Report.from_json(payload)
    except ValueError:
        return None


def _sealed_copy(file: str | os.PathLike[str] | IO[bytes], copy: IO[bytes]) -> Sealed:
    """Copy the file, so that what is judged cannot change meanwhile."""
    if isinstance(file, str | os.PathLike):
        with Path(file).open("rb") as opened:
            return _sealed_copy(opened, copy)
    if file.seekable():
        file.seek(0)
    digest, size = hashlib.sha256(), 0
    while chunk := file.read(_CHUNK_BYTES):
        digest.update(chunk)
        copy.write(chunk)
        size += len(chunk)
    copy.flush()
    return Sealed(copy.fileno(), size, digest.digest())
