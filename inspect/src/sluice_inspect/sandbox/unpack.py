"""Have the sandbox unpack and scan a file with Sluice's own rules, and validate the worker's report."""

import asyncio
import os
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final, Literal

from sluice_inspect.child.shared_buffer import SharedBuffer
from sluice_inspect.sandbox import Crashed, NoWorker, OverLimit, Sandbox
from sluice_inspect.sandbox.protocol import Job
from sluice_inspect.sandbox.sealed import Sealed
from sluice_inspect.threats import RULES_VERSION

# Files of up to this size are checked and scanned by one job of the sandbox: handing them over costs as much as either.
CHECK_AND_SCAN_BYTES: Final = 1024**2

# Larger parts are copied in a thread.
_COPY_INLINE_BYTES: Final = 1024**2
_TEXT_MAX: Final = 500
_NAMES_MAX: Final = 100
_FLAGS: Final = ("complete", "encrypted", "opened", "crowded", "hides")
_LISTS: Final = ("flags", "unopened", "foreign", "laid")
_NUMBERS: Final = ("largest", "unpacked", "members", "depth")
_DEFAULTS: Final[Mapping[str, object]] = {
    "threat": None,
    "why": "",
    **dict.fromkeys(_FLAGS, False),
    **{name: [] for name in _LISTS},
    **dict.fromkeys(_NUMBERS, 0),
    "yara": None,
}
_FIELDS: Final = _DEFAULTS.keys() | {"signatures"}
_MATCHES_MAX: Final = 20
_META_MAX: Final = 8
_LARGEST_META: Final = 2**53
_RULES_VERSION: Final = re.compile(r"[0-9a-f]{16}")
_RULE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_SEVERITIES: Final[Mapping[str, "Severity"]] = {"reject": "reject", "quarantine": "quarantine", "report": "report"}
# Workers leave defaults out. The report of most files is only `complete` and `signatures`.
_SHORTEST_REPORT: Final = 2


class UnpackUnavailable(Exception):
    """No worker was available. `str()` says why."""


class _InvalidReport(Exception):
    """No honest worker gives such a report."""


@dataclass(frozen=True, slots=True)
class Extent:
    """One extracted part in the shared buffer. `opened` parts are packed themselves, in ways that were all followed."""

    start: int
    size: int
    opened: bool


# What follows from a match of an operator's rule: the file is infected, is put in quarantine, or has a flag.
Severity = Literal["reject", "quarantine", "report"]


@dataclass(frozen=True, slots=True)
class RuleMatch:
    """A rule of the operator that matches a file or one of its parts: its name, its file, and its metadata."""

    rule: str
    file: str
    severity: Severity
    meta: Mapping[str, str | int | bool]


@dataclass(frozen=True, slots=True)
class RulesReport:
    """What the operator's rules of this version found. `why` says what they were not applied to, if anything."""

    version: str
    why: str = ""
    matches: tuple[RuleMatch, ...] = ()


@dataclass(frozen=True, slots=True)
class UnpackReport:
    """The findings of Sluice's own rules and unpackers in a file.

    See `sluice_inspect.threats.scan.scan_source` for the fields; sizes are in bytes.

    `why` says why not all of it was scanned, and is empty if all was.
    """

    threat: str | None
    why: str
    ms: float
    encrypted: bool = False
    opened: bool = False
    crowded: bool = False
    hides: bool = False
    flags: tuple[str, ...] = ()
    unopened: tuple[str, ...] = ()
    foreign: tuple[str, ...] = ()
    largest: int = 0
    unpacked: int = 0
    members: int = 0
    depth: int = 0
    extents: tuple[Extent, ...] = ()
    yara: RulesReport | None = None


async def unpack(
    sandbox: Sandbox, job: Job, sealed: Sealed, *, tenant_id: str, buffer: SharedBuffer | None = None
) -> UnpackReport:
    """Run a scanning job. Raise `UnpackUnavailable`.

    A worker that crashed, ran over a limit or lied has not scanned all of the file.
    """
    # Without the file's name: the verdict is one on the bytes, and holds wherever they appear again.
    result = await sandbox.run(job, sealed, filename="", tenant_id=tenant_id, buffer=buffer)
    if isinstance(result, NoWorker):
        raise UnpackUnavailable(result.why)
    if isinstance(result, Crashed):
        return UnpackReport(None, f"the scan ended early: {result.why}", result.ms)
    if isinstance(result, OverLimit):
        return UnpackReport(None, f"the scan was stopped at its {result.limit} limit", result.ms)
    try:
        return _parse(result.payload, result.ms, buffer)
    except _InvalidReport as lie:
        return UnpackReport(None, str(lie), result.ms)


def parse_unpack_report(payload: object, ms: float) -> UnpackReport | None:
    """Return the report of a job that also did other work; None if it did not scan, or the report is invalid."""
    try:
        return _parse(payload, ms, None) if isinstance(payload, dict) else None
    except _InvalidReport:
        return None


@asynccontextmanager
async def extracted_part(buffer: SharedBuffer, extent: Extent) -> AsyncIterator[Sealed]:
    """Copy a part into memory of its own, which only this process can write to; it is gone when the block ends."""
    fd = os.memfd_create("sluice-part", os.MFD_CLOEXEC)
    try:
        if extent.size <= _COPY_INLINE_BYTES:
            _copy(buffer, extent, fd)
        else:
            await asyncio.to_thread(_copy, buffer, extent, fd)
        yield Sealed(fd, extent.size, b"")
    finally:
        os.close(fd)


def _copy(buffer: SharedBuffer, extent: Extent, fd: int) -> None:
    at, end = extent.start, extent.start + extent.size
    while at < end:
        at += os.sendfile(fd, buffer.fd, at, end - at)


def _parse(payload: Mapping[str, object], ms: float, buffer: SharedBuffer | None) -> UnpackReport:
    """Return the report in a job's payload. Raise `_InvalidReport`."""
    if payload.get("signatures") != RULES_VERSION:
        raise _InvalidReport("the scan used other rules than ours")
    if len(payload) == _SHORTEST_REPORT and payload.get("complete") is True:
        return UnpackReport(None, "", ms)
    if not payload.keys() <= (_FIELDS if buffer is not None else _FIELDS - {"laid"}):
        raise _InvalidReport("the scan returned other fields than it has")
    full = {**_DEFAULTS, **payload}
    threat, why = full["threat"], full["why"]
    if not all(isinstance(full[name], bool) for name in _FLAGS) or not _is_text(why):
        raise _InvalidReport("the scan returned a field of another type than it has")
    if threat is not None and (not _is_text(threat) or not threat):
        raise _InvalidReport("the scan returned a threat without a name")
    if full["complete"] != (threat is None and why == ""):
        raise _InvalidReport("the scan contradicted itself")
    return UnpackReport(
        None if threat is None else str(threat),
        str(why),
        ms,
        encrypted=full["encrypted"] is True,
        opened=full["opened"] is True,
        crowded=full["crowded"] is True,
        hides=full["hides"] is True,
        flags=_parse_names(full["flags"]),
        unopened=_parse_names(full["unopened"]),
        foreign=_parse_names(full["foreign"]),
        largest=_parse_number(full["largest"]),
        unpacked=_parse_number(full["unpacked"]),
        members=_parse_number(full["members"]),
        depth=_parse_number(full["depth"]),
        extents=() if buffer is None else _parse_extents(full["laid"], buffer),
        yara=None if full["yara"] is None else _parse_rules_report(full["yara"]),
    )


def _parse_rules_report(value: object) -> RulesReport:
    match value:
        case {"version": str(version), "why": str(why), "matches": list(matches), **others} if (
            not others and _RULES_VERSION.fullmatch(version) and _is_text(why) and len(matches) <= _MATCHES_MAX
        ):
            return RulesReport(version, why, tuple(map(_parse_match, matches)))
    raise _InvalidReport("the scan returned an invalid report of YARA rules: expected version, why and matches")


def _parse_match(value: object) -> RuleMatch:
    match value:
        case {"rule": str(rule), "file": str(file), "severity": str(severity), "meta": dict(meta), **others} if (
            not others
            and _RULE.fullmatch(rule)
            and _is_text(file)
            and severity in _SEVERITIES
            and len(meta) <= _META_MAX
            and all(_RULE.fullmatch(name) and _is_meta(each) for name, each in meta.items())
        ):
            return RuleMatch(rule, file, _SEVERITIES[severity], meta)
    raise _InvalidReport("the scan returned an invalid match of a YARA rule: expected rule, file, severity and meta")


def _is_meta(value: object) -> bool:
    return _is_text(value) or (isinstance(value, int) and abs(value) < _LARGEST_META)


def _parse_number(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise _InvalidReport("the scan returned another value where a number was expected")
    return value


def _parse_names(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or len(value) > _NAMES_MAX or not all(_is_text(name) for name in value):
        raise _InvalidReport("the scan returned another value where a list of names was expected")
    return tuple(map(str, value))


def _parse_extents(value: object, buffer: SharedBuffer) -> tuple[Extent, ...]:
    """Return the extents, which must lie one after another within the buffer, as a worker writes them."""
    if not isinstance(value, list):
        raise _InvalidReport("the scan returned another value where extents were expected")
    extents: list[Extent] = []
    at = 0
    for extent in value:
        match extent:
            case [int(start), int(size), bool(opened)] if (
                type(start) is int and type(size) is int and start >= at and size > 0
            ):
                extents.append(Extent(start, size, opened))
                at = start + size
            case _:
                raise _InvalidReport("the scan returned another value where extents were expected")
    if at > buffer.size:
        raise _InvalidReport("the scan returned extents beyond the shared buffer")
    return tuple(extents)


def _is_text(value: object) -> bool:
    return isinstance(value, str) and len(value) <= _TEXT_MAX and (value == "" or value.isprintable())
