"""Names that run when they are opened, in every disguise and rule, and programs with the extension of a document."""

import struct

import pytest

from sluice_inspect.program_names import PROGRAM_EXTENSIONS, is_program_name
from tests.inspection.threats.compound_files import packaged
from tests.inspection.threats.containers import docx_with_package, pdf_launch, rtf_object
from tests.inspection.threats.packed_files import scan_bytes, threat_in, verdict_of, zipped
from tests.rows import each_row

# What the list lacked before it was taken from mail clients.
ADDED = (
    "xll", "wsc", "msp", "mst", "library-ms", "settingcontent-ms", "search-ms", "searchconnector-ms", "appref-ms",
    "application", "diagcab", "appx", "msix", "appxbundle", "msixbundle", "jnlp", "sct", "shb", "shs", "ws", "vb",
    "ps1xml", "psc1", "msc", "msh", "gadget", "hlp", "ade", "adp", "mde", "xbap", "website", "theme", "py", "pyw", "dmg",
    "apk", "vxd", "sys", "ksh", "csh", "pl", "mjs", "appinstaller",
)  # fmt: skip
DISGUISES = (
    "a.exe", "A.EXE", "invoice.pdf.exe", "a.exe. .", "a.exe...", "a.exe ", "a.exe::$DATA", "a.exe:", "a.txt:b.exe",
    "C:a.exe", "C:\\folder.d\\a.exe", "folder/a.exe", "invoice\u202efdp.exe", "a.e\u200bxe", "a.\u202eexe", "a.exe\0.txt",
    "a.exe\u00a0", "a.{20D04FE0-3AEA-1069-A2D8-08002B30309D}",
)  # fmt: skip
HARMLESS = (
    "", "exe", ".exe", "a.txt", "exe.txt", "a.exe.txt", "folder.exe/a.txt", "a.exes", "a. exe b.pdf", "C:\\a.docx",
    "12:30.txt", "a.xlsx", "a.zip", "a.tmp", "a.{not-a-class}",
)  # fmt: skip


@each_row("extension", sorted(PROGRAM_EXTENSIONS))
def test_every_listed_extension_is_a_program(extension: str) -> None:
    assert is_program_name(f"name.{extension}")
    assert is_program_name(f"name.{extension.upper()}")


@each_row(("name", "program"), [*((name, True) for name in DISGUISES), *((name, False) for name in HARMLESS)])
def test_disguised_name_is_a_program(name: str, *, program: bool) -> None:
    assert is_program_name(name) is program


@pytest.mark.asvs("5.4.3")
@each_row("extension", ADDED)
def test_program_is_found_by_its_name_in_packages_and_launch_actions(extension: str) -> None:
    assert threat_in(docx_with_package(b"x", f"a.{extension}".encode())) == "Package.Program"
    assert threat_in(pdf_launch(f"folder/a.{extension}")) == "Pdf.Launches-Program"
    assert threat_in(pdf_launch(f"a.{extension.upper()} /quiet", "/Win")) == "Pdf.Launches-Program"


@each_row("name", [name for name in DISGUISES if "\0" not in name and name.isascii()])
def test_disguised_name_is_found_in_packages_and_launch_actions(name: str) -> None:
    assert threat_in(packaged(b"x", name.encode())) == "Package.Program"
    assert threat_in(rtf_object(b"x", name=name.encode())) == "Package.Program"
    assert threat_in(pdf_launch(name)) == "Pdf.Launches-Program"


@each_row("name", ["a.txt", "report.docx", "a.tmp", "exe.txt"])
def test_harmless_names_stay_flags(name: str) -> None:
    assert scan_bytes(docx_with_package(b"x", name.encode()))["threat"] is None
    assert scan_bytes(pdf_launch(name))["threat"] is None


PE = b"MZ" + bytes(58) + struct.pack("<L", 64) + b"PE\0\0" + bytes(200)
ELF = b"\x7fELF\x02\x01\x01" + bytes(57)
MACHO = b"\xcf\xfa\xed\xfe" + struct.pack("<3L", 0x01000007, 3, 2) + bytes(40)
MACHO_BIG_ENDIAN = b"\xfe\xed\xfa\xce" + struct.pack(">3L", 18, 0, 2) + bytes(40)
UNIVERSAL = b"\xca\xfe\xba\xbe" + struct.pack(">L", 2) + bytes(40)
SCRIPT = b"#!/bin/sh\nrm -rf /\n"


@each_row(
    ("data", "filename", "program_type"),
    [
        (PE, "invoice.pdf", "PE"),
        (PE, "INVOICE.PDF", "PE"),
        (PE, "invoice.pdf. .", "PE"),
        (PE, "notes.txt", "PE"),
        (ELF, "photo.jpeg", "ELF"),
        (MACHO, "film.mp4", "Mach-O"),
        (MACHO_BIG_ENDIAN, "letter.docx", "Mach-O"),
        (UNIVERSAL, "song.mp3", "Mach-O"),
        (SCRIPT, "photo.png", "Script"),
        (zipped({"papers/invoice.pdf": PE}), "papers.zip", "PE"),
        (zipped({"papers\\invoice.pdf": PE}), "papers.zip", "PE"),
    ],
)
def test_program_with_a_document_extension_is_a_threat(data: bytes, filename: str, program_type: str) -> None:
    assert threat_in(data, filename) == f"Disguised-Program.{program_type}"


@each_row(
    ("case", "data", "filename"),
    [
        ("a program under its own name", PE, "setup.exe"),
        ("no name", PE, ""),
        ("no extension", PE, "pdf"),
        ("programs in an archive", zipped({"bin/tool": ELF, "setup.exe": PE}), "tools.zip"),
        ("a script named as text", SCRIPT, "install.txt"),
        ("a text that begins like a program", b"MZ is a postcode in no country", "notes.txt"),
        ("an offset beyond the file", b"MZ" + b"\xff" * 100, "notes.doc"),
        ("a Java class", b"\xca\xfe\xba\xbe\0\0\0\x34" + bytes(40), "Main.txt"),
        ("a hash and an exclamation mark", b"#! a heading", "notes.rtf"),
    ],
)
def test_harmless_file_is_not_a_threat(case: str, data: bytes, filename: str) -> None:
    assert verdict_of(scan_bytes(data, filename)) == verdict_of(scan_bytes(b""))
