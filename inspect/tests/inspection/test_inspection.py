"""`inspect_file`: outcomes, findings and blankness across all formats."""

import io
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from sluice_inspect import inspection
from sluice_inspect.format import Examination
from sluice_inspect.inspection import inspect_file
from sluice_inspect.registry import FORMATS, format_of
from sluice_inspect.report import Finding, Limits, Outcome, Report, WalkerFailed
from sluice_inspect.sniff import FOREIGN
from tests.inspection.formats.examining import CORPUS, needs_corpus
from tests.inspection.formats.image_samples import chess_board, encoded, plain_picture
from tests.rows import each_row
from tests.run_length import amount

PNG = encoded(chess_board(), "PNG")
JPEG = encoded(chess_board(), "JPEG")
PAGE = b"<!DOCTYPE html>\n<html><title>502 Bad Gateway</title></html>\n"
EXTENSIONS = sorted(extension for format_ in FORMATS for extension in format_.extensions)
BINARY_EXTENSIONS = sorted(min(format_.extensions) for format_ in FORMATS if not format_.is_text)
NO_WEB_PAGE_EXTENSIONS = sorted(
    min(format_.extensions) for format_ in FORMATS if not (format_.is_text or format_.page_extensions)
)
"""Binary extensions under which no program opens a web page; Office does so under those of its old formats."""


@cache
def samples() -> dict[str, bytes]:
    return {format_.name: format_.sample() for format_ in FORMATS}


def report_of(data: bytes, name: str | None) -> Report:
    return inspect_file(io.BytesIO(data), filename=name)


@pytest.mark.asvs("16.5.4")
@each_row(
    ("name", "module", "function"),
    [
        ("zip", "unpacking.Feed", "peek"), ("docx", "archives.zip.archive", "_unpack"),
        ("ods", "archives.zip.archive", "_unpack"), ("tar", "unpacking.Feed", "take"),
        ("gz", "archives.compression", "unpack_stream"), ("7z", "archives.sevenzip.walk", "read_directory"),
        ("rar", "archives.rar.walk", "read_layout"),
    ],
)  # fmt: skip
def test_unexpected_error_in_an_archive_walker_leaves_no_report(
    name: str, module: str, function: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise IndexError("a fault of the walker")

    monkeypatch.setattr(f"sluice_inspect.{module}.{function}", fail)
    with pytest.raises(WalkerFailed, match="an archive walker failed: IndexError"):
        report_of(samples()[name], f"a.{name}")


def test_unexpected_error_of_a_library_is_unsupported(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise IndexError("a fault of Pillow")

    monkeypatch.setattr("PIL.Image.Image.load", fail)
    assert report_of(PNG, "a.png").integrity in {Outcome.UNSUPPORTED, Outcome.CORRUPT}


def test_report_contains_the_measures() -> None:
    report = report_of(PNG, "a.png")
    assert (report.content_type, report.measures["width"], report.ms > 0) == ("image/png", 64, True)
    assert Report.from_json(report.to_json()) == report


@each_row(("fill", "data"), [("empty", b""), ("zeros", bytes(200_000)), ("ones", b"\xff" * 200_000)])
def test_fill_bytes_are_blank_and_corrupt_under_a_known_extension_alone(fill: str, data: bytes) -> None:
    report = report_of(data, "a.pdf")
    assert (report.fill, report.outcome, report.integrity) == (fill, Outcome.BLANK, Outcome.CORRUPT)
    assert report.blank
    assert report.detail
    for name in ("a.unknown", "a", None, "a.css"):
        report = report_of(data, name)
        assert (report.outcome, report.integrity) == (Outcome.BLANK, Outcome.OK), name
    assert report_of(bytes(3_000_000) + b"x", "a.bin").fill is None


@pytest.mark.asvs("5.2.2")
@each_row("extension", EXTENSIONS)
def test_another_format_under_a_known_extension_is_a_mismatch(extension: str) -> None:
    report = report_of(JPEG if extension in {"png", "apng"} else PNG, f"a.{extension}")
    assert (report.finding, report.integrity) == (Finding.TYPE_MISMATCH, Outcome.OK)
    assert report.format in {"png", "jpeg"}
    assert f"named .{extension}, but the content is" in report.detail


ELF = b"\x7fELF\x02\x01\x01" + bytes(9) + b"\x02\0\x3e\0" + bytes(80)


@each_row(
    ("name", "data", "content_type"),
    [
        *((f"a.{each}", PAGE, "text/html") for each in (*NO_WEB_PAGE_EXTENSIONS, "txt", "csv", "json", "mp4", "7z")),
        *((f"a.{each}", PNG, "image/png") for each in ("mp4", "tiff", "7z", "mp3")),
        ("a.png", b"\x1f\x8b\x08\0" + bytes(range(1, 30)), "application/gzip"),
        ("a.png", b"words\n" * 9, "text/plain"),
        ("a.csv", ELF, "application/x-executable"),
        ("a.msg", b"From: a@example.org\nTo: b@example.org\nSubject: Hi\n\nOne line.\n", "message/rfc822"),
        ("a.msg", b"X-Id: 1\r\nSubject:\r\n folded\r\nDate: today\r\n\r\nOne line.\r\n", "message/rfc822"),
    ],
)
def test_other_known_content_is_a_mismatch(name: str, data: bytes, content_type: str) -> None:
    report = report_of(data, name)
    assert (report.finding, report.content_type) == (Finding.TYPE_MISMATCH, content_type)
    assert format_of(name[2:]) or name[2:] in FOREIGN


@each_row("extension", BINARY_EXTENSIONS)
def test_web_page_before_the_file_or_a_damaged_start_is_detected(extension: str) -> None:
    format_ = format_of(extension)
    assert format_ is not None
    report = report_of(PAGE + format_.sample(), f"a.{extension}")
    assert report.finding or report.integrity is Outcome.CORRUPT
    damaged = report_of(b"\x8f\x03\x01\xd1" * 2000, f"a.{extension}")
    assert (damaged.outcome, damaged.format) == (Outcome.CORRUPT, None)


def test_web_page_and_picture_pass_under_names_that_promise_nothing_else() -> None:
    for name in ("a.html", "a.unknown", "a.md", "a"):
        assert report_of(PAGE, name).finding is None
    for other in ("a.unknown", "a", None):
        report = report_of(PNG, other)
        assert (report.finding, report.format, report.content_type) == (None, "png", "image/png")
    for text in (b"GIF89a is a picture format.\n", b"%PDF-1.4 begins a document.\n", b"BM, PK and RIFF are magic.\n"):
        report = report_of(text, "a.txt")
        assert (report.outcome, report.finding, report.format) == (Outcome.OK, None, "text")


def test_damaged_or_unreadable_content_is_corrupt_under_an_unknown_or_text_extension() -> None:
    assert report_of(PNG[:-40], "a.unknown").outcome is Outcome.CORRUPT
    assert report_of(bytes(range(1, 256)) * 20, "a.txt").outcome is Outcome.CORRUPT


@each_row(
    ("data", "name", "fill"),
    [
        (b"\n\n", "a.csv", None),
        (b"\xef\xbb\xbf", "a.xml", "spaces"),
        *((b" \r\n\t\n", f"a.{each}", "spaces") for each in ("eml", "json", "xml", "svg")),
    ],
)
def test_white_space_is_blank_in_every_text_format(data: bytes, name: str, fill: str | None) -> None:
    report = report_of(data, name)
    assert (report.outcome, report.fill) == (Outcome.BLANK, fill)


def test_mismatched_file_is_still_checked_for_blankness() -> None:
    report = report_of(encoded(plain_picture(), "PNG"), "a.pdf")
    assert report.finding is Finding.TYPE_MISMATCH
    assert report.blank


def test_file_is_accepted_as_path_descriptor_or_object(tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    path.write_bytes(PNG)
    with path.open("rb") as file:
        file.seek(7)
        opened = [inspect_file(file, filename="b.png"), inspect_file(file.fileno(), filename="c.png")]
        assert file.tell() == 7
    reports = [inspect_file(path), inspect_file(str(path)), inspect_file(io.BytesIO(PNG)), *opened]
    assert {report.format for report in reports} == {"png"}


def test_unreadable_file_raises_instead_of_a_verdict(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        inspect_file(tmp_path / "missing.png")


@each_row(
    ("error", "outcome"),
    [
        (MemoryError(), Outcome.TOO_COMPLEX),
        (RecursionError(), Outcome.TOO_COMPLEX),
        (ValueError("a library's own fault"), Outcome.UNSUPPORTED),
        (ImportError("a module that the sandbox cannot load"), Outcome.UNSUPPORTED),
    ],
)
def test_failure_of_a_reader_is_not_reported_as_corrupt_nor_one_of_a_blank_rule_as_blank(
    monkeypatch: pytest.MonkeyPatch, error: Exception, outcome: Outcome
) -> None:
    def fail(*_: object) -> None:
        raise error

    png = format_of("png")
    assert png is not None
    broken = replace(png, examine=fail)  # type: ignore[arg-type]  # it returns nothing
    monkeypatch.setattr(inspection, "format_of", lambda _extension: broken)
    assert report_of(PNG, "a.png").outcome is outcome
    unjudged = replace(png, examine=lambda _source, _limits: Examination({}, blank=fail))
    monkeypatch.setattr(inspection, "format_of", lambda _extension: unjudged)
    assert report_of(encoded(plain_picture(), "PNG"), "a.png").outcome is Outcome.OK


@settings(
    max_examples=amount("RANDOM_BYTES", short=5, full=300), suppress_health_check=[HealthCheck.too_slow], deadline=None
)
@given(data=st.binary(max_size=3000))
def test_any_bytes_under_any_extension_yield_a_report(data: bytes) -> None:
    for extension in EXTENSIONS:
        assert isinstance(report_of(data, f"a.{extension}"), Report), extension


@st.composite
def damaged(draw: st.DrawFn) -> tuple[str, bytes]:
    """Return a format name and its sample with parts removed, inserted and overwritten."""
    name = draw(st.sampled_from(sorted(samples())))
    data = bytearray(samples()[name])
    for _ in range(draw(st.integers(1, 5))):
        start = draw(st.integers(0, len(data)))
        end = draw(st.integers(start, min(len(data), start + 60)))
        data[start:end] = draw(st.binary(max_size=60))
    return name, bytes(data)


@settings(
    max_examples=amount("DAMAGES", short=100, full=1000), suppress_health_check=[HealthCheck.too_slow], deadline=None
)
@given(damaged(), st.booleans())
@example(("png", PNG[:33]), True)
def test_any_damage_to_any_sample_yields_a_report_that_round_trips(case: tuple[str, bytes], named: bool) -> None:  # noqa: FBT001  (drawn)
    name, data = case
    extension = min(next(format_ for format_ in FORMATS if format_.name == name).extensions)
    report = inspect_file(io.BytesIO(data), filename=f"a.{extension}" if named else None, limits=Limits(soft_seconds=2))
    assert Report.from_json(report.to_json()) == report


@each_row("name", lambda: sorted(samples()))
def test_truncated_samples_never_make_a_reader_fail(name: str) -> None:
    data = samples()[name]
    extension = min(next(format_ for format_ in FORMATS if format_.name == name).extensions)
    for kept in range(0, len(data), max(1, len(data) // 40)):
        report = report_of(data[:kept], f"a.{extension}")
        assert report.outcome is not Outcome.UNSUPPORTED, report.detail


ATTACKS = CORPUS.parent / "attacks"


@needs_corpus
@each_row("family", ["image", "image-bomb", "xml", "polyglot"])
def test_every_attack_file_yields_a_report_in_bounded_time(family: str) -> None:
    for path in (ATTACKS / family).rglob("*.*"):
        report = inspect_file(path)
        assert report.ms < 20_000, path.name
        assert "reader failed" not in report.detail, (path.name, report.detail)


@needs_corpus
@pytest.mark.asvs("5.2.6")
def test_picture_bombs_are_reported_as_too_large() -> None:
    for name in ("lottapixel.jpg", "uber.gif", "decompression_bomb_extents.gif"):
        (path,) = (path for path in ATTACKS.rglob(f"*-{name}"))
        assert inspect_file(path).finding is Finding.IMAGE_TOO_LARGE
    for path in ATTACKS.rglob("*POC_phpinfo-metadata.*"):
        assert inspect_file(path).finding is Finding.POLYGLOT, path.name


@pytest.mark.asvs("5.2.2")
@each_row("extension", ["txt", "csv", "log", "json", "pdf", "png"])
@each_row("encoding", ["utf-8", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be"])
def test_page_in_any_encoding_is_a_mismatch_under_another_name(extension: str, encoding: str) -> None:
    page = "<!DOCTYPE html><html><script>alert(1)</script></html>".encode(encoding)
    report = report_of(page, f"upload.{extension}")
    assert (report.finding, report.content_type) == (Finding.TYPE_MISMATCH, "text/html")
    for own in ("html", "htm", "md"):
        assert report_of("<!DOCTYPE html><html><p>words</p></html>".encode(encoding), f"upload.{own}").finding is None


PROGRAMS = {
    "pe": b"MZ" + bytes(58) + (64).to_bytes(4, "little") + b"PE\0\0" + bytes(200),
    "elf": b"\x7fELF\x02\x01\x01" + bytes(200),
    "shortcut": bytes.fromhex("4c0000000114020000000000c000000000000046") + bytes(200),
}


@pytest.mark.asvs("5.2.2")
@each_row("extension", ["ics", "vcf", "tsv", "css", "md"])
@each_row("program", PROGRAMS)
def test_program_under_a_name_that_promises_a_text_is_a_mismatch(program: str, extension: str) -> None:
    report = report_of(PROGRAMS[program], f"a.{extension}")
    assert (report.finding or report.integrity) in {Finding.TYPE_MISMATCH, Outcome.CORRUPT}
    assert "program" in report.flags


@each_row("name", ["a.ini", "a.conf", "a.exe", "a"])
@each_row("content", [*PROGRAMS.values(), b"#!/bin/sh\nid\n"])
def test_program_under_a_name_that_promises_nothing_has_a_flag(content: bytes, name: str) -> None:
    report = report_of(content, name)
    assert (report.finding, report.flags) == (None, ("program",))


@each_row("name", ["a.ics", "a.vcf", "a.ini", "a.txt"])
@each_row("content", [b"BEGIN:VCARD\r\nEND:VCARD\r\n", b"MZ stands for something.\n" * 9, b"[a]\n#!b=1\n"])
def test_text_is_no_program(content: bytes, name: str) -> None:
    report = report_of(content, name)
    assert (report.finding, report.flags) == (None, ())
