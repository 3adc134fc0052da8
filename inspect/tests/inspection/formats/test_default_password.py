"""Workbooks that Excel opens without asking are judged as what they decrypt to."""

import io

from msoffcrypto.method.ecma376_agile import ECMA376Agile

from sluice_inspect import Report, inspect_file
from sluice_inspect.formats import docx, xlsx
from sluice_inspect.report import Finding, Outcome
from tests.inspection.formats.encrypted_workbooks import (
    SALT,
    agile,
    crypto_api_stream,
    obfuscated_stream,
    rc4_stream,
    standard,
    workbook,
)
from tests.inspection.formats.office_packages import package_of, parts_of
from tests.inspection.threats.packed_files import EICAR, scan_bytes, zipped
from tests.rows import each_row

XLSX = xlsx.FORMAT.sample()
BLANK = package_of({name: part.replace(b"<v>1</v>", b"") for name, part in parts_of(XLSX).items()})


def inspected(data: bytes, name: str) -> Report:
    return inspect_file(io.BytesIO(data), filename=name)


@each_row(
    ("name", "data", "sheets"),
    lambda: [
        ("a.xlsx", agile(XLSX), 1),
        ("a.xlsx", standard(XLSX), 1),
        ("a.xls", workbook(rc4_stream()), 2),
        ("a.xls", workbook(crypto_api_stream(40)), 2),
        ("a.xls", workbook(crypto_api_stream(128)), 2),
        ("a.xls", workbook(obfuscated_stream()), 2),
    ],
)
def test_workbook_that_opens_without_asking_is_read(name: str, data: bytes, sheets: int) -> None:
    report = inspected(data, name)
    assert (report.outcome, report.finding, report.flags) == (Outcome.OK, None, ("encrypted.default",)), report.detail
    assert (report.facts["sheets"], report.facts["encrypted"], report.facts["flags_complete"]) == (sheets, False, True)


def test_workbook_without_its_container_is_read_too() -> None:
    report = inspected(obfuscated_stream(), "a.xls")
    assert (report.outcome, report.facts["sheets"], report.flags) == (Outcome.OK, 2, ("encrypted.default",))


def test_what_is_decrypted_gets_the_verdict_of_its_content() -> None:
    assert inspected(agile(BLANK), "a.xlsx").blank
    assert inspected(agile(XLSX[:-30]), "a.xlsx").outcome is Outcome.CORRUPT
    assert inspected(agile(docx.FORMAT.sample()), "a.xlsx").finding is Finding.TYPE_MISMATCH
    macros = workbook(rc4_stream(), {"_VBA_PROJECT_CUR": {"VBA": {"dir": b"x"}}})
    assert inspected(macros, "a.xls").flags == ("encrypted.default", "macro")


def test_threat_in_what_is_decrypted_is_found() -> None:
    infected = package_of(parts_of(XLSX) | {"xl/embeddings/oleObject1.bin": EICAR})
    assert scan_bytes(agile(infected))["threat"]
    assert scan_bytes(zipped({"a.xlsx": agile(infected)}))["threat"]
    assert scan_bytes(agile(XLSX))["hides"]
    assert not scan_bytes(agile(infected, "another"))["threat"]


@each_row(
    ("name", "data"),
    lambda: [
        ("a.xlsx", agile(XLSX, "another")),
        ("a.xlsx", agile(XLSX, spins=1_000_001)),
        ("a.xls", workbook(rc4_stream().replace(SALT, SALT[::-1]))),
        ("a.xls", workbook(crypto_api_stream(128).replace(SALT, SALT[::-1]))),
        ("a.xls", workbook(obfuscated_stream().replace(b"\x0a\x9a", b"\x0b\x9a"))),
    ],
)
def test_workbook_that_asks_for_its_password_is_encrypted(name: str, data: bytes) -> None:
    report = inspected(data, name)
    assert (report.outcome, report.flags) == (Outcome.ENCRYPTED, ())
    assert (report.facts["encrypted"], report.facts["flags_complete"]) == (True, False)


@each_row(
    ("size", "outcome"),
    # Up to 4 KiB, msoffcrypto 6 writes the description of the encryption over the beginning of the document.
    [(3000, Outcome.CORRUPT), (4100, Outcome.ENCRYPTED), (9000, Outcome.ENCRYPTED), (900_000, Outcome.ENCRYPTED)],
)
def test_document_that_msoffcrypto_locks_is_encrypted_unless_it_is_lost(size: int, outcome: Outcome) -> None:
    locked = ECMA376Agile.encrypt("secret", io.BytesIO(XLSX[:8].ljust(size, b"x")), None, 1000)
    for name in ("a.xlsx", "a.docx"):
        assert inspected(locked, name).outcome is outcome
    assert inspected(locked[:-513], "a.xlsx").outcome is Outcome.CORRUPT
