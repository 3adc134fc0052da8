"""Have the sandbox take metadata, active content or all but pixels out of a file, and validate what it wrote."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from typing import Final, Literal, get_args

from sluice_inspect.child.shared_buffer import SharedBuffer
from sluice_inspect.sandbox import Completed, NoWorker, OverLimit, Sandbox
from sluice_inspect.sandbox.protocol import Job
from sluice_inspect.sandbox.sealed import Sealed

# `pixels` implies the other two: nothing but what a picture or page shows is left.
Removal = Literal["metadata", "active_content", "pixels"]
# What was taken out of a file: a name of `catalogue.REMOVED`, which says more about each.
Removed = Literal[
    "gps",
    "camera",
    "author",
    "dates",
    "xmp",
    "thumbnail",
    "comments",
    "other_metadata",
    "macros",
    "scripts",
    "actions",
    "embedded_files",
    "external_links",
    "forms",
    "signatures",
    "all_but_pixels",
]
# Why a file cannot be sanitised: its format has no sanitiser for this, it is damaged, needs a password, takes too long
# or too much memory, is larger than `LARGEST_SANITISED_BYTES` or becomes it, has a signature that would break, would be
# left without any content, or has what is to be removed in a place that cannot be separated from the rest.
Unsanitised = Literal["format", "damaged", "encrypted", "too_complex", "too_large", "signed", "empty", "inseparable"]

LARGEST_SANITISED_BYTES: Final = 128 * 1024**2  # of the file, and of what is left of it

_REMOVED: Final[Mapping[str, Removed]] = {word: word for word in get_args(Removed)}
_REASONS: Final[Mapping[str, Unsanitised]] = {word: word for word in get_args(Unsanitised)}


@dataclass(frozen=True, slots=True)
class Sanitised:
    """What is left of a file: the first `size` bytes behind `fd`, at least one, sealed against changes.

    `fd` is closed when the block of `sanitise` ends. `removed` has at least one word, each once, in the order of the
    catalogue.
    """

    fd: int
    size: int
    removed: tuple[Removed, ...]


@dataclass(frozen=True, slots=True)
class NothingToRemove:
    """A file that has nothing of what is to be removed: it stays as it is, byte for byte."""


@dataclass(frozen=True, slots=True)
class NotSanitised:
    """A file that cannot be made clean; `why` is one of a few fixed words."""

    why: Unsanitised


class SanitisingUnavailable(Exception):
    """No worker was available: an outage, and nothing about the file. `str()` says why."""


@asynccontextmanager
async def sanitise(
    sandbox: Sandbox,
    sealed: Sealed,
    removals: frozenset[Removal],
    *,
    breaks_signatures: bool,
    filename: str,
    tenant_id: str,
) -> AsyncIterator[Sanitised | NothingToRemove | NotSanitised]:
    """Take `removals`, at least one, out of a file in a locked worker. Raise `SanitisingUnavailable`.

    The format is the one that the bytes are; the name only helps, as it does when the file is checked. A document that
    is signed and would change is not sanitised unless `breaks_signatures`. A worker that crashed, or wrote anything
    that no honest one does, had a damaged file. What is left of a file is as untrusted as the file, and has to be
    checked like it.
    """
    if sealed.size > LARGEST_SANITISED_BYTES:
        yield NotSanitised("too_large")
        return
    try:
        lent = SharedBuffer(LARGEST_SANITISED_BYTES)
    except OSError as error:
        raise SanitisingUnavailable(f"there is no memory for the sanitised file: {error}") from error
    with closing(lent) as buffer:
        result = await sandbox.run(_job(removals), sealed, filename=filename, tenant_id=tenant_id, buffer=buffer)
        if isinstance(result, NoWorker):
            raise SanitisingUnavailable(result.why)
        if isinstance(result, OverLimit):
            yield NotSanitised("too_complex")
        elif isinstance(result, Completed):
            yield _parse(result.payload, buffer, breaks_signatures=breaks_signatures) or NotSanitised("damaged")
        else:
            yield NotSanitised("damaged")


def _job(removals: frozenset[Removal]) -> Job:
    if "pixels" in removals:
        return "sanitise_pixels"
    if removals == {"metadata"}:
        return "sanitise_metadata"
    if removals == {"active_content"}:
        return "sanitise_active_content"
    if not removals:
        raise ValueError("nothing is to be removed")
    return "sanitise_metadata_and_active_content"


def _parse(
    payload: Mapping[str, object], buffer: SharedBuffer, *, breaks_signatures: bool
) -> Sanitised | NothingToRemove | NotSanitised | None:
    """Return what the worker reported, None if no honest worker does."""
    match payload:
        case {"why": str(why), **others} if not others and why in _REASONS:
            return NotSanitised(_REASONS[why])
        case {"nothing": True, **others} if not others:
            return NothingToRemove()
        case {"size": int(size), "removed": list(removed), "signed": bool(signed), **others} if (
            not others
            and type(size) is int
            and 1 <= size <= buffer.size
            and 1 <= len(removed) <= len(_REMOVED)
            and all(isinstance(word, str) and word in _REMOVED for word in removed)
        ):
            if signed and not breaks_signatures:
                return NotSanitised("signed")
            return Sanitised(buffer.fd, size, tuple(word for word in _REMOVED.values() if word in removed))
    return None
