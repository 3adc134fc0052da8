"""What DOCX, XLSX and PPTX share: recognition, damaged packages and encrypted containers."""

import io
import struct
from dataclasses import replace
from functools import cache

from sluice_inspect.formats import docx as word
from sluice_inspect.formats import pptx as powerpoint
from sluice_inspect.formats import xlsx as excel
from sluice_inspect.office.compound import make_compound
from sluice_inspect.report import Finding, Limits, Outcome
from tests.inspection.formats.examining import corpus_files, examine_bytes, needs_corpus
from tests.inspection.formats.office_packages import package_of, parts_of, with_part_changed, without_part
from tests.rows import each_row

FORMATS = {"docx": word.FORMAT, "xlsx": excel.FORMAT, "pptx": powerpoint.FORMAT}
MAIN_PARTS = {"docx": "word/document.xml", "xlsx": "xl/workbook.xml", "pptx": "ppt/presentation.xml"}


@cache
def documents() -> dict[str, bytes]:
    """Return a new document of each kind."""
    import docx  # noqa: PLC0415  (these three libraries are slow to import)
    import openpyxl  # noqa: PLC0415
    import pptx  # noqa: PLC0415

    files = {}
    for name, thing in (("docx", docx.Document()), ("xlsx", openpyxl.Workbook()), ("pptx", pptx.Presentation())):
        file = io.BytesIO()
        thing.save(file)
        files[name] = file.getvalue()
    return files


def encrypted(size: int = 8000) -> bytes:
    return make_compound(
        {"EncryptionInfo": bytes(4096), "EncryptedPackage": struct.pack("<Q", size) + b"\xa5" * (size + 8)}
    )


@each_row("name", FORMATS)
def test_document_is_recognised_by_its_own_format_only(name: str) -> None:
    assert [
        format_name for format_name in FORMATS if examine_bytes(FORMATS[format_name], documents()[name]).recognised
    ] == [name]


@each_row("name", FORMATS)
def test_damaged_document_is_still_recognised(name: str) -> None:
    assert examine_bytes(FORMATS[name], documents()[name][: len(documents()[name]) * 9 // 10]).recognised


@each_row("data", [b"", b"PK\x03\x04", package_of({"a.txt": b"x"}), package_of({"word/document.xml": b"<a/>"})])
def test_other_archives_are_not_recognised(data: bytes) -> None:
    assert [format_name for format_name in FORMATS if examine_bytes(FORMATS[format_name], data).recognised] == []


@each_row("kept", [0.3, 0.5, 0.95, 0.999])
@each_row("name", FORMATS)
def test_truncated_document_is_corrupt(name: str, kept: float) -> None:
    assert (
        examine_bytes(FORMATS[name], documents()[name][: int(len(documents()[name]) * kept)]).outcome is Outcome.CORRUPT
    )


@each_row("name", FORMATS)
def test_zeroed_bytes_are_corrupt(name: str) -> None:
    middle = len(documents()[name]) // 2
    assert (
        examine_bytes(
            FORMATS[name], documents()[name][:middle] + bytes(600) + documents()[name][middle + 600 :]
        ).outcome
        is Outcome.CORRUPT
    )


@each_row("part", ["[Content_Types].xml", "_rels/.rels"])
@each_row("name", FORMATS)
def test_document_without_content_types_or_relationships_is_corrupt(name: str, part: str) -> None:
    assert examine_bytes(FORMATS[name], without_part(documents()[name], part)).outcome is Outcome.CORRUPT


@each_row("name", FORMATS)
def test_document_without_its_main_part_is_corrupt(name: str) -> None:
    assert examine_bytes(FORMATS[name], without_part(documents()[name], MAIN_PARTS[name])).outcome is Outcome.CORRUPT


@each_row("name", FORMATS)
def test_malformed_part_is_corrupt_and_named(name: str) -> None:
    parts = parts_of(documents()[name])
    result = examine_bytes(FORMATS[name], package_of(parts | {MAIN_PARTS[name]: parts[MAIN_PARTS[name]][:-5]}))
    assert result.outcome is Outcome.CORRUPT
    assert MAIN_PARTS[name] in result.detail


def test_empty_part_passes_unless_it_is_the_main_part() -> None:
    assert examine_bytes(word.FORMAT, package_of(parts_of(documents()["docx"]) | {"docProps/app.xml": b""})).passes
    assert (
        examine_bytes(word.FORMAT, package_of(parts_of(documents()["docx"]) | {MAIN_PARTS["docx"]: b""})).outcome
        is Outcome.CORRUPT
    )


def test_doctype_in_a_part_is_corrupt() -> None:
    assert (
        examine_bytes(
            word.FORMAT,
            with_part_changed(documents()["docx"], "word/document.xml", "<w:document", "<!DOCTYPE a><w:document"),
        ).outcome
        is Outcome.CORRUPT
    )


def test_entity_expansion_in_a_part_is_a_bomb() -> None:
    levels = "".join(f'<!ENTITY a{n + 1} "{f"&a{n};" * 10}">' for n in range(9))
    bomb = f'<!DOCTYPE a [<!ENTITY a0 "lol">{levels}]><a>&a9;</a>'.encode()
    assert (
        examine_bytes(word.FORMAT, package_of(parts_of(documents()["docx"]) | {"word/document.xml": bomb})).finding
        is Finding.ARCHIVE_BOMB
    )


@each_row("part", ["[Content_Types].xml", "_rels/.rels"])
def test_part_list_with_excessive_padding_is_a_bomb(part: str) -> None:
    parts = parts_of(documents()["xlsx"])
    data = package_of(parts | {part: parts[part] + b" " * 4_000_000})
    assert examine_bytes(excel.FORMAT, data).finding is Finding.ARCHIVE_BOMB


def test_sheet_that_unpacks_to_too_much_is_a_bomb() -> None:
    limits = replace(Limits(), ratio_floor_bytes=2_000_000)
    data = package_of(parts_of(documents()["xlsx"]) | {"xl/worksheets/sheet1.xml": b"<a>" + b" " * 3_000_000 + b"</a>"})
    assert examine_bytes(excel.FORMAT, data, limits).finding is Finding.ARCHIVE_BOMB


def test_bytes_before_the_document_are_corrupt() -> None:
    assert examine_bytes(word.FORMAT, b"x" + documents()["docx"]).outcome is Outcome.CORRUPT


def test_part_names_ignore_case_and_slash_direction() -> None:
    parts = parts_of(documents()["docx"])
    assert examine_bytes(
        word.FORMAT,
        package_of({name.replace("word/document", "Word\\Document"): content for name, content in parts.items()}),
    ).passes


@each_row("name", FORMATS)
def test_encrypted_document_is_encrypted_for_every_format(name: str) -> None:
    result = examine_bytes(FORMATS[name], encrypted())
    assert result.recognised
    assert result.outcome is Outcome.ENCRYPTED


@each_row("kept", [0.3, 0.6, 0.9])
def test_truncated_encrypted_document_is_corrupt(kept: float) -> None:
    data = encrypted()
    result = examine_bytes(word.FORMAT, data[: int(len(data) * kept)])
    assert result.recognised
    assert result.outcome is Outcome.CORRUPT


def test_other_compound_file_is_not_recognised() -> None:
    assert not examine_bytes(
        word.FORMAT, encrypted().replace("EncryptedPackage".encode("utf-16-le"), "WordDocument1234".encode("utf-16-le"))
    ).recognised


@needs_corpus
@each_row("name", FORMATS)
def test_fuzzed_corpus_files_do_not_pass(name: str) -> None:
    fuzzed = [path for path in corpus_files(name, "corrupt") if "fuzz" in path.name or "crash" in path.name]
    assert fuzzed
    assert [path.name for path in fuzzed if examine_bytes(FORMATS[name], path.read_bytes()).passes] == []
