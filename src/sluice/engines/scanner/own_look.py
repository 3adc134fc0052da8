"""What Sluice's own rules and its own unpacking say of a file: the answer of a child of the sandbox, held to what it can be.

What follows from it for an upload is decided in `builtin` and in `clamd_verdict`.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from sluice.engines.sandbox import Away, Died, Overran, Ran, Sandbox
from sluice.engines.sandbox.protocol import Job
from sluice.engines.sandbox.tray import Tray
from sluice.kit.sealed import Sealed
from sluice.threats import RULES_VERSION

_COPIED_AT_ONCE: Final = 1024**2
_MOST_TEXT: Final = 500
_MOST_NAMES: Final = 100
_FLAGS: Final = ("complete", "encrypted", "opened", "crowded", "hides")
_LISTS: Final = ("flags", "unopened", "foreign", "laid")
_NUMBERS: Final = ("largest", "unpacked", "members", "depth")
_NOTHING: Final[Mapping[str, object]] = {
    "threat": None, "why": "", **dict.fromkeys(_FLAGS, False), **{name: [] for name in _LISTS}, **dict.fromkeys(_NUMBERS, 0),
}  # fmt: skip
_FIELDS: Final = _NOTHING.keys() | {"signatures"}
_FEWEST: Final = 2
"""Fields of an answer that says that all was looked at, and nothing more."""


class LookAway(Exception):
    """No child could be had. `str()` says why."""


class _Lie(Exception):
    """The answer is none that an honest child gives."""


@dataclass(frozen=True, slots=True)
class Laid:
    """One part that lies on the tray. `opened` tells that what is packed in it was followed, and is laid out as well where that was asked for."""

    start: int
    size: int
    opened: bool


@dataclass(frozen=True, slots=True)
class OwnLook:
    """What was seen; sizes are in bytes. See `sluice.threats.scan.scan_source` for the fields."""

    threat: str | None
    why: str
    """Why not all of it was looked at; empty when all was."""
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
    laid: tuple[Laid, ...] = ()


NOT_LOOKED: Final = OwnLook(None, "we did not look", 0.0)


async def own_look(sandbox: Sandbox, job: Job, sealed: Sealed, *, tenant_id: str, tray: Tray | None = None) -> OwnLook:
    """Answer what a child saw; raises `LookAway`. A child that died, overran or lied has not looked at all of it.

    The file's name takes no part: the verdict is one on the bytes, and holds for them wherever they turn up again.
    """
    ran = await sandbox.run(job, sealed, filename="", tenant_id=tenant_id, tray=tray)
    if isinstance(ran, Away):
        raise LookAway(ran.why)
    if isinstance(ran, Died):
        return OwnLook(None, f"the scan ended early: {ran.why}", ran.ms)
    if isinstance(ran, Overran):
        return OwnLook(None, f"the scan was stopped at its {ran.limit} limit", ran.ms)
    try:
        return _checked(ran, tray)
    except _Lie as lie:
        return OwnLook(None, str(lie), ran.ms)


def look_beside_check(payload: object, ms: float) -> OwnLook | None:
    """Answer what a child saw that did `scan` as a part of its work; None when it did not say so as an honest child does."""
    try:
        return _checked(Ran(payload, ms), None) if isinstance(payload, dict) else None
    except _Lie:
        return None


class Glance:
    """A look that somebody else has taken, or will have in a moment: a scanner that needs one waits for it instead of looking itself."""

    def __init__(self) -> None:
        self._look: asyncio.Future[OwnLook | None] = asyncio.get_running_loop().create_future()
        self.is_left = False
        """Whether it is left to the scanner, at best from the moment on at which it is settled: until then a child is at work on the same bytes."""

    @property
    def is_under_way(self) -> bool:
        """Whether somebody else is still looking: there is nothing to begin meanwhile."""
        return not (self.is_left or self._look.done())

    def leave(self) -> None:
        """Leave it to the scanner. `settle` tells when the child that is at work is done."""
        self.is_left = True

    def settle(self, look: OwnLook | None) -> None:
        """Hand over the look; None when it did not come about. What is said later counts no more."""
        if not self._look.done():
            self._look.set_result(look)

    async def had(self) -> OwnLook | None:
        """Wait for the look. Whoever waits may be cancelled, and others still have it."""
        return await asyncio.shield(self._look)


@asynccontextmanager
async def laid_out(tray: Tray, part: Laid) -> AsyncIterator[Sealed]:
    """Answer a part on its own, copied into memory that only this process can write to."""
    fd = os.memfd_create("sluice-part", os.MFD_CLOEXEC)
    try:
        if part.size <= _COPIED_AT_ONCE:
            _copy(tray, part, fd)
        else:
            await asyncio.to_thread(_copy, tray, part, fd)
        yield Sealed(fd, part.size, b"")
    finally:
        os.close(fd)


def _copy(tray: Tray, part: Laid, fd: int) -> None:
    at, end = part.start, part.start + part.size
    while at < end:
        at += os.sendfile(fd, tray.fd, at, end - at)


def _checked(ran: Ran, tray: Tray | None) -> OwnLook:
    """Answer what the child said, unless it cannot have said so (`_Lie`): a file may have taken it over. What it did not say is nothing."""
    if len(ran.payload) == _FEWEST and ran.payload.get("complete") is True and ran.payload.get("signatures") == RULES_VERSION:
        return OwnLook(None, "", ran.ms)  # of most files there is nothing else to say
    fields = _FIELDS if tray is not None else _FIELDS - {"laid"}
    if not ran.payload.keys() <= fields or ran.payload.get("signatures") != RULES_VERSION:
        raise _Lie("the scan answered with other fields than it has")
    payload = {**_NOTHING, **ran.payload}
    threat, why = payload["threat"], payload["why"]
    if not all(isinstance(payload[name], bool) for name in _FLAGS) or not _is_text(why):
        raise _Lie("the scan answered with values that are none")
    if threat is not None and (not _is_text(threat) or not threat):
        raise _Lie("the scan answered with a threat without a name")
    if payload["complete"] != (threat is None and why == ""):
        raise _Lie("the scan contradicted itself")
    return OwnLook(
        None if threat is None else str(threat),
        str(why),
        ran.ms,
        encrypted=payload["encrypted"] is True,
        opened=payload["opened"] is True,
        crowded=payload["crowded"] is True,
        hides=payload["hides"] is True,
        flags=_names(payload["flags"]),
        unopened=_names(payload["unopened"]),
        foreign=_names(payload["foreign"]),
        largest=_number(payload["largest"]),
        unpacked=_number(payload["unpacked"]),
        members=_number(payload["members"]),
        depth=_number(payload["depth"]),
        laid=() if tray is None else _places(payload["laid"], tray),
    )


def _number(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise _Lie("the scan answered with numbers that are none")
    return value


def _names(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or len(value) > _MOST_NAMES or not all(_is_text(name) for name in value):
        raise _Lie("the scan answered with names that are none")
    return tuple(map(str, value))


def _places(value: object, tray: Tray) -> tuple[Laid, ...]:
    """Answer the places that lie on the tray one behind another, as a child lays parts out."""
    if not isinstance(value, list):
        raise _Lie("the scan answered with places that are none")
    places: list[Laid] = []
    at = 0
    for place in value:
        match place:
            case [int(start), int(size), bool(opened)] if type(start) is int and type(size) is int and start >= at and size > 0:
                places.append(Laid(start, size, opened))
                at = start + size
            case _:
                raise _Lie("the scan answered with places that are none")
    if at > tray.size:
        raise _Lie("the scan answered with places beyond the tray")
    return tuple(places)


def _is_text(value: object) -> bool:
    return isinstance(value, str) and len(value) <= _MOST_TEXT and (value == "" or value.isprintable())
