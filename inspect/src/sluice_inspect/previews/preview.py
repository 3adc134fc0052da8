"""The preview of a file: what it shows is decided by its format, drawn, and written as pixels."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from PIL import Image

from sluice_inspect import registry
from sluice_inspect.document_text import office, texts
from sluice_inspect.document_text.extent import BEGINNING
from sluice_inspect.document_text.texts import mail_text, plain_text
from sluice_inspect.format import Family
from sluice_inspect.inspection import identify
from sluice_inspect.office.default_password import decrypted
from sluice_inspect.previews.members import list_members
from sluice_inspect.previews.pages import draw_page
from sluice_inspect.previews.pictures import draw_frame, draw_picture
from sluice_inspect.previews.sheet import draw_sheet
from sluice_inspect.report import InspectionError, Limits, Unsupported, obstacle_of
from sluice_inspect.sniff import is_plain_text
from sluice_inspect.source import MemoryBacked, Source

_LIMITS: Final = Limits()
_SAMPLE_SIDE: Final = 200
_READERS: Final = {**texts.READERS, **office.READERS}
# By the names of formats, what FFmpeg calls them.
_DEMUXERS: Final[Mapping[str, str]] = {
    "avi": "avi", "mkv": "matroska", "mov": "mov", "mp4": "mp4", "ogg": "ogg", "webm": "matroska",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Drawing:
    """What a file shows, in small: a picture in red, green and blue."""

    kind: Literal["page", "picture", "frame", "text", "members"]
    picture: Image.Image


def write_preview(fd: int, filename: str, side: int, write: Callable[[bytes], bool]) -> dict[str, object]:
    """Write the pixels of a preview of the file behind `fd`, row by row, and return its kind, width and height.

    Without a preview, nothing is written, and `why` is returned. `filename` helps to recognise the format, as it does
    when the file is inspected.
    """
    with Source(fd) as source:
        try:
            drawing = draw_preview(source, filename, side)
        except (MemoryError, RecursionError):
            return {"why": "too_complex"}
        except InspectionError as error:
            return {"why": obstacle_of(error)}
        except Exception:  # noqa: BLE001  (readers raise anything for a damaged file)
            return {"why": "damaged"}
    picture = drawing.picture
    if not write(picture.tobytes()):
        return {"why": "too_complex"}
    return {"kind": drawing.kind, "width": picture.width, "height": picture.height}


def draw_preview(source: Source, filename: str, side: int, limits: Limits = _LIMITS) -> Drawing:
    """Return a drawing of at most `side` pixels a side. Raise an `InspectionError` that says why there is none."""
    document = decrypted(source)
    if document is None:
        return _draw(source, filename, side, limits)
    with MemoryBacked(document) as content:
        return _draw(content, filename, side, limits)


def _draw(source: Source, filename: str, side: int, limits: Limits) -> Drawing:
    found, content_type = identify(source, filename, limits)
    if found is None:
        if source.size and is_plain_text(source):
            read = mail_text if content_type == "message/rfc822" else plain_text
            return Drawing("text", draw_sheet(read(source, limits, BEGINNING), side))
        raise Unsupported("the format of the file is not known")
    if found.family is Family.PICTURE:
        return Drawing("picture", draw_picture(source, found.name, side, limits))
    if found.name == "pdf":
        return Drawing("page", draw_page(source, side))
    if found.name in _DEMUXERS:
        return Drawing("frame", draw_frame(source, _DEMUXERS[found.name], side))
    if found.name in _READERS:
        words = _READERS[found.name](source, limits, BEGINNING)
        if found.name in office.READERS and not words.strip():
            raise Unsupported("the document has no words: what else it shows is not drawn")
        return Drawing("text", draw_sheet(words, side))
    if found.family is Family.ARCHIVE:
        return Drawing("members", draw_sheet(list_members(source, found, filename, limits), side))
    raise Unsupported(f"nothing of {found.name} files is drawn")


def preload() -> None:
    """Draw the sample of every format: a locked child cannot load what it needs."""
    for each in registry.FORMATS:
        if each.missing_reader:
            continue
        # A preview that does not work here is no reason to check no file.
        with MemoryBacked(each.sample()) as sample, contextlib.suppress(InspectionError):
            draw_preview(sample, f"sample.{min(each.extensions)}", _SAMPLE_SIDE)
