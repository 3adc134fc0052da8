"""The malware scan: the scanner's answer as a fact. What it means is decided in `decide`."""

from sluice.engines.scanner import Clean, Incomplete, Infected, Scanner, Unavailable
from sluice.errors import Unavailable as ServiceUnavailable
from sluice.kit.sealed import Sealed
from sluice.uploads.values import ScanFact


async def scan(sealed: Sealed, tenant_id: str, scanner: Scanner) -> ScanFact:
    """Answer what the scanner says of the bytes; raises the error `Unavailable` when it says nothing: unscanned is never clean."""
    answer = await scanner.scan(sealed, tenant_id=tenant_id)
    match answer:
        case Unavailable():
            raise ServiceUnavailable("malware scanner")
        case Clean():
            return ScanFact("clean", None, "", answer.engine, answer.signatures, answer.ms)
        case Infected():
            return ScanFact("infected", answer.threat, f"found {answer.threat}", answer.engine, answer.signatures, answer.ms)
        case Incomplete():
            return ScanFact("incomplete", None, answer.why, answer.engine, answer.signatures, answer.ms)
