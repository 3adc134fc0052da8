"""Scripts of PDF that save an attachment and start it, in every spelling, string, stream and encoding."""

import io
import itertools
import zlib
from collections.abc import Callable, Iterator
from typing import Final

import pikepdf
from pikepdf import Array, Dictionary, Name

from sluice_inspect.formats.pdf.scripts import readings_of
from tests.inspection.growth import assert_linear
from tests.inspection.threats.packed_files import scan_bytes, threat_in, zipped
from tests.rows import each_row

LAUNCHES: Final = (
    'this.exportDataObject({cName:"a",nLaunch:2})', "exportDataObject({cName:'a', 'nLaunch' : 1})",
    "exportDataObject({nLaunch:0,cName:'a'})", "exportDataObject({nLaunch:1+1})", "exportDataObject({nLaunch:n})",
    "this.exportDataObject/* a */({cName:'a',/* b */nLaunch/* c */:/* d */2})", "exportDataObject({nLaunch\n:\n2})",
    'this["exportDataObject"]({["nLaunch"]:2})', "this['export'+'Data'+'Object']({nLaunch:2})",
    'this["export" + /* + */ "DataObject"]({["nLa" + "unch"]: 2})', "this[('export')+('DataObject')]({nLaunch:2})",
    "this['export'.concat('DataObject')]({nLaunch:2})", "this[['export','DataObject'].join('')]({nLaunch:2})",
    "this.\\u0065xportDataObject({n\\u004caunch:2})", 'this["\\x65xport\\104ataObject"]({nLaunch:2})',
    "this.\\u{65}xportDataObject({nLaunch:2})", "this['\\exportData\\\nObject']({nLaunch:2})",
    "this[`export`+`DataObject`]({nLaunch:2})", "var o={};o.nLaunch=2;this.exportDataObject(o)",
    "var a='export', b = 'DataObject'; this[a+b]({nLaunch:2})", "eval(unescape('%65xportDataObject({n%4caunch:2})'))",
    "this[String.fromCharCode(101,120,112,111,114,116)+'DataObject']({nLaunch:2})",
    "f='//';exportDataObject({nLaunch:2})",
    "exportDataObject('a', '', true, 2)", "this.exportDataObject ( 'a' , f('b') , true , 2 )",
    'this.exportDataObject.apply(this,["a",null,false,2])', 'this.exportDataObject.bind(this,"a",null,false,2)()',
    'var f=this.exportDataObject;f("a",null,false,2)', 'var f = this.exportDataObject\nf("a",null,false,2)',
    'this["exportDataObject"]["apply"](this,a)', "f(this.exportDataObject, a)", "var {exportDataObject: f} = this; f(a)",
    'this[`export${"Data"}Object`]({cName:"a",[`n${"Launch"}`]:2})', "var d='Data';this[`export${d}Object`]({nLaunch:2})",
    "this[`export${'Da'+'ta'}Object`]({nLaunch:2})",
    "var e = this.exportDataObject; e({nLaunch: 2})", "this.exportDataObject.call(this, {nLaunch: 2})",
)  # fmt: skip
ENCODINGS: Final[dict[str, Callable[[str], bytes]]] = {
    "plain": str.encode,
    "utf-8": lambda text: b"\xef\xbb\xbf" + text.encode(),
    "utf-16be": lambda text: b"\xfe\xff" + text.encode("utf-16-be"),
    "utf-16le": lambda text: b"\xff\xfe" + text.encode("utf-16-le"),
    "utf-16be, no mark": lambda text: text.encode("utf-16-be"),
    "utf-16le, no mark": lambda text: text.encode("utf-16-le"),
}


def as_string(pdf: pikepdf.Pdf, data: bytes) -> pikepdf.Object:
    return pikepdf.String(data)


def as_stream(*filters: str) -> Callable[[pikepdf.Pdf, bytes], pikepdf.Object]:
    def make(pdf: pikepdf.Pdf, data: bytes) -> pikepdf.Object:
        for name in reversed(filters):
            data = zlib.compress(data) if name == "/FlateDecode" else data.hex().encode() + b">"
        stream = pikepdf.Stream(pdf, data)
        if filters:
            stream.Filter = Array([Name(name) for name in filters])
        return stream

    return make


HOLDERS: Final[dict[str, Callable[[pikepdf.Pdf, bytes], pikepdf.Object]]] = {
    "string": as_string,
    "stream": as_stream(),
    "packed stream": as_stream("/FlateDecode"),
    "stream packed twice": as_stream("/FlateDecode", "/FlateDecode"),
    "stream in hexadecimal": as_stream("/ASCIIHexDecode", "/FlateDecode"),
}
SAVINGS: Final[dict[str, dict[str, object]]] = {
    "plain": {},
    "object streams": {"object_stream_mode": pikepdf.ObjectStreamMode.generate},
    "empty password": {"encryption": pikepdf.Encryption(owner="x", user="", R=6)},
    "empty password, RC4": {"encryption": pikepdf.Encryption(owner="x", user="", R=3, aes=False, metadata=False)},
}


def at_opening(pdf: pikepdf.Pdf, action: pikepdf.Object) -> None:
    pdf.Root["/OpenAction"] = action


def in_name_tree(pdf: pikepdf.Pdf, action: pikepdf.Object) -> None:
    tree = Dictionary(Names=Array([pikepdf.String("a"), action]))
    for _ in range(60):
        tree = Dictionary(Kids=Array([tree]))
    pdf.Root["/Names"] = Dictionary(JavaScript=tree)


def on_a_page(pdf: pikepdf.Pdf, action: pikepdf.Object) -> None:
    pdf.pages[0].obj["/AA"] = Dictionary(O=Dictionary(S=Name("/Named"), Next=Array([action])))


PLACES: Final = {"opening": at_opening, "name tree": in_name_tree, "page": on_a_page}


def one_page() -> pikepdf.Pdf:
    pdf = pikepdf.new()
    pdf.add_blank_page()
    return pdf


def document(script: bytes, holder: str = "string", saving: str = "plain", place: str = "opening") -> bytes:
    pdf = one_page()
    PLACES[place](pdf, Dictionary(S=Name("/JavaScript"), JS=HOLDERS[holder](pdf, script)))
    return saved(pdf, **SAVINGS[saving])


def saved(pdf: pikepdf.Pdf, **saving: object) -> bytes:
    out = io.BytesIO()
    pdf.save(out, **saving)  # type: ignore[arg-type]  # settings of several types
    return out.getvalue()


def spellings() -> Iterator[tuple[str, bytes]]:
    """Yield every script, each in the next encoding, holder, place and way to save, which all come up together."""
    others = itertools.cycle(itertools.product(ENCODINGS, HOLDERS, SAVINGS, PLACES))
    for script, _ in itertools.product(LAUNCHES, range(5)):
        encoding, holder, saving, place = next(others)
        data = document(ENCODINGS[encoding](script), holder, saving, place)
        yield f"{script} {encoding} {holder} {saving} {place}", data
    places = itertools.cycle(PLACES)
    for encoding, holder, saving in itertools.product(ENCODINGS, HOLDERS, SAVINGS):
        place = next(places)
        yield f"{encoding} {holder} {saving} {place}", document(ENCODINGS[encoding](LAUNCHES[0]), holder, saving, place)


def test_script_that_starts_an_attachment_is_a_threat_in_every_spelling() -> None:
    found = {name: threat_in(data) for name, data in spellings()}
    assert [name for name, threat in found.items() if threat != "Pdf.Launches-Attachment"] == []
    assert len(found) > 200


def test_script_in_parts_is_a_threat() -> None:
    pdf = one_page()
    first = Dictionary(S=Name("/JavaScript"), JS=pikepdf.String("function f(o) { this.exportDataObject(o) }"))
    first["/Next"] = Dictionary(S=Name("/JavaScript"), JS=pikepdf.Stream(pdf, b"f({cName: 'a', nLaunch: 2})"))
    pdf.Root["/OpenAction"] = first
    assert threat_in(saved(pdf)) == "Pdf.Launches-Attachment"


@each_row("encoding", ["utf-8", "utf-16", "utf-16-be"])
@each_row("cut", [17, 18, 23, 60])
def test_script_of_an_xml_form_that_is_cut_anywhere_is_a_threat(cut: int, encoding: str) -> None:
    form = "<xdp><template><script>this.exportDataObject({nLaunch:2})</script></template></xdp>".encode(encoding)
    pdf = one_page()
    first = pikepdf.Stream(pdf, form[:cut].hex().encode() + b">", Filter=Name.ASCIIHexDecode)
    packets = Array([pikepdf.String("a"), pdf.make_indirect(first), pdf.make_indirect(pikepdf.Stream(pdf, form[cut:]))])
    pdf.Root["/AcroForm"] = Dictionary(Fields=Array([]), XFA=packets)
    assert threat_in(saved(pdf)) == "Pdf.Launches-Attachment"


@each_row("as_packets", [True, False])
def test_script_of_an_xml_form_is_a_threat(*, as_packets: bool) -> None:
    pdf = one_page()
    form = b"<xdp><template><script>event.target.export&#68;ataObject({nLaunch:2})</script></template></xdp>"
    stream = pikepdf.Stream(pdf, form)
    packets = Array([pikepdf.String("template"), stream]) if as_packets else stream
    pdf.Root["/AcroForm"] = Dictionary(Fields=Array([]), XFA=packets)
    assert threat_in(saved(pdf)) == "Pdf.Launches-Attachment"


@each_row(
    "script",
    [
        "this.exportDataObject({cName: 'a'})",
        "this.exportDataObject('a', 'b')",
        "if (ready) { this.exportDataObject({cName: 'a', cDIPath: p}); }",
        "var saved = this.exportDataObject({cName: 'a'});",
        "// exportDataObject saves a file\nthis.exportDataObject({cName: `a${'b'}`})",
        "app.alert('nLaunch')",
        "var a = 'nLaunch: 2'; this.importDataObject(a)",
        "this.getField('a').value = event.value",
    ],
)
def test_script_that_starts_nothing_is_flagged(script: str) -> None:
    result = scan_bytes(document(script.encode("utf-16"), "packed stream"))
    assert (result["threat"], result["complete"], result["flags"]) == (None, True, ["script.pdf"])


def test_script_that_cannot_be_unpacked_leaves_the_scan_incomplete() -> None:
    pdf = one_page()
    stream = pikepdf.Stream(pdf, b"this.exportDataObject({nLaunch:2})")
    stream.Filter = Name("/DCTDecode")
    pdf.Root["/OpenAction"] = Dictionary(S=Name("/JavaScript"), JS=stream)
    assert scan_bytes(saved(pdf))["complete"] is False


PAGE: Final = (
    b"%%PDF-1.4\n1 0 obj\n<</Type/Catalog/Pages 2 0 R/OpenAction 4 0 R>>\nendobj\n"
    b"2 0 obj\n<</Type/Pages/Kids[3 0 R]/Count 1>>\nendobj\n"
    b"3 0 obj\n<</Type/Page/Parent 2 0 R/MediaBox[0 0 9 9]>>\nendobj\n"
    b"4 0 obj\n%s\nendobj\n5 0 obj\n%s\nendobj\ntrailer\n<</Root 1 0 R>>\n%%%%EOF\n"
)


@each_row(
    ("action", "other"),
    [
        (b"<</S/Launch/F(cmd.exe)>>", b"null"),
        (b"<</#53/#4caunch/#46(cmd.exe)>>", b"null"),
        (b"<</S/L#61unc#68/F 5 0 R>>", b"(cmd.\\145\\170e)"),
        (b"<</S 5 0 R/F(c\\\nmd.exe)>>", b"/Launch"),
        (b"<</S/Launch/F<636d642e657865>>>", b"null"),
        (b"<</S/Launch/F<FEFF0063006d0064002e006500780065>>>", b"null"),
        (b"<</S/Launch/F<FFFE63006d0064002e00650078006500>>>", b"null"),
        (b"<</S/Launch/W#69n 5 0 R>>", b"<</F(cmd)/P(\\057c calc)>>"),
        (b"<</S/Launch/F<</Type/Filespec/DOS(a.exe)>>>>", b"null"),
        (b"<</S/Launch/F 5 0 R>>", b"<</Type/Filespec/F(a.txt)/UF<FEFF0061002e006500780065>>>"),
        (b"<</S/GoTo/Next[<</S/Launch/Mac(/bin/sh)>>]>>", b"null"),
    ],
)
def test_launch_of_a_program_is_a_threat_in_every_spelling(action: bytes, other: bytes) -> None:
    assert threat_in(PAGE % (action, other)) == "Pdf.Launches-Program"
    assert threat_in(zipped({"a.pdf": PAGE % (action, other)})) == "Pdf.Launches-Program"


@each_row("name", [b"JS", b"#4a#53", b"J#53"])
@each_row(
    "script", [b"(this.\\145xportDataObject\\({nLaunch:2}\\))", b"<" + LAUNCHES[0].encode().hex().encode() + b">"]
)
def test_script_is_found_under_every_spelling_of_names_and_strings(name: bytes, script: bytes) -> None:
    assert threat_in(PAGE % (b"<</S/JavaScript/%s 5 0 R>>" % name, script)) == "Pdf.Launches-Attachment"


GROWING: Final[dict[str, Callable[[int], str]]] = {
    "code": lambda n: "a.b(c, 'd' + \"e\");\n" * n,
    "quotes": lambda n: "\"'`" * n,
    "comments without end": lambda n: "/*" * n,
    "spaces after a string": lambda n: "'a'" + " " * n,
    "brackets after a string": lambda n: "'a'" + ") " * n,
    "strings": lambda n: "'a'+" * n,
    "names": lambda n: "a = " * n,
    "long name": lambda n: "a" * n,
    "spaces after a name": lambda n: "a" + " " * n,
    "escapes": lambda n: "\\u{0" * n,
    "codes": lambda n: "fromCharCode(1," * n,
    "percent signs": lambda n: "%4" * n,
    "holes": lambda n: "${" * n,
    "spaces in a hole": lambda n: "${" + " " * n,
    "strings in holes": lambda n: "${'" * n,
    "entities": lambda n: "&#x" * n,
}


@each_row("kind", list(GROWING))
def test_scripts_are_read_in_linear_time(kind: str) -> None:
    assert_linear(lambda size: list(readings_of([GROWING[kind](size)])), 30_000)
