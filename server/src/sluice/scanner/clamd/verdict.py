"""Decide a scan from clamd's reply and our own unpack report on the same bytes. Pure functions without I/O.

clamd alone would let through what it does not open, and says nothing of it. Measured (1.4.6): attachments in PDFs, some
packings, and, even with `AlertExceedsMax yes`, members of zip archives beyond MaxFileSize. So a file is clean if clamd
found nothing in it, found nothing in the parts that it does not see, and scanned every part. Without
`AlertExceedsMax`, it must also have found nothing in each part by itself, and all must lie within its probed limits.
"""

from dataclasses import dataclass
from typing import Final

from sluice.scanner.clamd.pool import MemberReply
from sluice.scanner.clamd.probe import PackedLimits
from sluice.scanner.clamd.replies import ClamdVerdict
from sluice.scanner.protocol import Clean, EncryptedPolicy, Incomplete, Infected
from sluice_inspect.sandbox.unpack import UnpackReport
from sluice_inspect.threats import RULES_VERSION

# Limits on what is packed in a file, past which clamd still scans the file's own bytes (measured): its parts can be
# scanned one by one.
_LIMITS_ON_PARTS: Final = frozenset(
    f"Heuristics.Limits.Exceeded.Max{limit}" for limit in ("Recursion", "Files", "ScanSize")
)
# MaxScanTime of a clamd that does not set it, which cannot be probed. A longer scan may have been given up.
_SCAN_MS: Final = 120_000
_SKIPS_SILENTLY: Final = "this clamd does not tell what it skips without AlertExceedsMax"


@dataclass(frozen=True, slots=True)
class ScanScope:
    """The policy on passwords, the size of the file, and the size of the largest that clamd scans to its end (bytes).

    `packed` are the limits of a clamd that does not report them on what is packed in a file.
    """

    encrypted: EncryptedPolicy
    file_size: int
    scan_limit: int
    packed: PackedLimits


def find_threat(reply: MemberReply) -> Infected | None:
    """Return the threat that clamd has named."""
    if reply.reply.verdict is not ClamdVerdict.INFECTED:
        return None
    engine, signatures = engine_of(reply)
    return Infected(reply.reply.detail, engine, signatures, reply.ms, member=reply.address)


def find_own_threat(report: UnpackReport) -> Infected | None:
    """Return the threat that a rule of ours has named."""
    return None if report.threat is None else Infected(report.threat, "builtin", RULES_VERSION, report.ms)


def is_limited_to_parts(reply: MemberReply) -> bool:
    """Return whether clamd met a limit on what is packed in the file: scanning its parts one by one may help."""
    return reply.reply.verdict is ClamdVerdict.INCOMPLETE and reply.reply.detail in _LIMITS_ON_PARTS


def find_gap(reply: MemberReply, report: UnpackReport, scope: ScanScope, *, in_parts: bool) -> str:
    """Return what was not scanned, in one sentence; empty if all was.

    With `in_parts`, every part is scanned by itself afterwards.
    """
    scanned = reply.reply
    if scanned.verdict is ClamdVerdict.INCOMPLETE and not (in_parts and is_limited_to_parts(reply) and report.opened):
        return scanned.detail
    if report.why:
        return report.why
    if report.unopened:
        return f"packed in a way that nothing here can open: {', '.join(report.unopened)}"
    if (scanned.verdict is ClamdVerdict.ENCRYPTED or report.encrypted) and scope.encrypted != "allow":
        return scanned.detail or "a part behind a password"
    return _find_oversized(report, scope) or _find_silent_gap(reply, report, scope)


def find_gap_in_part(reply: MemberReply, report: UnpackReport, scope: ScanScope, *, opened: bool) -> str:
    """Return what clamd did not scan in a part that it was given by itself.

    If `opened`, the parts within that part are given to it, too.

    Another clamd than the one that scanned the file may have been asked, with other limits.
    """
    scanned = reply.reply
    if scanned.verdict is ClamdVerdict.INCOMPLETE and not (opened and is_limited_to_parts(reply)):
        return scanned.detail
    if scanned.verdict is ClamdVerdict.ENCRYPTED and scope.encrypted != "allow":
        return scanned.detail
    return _find_oversized(report, scope) or _find_silent_gap(reply, report, scope)


def clean(reply: MemberReply, report: UnpackReport, ms: float) -> Clean:
    """Return the verdict that nothing was found in all of the file."""
    engine, signatures = engine_of(reply)
    # `report.foreign` is no flag here: what only clamd can open, clamd has opened.
    flags = (*report.flags, "encrypted") if report.encrypted else report.flags
    return Clean(engine, signatures, ms, member=reply.address, cached=reply.cached, flags=flags)


def incomplete(reply: MemberReply, why: str, ms: float) -> Incomplete:
    """Return the verdict that not all of the file was scanned."""
    engine, signatures = engine_of(reply)
    return Incomplete(why, engine, signatures, ms, member=reply.address)


def engine_of(reply: MemberReply) -> tuple[str, str]:
    """Return engine and signatures, as they are recorded."""
    version = reply.capabilities.version
    return f"clamd {version.engine}", version.signatures


def _find_oversized(report: UnpackReport, scope: ScanScope) -> str:
    if report.largest <= scope.scan_limit:
        return ""
    return f"a part of {report.largest} bytes; clamd scans {scope.scan_limit}"


def _find_silent_gap(reply: MemberReply, report: UnpackReport, scope: ScanScope) -> str:
    """Return what a clamd that does not report limits may have skipped, by our own report on the file.

    The limits hold for the whole file. Its parts are scanned by themselves as well, since clamd counts more than we do:
    what it takes for a file within the bytes of another one, and its own rewritten copies of texts.
    """
    if reply.capabilities.reports_limits:
        return ""
    if reply.ms >= _SCAN_MS:
        return f"a scan of {reply.ms / 1000:.0f} s; {_SKIPS_SILENTLY}"
    if report.foreign:
        return f"packed in a way that only clamd opens: {', '.join(report.foreign)}; {_SKIPS_SILENTLY}"
    if scope.file_size > scope.scan_limit:
        return f"a file of {scope.file_size} bytes; clamd scans {scope.scan_limit}, and {_SKIPS_SILENTLY}"
    limits = scope.packed
    for what, found, limit in (
        ("bytes", scope.file_size + report.unpacked, limits.size),
        ("members", report.members, limits.members),
        ("levels", report.depth, limits.depth),
    ):
        if report.members and found > limit:
            return f"{found} {what} with all that is packed in it; clamd scans {limit}, and {_SKIPS_SILENTLY}"
    return ""
