"""What clamd's answers mean, as far as they can be understood. No connection is known here.

Sources: clamd(8), and the answers of ClamAV 1.4 as they were met. Whatever is not listed here was not understood, which is never "clean".
"""

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from typing import Final

from sluice.engines.scanner.clamd_address import ClamdAway

_SCANNED: Final = re.compile(r"(?:stream|fd\[\d{1,9}\]): (?:(?P<ok>OK)|(?P<threat>[ -~]{1,256}) FOUND)")
_REFUSED: Final = re.compile(r"(?P<why>[ -~]{1,512}?)\.? ?ERROR")
_VERSION: Final = re.compile(r"ClamAV (?P<engine>[0-9][\w.+~-]{0,40})(?:/(?P<signatures>\d{1,9})/(?P<built>[ -~]{1,60}))?")
_LIMIT_THREAT: Final = re.compile(r"Heuristics\.Limits\.|\(null\)")
_BUILT_FORM: Final = "%a %b %d %H:%M:%S %Y"  # of asctime(3), in the names of the C locale, which is Python's unless told otherwise
_LIMIT_ERROR: Final = re.compile(r"size limit exceeded|limit reached|Exceeded (?:max|time)", re.IGNORECASE)


class Verdict(Enum):
    """What clamd said of some bytes."""

    CLEAN = "clean"
    INFECTED = "infected"
    ENCRYPTED = "encrypted"
    """No threat was found in what could be read, and a part could not be. Threats are named first, limits are not (see `clamd_daemon`)."""
    INCOMPLETE = "incomplete"
    REFUSED = "refused"
    """It could not scan at all: the fault is not the file's."""


@dataclass(frozen=True, slots=True)
class Said:
    """A verdict, with the name of the threat or the limit, or the words of the refusal."""

    verdict: Verdict
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Version:
    """The engine (`1.4.6`), the number of the signature database, empty where clamd has one without a number, and when it was built.

    clamd tells the local time of its machine without the zone, which is taken for UTC: ages are right to half a day.
    """

    engine: str
    signatures: str
    built: datetime | None = None


def read_scan(answer: bytes) -> Said:
    """Read the answer to a scan; raises `ClamdAway` when it is not understood."""
    text = answer.decode("ascii", "replace")
    if scanned := _SCANNED.fullmatch(text):
        return Said(Verdict.CLEAN) if scanned["ok"] else _read_threat(scanned["threat"])
    if refused := _REFUSED.fullmatch(text):
        limit = _LIMIT_ERROR.search(refused["why"])
        return Said(Verdict.INCOMPLETE if limit else Verdict.REFUSED, refused["why"])
    raise ClamdAway("an answer that is not understood")


def read_version(answer: bytes) -> Version:
    """Read the answer to VERSION; raises `ClamdAway` when it is not understood."""
    version = _VERSION.fullmatch(answer.decode("ascii", "replace"))
    if version is None:
        raise ClamdAway("a version that is not understood")
    return Version(version["engine"], version["signatures"] or "", _read_built(version["built"]))


def _read_built(text: str | None) -> datetime | None:
    try:
        return None if text is None else datetime.strptime(text, _BUILT_FORM).replace(tzinfo=UTC)
    except ValueError:
        return None


def _read_threat(name: str) -> Said:
    if _LIMIT_THREAT.match(name):
        return Said(Verdict.INCOMPLETE, name)
    if name.startswith("Heuristics.Encrypted."):
        return Said(Verdict.ENCRYPTED, name)
    return Said(Verdict.INFECTED, name)
