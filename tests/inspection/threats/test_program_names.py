"""Names that run when they are opened, in every disguise, and in every rule that judges names."""

import pytest

from sluice_inspect.program_names import PROGRAM_EXTENSIONS, is_program_name
from tests.inspection.threats.compound_files import packaged
from tests.inspection.threats.containers import docx_with_package, pdf_launch, rtf_object
from tests.inspection.threats.packed_files import scan_bytes, threat_in
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
