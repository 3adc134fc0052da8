"""What follows from clamd's word and our own look at the same bytes. Decides only: it asks nobody and knows no connection.

clamd alone would let through what it does not open, and says nothing of it. Measured (1.4.6): attachments in PDFs, some packings, and, even
with `AlertExceedsMax yes`, members of zip archives beyond MaxFileSize. So a file is clean when clamd found nothing in it, found nothing
in the parts that it does not see, and nothing is left that nobody looked at.
"""

from dataclasses import dataclass
from typing import Final

from sluice.engines.scanner.builtin import noted
from sluice.engines.scanner.clamd_answers import Verdict
from sluice.engines.scanner.clamd_pool import Heard
from sluice.engines.scanner.own_look import OwnLook
from sluice.engines.scanner.policy import EncryptedPolicy
from sluice.engines.scanner.protocol import Clean, Incomplete, Infected, ScanResult
from sluice.threats import RULES_VERSION

_RESCUED: Final = frozenset(f"Heuristics.Limits.Exceeded.Max{limit}" for limit in ("Recursion", "Files", "ScanSize"))
"""Limits on what is packed in a file, past which clamd still looks at the file's own bytes (measured): its parts can be scanned one by one."""
_TELLS_NOTHING: Final = "this clamd does not tell what it skips: set AlertExceedsMax yes"


@dataclass(frozen=True, slots=True)
class Scope:
    """What is held to: the policy on passwords, and how large a file or part, in bytes, clamd is known to scan to its end."""

    encrypted: EncryptedPolicy
    reach: int


def engine_of(heard: Heard) -> tuple[str, str]:
    """Answer engine and signatures, as they are recorded."""
    return f"clamd {heard.known.version.engine}", heard.known.version.signatures


def threat(heard: Heard | None, look: OwnLook | None) -> Infected | None:
    """Answer the threat that clamd, or a rule of ours, has named."""
    if heard is not None and heard.said.verdict is Verdict.INFECTED:
        engine, signatures = engine_of(heard)
        return Infected(heard.said.detail, engine, signatures, heard.ms, member=heard.address)
    if look is not None and look.threat is not None:
        return Infected(look.threat, "builtin", RULES_VERSION, look.ms)
    return None


def can_be_rescued(heard: Heard) -> bool:
    """Answer whether clamd met a limit on what is packed in the file, so that scanning its parts one by one may be worth it."""
    return heard.said.verdict is Verdict.INCOMPLETE and heard.said.detail in _RESCUED


def gap(heard: Heard, look: OwnLook, scope: Scope, *, in_parts: bool = False) -> str:
    """Answer what nobody looked at, in one sentence; nothing where all was looked at. `in_parts`: limits are met part by part, then."""
    if not heard.known.names_limits:
        return _TELLS_NOTHING
    if heard.said.verdict is Verdict.INCOMPLETE and not (in_parts and look.opened):
        return heard.said.detail
    if look.why:
        return look.why
    if look.unopened:
        return f"packed in a way that nothing here can open: {', '.join(look.unopened)}"
    if (heard.said.verdict is Verdict.ENCRYPTED or look.encrypted) and scope.encrypted != "allow":
        return heard.said.detail or "a part behind a password"
    return _beyond_reach(look, scope)


def gap_in_part(heard: Heard, look: OwnLook, scope: Scope, *, opened: bool) -> str:
    """Answer what clamd did not look at in a part that it was handed alone; `opened`: what is packed in the part is handed to it, too.

    Another clamd than that which was asked about the file may have been asked, with other limits.
    """
    if not heard.known.names_limits:
        return _TELLS_NOTHING
    if heard.said.verdict is Verdict.INCOMPLETE and not (opened and can_be_rescued(heard)):
        return heard.said.detail
    if heard.said.verdict is Verdict.ENCRYPTED and scope.encrypted != "allow":
        return heard.said.detail
    return _beyond_reach(look, scope)


def clean(heard: Heard, look: OwnLook, ms: float) -> ScanResult:
    """Answer that nothing was found in all of it."""
    engine, signatures = engine_of(heard)
    notes = tuple(note for note in noted(look) if not note.startswith("unopened."))
    return Clean(engine, signatures, ms, member=heard.address, flags=notes)


def incomplete(heard: Heard, why: str, ms: float) -> Incomplete:
    """Answer that not all of it was looked at."""
    engine, signatures = engine_of(heard)
    return Incomplete(why, engine, signatures, ms, member=heard.address)


def _beyond_reach(look: OwnLook, scope: Scope) -> str:
    return "" if look.largest <= scope.reach else f"a part of {look.largest} bytes; clamd scans {scope.reach}"
