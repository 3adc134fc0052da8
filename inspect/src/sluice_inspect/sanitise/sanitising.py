"""The sanitising of a file: what it is decides who cleans it, and what is left of it is written."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from typing import Final

from sluice_inspect import registry
from sluice_inspect.format import Format
from sluice_inspect.inspection import identify, inspect_file
from sluice_inspect.office.default_password import decrypted
from sluice_inspect.report import Encrypted, InspectionError, Limits, Outcome, Unsupported, obstacle_of
from sluice_inspect.sanitise import (
    audio,
    gif,
    heif,
    html,
    jp2,
    jpeg,
    movie,
    ooxml,
    opendocument,
    pdf,
    pixels,
    png,
    streams,
    svg,
    tiff,
    webp,
)
from sluice_inspect.sanitise.cleaning import Cleaner, Cleaning, NotClean
from sluice_inspect.source import MemoryBacked, Source

_LIMITS: Final = Limits()

# Without metadata or active content, by the name of the format.
_CLEANERS: Final[Mapping[str, Cleaner]] = {
    "aac": audio.clean_frames, "aiff": audio.clean_aiff, "avi": streams.clean_avi, "avif": heif.clean,
    "docx": ooxml.clean, "flac": audio.clean_flac,
    "gif": gif.clean, "heic": heif.clean, "html": html.clean, "j2k": jp2.clean,
    "jp2": jp2.clean, "jpeg": jpeg.clean, "m4a": movie.clean, "mov": movie.clean, "mp3": audio.clean_frames,
    "mkv": streams.clean_matroska, "mp4": movie.clean, "ogg": streams.clean_ogg, "opus": streams.clean_ogg,
    "webm": streams.clean_matroska, "odp": opendocument.clean, "ods": opendocument.clean, "odt": opendocument.clean,
    "pdf": pdf.clean, "png": png.clean, "pptx": ooxml.clean, "svg": svg.clean, "tiff": tiff.clean,
    "wav": audio.clean_wave, "webp": webp.clean, "xlsx": ooxml.clean,
}  # fmt: skip
# Formats of which no file has any.
_WITHOUT_METADATA: Final = frozenset({"bmp", "csv", "json", "md", "text", "xml", "yaml"})
_WITHOUT_ACTIVE_CONTENT: Final = frozenset({
    "bmp", "csv", "json", "md", "otf", "text", "ttf", "woff", "woff2", "yaml",
})  # fmt: skip
# Formats of which a file with active content is not taken apart.
_JUDGED: Final = frozenset({"doc", "epub", "ppt", "rtf", "xls", "xml"})
ACTIVE_FLAGS: Final = re.compile(
    r"macro|package|object\.|template\.remote|link\.external|dde|altchunk|xinclude|script\.|launch\.|attachment\."
    r"|smuggling\."
)
_OFFICE: Final = re.compile(rb"mso-application|:opendocument:|schemas-microsoft-com|schemas\.microsoft\.com/office")
_FIELD_LINK: Final = b"HYPERLINK"


def write_sanitised(
    fd: int, filename: str, removals: AbstractSet[str], write: Callable[[bytes], bool]
) -> dict[str, object]:
    """Write what is left of the file behind `fd`; return its size, what was taken out, and whether it was signed.

    If there is nothing to take out, nothing is written, and `nothing` is returned; `why` if it cannot be made clean.
    `filename` helps to recognise the format, as it does when the file is inspected.
    """
    with Source(fd) as source:
        try:
            content, cleaning = sanitise(source, filename, removals)
        except NotClean as reason:
            return {"why": reason.why}
        except (MemoryError, RecursionError):
            return {"why": "too_complex"}
        except InspectionError as error:
            return {"why": obstacle_of(error)}
        except Exception:  # noqa: BLE001  (readers raise anything for a damaged file)
            return {"why": "damaged"}
        if not cleaning.removed:
            return {"nothing": True}
        if not content:
            return {"why": "empty"}
        if not write(content):
            return {"why": "too_large"}
    return {"size": len(content), "removed": sorted(cleaning.removed), "signed": cleaning.is_signed}


def sanitise(
    source: Source, filename: str, removals: AbstractSet[str], limits: Limits = _LIMITS
) -> tuple[bytes, Cleaning]:
    """Return what is left of a file, and what was taken out of it. Raise `NotClean` or an `InspectionError`."""
    if decrypted(source) is not None:
        raise Encrypted("the workbook is encrypted, even if Excel opens it without asking")
    found, _content_type = identify(source, filename, limits)
    if found is None:
        raise Unsupported("the format of the file is not known")
    cleaning = Cleaning("metadata" in removals, "active_content" in removals)
    if "pixels" in removals:
        return pixels.redraw(source, found.name, cleaning, limits), cleaning
    cleaner = _CLEANERS.get(found.name)
    if cleaner is None:
        _require_nothing(source, found, filename, cleaning)
        return b"", cleaning
    return cleaner(source.read_at(0, source.size), cleaning), cleaning


def _require_nothing(source: Source, found: Format, filename: str, cleaning: Cleaning) -> None:
    """Raise `Unsupported` unless a file of this format has nothing of what is not wanted, `NotClean` if it has."""
    if cleaning.metadata and found.name not in _WITHOUT_METADATA:
        raise Unsupported(f"no metadata is taken out of {found.name} files")
    if cleaning.metadata and found.name == "xml" and _OFFICE.search(source.head):
        raise Unsupported("no metadata is taken out of Office documents that are one XML file")
    if not cleaning.active_content or found.name in _WITHOUT_ACTIVE_CONTENT:
        return
    if found.name not in _JUDGED:
        raise Unsupported(f"no active content is taken out of {found.name} files")
    report = inspect_file(source, filename=filename)
    if report.integrity is Outcome.ENCRYPTED:
        raise Encrypted("the document is protected by a password")
    is_known = report.facts.get("flags_complete") is True
    if not is_known or any(map(ACTIVE_FLAGS.match, report.flags)) or _has_field_link(source, found):
        raise NotClean("inseparable")


def _has_field_link(source: Source, found: Format) -> bool:
    return found.name == "rtf" and _FIELD_LINK in source.read_at(0, source.size).upper()


def preload() -> None:
    """Sanitise the sample of every format: a locked child cannot load what it needs."""
    for each in registry.FORMATS:
        if each.missing_reader:
            continue
        for removals in ({"metadata", "active_content"}, {"pixels"}):
            # Sanitising that does not work here is no reason to check no file.
            with MemoryBacked(each.sample()) as sample, contextlib.suppress(InspectionError, NotClean):
                sanitise(sample, f"sample.{min(each.extensions)}", removals)
