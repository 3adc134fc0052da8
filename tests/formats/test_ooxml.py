"""What the three Office families share: packages, their damage, their recognition, encrypted containers."""

import io
import struct
from dataclasses import replace

import docx
import openpyxl
import pptx
import pytest

from sluice.formats.kinds import docx as word
from sluice.formats.kinds import pptx as powerpoint
from sluice.formats.kinds import xlsx as excel
from sluice.formats.office.compound_sample import make_compound
from sluice.formats.verdict import Finding, Limits, Outcome
from tests.formats.judging import corpus, judge, needs_corpus
from tests.formats.packages import changed, package_of, parts_of, without

KINDS = {"docx": word.KIND, "xlsx": excel.KIND, "pptx": powerpoint.KIND}
MAIN = {"docx": "word/document.xml", "xlsx": "xl/workbook.xml", "pptx": "ppt/presentation.xml"}


def made() -> dict[str, bytes]:
    files = {}
    for name, thing in (("docx", docx.Document()), ("xlsx", openpyxl.Workbook()), ("pptx", pptx.Presentation())):
        file = io.BytesIO()
        thing.save(file)
        files[name] = file.getvalue()
    return files


MADE = made()


def encrypted(size: int = 8000) -> bytes:
    return make_compound({"EncryptionInfo": bytes(4096), "EncryptedPackage": struct.pack("<Q", size) + b"\xa5" * (size + 8)})


@pytest.mark.parametrize("name", KINDS)
def test_a_document_is_recognised_by_its_own_kind_alone(name: str) -> None:
    assert [kind for kind in KINDS if judge(KINDS[kind], MADE[name]).recognised] == [name]


@pytest.mark.parametrize("name", KINDS)
def test_a_damaged_document_is_still_recognised(name: str) -> None:
    assert judge(KINDS[name], MADE[name][: len(MADE[name]) * 9 // 10]).recognised


@pytest.mark.parametrize("data", [b"", b"PK\x03\x04", package_of({"a.txt": b"x"}), package_of({"word/document.xml": b"<a/>"})])
def test_other_archives_are_not_recognised(data: bytes) -> None:
    assert [kind for kind in KINDS if judge(KINDS[kind], data).recognised] == []


@pytest.mark.parametrize("kept", [0.3, 0.5, 0.95, 0.999])
@pytest.mark.parametrize("name", KINDS)
def test_a_cut_document_is_corrupt(name: str, kept: float) -> None:
    assert judge(KINDS[name], MADE[name][: int(len(MADE[name]) * kept)]).outcome is Outcome.CORRUPT


@pytest.mark.parametrize("name", KINDS)
def test_a_hole_of_zeros_is_corrupt(name: str) -> None:
    middle = len(MADE[name]) // 2
    assert judge(KINDS[name], MADE[name][:middle] + bytes(600) + MADE[name][middle + 600 :]).outcome is Outcome.CORRUPT


@pytest.mark.parametrize("part", ["[Content_Types].xml", "_rels/.rels"])
@pytest.mark.parametrize("name", KINDS)
def test_a_document_without_what_leads_to_its_parts_is_corrupt(name: str, part: str) -> None:
    assert judge(KINDS[name], without(MADE[name], part)).outcome is Outcome.CORRUPT


@pytest.mark.parametrize("name", KINDS)
def test_a_document_without_its_main_part_is_corrupt(name: str) -> None:
    assert judge(KINDS[name], without(MADE[name], MAIN[name])).outcome is Outcome.CORRUPT


@pytest.mark.parametrize("name", KINDS)
def test_a_part_that_is_not_well_formed_is_corrupt_and_named(name: str) -> None:
    parts = parts_of(MADE[name])
    found = judge(KINDS[name], package_of(parts | {MAIN[name]: parts[MAIN[name]][:-5]}))
    assert found.outcome is Outcome.CORRUPT
    assert MAIN[name] in found.detail


def test_an_empty_part_beside_the_main_one_passes() -> None:
    assert judge(word.KIND, package_of(parts_of(MADE["docx"]) | {"docProps/app.xml": b""})).passes
    assert judge(word.KIND, package_of(parts_of(MADE["docx"]) | {MAIN["docx"]: b""})).outcome is Outcome.CORRUPT


def test_a_doctype_in_a_part_is_corrupt() -> None:
    assert (
        judge(word.KIND, changed(MADE["docx"], "word/document.xml", "<w:document", "<!DOCTYPE a><w:document")).outcome
        is Outcome.CORRUPT
    )


def test_entities_that_multiply_in_a_part_are_a_bomb() -> None:
    levels = "".join(f'<!ENTITY a{n + 1} "{f"&a{n};" * 10}">' for n in range(9))
    bomb = f'<!DOCTYPE a [<!ENTITY a0 "lol">{levels}]><a>&a9;</a>'.encode()
    assert judge(word.KIND, package_of(parts_of(MADE["docx"]) | {"word/document.xml": bomb})).finding is Finding.ARCHIVE_BOMB


@pytest.mark.parametrize("part", ["[Content_Types].xml", "_rels/.rels"])
def test_a_list_of_parts_that_is_nearly_all_padding_is_a_bomb(part: str) -> None:
    parts = parts_of(MADE["xlsx"])
    data = package_of(parts | {part: parts[part] + b" " * 4_000_000})
    assert judge(excel.KIND, data).finding is Finding.ARCHIVE_BOMB


def test_a_sheet_that_unpacks_to_too_much_is_a_bomb() -> None:
    limits = replace(Limits(), ratio_floor_bytes=2_000_000)
    data = package_of(parts_of(MADE["xlsx"]) | {"xl/worksheets/sheet1.xml": b"<a>" + b" " * 3_000_000 + b"</a>"})
    assert judge(excel.KIND, data, limits).finding is Finding.ARCHIVE_BOMB


def test_bytes_in_front_of_a_document_are_corrupt() -> None:
    assert judge(word.KIND, b"x" + MADE["docx"]).outcome is Outcome.CORRUPT


def test_part_names_are_compared_without_case_and_with_either_slash() -> None:
    parts = parts_of(MADE["docx"])
    assert judge(
        word.KIND, package_of({name.replace("word/document", "Word\\Document"): content for name, content in parts.items()})
    ).passes


@pytest.mark.parametrize("name", KINDS)
def test_an_encrypted_document_is_encrypted_under_the_name_of_any_family(name: str) -> None:
    found = judge(KINDS[name], encrypted())
    assert found.recognised
    assert found.outcome is Outcome.ENCRYPTED


@pytest.mark.parametrize("kept", [0.3, 0.6, 0.9])
def test_a_cut_encrypted_document_is_corrupt(kept: float) -> None:
    data = encrypted()
    found = judge(word.KIND, data[: int(len(data) * kept)])
    assert found.recognised
    assert found.outcome is Outcome.CORRUPT


def test_a_compound_file_of_something_else_is_not_recognised() -> None:
    assert not judge(
        word.KIND, encrypted().replace("EncryptedPackage".encode("utf-16-le"), "WordDocument1234".encode("utf-16-le"))
    ).recognised


@needs_corpus
@pytest.mark.parametrize("name", KINDS)
def test_corpus_fuzzed_files_are_refused(name: str) -> None:
    fuzzed = [path for path in corpus(name, "corrupt") if "fuzz" in path.name or "crash" in path.name]
    assert fuzzed
    assert [path.name for path in fuzzed if judge(KINDS[name], path.read_bytes()).passes] == []
