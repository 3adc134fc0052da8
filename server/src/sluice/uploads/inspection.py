"""Inspection: the file check and the malware scan of one file. Each adds facts, which are judged at once by `rules`."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

from sluice.errors import ServiceUnavailable
from sluice.observe.log import log
from sluice.observe.metrics import ENGINE_RESULTS, ENGINE_SECONDS
from sluice.observe.stages import staged
from sluice.scanner import (
    CHECK_AND_SCAN_BYTES,
    Clean,
    Incomplete,
    Infected,
    Scanner,
    ScannerUnavailable,
    UnpackReport,
    parse_unpack_report,
)
from sluice.uploads.examined import ExamineFact
from sluice.uploads.hash_lookup import may_hold_files
from sluice.uploads.rules import Judged, judge_content, judge_members, judge_scan
from sluice.uploads.values import HashListFact, Rules, ScanFact
from sluice_inspect.sandbox import Completed, Job, NoWorker, Sandbox
from sluice_inspect.sandbox.sealed import Sealed

LookUpMembers = Callable[[], Awaitable[HashListFact]]


async def inspect(
    judged: Judged,
    sealed: Sealed,
    tenant_id: str,
    rules: Rules,
    *,
    sandbox: Sandbox,
    scanner: Scanner,
    on_checked: Callable[[str], None],
    look_up_members: LookUpMembers | None = None,
    all_checks: bool = False,
) -> Judged:
    """Add what the file check found and, if the rules want it, the scan, and judge both: they run at the same time.

    A file that the check rejects is not scanned to the end, since the check comes first in the order of the rules,
    unless `all_checks` are asked for; nor is one that a hash list allows. `on_checked` is called with the content type
    when the check has passed and the scan still runs. `look_up_members` compares what is packed in the file with hash
    lists meanwhile.
    Raise `ServiceUnavailable` if there is no checker or no scanner.
    """
    facts, legibility = judged.facts, rules.policies.need_legibility
    if not rules.scan or (facts.listed is not None and facts.listed.is_allowed):
        facts = replace(
            facts, examined=await examine(sealed, facts.filename, tenant_id, sandbox, legibility=legibility)
        )
        judged = judged.with_failures(facts, judge_content(facts, rules))
        if judged.rejection is not None and not all_checks:
            return judged
        return await _with_members(judged, look_up_members)
    unpack_report: asyncio.Future[UnpackReport | None] = asyncio.get_running_loop().create_future()
    scanning = asyncio.create_task(scan(sealed, tenant_id, scanner, unpack_report))
    try:
        examined = await examine(sealed, facts.filename, tenant_id, sandbox, unpack_report, legibility=legibility)
        facts = replace(facts, examined=examined)
        judged = judged.with_failures(facts, judge_content(facts, rules))
        if judged.rejection is not None and not all_checks:
            return judged
        judged = await _with_members(judged, look_up_members)
        if judged.rejection is not None and not all_checks:
            return judged
        facts = judged.facts
        if judged.rejection is None and not scanning.done():
            on_checked(facts.content_type)
        facts = replace(facts, scanned=await scanning)
        return judged.with_failures(facts, judge_scan(facts, rules))
    finally:
        if not scanning.done():
            scanning.cancel()
            await asyncio.wait([scanning])
        if not scanning.cancelled():
            scanning.exception()  # retrieved: it was raised above, or the check's own failure matters more


async def _with_members(judged: Judged, look_up_members: LookUpMembers | None) -> Judged:
    """Add what hash lists say of the members, if they are asked and the file may have some, and judge it."""
    if look_up_members is None or judged.facts.listed is None or not may_hold_files(judged.facts.examined):
        return judged
    found, listed = await look_up_members(), judged.facts.listed
    listed = replace(found, entries=(*listed.entries, *found.entries))
    facts = replace(judged.facts, listed=listed)
    return judged.with_failures(facts, judge_members(facts))


@staged("examine")
async def examine(
    sealed: Sealed,
    filename: str,
    tenant_id: str,
    sandbox: Sandbox,
    unpack_report: "asyncio.Future[UnpackReport | None] | None" = None,
    *,
    legibility: bool = False,
) -> ExamineFact:
    """Return what the checker says of the bytes.

    Raise `ServiceUnavailable` if there is no checker: never a pass, never a rejection.

    `legibility`: how legible a picture is is measured, too.
    `unpack_report` is the future that the scanner of the same file was given, if it is scanned too; it is resolved here
    (see `Scanner.scan`).
    """
    if unpack_report is None:
        return await _check(sealed, filename, tenant_id, sandbox, legibility=legibility)
    checked, report = None, None
    try:
        if sealed.size > CHECK_AND_SCAN_BYTES:
            checked = await _check(sealed, filename, tenant_id, sandbox, legibility=legibility)
        else:
            checked, report = await _check_and_scan(sealed, filename, tenant_id, sandbox, legibility=legibility)
    finally:
        unpack_report.set_result(report)  # also if there is no checker: the scanner waits for it
    return checked or await _check(sealed, filename, tenant_id, sandbox, legibility=legibility)


async def _check(sealed: Sealed, filename: str, tenant_id: str, sandbox: Sandbox, *, legibility: bool) -> ExamineFact:
    job: Job = "check_legible" if legibility else "check"
    result = await sandbox.run(job, sealed, filename=filename, tenant_id=tenant_id)
    if isinstance(result, NoWorker):
        raise _unavailable(tenant_id, result)
    return ExamineFact.of(result)


async def _check_and_scan(
    sealed: Sealed, filename: str, tenant_id: str, sandbox: Sandbox, *, legibility: bool
) -> tuple[ExamineFact | None, UnpackReport | None]:
    """Check and scan a small file in one job.

    The scan's report is None if the check found a fault. Both are None if the job did not finish, or any of its reports
    is invalid.
    """
    job: Job = "check_legible_and_scan" if legibility else "check_and_scan"
    result = await sandbox.run(job, sealed, filename=filename, tenant_id=tenant_id)
    if isinstance(result, NoWorker):
        raise _unavailable(tenant_id, result)
    if not isinstance(result, Completed):
        return None, None
    fact, scan = ExamineFact.of_report(result.payload.get("check"), result.ms), result.payload.get("scan")
    report = parse_unpack_report(scan, result.ms)
    if fact is None or (report is None and scan is not None):
        return None, None
    return fact, report


def _unavailable(tenant_id: str, result: NoWorker) -> ServiceUnavailable:
    log.warning("check_unavailable", tenant_id=tenant_id, why=result.why)
    return ServiceUnavailable("file checker")


@staged("scan")
async def scan(
    sealed: Sealed,
    tenant_id: str,
    scanner: Scanner,
    unpack_report: "asyncio.Future[UnpackReport | None] | None" = None,
) -> ScanFact:
    """Return the scanner's verdict on the bytes. Raise `ServiceUnavailable` if there is none: unscanned is never clean.

    `unpack_report` is resolved by the examination of the same file, if there is one (see `Scanner.scan`).
    """
    result = await scanner.scan(sealed, tenant_id=tenant_id, unpack_report=unpack_report)
    if isinstance(result, ScannerUnavailable):
        log.warning("scan_unavailable", tenant_id=tenant_id, engine=result.engine, why=result.why)
        raise ServiceUnavailable("malware scanner")
    engine, signatures, ms, member = result.engine, result.signatures, result.ms, result.member
    each, rules = result.each, result.rules
    for one in each if not (isinstance(result, Clean) and result.cached) else ():
        name = one.engine.partition(" ")[0]  # without its version
        ENGINE_RESULTS.labels(name, one.outcome).inc()
        if one.outcome != "unavailable":
            ENGINE_SECONDS.labels(name).observe(one.ms / 1000)
    match result:
        case Clean():
            return ScanFact("clean", None, "", engine, signatures, ms, member, result.cached, result.flags, each, rules)
        case Infected(threat=threat):
            found, quarantines = f"found {threat}", result.quarantines
            return ScanFact(
                "infected",
                threat,
                found,
                engine,
                signatures,
                ms,
                member,
                each=each,
                rules=rules,
                quarantines=quarantines,
            )
        case Incomplete():
            return ScanFact("incomplete", None, result.why, engine, signatures, ms, member, each=each, rules=rules)
