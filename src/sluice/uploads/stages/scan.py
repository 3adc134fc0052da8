"""The malware scan: the scanner's answer as a fact. What it means is decided in `decide`."""

import asyncio

from sluice.engines.scanner import Clean, Glance, Incomplete, Infected, Scanner, Unavailable
from sluice.errors import Unavailable as ServiceUnavailable
from sluice.kit.sealed import Sealed
from sluice.observe.log import log
from sluice.observe.stages import staged
from sluice.uploads.values import ScanFact


@staged("scan")
async def scan(sealed: Sealed, tenant_id: str, scanner: Scanner, glance: Glance | None = None) -> ScanFact:
    """Answer what the scanner says of the bytes; raises the error `Unavailable` when it says nothing: unscanned is never clean."""
    answer = await scanner.scan(sealed, tenant_id=tenant_id, glance=glance)
    if isinstance(answer, Unavailable):
        log.warning("scan_unavailable", tenant_id=tenant_id, engine=answer.engine, why=answer.why)
        raise ServiceUnavailable("malware scanner")
    engine, signatures, ms, member = answer.engine, answer.signatures, answer.ms, answer.member
    match answer:
        case Clean():
            return ScanFact("clean", None, "", engine, signatures, ms, member, answer.cached, answer.flags)
        case Infected():
            return ScanFact("infected", answer.threat, f"found {answer.threat}", engine, signatures, ms, member)
        case Incomplete():
            return ScanFact("incomplete", None, answer.why, engine, signatures, ms, member)


async def ended(scanning: asyncio.Task[ScanFact]) -> None:
    """Leave no scan under way, and no fault of one untold."""
    if not scanning.done():
        scanning.cancel()
        await asyncio.wait([scanning])
    if not scanning.cancelled():
        scanning.exception()
