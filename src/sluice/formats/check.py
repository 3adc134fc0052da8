"""One file in, one report out: the order of the questions. The answers are in `sniff.py`, `polyglot.py` and the kinds; no rule of a format is here."""

import codecs
import importlib
import os
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Final

from sluice.formats import sniff
from sluice.formats.extensions import FOREIGN, TEXT, extension_of
from sluice.formats.kind import Kind
from sluice.formats.polyglot import second_format
from sluice.formats.registry import KINDS, kind_of
from sluice.formats.source import HEAD_BYTES, Source
from sluice.formats.text.plaintext import is_mere_space
from sluice.formats.verdict import Finding, Judgement, Limits, Measure, Outcome, Report

File = str | os.PathLike[str] | int | IO[bytes] | Source
"""A path, an open descriptor, a binary file object, or one that others read as well."""

_FILLS: Final = {0x00: "zeros", 0xFF: "ones"}
_LATE_MODULES: Final = ("numpy.fft", "numpy.linalg", "numpy.ma", "numpy.random")
"""What numpy loads when a name of it is first used."""
_CODECS: Final = (
    "cp437",
    "cp1252",
    "latin-1",
    "utf-8-sig",
    "utf-16",
    "utf-16-le",
    "utf-16-be",
    "utf-32",
    "utf-32-le",
    "utf-32-be",
    "ascii",
    "unicode_escape",
)
_NO_LIMITS_GIVEN: Final = Limits()


@dataclass(frozen=True, slots=True)
class _Type:
    """What the content is, and whether its name said so."""

    kind: Kind | None
    content_type: str
    mismatch: str = ""
    damage: str = ""


@dataclass(frozen=True, slots=True)
class _Look:
    """What a kind said of the content."""

    integrity: Outcome = Outcome.OK
    finding: Finding | None = None
    detail: str = ""
    measures: Mapping[str, Measure] = field(default_factory=dict)
    blank: str | None = None


def check_file(file: File, *, filename: str | None = None, limits: Limits = _NO_LIMITS_GIVEN) -> Report:
    """Judge one file, in the name of `filename` (by default a path's own), and answer all that could be measured of it.

    Never raises for what the bytes are; raises `OSError` when they cannot be read. Neither closes a descriptor nor moves its offset.
    """
    started = time.perf_counter()
    if filename is None and isinstance(file, str | os.PathLike):
        filename = os.fspath(file)
    with _source(file) as source:
        report = _judge(source, extension_of(filename), limits)
    return replace(report, ms=round((time.perf_counter() - started) * 1000, 3))


def preload() -> None:
    """Load now all that a check loads when it first needs it, so that later checks need no file system.

    Checks the sample of every kind whose reader is installed; raises `RuntimeError` when one of them is not found good.
    """
    sniff.preload()
    for name in _LATE_MODULES:
        importlib.import_module(name)
    for name in _CODECS:
        codecs.lookup(name)
    for kind in (kind for kind in KINDS if not kind.lacks):
        with _scratch() as file:
            file.write(kind.sample())
            file.flush()
            report = check_file(file.fileno(), filename=f"sample.{min(kind.extensions)}")
        if report.outcome is not Outcome.OK or report.finding or report.format != kind.name:
            raise RuntimeError(f"the {kind.name} check does not work here: {report.outcome} {report.detail}")


@contextmanager
def _source(file: File) -> Iterator[Source]:
    if isinstance(file, Source):
        yield file
    elif isinstance(file, int):
        yield Source(file)
    elif isinstance(file, str | os.PathLike):
        with Path(file).open("rb") as opened:
            yield Source(opened.fileno())
    else:
        with _on_disk(file) as opened:
            yield Source(opened.fileno())


@contextmanager
def _on_disk(file: IO[bytes]) -> Iterator[IO[bytes]]:
    """Answer a file that has a descriptor: the one given, or a copy of what is only in memory."""
    try:
        file.fileno()
    except OSError:
        pass
    else:
        yield file
        return
    with _scratch() as copy:
        place = file.tell()
        file.seek(0)
        while chunk := file.read(HEAD_BYTES):
            copy.write(chunk)
        file.seek(place)
        copy.flush()
        yield copy


def _scratch() -> IO[bytes]:
    """Answer an empty file: in memory where the system can, so that no file system is needed."""
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create("scratch"), "w+b")
    return tempfile.TemporaryFile()


def _judge(source: Source, extension: str, limits: Limits) -> Report:
    fill = _fill(source)
    if fill:
        return _of_nothing(fill, extension)
    seen = _type_of(source, extension, limits)
    look = _look(source, seen.kind, limits) if seen.kind else _Look()
    seen, look = _reconsidered(source, seen, look)
    if seen.damage:
        look = _Look(integrity=Outcome.CORRUPT, detail=seen.damage)
    second = second_format(source, seen.kind.name if seen.kind else None, look.measures)
    finding, detail = _worst(second, seen.mismatch, look)
    blank = look.blank is not None
    return Report(
        format=seen.kind.name if seen.kind else None,
        content_type=seen.content_type,
        outcome=Outcome.BLANK if blank else look.integrity,
        integrity=look.integrity,
        finding=finding,
        blank=blank,
        detail=detail,
        blank_detail=look.blank or "",
        measures=look.measures,
    )


def _fill(source: Source) -> str | None:
    """Answer with what the whole file is filled, if it is nothing else."""
    if source.size == 0:
        return "empty"
    byte = source.head[:1]
    if byte[0] not in _FILLS:
        return None
    for offset in range(0, source.size, 16 * HEAD_BYTES):
        if source.read_at(offset, 16 * HEAD_BYTES).strip(byte):
            return None
    return _FILLS[byte[0]]


def _of_nothing(fill: str, extension: str) -> Report:
    known = kind_of(extension) is not None or TEXT not in FOREIGN.get(extension, {TEXT})
    said = "the file has no bytes" if fill == "empty" else f"every byte of the file is {'0x00' if fill == 'zeros' else '0xFF'}"
    return Report(
        format=None,
        content_type=sniff.UNKNOWN,
        outcome=Outcome.BLANK,
        integrity=Outcome.CORRUPT if known else Outcome.OK,
        finding=None,
        blank=True,
        detail=f"{said}, which no .{extension} file is" if known else "",
        blank_detail=said,
        fill=fill,
    )


def _type_of(source: Source, extension: str, limits: Limits) -> _Type:
    """Answer what the content is. A name that promises nothing is never broken; a text kind is told from others by its name alone."""
    named, allowed = kind_of(extension), FOREIGN.get(extension)
    if sniff.looks_like_html(source) and not _may_be_a_page(named, allowed):
        return _Type(None, "text/html", f"named .{extension}, but the content is a web page")
    found = sniff.recognise(source, KINDS, named)
    if found is not None and found is not named and _is_mere_text(source, found, limits):
        found = None
    if found is not None:
        broken = (named is not None and found is not named and extension not in found.extensions | found.also_named) or (
            named is None and allowed is not None and found.name not in allowed
        )
        return _Type(found, found.content_type, f"named .{extension}, but the content is {found.name.upper()}" if broken else "")
    if named is None:
        return _Type(None if allowed else _document(source, limits), sniff.content_type_of(source))
    if named.is_text:
        return _Type(named, named.content_type)
    written = _written(source, allowed, limits)
    return _Type(written, written.content_type) if written else _unrecognised(source, named, extension)


def _document(source: Source, limits: Limits) -> Kind | None:
    """Answer XML for a document under a name that promises nothing: of all text, it alone says what it is."""
    kind = kind_of("xml")
    if kind is None or not source.head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith((b"<?xml", b"<!DOCTYPE")):
        return None
    return kind if _look(source, kind, limits).integrity is not Outcome.CORRUPT else None


def _may_be_a_page(named: Kind | None, allowed: frozenset[str] | None) -> bool:
    if allowed is not None:
        return TEXT in allowed
    return named is None or named.content_type.endswith(("/xml", "/html"))


def _written(source: Source, allowed: frozenset[str] | None, limits: Limits) -> Kind | None:
    """Answer the text kind of content that is written in characters where its name allows that."""
    if allowed is None or TEXT not in allowed:
        return None
    kind = kind_of("html" if sniff.looks_like_html(source) else "txt")
    return kind if kind and _look(source, kind, limits).integrity is Outcome.OK else None


def _is_mere_text(source: Source, found: Kind, limits: Limits) -> bool:
    """Answer whether a text only begins with the letters of a binary format, as a text on GIF89a may."""
    return sniff.is_plain_text(source) and _look(source, found, limits).integrity is Outcome.CORRUPT


def _unrecognised(source: Source, named: Kind, extension: str) -> _Type:
    """Answer for content without the signature that its name demands: another format's, or this one's with a damaged start."""
    content_type = "text/html" if sniff.looks_like_html(source) else sniff.content_type_of(source)
    if content_type in {sniff.UNKNOWN, named.content_type}:
        return _Type(None, sniff.UNKNOWN, damage=f"the file does not begin as {named.name.upper()} files do")
    return _Type(None, content_type, f"named .{extension}, but the content is {content_type}")


def _reconsidered(source: Source, seen: _Type, look: _Look) -> tuple[_Type, _Look]:
    """Answer for a text name whose content is no text: known to be something else it is a mismatch, and damage if not."""
    if seen.kind is None or not seen.kind.is_text or look.integrity is not Outcome.CORRUPT or sniff.is_plain_text(source):
        return seen, look
    content_type = sniff.content_type_of(source)
    if content_type == sniff.UNKNOWN or content_type.startswith("text/") or content_type == seen.content_type:
        return seen, look
    return _Type(None, content_type, f"named as {seen.kind.name.upper()}, but the content is {content_type}"), _Look()


def _look(source: Source, kind: Kind, limits: Limits) -> _Look:
    measures: Mapping[str, Measure] = {}
    try:
        measures = kind.check(source, limits)
    except Judgement as judgement:
        space = "the file is nothing but white space" if kind.is_text and is_mere_space(source) else None
        return _Look(blank=space, integrity=judgement.outcome, finding=judgement.finding, detail=_said(judgement))
    except (MemoryError, RecursionError) as error:
        return _Look(integrity=Outcome.TOO_COMPLEX, detail=f"the {kind.name} check ran out of room: {type(error).__name__}")
    except ImportError:
        # Not of this file: something that should have been loaded before the lock was not, and passing it by would be silent.
        raise
    except Exception as error:  # noqa: BLE001  (a library's own failure says nothing against the file)
        return _Look(integrity=Outcome.UNSUPPORTED, detail=f"the {kind.name} reader failed: {type(error).__name__}: {_said(error)}")
    return _Look(measures=measures, blank=_blank(source, kind, limits))


def _blank(source: Source, kind: Kind, limits: Limits) -> str | None:
    try:
        return kind.blank(source, limits)
    except ImportError:
        raise
    except Exception:  # noqa: BLE001  (who cannot tell does not call a file blank)
        return None


def _said(error: BaseException) -> str:
    return "".join(letter if letter.isprintable() else " " for letter in str(error)[:300])


def _worst(second: str | None, mismatch: str, look: _Look) -> tuple[Finding | None, str]:
    """Answer the finding that names the file best. A wrong name outranks a bomb, since nothing further is asked of it then."""
    if look.finding and not mismatch:
        return look.finding, look.detail
    if second:
        return Finding.POLYGLOT, f"the file is also {second}"
    if mismatch:
        return Finding.TYPE_MISMATCH, mismatch
    return None, look.detail
