"""`sluice check`: the checks of an upload on files of this machine, in the sandbox and without a server. The rules are in `uploads.decide`."""

import asyncio
import sys
import time
from collections import Counter, deque
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from sluice.cli import show
from sluice.cli.local_files import Unreadable, files_in, sealed_file
from sluice.cli.outcomes import Exit
from sluice.cli.progress import counted
from sluice.engines.sandbox import Sandbox
from sluice.settings import Settings
from sluice.uploads.decide import decide
from sluice.uploads.stages.examine import examine
from sluice.uploads.values import ExamineFact, Facts, Rules
from sluice.wiring.ahead import Launched
from sluice.wiring.engines import make_sandbox

_TENANT: Final = "sluice-check"
_AHEAD: Final = 8
"""Files begun for each one that is worked on: verdicts come in order, and a slow file must not leave the others waiting."""


@dataclass(frozen=True, slots=True)
class Asked:
    """The rules that are on."""

    integrity: bool
    blank: bool

    def rules(self) -> Rules:
        """Answer them as those of a context that limits nothing else."""
        return Rules(
            version=0,
            allowed_extensions=(),
            max_bytes=sys.maxsize,
            reject_blank=self.blank,
            reject_corrupt=self.integrity,
            scan=False,
            rate=None,
            quota_bytes=None,
        )


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is said of one file; its fields are the JSON line. A file that could not be read has neither reason nor outcome."""

    path: str
    accepted: bool
    reason: str | None
    outcome: str | None
    format: str | None
    content_type: str | None
    detail: str
    ms: float

    @property
    def word(self) -> str:
        """The verdict for people."""
        if self.accepted:
            return "accepted"
        return "failed" if self.reason is None else "rejected"


def check(settings: Settings, paths: Sequence[Path], asked: Asked, *, json: bool, launched: Launched | None = None) -> int:
    """Print a verdict for each file; the exit code is 1 when one is rejected, 3 when one cannot be read.

    `launched` is the zygote that was begun while this module was loaded.
    """
    began = time.monotonic()
    sandbox = make_sandbox(settings, launched)
    words = asyncio.run(_print_verdicts(sandbox, files_in(paths), asked.rules(), json=json))
    if not json:
        counts = ", ".join(f"{count} {word}" for word, count in sorted(words.items())) or "none"
        show.line(f"{words.total()} files in {time.monotonic() - began:.1f} s: {counts}")
    if words["failed"]:
        return Exit.FAILED
    return Exit.REFUSED if words["rejected"] else Exit.DONE


async def _print_verdicts(opened: Sandbox, files: Sequence[Path], rules: Rules, *, json: bool) -> Counter[str]:
    words: Counter[str] = Counter()
    rows: list[Verdict] = []
    async with aclosing(opened) as sandbox:
        await sandbox.start()
        at_once = int((await sandbox.health()).limits["workers"])
        with counted("checking", len(files), quiet=json) as advance:
            async with aclosing(_verdicts(files, rules, sandbox, at_once)) as verdicts:
                async for verdict in verdicts:
                    words[verdict.word] += 1
                    advance(1)
                    if json:
                        show.as_json(asdict(verdict))
                    else:
                        rows.append(verdict)
    if rows:
        show.table(("verdict", "reason", "kind", "file", "detail"), [_row(verdict) for verdict in rows])
    return words


async def _verdicts(files: Sequence[Path], rules: Rules, sandbox: Sandbox, at_once: int) -> AsyncGenerator[Verdict, None]:
    """Answer the verdicts in the order of `files`, worked on `at_once` at a time."""
    turns = asyncio.Semaphore(at_once)
    begun: deque[asyncio.Task[Verdict]] = deque()
    try:
        for path in files:
            begun.append(asyncio.create_task(_judged(path, rules, sandbox, turns)))
            if len(begun) >= at_once * _AHEAD:
                yield await begun.popleft()
        while begun:
            yield await begun.popleft()
    finally:
        for task in begun:
            task.cancel()
        await asyncio.gather(*begun, return_exceptions=True)


async def _judged(path: Path, rules: Rules, sandbox: Sandbox, turns: asyncio.Semaphore) -> Verdict:
    async with turns:
        try:
            with sealed_file(path) as sealed:
                examined = await examine(sealed, path.name, _TENANT, sandbox)
                facts = Facts(path.name, "", sealed.size, sealed.sha256.hex(), examined=examined)
        except Unreadable as fault:
            return Verdict(str(path), False, None, None, None, None, f"cannot be read: {fault}", 0.0)
    return _verdict(path, facts, examined, rules)


def _verdict(path: Path, facts: Facts, examined: ExamineFact, rules: Rules) -> Verdict:
    rejection, report = decide(facts, rules), examined.report
    return Verdict(
        path=str(path),
        accepted=rejection is None,
        reason=None if rejection is None else rejection.reason.value,
        outcome=None if report is None else report.outcome.value,
        format=None if report is None else report.format,
        content_type=None if report is None else report.content_type,
        detail=examined.detail if rejection is None else rejection.detail,
        ms=round(examined.ms, 3),
    )


def _row(verdict: Verdict) -> Sequence[str]:
    return (verdict.word, verdict.reason or "", verdict.format or verdict.content_type or "", verdict.path, verdict.detail)
