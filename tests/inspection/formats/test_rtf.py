"""RTF: integrity and blankness."""

from sluice_inspect.formats.rtf import FORMAT
from sluice_inspect.report import Outcome
from tests.inspection.formats.examining import examine_bytes
from tests.inspection.formats.office_packages import picture
from tests.rows import each_row

HEAD = rb"{\rtf1\ansi{\fonttbl{\f0 Arial;}}{\colortbl;\red255\green255\blue255;\red255\green0\blue0;}{\stylesheet{\s0 Normal;}}"


def document(body: bytes) -> bytes:
    return HEAD + body + b"}"


def drawn(*, shows: bool, word: bytes = b"pngblip") -> bytes:
    return (
        rb"{\pict{\*\picprop{\sp{\sn wzName}{\sv a}}}\picw200\%b " % word
        + picture(shows=shows).getvalue().hex().encode()
        + b"}"
    )


@each_row("before", [b"", b"\xef\xbb\xbf", b" \r\n"])
@each_row("trailing", [b"", b"\0", b"\r\n \x1a", b" something else"])
def test_document_with_bytes_around_it_is_sound(before: bytes, trailing: bytes) -> None:
    result = examine_bytes(FORMAT, before + document(b"Some {\\b bold} words.\\par") + trailing)
    assert (result.recognised, result.outcome, result.blank) == (True, Outcome.OK, None)


@each_row("part", range(4, 20))
def test_truncated_document_is_corrupt(part: int) -> None:
    data = document(b"Some {\\b bold} words.\\par" * 20)
    assert examine_bytes(FORMAT, data[: len(data) * part // 20]).outcome is Outcome.CORRUPT


SHIFT_JIS = document("ポ{ソ".encode("shift_jis"))


@each_row(
    ("data", "outcome"),
    [
        *(
            (document(body), Outcome.OK)
            for body in (rb"\{\}\\", rb"a \'7b b \'7d", rb"{\pict\pngblip\bin4 }}{{}", rb"\u123{\'3f}")
        ),
        (SHIFT_JIS, Outcome.OK),
        (SHIFT_JIS[:-1], Outcome.CORRUPT),
        (document(rb"{\pict\pngblip 8950z4e47}"), Outcome.CORRUPT),
        (document(b"two \x01 control \x02 characters"), Outcome.CORRUPT),
        (document(b"zeros " + bytes(500)), Outcome.CORRUPT),
        (document(b"{" * 20_000), Outcome.TOO_COMPLEX),
    ],
)
def test_damaged_content_is_corrupt_and_a_literal_brace_no_structure(data: bytes, outcome: Outcome) -> None:
    assert examine_bytes(FORMAT, data).outcome is outcome


@each_row(
    ("case", "body", "blank"),
    [
        ("nothing", b"", True),
        ("breaks", rb"\par\page\tab\sect ", True),
        ("invisible characters", rb"\~\u160 ?\'a0\u8203 ?\u-257 ?\-", True),
        ("fallbacks", rb"\uc2\u8203 ab\uc0\u8203 ", True),
        ("header and footer", rb"{\header ACME\par}{\footer 1}", True),
        ("document information", rb"{\info{\title A letter}}{\*\generator Writer}", True),
        ("an unknown destination", rb"{\*\newdestination words}", True),
        ("a field without a result", rb"{\field{\*\fldinst PAGEREF x}{\fldrslt }}", True),
        ("hidden text", rb"{\v secret}", True),
        ("white text", rb"{\cf1 white}", True),
        ("a table without lines", rb"\trowd\cellx2000\cell\row", True),
        ("a border of type none", rb"\brdrt\brdrnone\par", True),
        ("a white cell", rb"\trowd\clcbpat1\cellx2000\cell\row\cbpat0\par", True),
        ("an empty picture", drawn(shows=False), True),
        ("an empty picture in two formats",
         rb"{\*\shppict" + drawn(shows=False) + rb"}{\nonshppict" + drawn(shows=True, word=b"wmetafile8") + b"}", True),
        ("a shape around an empty picture",
         rb"{\shp{\*\shpinst{\sp{\sn pib}{\sv " + drawn(shows=False) + b"}}}}", True),
        ("a full stop", b".", False),
        ("a byte", rb"\'e9", False),
        ("a letter in Unicode", rb"\u1234 ?", False),
        ("a named character", rb"\bullet ", False),
        ("a brace", rb"\{", False),
        ("a field with a result", rb"{\field{\*\fldinst PAGE}{\fldrslt 7}}", False),
        ("a check box", rb"{\*\formfield{\fftype1}}", False),
        ("a footnote", rb"{\footnote A note.}", False),
        ("text beside hidden text", rb"{\v secret}x", False),
        ("red text", rb"{\cf1 white}{\cf2 red}", False),
        ("white text on colour", rb"\highlight2{\cf1 white}", False),
        ("a line", rb"\clbrdrt\brdrs\cellx2000\cell\row", False),
        ("a coloured cell", rb"\trowd\clcbpat2\cellx2000\cell\row", False),
        ("an object", rb"{\object{\*\objclass Excel.Sheet.8}}", False),
        ("a shape", rb"{\shp{\*\shpinst{\sp{\sn shapeType}{\sv 1}}}}", False),
        ("a picture", drawn(shows=True), False),
        ("a metafile", drawn(shows=False, word=b"wmetafile8"), False),
        ("a picture that cannot be read", rb"{\pict\jpegblip\bin5 abcde}", False),
    ],
)  # fmt: skip
def test_document_is_blank_when_nothing_in_it_is_visible(case: str, body: bytes, *, blank: bool) -> None:
    result = examine_bytes(FORMAT, document(body))
    assert (result.outcome, bool(result.blank)) == (Outcome.OK, blank)
