"""Have the sandbox draw a preview of a file, and validate what the worker wrote."""

import os
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Final, Literal

from sluice_inspect.child.shared_buffer import SharedBuffer
from sluice_inspect.sandbox import Completed, NoWorker, OverLimit, Sandbox
from sluice_inspect.sandbox.protocol import Job
from sluice_inspect.sandbox.sealed import Sealed

PreviewSide = Literal[200, 1200]  # pixels of the longer side at most

Kind = Literal["page", "picture", "frame", "text", "members"]
Reason = Literal["format", "damaged", "encrypted", "too_complex"]

_JOBS: Final[Mapping[PreviewSide, Job]] = {200: "preview_200", 1200: "preview_1200"}
_KINDS: Final[Mapping[str, Kind]] = {
    "page": "page",
    "picture": "picture",
    "frame": "frame",
    "text": "text",
    "members": "members",
}
_REASONS: Final[Mapping[str, Reason]] = {
    "format": "format",
    "damaged": "damaged",
    "encrypted": "encrypted",
    "too_complex": "too_complex",
}
_PIXEL_BYTES: Final = 3


@dataclass(frozen=True, slots=True)
class Preview:
    """What a file shows, in small: pixels of 8 bits in red, green and blue, row by row."""

    kind: Kind
    width: int
    height: int
    pixels: bytes  # width * height * 3


@dataclass(frozen=True, slots=True)
class NoPreview:
    """A file of which there is no preview; `why` is one of a few fixed words."""

    why: Reason


class PreviewUnavailable(Exception):
    """No worker was available. `str()` says why."""


async def render_preview(
    sandbox: Sandbox, sealed: Sealed, side: PreviewSide, *, filename: str, tenant_id: str
) -> Preview | NoPreview:
    """Return what a file shows, drawn by a locked worker, or why there is nothing. Raise `PreviewUnavailable`.

    The format is the one that the bytes are; the name only helps, as it does when the file is checked. A worker that
    crashed or wrote anything but a preview had a damaged file.
    """
    try:
        lent = SharedBuffer(side * side * _PIXEL_BYTES)
    except OSError as error:
        raise PreviewUnavailable(f"there is no memory for the preview: {error}") from error
    with closing(lent) as buffer:
        result = await sandbox.run(_JOBS[side], sealed, filename=filename, tenant_id=tenant_id, buffer=buffer)
        if isinstance(result, NoWorker):
            raise PreviewUnavailable(result.why)
        if isinstance(result, OverLimit):
            return NoPreview("too_complex")
        if isinstance(result, Completed):
            return _parse(result.payload, side, buffer) or NoPreview("damaged")
        return NoPreview("damaged")


def _parse(payload: Mapping[str, object], side: PreviewSide, buffer: SharedBuffer) -> Preview | NoPreview | None:
    """Return what the worker reported, None if no honest worker does."""
    match payload:
        case {"why": str(why), **others} if not others and why in _REASONS:
            return NoPreview(_REASONS[why])
        case {"kind": str(kind), "width": int(width), "height": int(height), **others} if (
            not others
            and kind in _KINDS
            and type(width) is int
            and type(height) is int
            and 1 <= width <= side
            and 1 <= height <= side
        ):
            size = width * height * _PIXEL_BYTES
            written = os.pread(buffer.fd, buffer.size, 0)
            # Behind the pixels nothing was written.
            if len(written) == buffer.size and written.count(0, size) == buffer.size - size:
                return Preview(_KINDS[kind], width, height, written[:size])
    return None
