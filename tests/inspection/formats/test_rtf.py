import pytest

from sluice.formats.kinds.rtf import KIND
from sluice.formats.verdict import Outcome
from tests.formats.judging import corpus, judge, needs_corpus
from tests.formats.packages import picture

HEAD = rb"{\rtf1\ansi{\fonttbl{\f0 Arial;}}{\colortbl;\red255\green255\blue255;\red255\green0\blue0;}{\stylesheet{\s0 Normal;}}"


def document(body: bytes) -> bytes:
    return HEAD + body + b"}"


def drawn(*, shows: bool, word: bytes = b"pngblip") -> bytes:
    return rb"{\pict{\*\picprop{\sp{\sn wzName}{\sv a}}}\picw200\%b " % word + picture(shows=shows).getvalue().hex().encode() + b"}"


@pytest.mark.parametrize("before", [b"", b"\xef\xbb\xbf", b" \r\n"])
@pytest.mark.parametrize("behind", [b"", b"\0", b"\r\n \x1a", b" something else"])
def test_a_document_is_sound_whatever_stands_around_it(before: bytes, behind: bytes) -> None:
    judged = judge(KIND, before + document(b"Some {\\b bold} words.\\par") + behind)
    assert judged.recognised
    assert judged.outcome is Outcome.OK
    assert judged.blank is None


@pytest.mark.parametrize("part", range(4, 20))
def test_a_cut_document_is_corrupt(part: int) -> None:
    data = document(b"Some {\\b bold} words.\\par" * 20)
    assert judge(KIND, data[: len(data) * part // 20]).outcome is Outcome.CORRUPT


@pytest.mark.parametrize("body", [rb"\{\}\\", rb"a \'7b b \'7d", rb"{\pict\pngblip\bin4 }}{{}", rb"\u123{\'3f}"])
def test_braces_that_are_characters_do_not_count(body: bytes) -> None:
    assert judge(KIND, document(body)).outcome is Outcome.OK


def test_text_of_8_bits_is_whole_when_it_ends_in_a_brace() -> None:
    torn = "ポ{ソ".encode("shift_jis")
    assert judge(KIND, document(torn)).outcome is Outcome.OK
    assert judge(KIND, document(torn)[:-1]).outcome is Outcome.CORRUPT


@pytest.mark.parametrize("body", [rb"{\pict\pngblip 8950z4e47}", b"two \x01 control \x02 characters", b"zeros " + bytes(500)])
def test_damage_within_is_corrupt(body: bytes) -> None:
    assert judge(KIND, document(body)).outcome is Outcome.CORRUPT


def test_endless_groups_are_too_complex() -> None:
    assert judge(KIND, document(b"{" * 20_000)).outcome is Outcome.TOO_COMPLEX


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(rb"\par\page\tab\sect ", id="breaks"),
        pytest.param(rb"\~\u160 ?\'a0\u8203 ?\u-257 ?\-", id="invisible characters"),
        pytest.param(rb"\uc2\u8203 ab\uc0\u8203 ", id="fallbacks"),
        pytest.param(rb"{\header ACME\par}{\footer 1}", id="header and footer"),
        pytest.param(rb"{\info{\title A letter}}{\*\generator Writer}", id="data about it"),
        pytest.param(rb"{\*\newdestination words}", id="a destination that nobody knows"),
        pytest.param(rb"{\field{\*\fldinst PAGEREF x}{\fldrslt }}", id="a field without a result"),
        pytest.param(rb"{\v secret}", id="hidden text"),
        pytest.param(rb"{\cf1 white}", id="white text"),
        pytest.param(rb"\trowd\cellx2000\cell\row", id="a table without lines"),
        pytest.param(rb"\brdrt\brdrnone\par", id="a border that is none"),
        pytest.param(rb"\trowd\clcbpat1\cellx2000\cell\row\cbpat0\par", id="a white cell"),
        pytest.param(drawn(shows=False), id="an empty picture"),
        pytest.param(
            rb"{\*\shppict" + drawn(shows=False) + rb"}{\nonshppict" + drawn(shows=True, word=b"wmetafile8") + b"}", id="two forms"
        ),
        pytest.param(rb"{\shp{\*\shpinst{\sp{\sn pib}{\sv " + drawn(shows=False) + b"}}}}", id="a shape around an empty picture"),
    ],
)
def test_a_document_that_shows_nothing_is_blank(body: bytes) -> None:
    judged = judge(KIND, document(body))
    assert judged.outcome is Outcome.OK
    assert judged.blank


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b".", id="a full stop"),
        pytest.param(rb"\'e9", id="a byte"),
        pytest.param(rb"\u1234 ?", id="a letter in Unicode"),
        pytest.param(rb"\bullet ", id="a word for a character"),
        pytest.param(rb"\{", id="a brace"),
        pytest.param(rb"{\field{\*\fldinst PAGE}{\fldrslt 7}}", id="a field with a result"),
        pytest.param(rb"{\*\formfield{\fftype1}}", id="a box to check"),
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
def test_a_document_that_shows_something_is_not_blank(body: bytes) -> None:
    assert judge(KIND, document(body)).blank is None


@needs_corpus
def test_the_corpus_is_judged_as_labelled() -> None:
    assert [path.name for path in corpus("rtf", "valid", "not_blank") if not judge(KIND, path.read_bytes()).passes] == []
    assert [path.name for path in corpus("rtf", "blank") if not judge(KIND, path.read_bytes()).blank] == []
    assert [path.name for path in corpus("rtf", "not_blank") if judge(KIND, path.read_bytes()).blank] == []
