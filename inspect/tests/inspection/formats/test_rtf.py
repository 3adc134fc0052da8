"""RTF: integrity and blankness."""

import io
from collections.abc import Iterable
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice_inspect import inspect_file
from sluice_inspect.formats.rtf import format as rtf_format
from sluice_inspect.formats.rtf.format import FORMAT
from sluice_inspect.office import rtf_tokens
from tests.inspection.formats.examining import Row, verdicts
from tests.inspection.formats.office_packages import picture

HEAD = rb"{\rtf1\ansi{\fonttbl{\f0 Arial;}}{\colortbl;\red255\green255\blue255;\red255\green0\blue0;}{\stylesheet{\s0 Normal;}}"


def document(body: bytes) -> bytes:
    return HEAD + body + b"}"


def drawn(*, shows: bool, word: bytes = b"pngblip") -> bytes:
    digits = picture(shows=shows).getvalue().hex().encode()
    return rb"{\pict{\*\picprop{\sp{\sn wzName}{\sv a}}}\picw200\%b %b}" % (word, digits)


@verdicts(FORMAT)
def test_damaged_document_is_corrupt_and_a_literal_brace_no_structure() -> Iterable[Row]:
    for before, trailing in product((b"", b"\xef\xbb\xbf", b" \r\n"), (b"", b"\0", b"\r\n \x1a", b" something else")):
        yield f"{before!r} {trailing!r}", before + document(b"Some {\\b bold} words.\\par") + trailing, "ok"
    long = document(b"Some {\\b bold} words.\\par" * 20)
    for part in range(4, 20):
        yield f"cut {part}", long[: len(long) * part // 20], "corrupt"
    for body in (rb"\{\}\\", rb"a \'7b b \'7d", rb"{\pict\pngblip\bin4 }}{{}", rb"\u123{\'3f}"):
        yield f"{body!r}", document(body), "ok"
    shift_jis = document("ポ{ソ".encode("shift_jis"))
    yield "Shift JIS", shift_jis, "ok"
    yield "Shift JIS without its end", shift_jis[:-1], "corrupt"
    yield "letters in a picture", document(rb"{\pict\pngblip 8950z4e47}"), "corrupt"
    yield "control characters", document(b"two \x01 control \x02 characters"), "corrupt"
    yield "zeros", document(b"zeros " + bytes(500)), "corrupt"
    yield "endless groups", document(b"{" * 20_000), "too_complex"


@verdicts(FORMAT)
def test_document_is_blank_when_nothing_in_it_is_visible() -> Iterable[Row]:
    for case, body in {
        "nothing": b"",
        "breaks": rb"\par\page\tab\sect ",
        "invisible characters": rb"\~\u160 ?\'a0\u8203 ?\u-257 ?\-",
        "fallbacks": rb"\uc2\u8203 ab\uc0\u8203 ",
        "header and footer": rb"{\header ACME\par}{\footer 1}",
        "document information": rb"{\info{\title A letter}}{\*\generator Writer}",
        "an unknown destination": rb"{\*\newdestination words}",
        "a field without a result": rb"{\field{\*\fldinst PAGEREF x}{\fldrslt }}",
        "hidden text": rb"{\v secret}",
        "white text": rb"{\cf1 white}",
        "a table without lines": rb"\trowd\cellx2000\cell\row",
        "a border of type none": rb"\brdrt\brdrnone\par",
        "a white cell": rb"\trowd\clcbpat1\cellx2000\cell\row\cbpat0\par",
        "an empty picture": drawn(shows=False),
        "an empty picture in two formats": rb"{\*\shppict%b}{\nonshppict%b}"
        % (drawn(shows=False), drawn(shows=True, word=b"wmetafile8")),
        "a shape around an empty picture": rb"{\shp{\*\shpinst{\sp{\sn pib}{\sv %b}}}}" % drawn(shows=False),
    }.items():
        yield case, document(body), "blank"
    for case, body in {
        "a full stop": b".",
        "a byte": rb"\'e9",
        "a letter in Unicode": rb"\u1234 ?",
        "a named character": rb"\bullet ",
        "a brace": rb"\{",
        "a field with a result": rb"{\field{\*\fldinst PAGE}{\fldrslt 7}}",
        "a check box": rb"{\*\formfield{\fftype1}}",
        "a footnote": rb"{\footnote A note.}",
        "text beside hidden text": rb"{\v secret}x",
        "red text": rb"{\cf1 white}{\cf2 red}",
        "white text on colour": rb"\highlight2{\cf1 white}",
        "a line": rb"\clbrdrt\brdrs\cellx2000\cell\row",
        "a coloured cell": rb"\trowd\clcbpat2\cellx2000\cell\row",
        "an object": rb"{\object{\*\objclass Excel.Sheet.8}}",
        "a shape": rb"{\shp{\*\shpinst{\sp{\sn shapeType}{\sv 1}}}}",
        "a picture": drawn(shows=True),
        "a metafile": drawn(shows=False, word=b"wmetafile8"),
        "a picture that cannot be read": rb"{\pict\jpegblip\bin5 abcde}",
    }.items():
        yield case, document(body), "ok"


PIECES = [
    b"{",
    b"}",
    b"{\\b x}",
    b"\\par ",
    b"word",
    b"\\pict ",
    b"\\bin5 ",
    b"89ab",
    b"\\'41",
    b"\\{",
    b"\\}",
    b"\\\\",
]
PIECES += [b"\xe4", b"\x01\x02", b"\n", b"\\u-12 ?", b"\\" + b"a" * 40, b"\\*", b"\\pictx", b"{\\*\\x y{z}}", b"\\'4"]


@given(st.lists(st.sampled_from(PIECES), max_size=40).map(b"".join), st.sampled_from((70, 130, 65_536)))
def test_tokens_that_are_skipped_change_nothing(text: bytes, chunk: int) -> None:
    data = b"{\\rtf1 x" + text + b"}"
    found = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rtf_tokens, "_CHUNK", chunk)
        for _ in range(2):
            report = inspect_file(io.BytesIO(data), filename="a.rtf")
            found.append((report.outcome, report.detail, report.measures))
            patch.setattr(rtf_format._TokenCheck, "skip", lambda _self, _buffer, at, _whole: at)
    assert found[0] == found[1]
