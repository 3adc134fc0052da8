"""`sluice check`: the checks of an upload on local files: in the sandbox without a server, or by asking a service."""

# ruff: noqa: PLC0415  (the zygote starts before anything heavy is loaded, and `--help` loads none of it)

import os
import stat
import time
from collections import Counter, deque
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, TypeVar

import typer

from sluice.cli.environment import settings_if_set, start_zygote
from sluice.cli.local_hashes import read_hashes
from sluice.cli.local_rules import notes_on, read_rules, report_by_rules
from sluice_client.cli import output
from sluice_client.cli.dry_run import Printer, Reported, check_by_service
from sluice_client.cli.form import files_in
from sluice_client.cli.output import CommandRefused, Exit
from sluice_client.cli.profiles import target_of
from sluice_client.cli.service import ApiKey, ProfileOption, Url

if TYPE_CHECKING:
    from sluice.cli.local_hashes import LocalHashes
    from sluice.contexts.policies import Text
    from sluice.scanner import Scanner
    from sluice.uploads.examined import ExamineFact
    from sluice.uploads.values import HashListFact, ScanFact, TextFact
    from sluice_inspect.sandbox import Sandbox
    from sluice_inspect.sandbox.sealed import Sealed

T = TypeVar("T")
_TENANT: Final = "sluice-check"

# Verdicts are printed in order: several files are started per worker, so that others need not wait for a slow one.
_STARTED_PER_WORKER: Final = 8


@dataclass(frozen=True, slots=True)
class FileVerdict:
    """The verdict on one file; its fields are the JSON line. An unreadable file has neither reason nor outcome."""

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


class _Unreadable(Exception):
    """A file cannot be read. `str()` says why, without its name."""


def check(
    context: typer.Context,
    paths: Annotated[
        list[Path], typer.Argument(metavar="PATH...", exists=True, help="Files, and folders with everything in them.")
    ],
    *,
    integrity: Annotated[
        bool, typer.Option("--integrity/--no-integrity", help="Reject what is damaged, disguised or unsafe.")
    ] = True,
    blank: Annotated[bool, typer.Option("--blank/--no-blank", help="Reject what shows a reader nothing.")] = True,
    json: Annotated[
        bool, typer.Option("--json", help="Print one line of JSON per file, as soon as it is known.")
    ] = False,
    key: Annotated[
        str | None,
        typer.Option("--context", metavar="KEY", help="Ask a running service to judge the files by this context."),
    ] = None,
    rules_file: Annotated[
        Path | None,
        typer.Option(
            "--rules",
            metavar="FILE",
            exists=True,
            dir_okay=False,
            help="Judge by the rules in this YAML file: the fields of a context, such as allowed_extensions, policies.",
        ),
    ] = None,
    hashes_file: Annotated[
        Path | None,
        typer.Option(
            "--hashes",
            metavar="CSV",
            exists=True,
            dir_okay=False,
            help="Reject files, and archives with files, that this hash list denies: digest[,list[,reason]].",
        ),
    ] = None,
    yara_folder: Annotated[
        Path | None,
        typer.Option(
            "--yara",
            metavar="FOLDER",
            exists=True,
            file_okay=False,
            help="Scan with the YARA rules in this folder, and with Sluice's own rules for malware.",
        ),
    ] = None,
    url: Url = None,
    api_key: ApiKey = None,
    profile: ProfileOption = None,
) -> int:
    """Check files as an upload would be, without a server: is each sound, of the type its name says, and not blank?

    Runs in the same sandbox, on as many files at once as it has workers (SLUICE_SANDBOX_WORKERS). Nothing is stored or
    sent, and nothing is scanned for malware but with --yara.

    With --hashes, a file on a hash list is rejected, also in an archive, or noted as allowed. With --yara, so is one
    that a rule matches, unless the rule only reports.

    With --rules, all rules of a context are applied but clamd, ICAP and the limits of rate, plan and quota. With
    --context, a service makes all checks of one of its contexts on the files, and stores nothing. Both print each check
    that fails, with what was found and expected, and the sentence for the sender.

    Exits with 3 when a file is rejected, 1 when one could not be read. JSON: path, accepted, reason (a reason code or
    null), outcome (ok, corrupt, blank, encrypted, unsupported, too_complex), format, content_type, detail, ms. With
    --rules or --context: path, report (as in the API), error (why there is no report).
    """
    if [key is not None, rules_file is not None, not (integrity and blank)].count(True) > 1:
        raise CommandRefused("Give only one of --context, --rules, and --no-integrity or --no-blank.", Exit.USAGE)
    if hashes_file is not None and key is not None:
        raise CommandRefused("Give only one of --context and --hashes: a service has lists of its own.", Exit.USAGE)
    if yara_folder is not None and key is not None:
        raise CommandRefused("Give only one of --context and --yara: a service has rules of its own.", Exit.USAGE)
    if key is not None:
        return check_by_service(files_in(paths), key, target_of(url, api_key, profile), json=json)
    if rules_file is not None:
        return _check_by_rules(context, files_in(paths), rules_file, hashes_file, yara_folder, json=json)
    settings = settings_if_set()
    launched = start_zygote(context)
    hashes = None if hashes_file is None else read_hashes(hashes_file)

    import asyncio

    from sluice.wiring.sandbox import make_sandbox

    started_at = time.monotonic()
    sandbox = make_sandbox(settings, launched)
    judge = partial(_verdict, integrity=integrity, blank=blank)
    checks = _Checks(sandbox, hashes, yara_folder)
    counts = asyncio.run(_print_verdicts(checks, files_in(paths), judge, json=json))
    if not json:
        sums = ", ".join(f"{count} {word}" for word, count in sorted(counts.items())) or "none"
        output.line(f"{counts.total()} files in {time.monotonic() - started_at:.1f} s: {sums}")
    if counts["failed"]:
        return Exit.ERROR
    return Exit.REJECTED if counts["rejected"] else Exit.DONE


async def _print_verdicts(
    checks: "_Checks",
    files: Sequence[Path],
    judge: "Callable[[Path, _Checks], Coroutine[None, None, FileVerdict]]",
    *,
    json: bool,
) -> Counter[str]:
    counts: Counter[str] = Counter()
    rows: list[Sequence[str]] = []
    async with aclosing(_each(checks, files, judge, quiet=json)) as verdicts:
        async for verdict in verdicts:
            counts[verdict.word] += 1
            if json:
                output.as_json(asdict(verdict))
            else:
                found = verdict.format or verdict.content_type or ""
                rows.append((verdict.word, verdict.reason or "", found, verdict.path, verdict.detail))
    if rows:
        output.table(("verdict", "reason", "kind", "file", "detail"), rows)
    return counts


def _check_by_rules(
    context: typer.Context,
    files: Sequence[Path],
    rules_file: Path,
    hashes_file: Path | None,
    yara_folder: Path | None,
    *,
    json: bool,
) -> int:
    """Judge the files by the rules in a YAML file, print the reports, and return the exit code."""
    settings = settings_if_set()
    launched = start_zygote(context)

    import asyncio

    from sluice.uploads.names import extension_of
    from sluice.uploads.values import Facts
    from sluice.wiring.sandbox import make_sandbox

    rules = read_rules(rules_file)
    hashes = None if hashes_file is None else read_hashes(hashes_file)
    printer = Printer(json=json)

    async def judge(path: Path, checks: _Checks) -> Reported:
        try:
            found = await checks.run(path)
        except _Unreadable as fault:
            return Reported(str(path), None, f"cannot be read: {fault}")
        name = _name_of(path)
        facts = Facts(
            name,
            extension_of(name),
            found.sealed.size,
            found.sealed.sha256.hex(),
            examined=found.examined,
            listed=found.listed,
            scanned=found.scanned,
            text=found.text,
        )
        return Reported(str(path), report_by_rules(facts, rules, rules_file))

    async def print_reports(checks: _Checks) -> None:
        async with aclosing(_each(checks, files, judge, quiet=json)) as reports:
            async for reported in reports:
                printer.show(reported)

    text = rules.policies.asked_text if rules.sanitise is None else None  # what is stored is judged
    asyncio.run(print_reports(_Checks(make_sandbox(settings, launched), hashes, yara_folder, text)))
    return printer.end(notes_on(rules, scanned_with_yara=yara_folder is not None))


async def _each(
    checks: "_Checks",
    files: Sequence[Path],
    judge: "Callable[[Path, _Checks], Coroutine[None, None, T]]",
    *,
    quiet: bool,
) -> AsyncGenerator[T, None]:
    """Start the sandbox and yield the result for each file, in their order, with a progress bar unless `quiet`."""
    async with aclosing(checks):
        workers = await checks.start(files)
        with output.progress("checking", len(files), unit="items", quiet=quiet) as advance:
            async with aclosing(_in_order(files, lambda path: judge(path, checks), workers)) as results:
                async for result in results:
                    advance(1)
                    yield result


async def _in_order(
    files: Sequence[Path], judge: "Callable[[Path], Coroutine[None, None, T]]", workers: int
) -> AsyncGenerator[T, None]:
    """Yield the result for each file in the order of `files`, with `workers` files in the sandbox at a time."""
    import asyncio

    slots = asyncio.Semaphore(workers)
    started: deque[asyncio.Task[T]] = deque()

    async def judge_in_slot(path: Path) -> T:
        async with slots:
            return await judge(path)

    try:
        for path in files:
            started.append(asyncio.create_task(judge_in_slot(path)))
            if len(started) >= workers * _STARTED_PER_WORKER:
                yield await started.popleft()
        while started:
            yield await started.popleft()
    finally:
        for task in started:
            task.cancel()
        await asyncio.gather(*started, return_exceptions=True)


def _name_of(path: Path) -> str:
    return os.fsencode(path.name).decode("utf-8", "replace")


@dataclass(frozen=True, slots=True)
class _Found:
    """A file's size and hash, no longer open, and what check, hash list, scan and the policy on texts say of it."""

    sealed: "Sealed"
    examined: "ExamineFact"
    listed: "HashListFact | None"
    scanned: "ScanFact | None"
    text: "TextFact | None"


class _Checks:
    """The sandbox, with a hash list, a folder of YARA rules and a policy on texts if there are any."""

    def __init__(
        self,
        sandbox: "Sandbox",
        hashes: "LocalHashes | None",
        yara_folder: Path | None,
        text: "Text | None" = None,
    ) -> None:
        self._sandbox = sandbox
        self._hashes = hashes
        self._yara_folder = yara_folder
        self._text = text
        self._scanner: Scanner | None = None

    async def start(self, files: Sequence[Path]) -> int:
        """Start the sandbox for these files; return how many it checks at once. Raise `CommandRefused`."""
        from sluice_inspect.sandbox import FewFiles

        few = FewFiles.named((path.name for path in files), scanned=self._yara_folder is not None)
        await self._sandbox.start(every_format=False, only=few)
        if self._yara_folder is not None:
            from sluice.wiring.refusal import StartRefused
            from sluice.wiring.sandbox import make_local_scanner

            try:
                self._scanner = await make_local_scanner(self._yara_folder, self._sandbox)
            except StartRefused as fault:
                raise CommandRefused(str(fault), Exit.USAGE) from fault
            if complaint := (await self._scanner.health()).detail:
                output.say(f"{self._yara_folder}: {complaint}.")
        return int((await self._sandbox.health()).limits["workers"])

    async def run(self, path: Path) -> _Found:
        """Return what is found in a file. Raise `_Unreadable`."""
        from sluice.errors import ServiceUnavailable
        from sluice.uploads.examined import ExamineFact
        from sluice_inspect.sandbox import NoWorker, SandboxBroken

        with _sealed_file(path) as sealed:
            result = await self._sandbox.run("check", sealed, filename=path.name, tenant_id=_TENANT)
            if isinstance(result, NoWorker):
                health = await self._sandbox.health()
                raise SandboxBroken(health.detail) if health.state == "down" else ServiceUnavailable("file checker")
            examined, listed, scanned, text = ExamineFact.of(result), None, None, None
            if self._hashes is not None:
                listed = await self._hashes.look_up(sealed, examined, self._sandbox, _TENANT)
            if self._scanner is not None and not (listed is not None and listed.is_allowed):
                from sluice.uploads.inspection import scan

                scanned = await scan(sealed, _TENANT, self._scanner)
            if self._text is not None:
                from sluice.kit.clock import utc_now
                from sluice.uploads.texts import read_text

                name, today = _name_of(path), utc_now().date()
                text = await read_text(sealed, name, self._text, today, sandbox=self._sandbox, tenant_id=_TENANT)
            return _Found(sealed, examined, listed, scanned, text)

    async def aclose(self) -> None:
        """End the sandbox."""
        if self._scanner is not None:
            await self._scanner.aclose()
        await self._sandbox.aclose()


async def _verdict(path: Path, checks: _Checks, *, integrity: bool, blank: bool) -> FileVerdict:
    from itertools import chain

    from sluice.uploads.examined import faults, faults_of_checks
    from sluice.uploads.names import extension_of

    try:
        all_found = await checks.run(path)
    except _Unreadable as fault:
        return FileVerdict(str(path), False, None, None, None, None, f"cannot be read: {fault}", 0.0)
    examined, listed, scanned = all_found.examined, all_found.listed, all_found.scanned
    report = examined.report
    ours = faults(examined, extension_of(_name_of(path)), integrity=integrity, blank=blank)
    others = (fault for _check, severity, fault in faults_of_checks(examined) if severity == "reject")
    denial = infection = None
    if listed is not None or scanned is not None:
        # Loads libraries that no other check needs.
        from sluice.contexts.policies import Mode
        from sluice.uploads.rules import failure_by_lists, failure_by_scan

        denial = None if listed is None else failure_by_lists(listed)
        infection = None if scanned is None else failure_by_scan(scanned, Mode.ENFORCE)
    found = denial or next(chain(ours, others), None) or infection
    return FileVerdict(
        path=str(path),
        accepted=found is None,
        reason=None if found is None else found.reason.value,
        outcome=None if report is None else report.outcome.value,
        format=None if report is None else report.format,
        content_type=None if report is None else report.content_type,
        detail=examined.detail if found is None else found.detail,
        ms=round(examined.ms, 3),
    )


@contextmanager
def _sealed_file(path: Path) -> "Iterator[Sealed]":
    """Open a file for one check. Raise `_Unreadable`. A file that changes meanwhile gets a verdict on a mixture."""
    import hashlib

    from sluice_inspect.sandbox.sealed import Sealed

    try:
        # O_NONBLOCK: opening a pipe without a writer would block forever.
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as fault:
        raise _Unreadable(fault.strerror or str(fault)) from fault
    try:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode):
            raise _Unreadable("it is no file")
        try:
            with os.fdopen(fd, "rb", closefd=False) as file:
                digest = hashlib.file_digest(file, "sha256").digest()
        except OSError as fault:
            raise _Unreadable(fault.strerror or str(fault)) from fault
        yield Sealed(fd, found.st_size, digest)
    finally:
        os.close(fd)
