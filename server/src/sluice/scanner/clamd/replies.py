"""Parse clamd's replies.

Sources: clamd(8), and the replies of ClamAV 1.4 as they were observed. Whatever is not listed here is not understood,
which is never "clean".
"""

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from typing import Final

_SCANNED: Final = re.compile(r"(?:stream|fd\[\d{1,9}\]): (?:(?P<ok>OK)|(?P<threat>[ -~]{1,256}) FOUND)")
_REFUSED: Final = re.compile(r"(?P<why>[ -~]{1,512}?)\.? ?ERROR")
_VERSION: Final = re.compile(
    r"ClamAV (?P<engine>[0-9][\w.+~-]{0,40})(?:/(?P<signatures>\d{1,9})/(?P<built>[ -~]{1,60}))?"
)
_LIMIT_THREAT: Final = re.compile(r"Heuristics\.Limits\.|\(null\)")
_LIMIT_ERROR: Final = re.compile(r"size limit exceeded|limit reached|Exceeded (?:max|time)", re.IGNORECASE)
# The format of asctime(3), with the names of the C locale, which is Python's default.
_BUILT_FORMAT: Final = "%a %b %d %H:%M:%S %Y"


class ClamdUnavailable(Exception):
    """This clamd gave no valid reply. `str()` is one sentence; another clamd may be asked the same again."""


class ClamdVerdict(Enum):
    """The reply of clamd to a scan."""

    CLEAN = "clean"
    INFECTED = "infected"
    # No threat in what could be read, and a part is behind a password. clamd names threats first, but not limits: see
    # `ClamdClient.scan`.
    ENCRYPTED = "encrypted"
    INCOMPLETE = "incomplete"
    # It could not scan at all. The fault is not the file's.
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class ScanReply:
    """A verdict, with the name of the threat or the limit, or the reason of the refusal."""

    verdict: ClamdVerdict
    detail: str = ""


@dataclass(frozen=True, slots=True)
class ClamdVersion:
    """The engine (`1.4.6`), the number of the signature database (empty if it has none), and when that was built.

    clamd gives the local time of its machine without the zone, which is taken for UTC: ages are right to half a day.
    """

    engine: str
    signatures: str
    built: datetime | None = None


def parse_scan_reply(raw: bytes) -> ScanReply:
    """Parse the reply to a scan. Raise `ClamdUnavailable` if it is not understood."""
    text = raw.decode("ascii", "replace")
    if scanned := _SCANNED.fullmatch(text):
        if scanned["ok"]:
            return ScanReply(ClamdVerdict.CLEAN)
        threat = scanned["threat"]
        if _LIMIT_THREAT.match(threat):
            return ScanReply(ClamdVerdict.INCOMPLETE, threat)
        is_encrypted = threat.startswith("Heuristics.Encrypted.")
        return ScanReply(ClamdVerdict.ENCRYPTED if is_encrypted else ClamdVerdict.INFECTED, threat)
    if refused := _REFUSED.fullmatch(text):
        limit = _LIMIT_ERROR.search(refused["why"])
        return ScanReply(ClamdVerdict.INCOMPLETE if limit else ClamdVerdict.REFUSED, refused["why"])
    raise ClamdUnavailable("a reply that is not understood")


def parse_version(raw: bytes) -> ClamdVersion:
    """Parse the reply to VERSION. Raise `ClamdUnavailable` if it is not understood."""
    version = _VERSION.fullmatch(raw.decode("ascii", "replace"))
    if version is None:
        raise ClamdUnavailable("a version that is not understood")
    built = None
    if version["built"] is not None:
        try:
            built = datetime.strptime(version["built"], _BUILT_FORMAT).replace(tzinfo=UTC)
        except ValueError:
            built = None
    return ClamdVersion(version["engine"], version["signatures"] or "", built)
