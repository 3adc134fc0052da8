"""What DOCX, XLSX and PPTX share: recognition, damaged packages and encrypted containers."""

import io
import struct
from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from itertools import product

from sluice_inspect.formats import docx as word
from sluice_inspect.formats import pptx as powerpoint
from sluice_inspect.formats import xlsx as excel
from sluice_inspect.office.compound import make_compound
from sluice_inspect.report import Limits, Outcome
from tests.inspection.formats.examining import Examined, Row, corpus_files, examine_bytes, needs_corpus, verdicts
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
    package = struct.pack("<Q", size) + b"\xa5" * (size + 8)
    return make_compound({"EncryptionInfo": bytes(4096), "EncryptedPackage": package})


def examine(name: str, data: bytes) -> Examined:
    return examine_bytes(FORMATS[name], data)


def recognised_by(data: bytes) -> list[str]:
    return [name for name in FORMATS if examine(name, data).recognised]


def with_part(name: str, part: str, content: bytes) -> bytes:
    return package_of(parts_of(documents()[name]) | {part: content})


each_name = each_row("name", FORMATS)


@each_name
def test_document_is_recognised_by_its_own_format_only_and_when_damaged(name: str) -> None:
    whole = documents()[name]
    assert recognised_by(whole) == [name]
    assert examine(name, whole[: len(whole) * 9 // 10]).recognised


@each_row(
    "data",
    [
        *(b"", b"PK\x03\x04", package_of({"a.txt": b"x"}), package_of({"word/document.xml": b"<a/>"})),
        encrypted().replace("EncryptedPackage".encode("utf-16-le"), "WordDocument1234".encode("utf-16-le")),
    ],
)
def test_other_archives_and_compound_files_are_not_recognised(data: bytes) -> None:
    assert recognised_by(data) == []


@each_name
def test_truncated_or_incomplete_document_is_corrupt(name: str) -> None:
    whole, middle = documents()[name], len(documents()[name]) // 2
    damaged = [whole[: int(len(whole) * kept)] for kept in (0.3, 0.5, 0.95, 0.999)]
    damaged.append(whole[:middle] + bytes(600) + whole[middle + 600 :])
    damaged += [without_part(whole, part) for part in ("[Content_Types].xml", "_rels/.rels", MAIN_PARTS[name])]
    assert [examine(name, data).outcome for data in damaged] == [Outcome.CORRUPT] * 8


@each_name
def test_malformed_part_is_corrupt_and_named(name: str) -> None:
    main = MAIN_PARTS[name]
    result = examine(name, with_part(name, main, parts_of(documents()[name])[main][:-5]))
    assert result.outcome is Outcome.CORRUPT
    assert main in result.detail


@verdicts(word.FORMAT)
def test_part_of_a_document_gets_its_verdict() -> Iterable[Row]:
    yield "empty part", with_part("docx", "docProps/app.xml", b""), "blank"
    yield "empty main part", with_part("docx", MAIN_PARTS["docx"], b""), "corrupt"
    part = ("word/document.xml", "<w:document", "<!DOCTYPE a><w:document")
    yield "doctype in a part", with_part_changed(documents()["docx"], *part), "corrupt"
    levels = "".join(f'<!ENTITY a{n + 1} "{f"&a{n};" * 10}">' for n in range(9))
    laughs = f'<!DOCTYPE a [<!ENTITY a0 "lol">{levels}]><a>&a9;</a>'.encode()
    yield "entities that multiply", with_part("docx", "word/document.xml", laughs), "archive_bomb"
    yield "bytes before the document", b"x" + documents()["docx"], "corrupt"


@verdicts(excel.FORMAT)
def test_part_that_unpacks_to_too_much_is_a_bomb() -> Iterable[Row]:
    for part in ("[Content_Types].xml", "_rels/.rels"):
        padding = parts_of(documents()["xlsx"])[part] + b" " * 4_000_000
        yield f"padding of {part}", with_part("xlsx", part, padding), "archive_bomb"
    sheet = with_part("xlsx", "xl/worksheets/sheet1.xml", b"<a>" + b" " * 3_000_000 + b"</a>")
    yield "sheet", sheet, "archive_bomb", replace(Limits(), ratio_floor_bytes=2_000_000)


def test_part_names_ignore_case_and_slash_direction() -> None:
    parts = parts_of(documents()["docx"])
    renamed = {name.replace("word/document", "Word\\Document"): content for name, content in parts.items()}
    assert examine("docx", package_of(renamed)).passes


@each_name
def test_encrypted_document_is_encrypted_for_every_format_and_corrupt_when_truncated(name: str) -> None:
    assert examine(name, encrypted()).verdict is Outcome.ENCRYPTED
    for kept in (0.3, 0.6, 0.9):
        result = examine(name, encrypted()[: int(len(encrypted()) * kept)])
        assert (result.recognised, result.outcome) == (True, Outcome.CORRUPT)


@each_name
def test_encrypted_document_with_one_byte_in_place_of_a_part_is_corrupt(name: str) -> None:
    data = encrypted(200_000)
    begin = data.index(b"\xa5" * 200)
    for fill, place in product((b"\0", b"\xff"), (begin, begin + 65_500, begin + 199_000)):
        result = examine(name, data[:place] + fill * 300 + data[place + 300 :])
        assert result.outcome is Outcome.CORRUPT, (fill, place)


@needs_corpus
@each_name
def test_fuzzed_corpus_files_do_not_pass(name: str) -> None:
    fuzzed = [path for path in corpus_files(name, "corrupt") if "fuzz" in path.name or "crash" in path.name]
    assert fuzzed
    assert [path.name for path in fuzzed if examine(name, path.read_bytes()).passes] == []
