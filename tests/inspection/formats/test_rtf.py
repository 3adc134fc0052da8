"""RTF: integrity and blankness."""

import pytest

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
    assert result.recognised
    assert result.outcome is Outcome.OK
    assert result.blank is None


@each_row("part", range(4, 20))
def test_truncated_document_is_corrupt(part: int) -> None:
    data = document(b"Some {\\b bold} words.\\par" * 20)
    assert examine_bytes(FORMAT, data[: len(data) * part // 20]).outcome is Outcome.CORRUPT


@each_row("body", [rb"\{\}\\", rb"a \'7b b \'7d", rb"{\pict\pngblip\bin4 }}{{}", rb"\u123{\'3f}"])
def test_literal_braces_are_not_structure(body: bytes) -> None:
    assert examine_bytes(FORMAT, document(body)).outcome is Outcome.OK


def test_eight_bit_text_is_complete_when_it_ends_with_a_brace() -> None:
    shift_jis_text = "ポ{ソ".encode("shift_jis")
    assert examine_bytes(FORMAT, document(shift_jis_text)).outcome is Outcome.OK
    assert examine_bytes(FORMAT, document(shift_jis_text)[:-1]).outcome is Outcome.CORRUPT


@each_row("body", [rb"{\pict\pngblip 8950z4e47}", b"two \x01 control \x02 characters", b"zeros " + bytes(500)])
def test_damaged_content_is_corrupt(body: bytes) -> None:
    assert examine_bytes(FORMAT, document(body)).outcome is Outcome.CORRUPT


def test_deeply_nested_groups_are_too_complex() -> None:
    assert examine_bytes(FORMAT, document(b"{" * 20_000)).outcome is Outcome.TOO_COMPLEX


@each_row(
    "body",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(rb"\par\page\tab\sect ", id="breaks"),
        pytest.param(rb"\~\u160 ?\'a0\u8203 ?\u-257 ?\-", id="invisible characters"),
        pytest.param(rb"\uc2\u8203 ab\uc0\u8203 ", id="fallbacks"),
        pytest.param(rb"{\header ACME\par}{\footer 1}", id="header and footer"),
        pytest.param(rb"{\info{\title A letter}}{\*\generator Writer}", id="document information"),
        pytest.param(rb"{\*\newdestination words}", id="an unknown destination"),
        pytest.param(rb"{\field{\*\fldinst PAGEREF x}{\fldrslt }}", id="a field without a result"),
        pytest.param(rb"{\v secret}", id="hidden text"),
        pytest.param(rb"{\cf1 white}", id="white text"),
        pytest.param(rb"\trowd\cellx2000\cell\row", id="a table without lines"),
        pytest.param(rb"\brdrt\brdrnone\par", id="a border of type none"),
        pytest.param(rb"\trowd\clcbpat1\cellx2000\cell\row\cbpat0\par", id="a white cell"),
        pytest.param(drawn(shows=False), id="an empty picture"),
        pytest.param(
            rb"{\*\shppict" + drawn(shows=False) + rb"}{\nonshppict" + drawn(shows=True, word=b"wmetafile8") + b"}",
            id="an empty picture in two formats",
        ),
        pytest.param(
            rb"{\shp{\*\shpinst{\sp{\sn pib}{\sv " + drawn(shows=False) + b"}}}}", id="a shape around an empty picture"
        ),
    ],
)
def test_document_without_visible_content_is_blank(body: bytes) -> None:
    result = examine_bytes(FORMAT, document(body))
    assert result.outcome is Outcome.OK
    assert result.blank


@each_row(
    "body",
    [
        pytest.param(b".", id="a full stop"),
        pytest.param(rb"\'e9", id="a byte"),
        pytest.param(rb"\u1234 ?", id="a letter in Unicode"),
        pytest.param(rb"\bullet ", id="a named character"),
        pytest.param(rb"\{", id="a brace"),
        pytest.param(rb"{\field{\*\fldinst PAGE}{\fldrslt 7}}", id="a field with a result"),
        pytest.param(rb"{\*\formfield{\fftype1}}", id="a check box"),
        pytest.param(rb"{\footnote A note.}", id="a footnote"),
        pytest.param(rb"{\v secret}x", id="text beside hidden text"),
        pytest.param(rb"{\cf1 white}{\cf2 red}", id="red text"),
        pytest.param(rb"\highlight2{\cf1 white}", id="white text on colour"),
        pytest.param(rb"\clbrdrt\brdrs\cellx2000\cell\row", id="a line"),
        pytest.param(rb"\trowd\clcbpat2\cellx2000\cell\row", id="a coloured cell"),
        pytest.param(rb"{\object{\*\objclass Excel.Sheet.8}}", id="an object"),
        pytest.param(rb"{\shp{\*\shpinst{\sp{\sn shapeType}{\sv 1}}}}", id="a shape"),
        pytest.param(drawn(shows=True), id="a picture"),
        pytest.param(drawn(shows=False, word=b"wmetafile8"), id="a metafile"),
        pytest.param(rb"{\pict\jpegblip\bin5 abcde}", id="a picture that cannot be read"),
    ],
)
def test_document_with_visible_content_is_not_blank(body: bytes) -> None:
    assert examine_bytes(FORMAT, document(body)).blank is None
