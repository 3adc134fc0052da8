"""One file in, one report out: fill, type, examination, second format, report."""

import codecs
import importlib
import os
import tempfile
import time
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Final

from PIL import Image

from sluice_inspect import registry, sniff
from sluice_inspect.budget import shared_time
from sluice_inspect.facts.measure import measure_facts
from sluice_inspect.format import Examination, Format
from sluice_inspect.media import playback
from sluice_inspect.office.default_password import decrypted
from sluice_inspect.polyglot import second_format
from sluice_inspect.programs import SCRIPT
from sluice_inspect.programs import recognise as recognise_program
from sluice_inspect.registry import format_named, format_of
from sluice_inspect.report import (
    UNKNOWN_TYPE,
    FactSheet,
    Finding,
    InspectionError,
    Limits,
    Measure,
    Outcome,
    Report,
    WalkerFailed,
    printable,
    reportable_facts,
    reportable_measures,
)
from sluice_inspect.signatures import is_sniffed_as_page, is_web_archive, is_web_page
from sluice_inspect.sniff import FOREIGN, TEXT, extension_of
from sluice_inspect.source import HEAD_BYTES, MemoryBacked, Source
from sluice_inspect.subject import Subject
from sluice_inspect.text.late_pattern import LatePattern
from sluice_inspect.text.plaintext import is_white_space
from sluice_inspect.text.xml_encodings import begins_as_xml

# A path, an open descriptor, a binary file object, or a source that other readers share.
File = str | os.PathLike[str] | int | IO[bytes] | Source

_FILLS: Final = {0x00: "zeros", 0xFF: "ones"}
_FILL_CHUNK: Final = 16 * HEAD_BYTES
_ERROR_TEXT_MAX: Final = 300
_MB: Final = 1024**2
_EXAMINATION_SHARE: Final = 0.8  # of the time of one file; the rest is for its facts
_DEFAULT_LIMITS: Final = Limits()
_WALKERS: Final = ("sluice_inspect.archives.", "sluice_inspect.unpacking")

# Imported when one of their names is first used: ciphers need their backend, Pillow ImageCms for pictures in Lab.
_LAZY_MODULES: Final = (
    "cryptography.hazmat.backends.openssl.backend",
    "numpy.fft", "numpy.linalg", "numpy.ma", "numpy.random", "PIL.ImageCms", "PIL.ImageColor", "PIL.ImageFilter",
)  # fmt: skip
_CODECS: Final = (
    "cp437", "cp1252", "latin-1", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be",
    "utf-7", "ascii", "unicode_escape",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class _FileType:
    """What the content is. `mismatch` and `damage` say how it contradicts the name."""

    format: Format | None
    content_type: str
    mismatch: str = ""
    damage: str = ""


@dataclass(frozen=True, slots=True)
class _FormatResult:
    integrity: Outcome = Outcome.OK
    finding: Finding | None = None
    detail: str = ""
    measures: Mapping[str, Measure] = field(default_factory=dict)
    blank: str | None = None
    fill: str | None = None
    measured: FactSheet | None = None


def inspect_file(file: File, *, filename: str | None = None, limits: Limits = _DEFAULT_LIMITS) -> Report:
    """Inspect one file, which `filename` claims to be (default: the path's own name), and return the report.

    `file` is a path or a descriptor; a descriptor is neither closed nor moved. Damage and danger are outcomes of the
    report, not exceptions. Raise `OSError` if the file cannot be read, and `WalkerFailed` for a fault of this package.
    """
    started = time.perf_counter()
    if filename is None and isinstance(file, str | os.PathLike):
        filename = os.fspath(file)
    with _open_source(file) as source:
        try:
            with shared_time(_total_seconds(source, limits)):
                report = _inspect(source, extension_of(filename), limits)
        except Exception as error:
            if isinstance(error, OSError) or not _failed_in_walker(error):
                raise
            raise WalkerFailed(f"an archive walker failed: {type(error).__name__}") from error
    return replace(report, ms=round((time.perf_counter() - started) * 1000, 3))


def identify(source: Source, filename: str, limits: Limits = _DEFAULT_LIMITS) -> tuple[Format | None, str]:
    """Return the format that the content is, None if it is not known, and its media type, as the report has them."""
    file_type = _identify(source, extension_of(filename), limits)
    return file_type.format, file_type.content_type


def _inspect(source: Source, extension: str, limits: Limits) -> Report:
    document = decrypted(source)
    if document is None:
        return _inspect_content(source, extension, limits)
    with MemoryBacked(document) as content:
        report = _inspect_content(content, extension, limits)
    second = second_format(source, format_named(report.format or ""), {})
    if second and report.finding is None:
        report = replace(report, finding=Finding.POLYGLOT, detail=f"the file is also {second}")
    return replace(report, flags=tuple(sorted({*report.flags, "encrypted.default"})))


def _inspect_content(source: Source, extension: str, limits: Limits) -> Report:
    fill = _find_fill(source)
    if fill is not None:
        return _report_fill(fill, extension)

    with shared_time(_EXAMINATION_SHARE * _total_seconds(source, limits)):
        file_type = _identify(source, extension, limits)
        result = _examine(source, file_type.format, limits) if file_type.format else _FormatResult()
    binary_type = _find_binary_type(source, file_type, result)
    if binary_type is not None:
        file_type, result = binary_type, _FormatResult()
    if file_type.damage:
        result = _FormatResult(integrity=Outcome.CORRUPT, detail=file_type.damage)

    format_name = file_type.format.name if file_type.format else None
    second = second_format(source, file_type.format, result.measures)
    finding, detail = _most_serious(second, file_type.mismatch, result)
    blank = result.blank is not None
    subject = Subject(
        source, format_name or "", file_type.content_type, extension, limits, result.integrity, result.measures
    )
    sheet = measure_facts(file_type.format, subject, result.measured, named=format_of(extension))
    return Report(
        format=format_name,
        content_type=file_type.content_type,
        outcome=Outcome.BLANK if blank else result.integrity,
        integrity=result.integrity,
        finding=finding,
        blank=blank,
        detail=printable(detail),
        blank_detail=printable(result.blank or ""),
        fill=result.fill,
        measures=reportable_measures(result.measures),
        facts=reportable_facts(sheet.facts),
        flags=tuple(sorted(sheet.flags)),
    )


def _total_seconds(source: Source, limits: Limits) -> float:
    return limits.total_seconds + limits.total_seconds_per_mb * source.size / _MB


def preload() -> None:
    """Inspect the sample of every format, so that later nothing is loaded from the file system.

    Raise `RuntimeError` if a sample is not found good.
    """
    sniff.preload()
    preload_codecs()
    for name in _LAZY_MODULES:
        importlib.import_module(name)
    if playback.INSTALLED:
        importlib.import_module("av.subtitles.codeccontext")  # PyAV loads it with the first subtitles
    Image.init()  # loads the decoders of all pictures: those in documents may be of any kind
    for each in registry.FORMATS:
        inspect_sample(each)
    LatePattern.compile_all()


def preload_codecs() -> None:
    """Load the codecs of what is read most."""
    for name in _CODECS:
        codecs.lookup(name)


def inspect_sample(each: Format) -> None:
    """Inspect the sample of a format whose reader is installed. Raise `RuntimeError` if it is not found good."""
    if each.missing_reader:
        return
    with open_sample(each) as file:
        report = inspect_file(file.fileno(), filename=f"sample.{min(each.extensions)}")
    if report.outcome is not Outcome.OK or report.finding or report.format != each.name:
        raise RuntimeError(f"the {each.name} check does not work here: {report.outcome} {report.detail}")


@contextmanager
def open_sample(each: Format) -> Iterator[IO[bytes]]:
    """Yield a file with the sample of a format."""
    with _temporary_file() as file:
        file.write(each.sample())
        file.flush()
        yield file


@contextmanager
def _open_source(file: File) -> Iterator[Source]:
    if isinstance(file, Source):  # whose readings are for others too
        yield file
    elif isinstance(file, int):
        with Source(file) as source:
            yield source
    elif isinstance(file, str | os.PathLike):
        with Path(file).open("rb") as opened, Source(opened.fileno()) as source:
            yield source
    else:
        with _with_descriptor(file) as with_descriptor, Source(with_descriptor.fileno()) as source:
            yield source


@contextmanager
def _with_descriptor(file: IO[bytes]) -> Iterator[IO[bytes]]:
    """Yield the file itself if it has a descriptor, otherwise a copy that has one."""
    try:
        file.fileno()
    except OSError:
        pass
    else:
        yield file
        return
    with _temporary_file() as copy:
        offset = file.tell()
        file.seek(0)
        while chunk := file.read(HEAD_BYTES):
            copy.write(chunk)
        file.seek(offset)
        copy.flush()
        yield copy


def _temporary_file() -> IO[bytes]:
    # In memory where the system can: the sandbox has no file system.
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create("scratch"), "w+b")
    return tempfile.TemporaryFile()


def _find_fill(source: Source) -> str | None:
    """Return what fills the whole file (`empty`, `zeros`, `ones`), None if it holds anything else."""
    if source.size == 0:
        return "empty"
    byte = source.head[:1]
    if byte[0] not in _FILLS:
        return None
    for offset in range(0, source.size, _FILL_CHUNK):
        if source.read_at(offset, _FILL_CHUNK).strip(byte):
            return None
    return _FILLS[byte[0]]


def _report_fill(fill: str, extension: str) -> Report:
    # Under a name that promises a format the file is damaged; under one that text may have, or none, it is only blank.
    is_damage = format_of(extension) is not None or TEXT not in FOREIGN.get(extension, {TEXT})
    if fill == "empty":
        content = "the file has no bytes"
    else:
        content = f"every byte of the file is {'0x00' if fill == 'zeros' else '0xFF'}"
    return Report(
        format=None,
        content_type=UNKNOWN_TYPE,
        outcome=Outcome.BLANK,
        integrity=Outcome.CORRUPT if is_damage else Outcome.OK,
        finding=None,
        blank=True,
        detail=f"{content}, which no .{extension} file is" if is_damage else "",
        blank_detail=content,
        fill=fill,
        facts={"flags_complete": True},
    )


def _identify(source: Source, extension: str, limits: Limits) -> _FileType:
    """Return what the content is; text formats have no signature and go by the name alone."""
    named, allowed = format_of(extension), FOREIGN.get(extension)
    if _is_misplaced_page(source, named, extension):
        return _FileType(None, "text/html", f"named .{extension}, but the content is a web page")

    found = sniff.recognise(source, named)
    # A text may begin with the letters of a binary format, as one on GIF89a does.
    if found is not None and found is not named and sniff.is_plain_text(source):
        found = None if _examine(source, found, limits).integrity is Outcome.CORRUPT else found
    if found is not None:
        if named is not None:
            is_mismatch = found is not named and extension not in found.extensions | found.tolerated_extensions
        else:
            is_mismatch = allowed is not None and found.name not in allowed
        mismatch = f"named .{extension}, but the content is {found.name.upper()}" if is_mismatch else ""
        return _FileType(found, found.content_type, mismatch)

    if named is None:
        program = recognise_program("", source.head) if allowed is not None and TEXT in allowed else None
        if program is not None and program[0] != SCRIPT:
            content_type = sniff.content_type_of(source)
            return _FileType(None, content_type, f"named .{extension}, but the content is a {program[0]}")
        return _FileType(None if allowed else _find_xml(source, limits), sniff.content_type_of(source))
    if named.is_text:
        return _FileType(named, named.content_type)
    if extension in named.page_extensions:
        is_page = is_web_page(source.head) or is_sniffed_as_page(source.head)
        text = format_of("html" if is_page else "eml" if is_web_archive(source.head) else "")
        if text and _examine(source, text, limits).integrity is Outcome.OK:
            return _FileType(text, text.content_type)
    # Without the signature that its name demands the content is another format, or its start is damaged.
    content_type = "text/html" if is_web_page(source.head) else sniff.content_type_of(source)
    if content_type in {UNKNOWN_TYPE, named.content_type}:
        return _FileType(None, UNKNOWN_TYPE, damage=f"the file does not begin as {named.name.upper()} files do")
    return _FileType(None, content_type, f"named .{extension}, but the content is {content_type}")


def _is_misplaced_page(source: Source, named: Format | None, extension: str) -> bool:
    """Return whether the content is a web page, which no file of this name is."""
    if named is None:
        return is_web_page(source.head) and TEXT not in FOREIGN.get(extension, {TEXT})
    if extension in named.page_extensions or named.content_type.endswith(("/xml", "/html")):
        return False
    return is_web_page(source.head) or (named.is_any_text and is_sniffed_as_page(source.head))


def _find_xml(source: Source, limits: Limits) -> Format | None:
    # Of all text formats only XML states what it is, so that it is examined even if the name promises nothing.
    xml = format_of("xml")
    if xml is None or not begins_as_xml(source.head):
        return None
    return xml if _examine(source, xml, limits).integrity is not Outcome.CORRUPT else None


def _find_binary_type(source: Source, file_type: _FileType, result: _FormatResult) -> _FileType | None:
    """Return the mismatch if the content is no text of its name's format, but something that libmagic knows."""
    text = file_type.format
    if text is None or not text.is_text or result.integrity is not Outcome.CORRUPT or sniff.is_plain_text(source):
        return None
    content_type = sniff.content_type_of(source)
    if content_type in {UNKNOWN_TYPE, file_type.content_type} or content_type.startswith("text/"):
        return None
    return _FileType(None, content_type, f"named as {text.name.upper()}, but the content is {content_type}")


def _examine(source: Source, format_: Format, limits: Limits) -> _FormatResult:
    try:
        examination = format_.examine(source, limits)
    except InspectionError as error:
        detail = printable(str(error), _ERROR_TEXT_MAX)
        # As with zeros, that it is blank says more than that its format is broken.
        fill = "spaces" if format_.is_text and is_white_space(source) else None
        blank = "the file is nothing but white space" if fill else None
        return _FormatResult(error.outcome, error.finding, detail, blank=blank, fill=fill, measured=error.measured)
    except (MemoryError, RecursionError) as error:
        detail = f"the {format_.name} check ran out of memory or stack: {type(error).__name__}"
        return _FormatResult(integrity=Outcome.TOO_COMPLEX, detail=detail)
    except Exception as error:
        # A fault in our own archive walkers is another matter: an archive that breaks them could hide anything.
        if _failed_in_walker(error):
            raise
        if isinstance(
            error, ImportError
        ):  # a module that was not loaded before the sandbox locked: not the file's fault
            return _FormatResult(integrity=Outcome.UNSUPPORTED, detail=f"a part of the reader is missing: {error}")
        detail = f"the {format_.name} reader failed: {type(error).__name__}: {printable(str(error), _ERROR_TEXT_MAX)}"
        return _FormatResult(integrity=Outcome.UNSUPPORTED, detail=detail)
    blank = _find_blank(examination)
    return _FormatResult(measures=examination.measures, blank=blank, measured=examination.measured)


def _failed_in_walker(error: Exception) -> bool:
    frames = (frame for frame, _ in traceback.walk_tb(error.__traceback__))
    return any(str(frame.f_globals.get("__name__")).startswith(_WALKERS) for frame in frames)


def _find_blank(examination: Examination) -> str | None:
    try:
        return examination.blank()
    except Exception:  # noqa: BLE001  (a blank rule that fails leaves the file not blank)
        return None


def _most_serious(second: str | None, mismatch: str, result: _FormatResult) -> tuple[Finding | None, str]:
    """Return the finding that describes the file best. A wrong name outranks a bomb: nothing further is asked of it."""
    if result.finding and not mismatch:
        return result.finding, result.detail
    if second:
        return Finding.POLYGLOT, f"the file is also {second}"
    if mismatch:
        return Finding.TYPE_MISMATCH, mismatch
    return None, result.detail
