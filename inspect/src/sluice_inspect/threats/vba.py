"""The source of VBA macros: found in the streams of a project and unpacked, and in one spelling for the rules."""

import re
import struct
from collections.abc import Iterator, Mapping
from typing import Final

# A module's source begins somewhere in its stream, where the list of modules says, and with these words as Office
# writes it: MS-OVBA 2.3.4.3 and 2.4.1.
_SOURCE: Final = re.compile(rb"\x01..\x00Attribut", re.DOTALL | re.IGNORECASE)
_CONTAINER: Final = b"\x01"
_RECORD: Final = struct.Struct("<HL")
_VERSION, _STREAM_NAME, _STREAM_NAME_UNICODE, _OFFSET = 0x0009, 0x001A, 0x0032, 0x0031
_VERSION_BYTES: Final = 6  # of a record that states 4
_MAX_MODULES: Final = 10_000
_MAX_SOURCE_BYTES: Final = 8 * 1024**2
_CHUNK_BYTES: Final = 4096
_CHUNK_SIGNATURE: Final = 0x3000

# The grammar of lines and tokens: MS-VBAL 3.2 and 3.3. The space of a Western and of a Japanese keyboard count too.
_SPACE: Final = rb"(?:[ \t\x19\xa0]|\x81\x40)"
_CONTINUED: Final = re.compile(rb"(?<![ \t\x19\xa0\x40])" + _SPACE + rb"++_[ \t]*+(?:\r\n?|\n)")
_SPACES: Final = re.compile(_SPACE + rb"++")
_TOKEN: Final = re.compile(
    rb"""(?P<string>"(?:[^"\r\n]|"")*+"?)|(?P<comment>'[^\r\n]*+|(?:(?<=[\r\n:])|(?<=[\r\n:][ ]))rem\b[^\r\n]*+)"""
    rb"""|\[(?P<name>[^\]\r\n]*+)\]|(?P<separator>[\r\n:]++)""",
    re.IGNORECASE,
)
_CHARACTER: Final = re.compile(
    rb"\bchr[wb]?\$? ?\( ?(?:&h(?P<hex>[0-9a-f]{1,4})|(?P<decimal>[0-9]{1,5}))&? ?\)", re.IGNORECASE
)
_REVERSED: Final = re.compile(rb'\bstrreverse\$? ?\( ?"([^"\n]*+)" ?\)', re.IGNORECASE)
_REPLACED: Final = re.compile(rb'\breplace\$? ?\( ?"([^"\n]*+)" ?, ?"([^"\n]++)" ?, ?"([^"\n]*+)" ?\)', re.IGNORECASE)
_IN_LITERALS: Final = re.compile(rb'\^|""')
"""What a command line does not see: carets, and quotes that are written twice."""
_JOINED_STRINGS: Final = re.compile(rb'" ?[&+] ?"')
_QUOTE: Final = 0x22

# Procedures that Office calls by itself, by their names; in a module of such a name, it calls `Main`.
_AUTO_MACROS: Final = "auto_?exec auto_?open auto_?close auto_?exit auto_?new auto_?activate auto_?deactivate"
# Handlers of events that happen when a document is opened, shown, saved, printed or closed, or the pointer moves over
# a control. Not of a click: a person asks for what a button does.
_EVENTS: Final = {
    "document": "open close new beforeclose sync contentcontrolonenter contentcontrolonexit xmlafterinsert",
    "workbook": "open activate close beforeclose beforeprint beforesave aftersave deactivate addininstall newsheet"
    " sheetactivate sheetdeactivate sheetcalculate sheetchange sheetselectionchange windowactivate windowdeactivate"
    " windowresize",
    "worksheet": "activate calculate change deactivate selectionchange",
    # of an object of any name: the application, a control, the ribbon
    r"[^ \n(]{1,255}":
        "documentopen documentchange newdocument documentbeforeclose documentbeforesave documentbeforeprint"
        " workbookopen workbookactivate newworkbook workbookbeforeclose workbookbeforesave presentationopen"
        " afterpresentationopen slideshowbegin slideshownextslide startup painted painting gotfocus lostfocus"
        " mousemove mousehover mouseenter mouseleave layout resize scroll change beforenavigate2"
        " beforescriptexecute documentcomplete downloadbegin downloadcomplete filedownload navigatecomplete2"
        " navigateerror progresschange propertychange statustextchange titlechange onconnecting onconnected"
        " onlogincomplete timer",
}  # fmt: skip


def _handlers() -> Iterator[str]:
    for holder, events in _EVENTS.items():
        yield f"{holder}_({events.replace(' ', '|')})"


_NAMES: Final = "|".join((*_AUTO_MACROS.split(), *_handlers(), "onslideshowpagechange", "onslideshowterminate"))
_PROCEDURE: Final = r"((public|private|friend|static) ){0,3}(sub|function) "
SELF_STARTING: Final = (
    rf"(^|\n)({_PROCEDURE}({_NAMES})\b"
    rf'|attribute vb_name = "({_AUTO_MACROS.replace(" ", "|")})"'
    rf"|{_PROCEDURE}\w{{1,255}} ?\( ?((byval|byref) )?\w{{1,255}} as (office\.)?iribbonui\b)"
)
"""A regular expression for what runs by itself in the code that `plain_code` returns."""


def module_offsets(directory: bytes) -> Mapping[str, int]:
    """Return where in its stream the source of each module begins, by the stream's name in lower case.

    `directory` is the stream `dir` of a project: MS-OVBA 2.3.4.2. Never raise for what the bytes are.
    """
    listed = _unpack(directory, 1) if directory.startswith(_CONTAINER) else b""
    offsets: dict[str, int] = {}
    names: list[str] = []
    at = 0
    while at + _RECORD.size <= len(listed) and len(offsets) < _MAX_MODULES:
        kind, size = _RECORD.unpack_from(listed, at)
        at += _RECORD.size
        size = _VERSION_BYTES if kind == _VERSION else size
        body = listed[at : at + size]
        at += size
        if kind == _STREAM_NAME:
            names = [body.decode("latin-1").lower()]
        elif kind == _STREAM_NAME_UNICODE:
            names.append(body.decode("utf-16-le", "replace").lower())
        elif kind == _OFFSET:
            offsets |= dict.fromkeys(names, int.from_bytes(body[:4], "little"))
    return offsets


def vba_sources(stream: bytes, offset: int | None = None) -> Iterator[bytes]:
    """Yield the sources that are packed in a stream of a project, one of them at `offset` as the project lists it.

    Never raise for what the bytes are.
    """
    starts = {found.start() for found in _SOURCE.finditer(stream)}
    if offset is not None and stream[offset : offset + 1] == _CONTAINER:
        starts.add(offset)
    for start in sorted(starts):
        yield _unpack(stream, start + 1)


def plain_code(source: bytes) -> bytes:
    """Return the code of a source in one spelling: no comments, one statement a line, one space between words.

    Continued lines and literals that are joined by an operator become one, calls of `Chr`, `StrReverse` and `Replace`
    with constants become what they return, and names lose their brackets. Case stays.
    """
    code = _TOKEN.sub(_spell, _SPACES.sub(b" ", _CONTINUED.sub(b" ", source)))
    code = _JOINED_STRINGS.sub(b"", _CHARACTER.sub(_literal, code))
    code = _REVERSED.sub(lambda call: b'"%b"' % call[1][::-1], code)
    code = _REPLACED.sub(_replaced, code)
    return _JOINED_STRINGS.sub(b"", code).replace(b"\n ", b"\n")


def _spell(token: re.Match[bytes]) -> bytes:
    match token.lastgroup:
        case "string":
            return b'"%b"' % _IN_LITERALS.sub(b"", token[0].strip(b'"'))
        case "name":
            return token["name"]
        case "separator":
            return b"\n"
        case _:
            return b""


def _replaced(call: re.Match[bytes]) -> bytes:
    text, old, new = call.groups()
    if len(text) + text.count(old) * (len(new) - len(old)) > 2 * len(call[0]):
        return call[0]  # made to be long
    return b'"%b"' % text.replace(old, new)


def _literal(character: re.Match[bytes]) -> bytes:
    code = int(character["hex"], 16) if character["hex"] else int(character["decimal"])
    return b'"%c"' % code if code < 256 and code != _QUOTE else character[0]


def _unpack(data: bytes, at: int) -> bytes:
    source = bytearray()
    while at + 2 < len(data) and len(source) < _MAX_SOURCE_BYTES:
        (header,) = struct.unpack_from("<H", data, at)
        end = min(at + (header & 0x0FFF) + 3, len(data))
        if header & 0x7000 != _CHUNK_SIGNATURE:
            break
        source += _unpack_chunk(data, at + 2, end) if header & 0x8000 else data[at + 2 : end]
        at = end
    return bytes(source)


def _unpack_chunk(data: bytes, at: int, end: int) -> bytes:
    chunk = bytearray()
    while at < end and len(chunk) < _CHUNK_BYTES:
        flags = data[at]
        at += 1
        for bit in range(8):
            if at >= end:
                break
            if not flags & (1 << bit):
                chunk.append(data[at])
                at += 1
            elif at + 1 < end:
                _copy_bytes(chunk, struct.unpack_from("<H", data, at)[0])
                at += 2
            else:
                return bytes(chunk)
    return bytes(chunk)


def _copy_bytes(chunk: bytearray, token: int) -> None:
    # How many bits of the token are the distance depends on how much there is already: MS-OVBA 2.4.1.3.19.
    bits = max((len(chunk) - 1).bit_length(), 4)
    length = (token & (0xFFFF >> bits)) + 3
    distance = (token >> (16 - bits)) + 1
    if distance > len(chunk):
        return
    for _ in range(length):
        chunk.append(chunk[-distance])
