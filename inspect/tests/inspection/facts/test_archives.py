"""Members, depth, encryption and programs of archives are facts, also where the walk through them ends early."""

import gzip
import io
import struct

import pytest

from sluice_inspect import inspect_file
from sluice_inspect.extensions import extension_of
from sluice_inspect.programs import attachment_flag, is_disguised, recognise
from sluice_inspect.report import Finding, Limits, Outcome
from tests.inspection.facts import facts_of, flags_of
from tests.inspection.formats import test_tar
from tests.inspection.formats.zip_samples import archive
from tests.rows import each_row

PE = b"MZ" + bytes(58) + struct.pack("<L", 0x80) + bytes(0x40) + b"PE\0\0" + bytes(100)
ELF = b"\x7fELF\x02\x01\x01" + bytes(60)
LNK = bytes.fromhex("4c0000000114020000000000c000000000000046") + bytes(60)
JAVA = b"\xca\xfe\xba\xbe\x00\x00\x00\x3d" + bytes(20)
UNIVERSAL = b"\xca\xfe\xba\xbe\x00\x00\x00\x02" + bytes(40)
MACH_O = b"\xcf\xfa\xed\xfe\x07\x00\x00\x01\x03\x00\x00\x00\x02\x00\x00\x00" + bytes(20)
TEXT = b"A sluice is a gate.\n"


def tar(*members: tuple[str, bytes]) -> bytes:
    return test_tar.archive(*(test_tar.entry(name, content) for name, content in members))


PROGRAMS = [
    (PE, "pe"), (ELF, "elf"), (MACH_O, "mach-o"), (UNIVERSAL, "mach-o"), (JAVA, "java-class"), (b"dex\n035\0", "dex"),
]  # fmt: skip
DANGEROUS = {
    "program": ["a.exe", "A.EXE", "a.pdf.exe", "a.exe. ", "a.xll", "a.msi", "a.jar"],
    "script": ["a.js", "a.vbs", "a.hta", "a.ps1", "a.wsf", "a.bat"],
    "shortcut": ["a.lnk", "b/a.url", "a.settingcontent-ms", "a.library-ms"],
}


@each_row(
    ("name", "head", "kind"),
    [
        *(("holiday.jpg", head, ("program", kind)) for head, kind in PROGRAMS),
        ("notes.txt", b"#!/bin/sh\necho\n", ("script", "shebang")),
        ("notes.txt", LNK, ("shortcut", "lnk")),
        *((name, TEXT, (category, "name")) for category, names in DANGEROUS.items() for name in names),
        *((name, TEXT, None) for name in ("a.txt", "a.pdf", "exe", "a.exe/b.txt", "a.jpg", "", "a.json", "lnk.txt")),
        ("a.txt", b"MZ is how this text begins, and it goes on for a while like that, really.", None),
        *(("a.txt", head, None) for head in (b"MZ", b"")),
    ],
)
def test_program_script_or_shortcut_is_recognised_by_its_bytes_or_name(
    name: str, head: bytes, kind: tuple[str, str] | None
) -> None:
    assert recognise(name, head) == kind


@each_row(("name", "extension"), [("folder.d/a.PDF.Exe. .", "exe"), ("a.txt:b.js", "js"), ("folder.d/README", "")])
def test_extension_is_the_one_that_windows_uses(name: str, extension: str) -> None:
    assert extension_of(name) == extension


@each_row(
    ("name", "head", "kind"),
    [("a.exe", b"", "program"), ("a.js", b"", "script"), ("a.lnk", b"", "shortcut"), ("a.zip", b"", "archive"),
     ("a.docx", b"PK\x03\x04", "document"), ("a", b"PK\x03\x04", "archive"), ("a", b"%PDF-1.7", "document"),
     ("a.bin", b"\1\2", "other"), ("a.pdf", PE, "program"), ("a.iso", b"", "archive")],
)  # fmt: skip
def test_attachment_has_a_kind(name: str, head: bytes, kind: str) -> None:
    assert attachment_flag(name, head) == f"attachment.{kind}"


def test_archive_counts_members_depth_and_bytes() -> None:
    inner = archive(("a.txt", TEXT), ("b.txt", TEXT))
    facts = facts_of(archive(("in.zip", inner), ("c.txt", TEXT)), "a.zip")
    assert (facts["members"], facts["depth"], facts["unpacked_bytes"]) == (4, 2, len(inner) + 3 * len(TEXT))
    assert (facts["encrypted"], facts["encrypted_members"]) == (False, 0)
    assert (facts["programs"], facts["scripts"], facts["shortcuts"]) == (0, 0, 0)
    assert facts["flags_complete"] is True


DANGERS = [("photo.jpg", PE), ("run.vbs", TEXT), ("x.lnk", TEXT)]


@each_row(
    ("name", "data"),
    [
        ("a.zip", archive(*DANGERS)),
        ("a.tar", tar(*DANGERS)),
        ("a.tar.gz", gzip.compress(tar(*DANGERS))),
        ("b.zip", archive(("deep.zip", archive(*DANGERS)))),
    ],
)
def test_programs_scripts_and_shortcuts_in_archives_are_counted_at_all_levels(name: str, data: bytes) -> None:
    facts = facts_of(data, name)
    assert (facts["programs"], facts["scripts"], facts["shortcuts"]) == (1, 1, 1)
    assert facts["program_kinds"] == ("name", "pe")
    assert flags_of(data, name) == {"archive.program", "archive.script", "archive.shortcut", "archive.disguised"}


JSCRIPT = b'var shell = new ActiveXObject("WScript.Shell");\nshell.Run("calc");\n'


@each_row(
    "script",
    [
        JSCRIPT,
        'Set shell = CreateObject("WScript.Shell")'.encode("utf-16"),
        b"@echo off\r\ncalc.exe\r\n",
        b"$client = New-Object Net.WebClient",
        b"<?php system($_GET[0]);",
        b"<html><script>x()</script>",
        b"\xef\xbb\xbffunction run(a) { return a }",
        b"#!/bin/sh\nrm -r .\n",
    ],
)
@each_row("name", ["invoice.pdf", "INVOICE.PDF", "a/photo.jpg", "table.xlsx", "letter.doc", "b.exe.png. "])
def test_script_under_the_name_of_a_document_is_counted_and_flagged(name: str, script: bytes) -> None:
    data = archive((name, script))
    assert facts_of(data, "a.zip")["scripts"] == 1
    assert flags_of(data, "a.zip") == {"archive.script", "archive.disguised"}


@each_row(
    ("name", "head", "disguised"),
    [
        ("a.pdf", TEXT, True), ("a.png", TEXT, True), ("a.pdf", LNK, True), ("a.pdf", PE, True), ("a.doc", PE, True),
        ("a.pdf", b"\n\n%PDF-1.4\n1 0 obj", False), ("a.pdf", b"", False), ("a.png", b"\x89PNG\r\n\x1a\n", False),
        ("a.xls", b"name\tnumber\n", False), ("a.doc", b"{\\rtf1 words}", False), ("a.js", JSCRIPT, False),
        ("a.txt", JSCRIPT, False), ("a.docx", b"PK\x03\x04" + bytes(30), False), ("a.jpg", b"\xff\xd8\xff", False),
    ],
)  # fmt: skip
def test_disguise_is_known_by_name_and_bytes(name: str, head: bytes, disguised: bool) -> None:  # noqa: FBT001
    assert is_disguised(name, head) is disguised


def test_packed_program_is_counted() -> None:
    assert facts_of(gzip.compress(ELF), "a.gz")["program_kinds"] == ("elf",)


def _with_password(data: bytes) -> bytes:
    """Return the archive with the bit of encryption in every header of its first member."""
    changed = bytearray(data)
    changed[6] |= 1
    changed[data.index(b"PK\x01\x02") + 8] |= 1
    return bytes(changed)


def test_encrypted_zip_member_is_counted_and_its_name_judged() -> None:
    data = _with_password(archive(("run.exe", TEXT), ("b.txt", TEXT)))
    report = inspect_file(io.BytesIO(data), filename="a.zip")
    assert report.integrity is Outcome.ENCRYPTED
    assert (report.facts["encrypted"], report.facts["encrypted_members"]) == (True, 1)
    assert (report.facts["members"], report.facts["programs"]) == (2, 1)
    assert report.flags == ("archive.program",)
    assert report.facts["flags_complete"] is False


def test_encrypted_member_of_an_inner_archive_counts() -> None:
    facts = facts_of(archive(("in.zip", _with_password(archive(("a.txt", TEXT))))), "a.zip")
    assert (facts["encrypted"], facts["encrypted_members"]) == (True, 1)
    assert facts["flags_complete"] is False


@each_row("hides_names", [False, True])
def test_encrypted_7z_is_encrypted(hides_names: bool) -> None:  # noqa: FBT001
    py7zr = pytest.importorskip("py7zr")
    file = io.BytesIO()
    with py7zr.SevenZipFile(file, "w", password="x", header_encryption=hides_names) as opened:
        opened.writestr(TEXT, "run.exe")
    facts = facts_of(file.getvalue(), "a.7z")
    assert facts["encrypted"] is True
    assert ("members" in facts) is not hides_names
    assert facts.get("programs") == (None if hides_names else 1)


def test_archive_that_is_refused_early_has_what_its_directory_lists() -> None:
    data = archive(("../out.txt", TEXT), ("b.exe", TEXT))
    report = inspect_file(io.BytesIO(data), filename="a.zip")
    assert report.finding is Finding.ARCHIVE_UNSAFE
    assert (report.facts["members"], report.facts["programs"], report.facts["flags_complete"]) == (2, 1, False)
    assert report.facts["encrypted"] is False


def test_bomb_has_the_bytes_up_to_the_limit() -> None:
    data = archive(("a.txt", bytes(300_000)))
    limits = Limits(max_unpacked_bytes=100_000)
    report = inspect_file(io.BytesIO(data), filename="a.zip", limits=limits)
    assert report.finding is Finding.ARCHIVE_BOMB
    assert int(str(report.facts["unpacked_bytes"])) > 100_000
    assert report.facts["flags_complete"] is False
