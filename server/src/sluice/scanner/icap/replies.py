"""Parse an ICAP server's responses and decide what they say of a file. Pure functions without I/O.

Sources: RFC 3507, draft-stecher-icap-subid-00 (`X-Infection-Found`, `X-Virus-ID`, `X-Violations-Found`), and the
manuals of the antivirus products (`docs/how-to/icap.md`). A response that is not listed here is not understood, which
is never "clean".
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

_STATUS: Final = re.compile(r"(ICAP|HTTP)/1\.[01] ([1-5][0-9]{2})(?: ([ -~]*))?")
_FIELD: Final = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+)[ \t]*:[ \t]*(.*)")
_SECTION: Final = re.compile(r"(req-hdr|res-hdr|req-body|res-body|opt-body|null-body)=([0-9]{1,9})")
_TAG: Final = re.compile(r'"?([!#-~]{1,32})"?')  # RFC 3507, section 4.7
_INFECTION: Final = re.compile(
    r"\s*Type\s*=\s*([0-9])\s*;\s*Resolution\s*=\s*[0-9]\s*;\s*Threat\s*=\s*(.*)", re.IGNORECASE
)
# What ClamAV behind such a server names like a threat, and is none: the same as in `clamd.replies`.
_CLAMAV_ALERT: Final = re.compile(r"Heuristics\.(?:Encrypted|Limits)\.[\w.]+")
_UNPRINTABLE: Final = re.compile(r"[^ -~]+")
_MOST_THREAT: Final = 200
_MOST_PREVIEW: Final = 65_536
# The type of an infection; 1 is a violation of a policy, 2 of a limit on archives.
_VIRUS: Final = "0"
_RULE: Final = "1"

CONTINUE: Final = 100  # the status that asks for the bytes behind a preview


class IcapUnavailable(Exception):
    """The server gave no valid reply. `str()` is one sentence."""


class IcapVerdict(Enum):
    """What a server says of a file.

    `ENCRYPTED`: a part behind a password, which it could not scan, and no threat in the rest. `UNSEEN`: it judged by a
    preview alone, and has to be asked with all bytes.
    """

    CLEAN = "clean"
    INFECTED = "infected"
    ENCRYPTED = "encrypted"
    INCOMPLETE = "incomplete"
    UNSEEN = "unseen"


@dataclass(frozen=True, slots=True)
class IcapReply:
    """The verdict of one response, the threat or what was not scanned, and the version of the signatures."""

    verdict: IcapVerdict
    detail: str = ""
    tag: str = ""


@dataclass(frozen=True, slots=True)
class Head:
    """The first lines of a response: status and fields; the names of the fields are in small letters."""

    status: int
    reason: str
    fields: Mapping[str, str]

    @property
    def tag(self) -> str:
        """The server's `ISTag`, which changes with its signatures; empty if there is none."""
        found = _TAG.fullmatch(self.fields.get("istag", ""))
        return "" if found is None else found[1]

    @property
    def closes(self) -> bool:
        """Whether the server closes the connection after this response."""
        return "close" in self.fields.get("connection", "").lower()

    @property
    def sections(self) -> Mapping[str, int]:
        """The sections of the body and where each begins."""
        return {name: int(at) for name, at in _SECTION.findall(self.fields.get("encapsulated", ""))}


@dataclass(frozen=True, slots=True)
class Options:
    """What a server says of a service. `preview`: bytes that it wants to see first; None: it wants none."""

    methods: tuple[str, ...]
    preview: int | None
    connections: int | None
    allows_204: bool
    service: str
    tag: str


def parse_head(raw: bytes) -> Head:
    """Return the head of a response, `raw` up to its empty line. Raise `IcapUnavailable`."""
    first, *lines = raw.decode("latin-1").split("\r\n")
    status = _STATUS.fullmatch(first)
    if status is None or status[1] != "ICAP":
        raise IcapUnavailable("a response that is not of ICAP")
    return Head(int(status[2]), _shown(status[3] or ""), _parse_fields(lines))


def parse_http(raw: bytes) -> tuple[int | None, Mapping[str, str]]:
    """Return status and fields of an HTTP response within a response; no status if it is none."""
    first, *lines = raw.decode("latin-1").split("\r\n")
    found = _STATUS.fullmatch(first)
    if found is None or found[1] != "HTTP":
        return None, {}
    return int(found[2]), _parse_fields(lines)


def _parse_fields(lines: Iterable[str]) -> Mapping[str, str]:
    fields: dict[str, str] = {}
    name = ""
    for line in lines:
        if line[:1] in {" ", "\t"} and name:  # a value that is continued on the next line
            fields[name] += "\n" + line.strip()
            continue
        if not line:
            continue
        field = _FIELD.fullmatch(line)
        if field is None:
            raise IcapUnavailable("a response with a line that is no field")
        name, value = field[1].lower(), field[2].strip()
        if name in fields and name in {"istag", "encapsulated"}:
            raise IcapUnavailable(f"a response with two fields {name}")
        fields[name] = f"{fields[name]}, {value}" if name in fields else value  # none hides another one
    return fields


def parse_options(head: Head) -> Options:
    """Return what a server says of a service. Raise `IcapUnavailable` if it is not there."""
    if head.status == 404:  # noqa: PLR2004  (the status of the protocol)
        raise IcapUnavailable("it has no service at this path")
    if head.status not in {200, 204}:
        raise IcapUnavailable(describe(head))
    preview = _number(head, "preview")
    return Options(
        methods=tuple(
            _shown(method).upper()[:20] for method in head.fields.get("methods", "").split(",")[:10] if method
        ),
        preview=None if preview is None else min(preview, _MOST_PREVIEW),
        connections=_number(head, "max-connections"),
        allows_204="204" in head.fields.get("allow", ""),
        service=_shown(head.fields.get("service", ""))[:_MOST_THREAT],
        tag=head.tag,
    )


def judge(
    head: Head,
    *,
    was_whole: bool,
    http_status: int | None = None,
    http_fields: Mapping[str, str] | None = None,
    is_unchanged: bool = False,
) -> IcapReply:
    """Return what a response says of a file.

    `was_whole`: all bytes were sent before it. `http_status` and `http_fields` are of the HTTP response within: some
    servers name the threat there. `is_unchanged`: its body is the file's. Raise `IcapUnavailable` if it says nothing.
    """
    if head.status not in {200, 201, 204}:
        raise IcapUnavailable(describe(head))
    found = [_find_threat(fields) for fields in (head.fields, http_fields or {})]
    for kind, threat in found:
        if kind == _VIRUS and not _CLAMAV_ALERT.fullmatch(threat):
            return IcapReply(IcapVerdict.INFECTED, threat, head.tag)
    for kind, threat in found:
        if kind is not None and not (kind == _VIRUS and threat.startswith("Heuristics.Encrypted.")):
            return IcapReply(IcapVerdict.INCOMPLETE, f"a limit or a rule of the server: {threat}", head.tag)
    if not was_whole:
        return IcapReply(IcapVerdict.UNSEEN, "a verdict before all bytes were sent", head.tag)
    for kind, threat in found:
        if kind is not None:
            return IcapReply(IcapVerdict.ENCRYPTED, threat, head.tag)
    if head.status == 204 or (head.status == 200 and is_unchanged):  # noqa: PLR2004  (statuses of the protocol)
        return IcapReply(IcapVerdict.CLEAN, tag=head.tag)
    shown = "" if http_status is None else f" (HTTP {http_status})"
    return IcapReply(IcapVerdict.INCOMPLETE, f"the server returns other content{shown} and names no threat", head.tag)


def describe(head: Head) -> str:
    """Return a status of the server in a few words."""
    return f"it replies {head.status} {head.reason[:_MOST_THREAT]}".rstrip()


def _find_threat(fields: Mapping[str, str]) -> tuple[str | None, str]:
    """Return the type of the finding, None if there is none, and its name."""
    found = _INFECTION.match(fields.get("x-infection-found", ""))
    if found is not None:
        return found[1], _threat(found[2].strip().rstrip(";"))
    if "x-infection-found" in fields:
        return _VIRUS, _threat(fields["x-infection-found"])
    for name in ("x-virus-id", "x-virus-name"):
        if (value := fields.get(name, "").strip()) and value.lower() not in {"no threats", "none", "clean"}:
            return _VIRUS, _threat(value)
    count, *lines = fields.get("x-violations-found", "0").split("\n")
    if count.strip() != "0":
        return _VIRUS, _threat(lines[1] if len(lines) > 1 else "")
    result = fields.get("x-fsecure-scan-result", "clean").lower()
    if result == "infected":
        return _VIRUS, _threat(fields.get("x-fsecure-infection-name", "").strip('"'))
    if result != "clean":
        return _RULE, _threat(f"X-FSecure-Scan-Result {result}")
    if (blocked := fields.get("x-blocked", "")).lower().startswith("virus"):  # Sophos
        return _VIRUS, _threat(blocked)
    return None, ""


def _threat(text: str) -> str:
    return _shown(text)[:_MOST_THREAT] or "unnamed"


def _shown(text: str) -> str:
    return _UNPRINTABLE.sub("?", text).strip()


def _number(head: Head, name: str) -> int | None:
    text = head.fields.get(name, "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else None  # noqa: PLR2004  (digits)
