"""Scripts and actions in objects of a PDF that only some readers can read are found all the same."""

import functools
import io
import struct
import zlib

from sluice_inspect import inspect_file
from tests.inspection.formats.pdf_samples import pdf, stream, text
from tests.inspection.threats.packed_files import scan_bytes, threat_in
from tests.rows import each_row

LAUNCH = b"<</S/Launch/Win<</F(cmd.exe)/P(/c calc)>>>>"
SCRIPT = b'<</S/JavaScript/JS(this.exportDataObject\\({cName:"a.exe",nLaunch:2}\\);)>>'


def opened_with(action: bytes) -> bytes:
    return pdf(text("one"), catalog="/OpenAction 100 0 R", objects={100: action})


def in_object_stream(packed: bytes, entries: str, *, table: bytes = b"/Type/XRef") -> bytes:
    """Return a document whose object 9, which it opens with, is in an object stream."""
    objects = {
        1: b"<</Type/Catalog/Pages 2 0 R/OpenAction 9 0 R>>",
        2: b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        3: b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 99 99]/Contents 4 0 R/Resources<<>>>>",
        4: stream(b"0 0 50 50 re f"),
        8: stream(packed, f"/Type/ObjStm{entries}"),
    }
    body, rows = b"%PDF-1.7\n", [struct.pack(">BIH", 0, 0, 65535), *[bytes(7)] * 10]
    for number, content in objects.items():
        rows[number] = struct.pack(">BIH", 1, len(body), 0)
        body += b"%d 0 obj\n%b\nendobj\n" % (number, content)
    rows[9], rows[10] = struct.pack(">BIH", 2, 8, 0), struct.pack(">BIH", 1, len(body), 0)
    listing = stream(b"".join(rows), "/Type/XRef/Size 11/W[1 4 2]/Root 1 0 R").replace(b"/Type/XRef", table)
    return body + b"10 0 obj\n%b\nendobj\nstartxref\n%d\n%%%%EOF\n" % (listing, len(body))


def layers(content: bytes, count: int) -> bytes:
    return functools.reduce(lambda packed, _: zlib.compress(packed), range(count), content)


def damaged(action: bytes) -> dict[str, bytes]:
    content = b"9 0 " + action
    one, flate = "/N 1/First 4", "/Filter/FlateDecode"
    junk = content[:6].hex().encode() + b"xyz" + content[6:].hex().encode() + b">"
    return {
        "a bracket is missing": opened_with(action[:-1]),
        "two brackets are missing": opened_with(action[:-2]),
        "another number of objects": in_object_stream(layers(content, 1), "/N 2/First 4" + flate),
        "thirty layers": in_object_stream(layers(content, 30), f"{one}/Filter[{'/FlateDecode' * 30}]"),
        "letters among digits": in_object_stream(junk, f"{one}/Filter/ASCIIHexDecode"),
        "a damaged end": in_object_stream(layers(content + b" " * 999, 1)[:-9] + bytes(9), one + flate),
        "no table": in_object_stream(layers(content, 1), one + flate, table=b"/TypeXRef"),
        "an escape": opened_with(action[:-1].replace(b"/S/", b"/#53/").replace(b"JS", b"#4aS").replace(b"La", b"L#61")),
    }


@each_row(("case", "data"), [*damaged(LAUNCH).items()])
def test_launch_action_in_a_damaged_object_is_found(case: str, data: bytes) -> None:
    assert threat_in(data), case
    assert "launch.pdf" in inspect_file(io.BytesIO(data), filename="a.pdf").flags, case


@each_row(("case", "data"), [*damaged(SCRIPT).items()])
def test_script_in_a_damaged_object_is_found(case: str, data: bytes) -> None:
    assert threat_in(data), case
    assert "script.pdf" in inspect_file(io.BytesIO(data), filename="a.pdf").flags, case


def test_harmless_script_in_a_damaged_object_leaves_the_scan_incomplete() -> None:
    assert not scan_bytes(opened_with(b"<</S/JavaScript/JS(app.alert\\(1\\))>"))["complete"]


def test_script_of_an_object_that_the_tables_leave_out_has_a_flag() -> None:
    updated = pdf(text("one")) + b"9 0 obj\n<</Names[(a)<</S/JavaScript/JS(app.alert\\(1\\))>>]>>\nendobj\n%%EOF\n"
    assert inspect_file(io.BytesIO(updated), filename="a.pdf").flags == ("script.pdf",)


def test_words_of_a_text_are_no_script() -> None:
    for packed in (False, True):
        document = pdf(text("/JS /Launch /JavaScript "), packed=packed)
        report = inspect_file(io.BytesIO(document), filename="a.pdf")
        assert (report.flags, report.facts["flags_complete"]) == ((), True)
        assert scan_bytes(document)["complete"]
