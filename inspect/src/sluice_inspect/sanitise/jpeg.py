"""JPEG without metadata: the segments that are drawn, colour profile and colour transform, and the orientation."""
# ITU-T T.81 (segments), T.871 (JFIF), T.872 (Exif and Adobe segments), CIPA DC-007 (further pictures behind the first).

import re
from typing import Final

from sluice_inspect.report import Corrupt, TooComplex
from sluice_inspect.sanitise import exif
from sluice_inspect.sanitise.cleaning import Cleaning

_START: Final = b"\xff\xd8"
_EOI, _SOS, _COMMENT = 0xD9, 0xDA, 0xFE
_APP0, _APP1, _APP2, _APP13, _APP14 = 0xE0, 0xE1, 0xE2, 0xED, 0xEE
_APPLICATION: Final = range(0xE0, 0xF0)
_RESERVED: Final = frozenset(range(0xF0, 0xFE)) - {0xF7, 0xF8}  # those are the frame and parameters of JPEG-LS
_WITHOUT_SEGMENT: Final = frozenset({0x01, 0xD8, *range(0xD0, 0xD8)})
_NEXT_MARKER: Final = re.compile(rb"\xff[^\x00\xd0-\xd7\xff]")
_SEGMENTS_MOST: Final = 500_000

_JFIF, _JFIF_BYTES = b"JFIF\0", 14
_ADOBE, _ADOBE_BYTES = b"Adobe", 12
_PROFILE: Final = b"ICC_PROFILE\0"
_EXIF: Final = b"Exif\0"
_EXIF_HEAD: Final = 6
_XMP: Final = b"http://ns.adobe.com/"


def clean(data: bytes, cleaning: Cleaning) -> bytes:
    """Return the picture without metadata, if that is wanted. Its scans are copied as they are."""
    if not cleaning.metadata:
        return data
    removed = cleaning.removed
    begin = data.find(_START)
    kept, at, code, has_exif = [_START], begin + 2, 0, False
    is_padded = begin != 0  # by bytes that belong to no segment
    for _ in range(_SEGMENTS_MOST):
        found = _NEXT_MARKER.search(data, at)
        if found is None:
            break
        start, code = found.start(), data[found.start() + 1]
        is_padded = is_padded or bool(data[at:start].strip(b"\xff"))
        at = _segment_end(data, start, code)
        if code == _EOI:
            kept.append(data[start:at])
            break
        if code == _APP1 and data.startswith(_EXIF, start + 4):
            block = exif.without_metadata(data[start + 4 + _EXIF_HEAD : at], removed)
            kept.append(b"" if has_exif or not block else _segment(_APP1, b"Exif\0\0" + block))
            has_exif = True
        elif code in _APPLICATION or code in _RESERVED or code == _COMMENT:
            kept.append(_application_segment(code, data[start:at], removed))
        elif code not in _WITHOUT_SEGMENT:
            kept.append(data[start:at])
    else:
        raise TooComplex("the JPEG is cut into too many segments")
    if is_padded or (code == _EOI and at < len(data)):
        removed.add("other_metadata")
    return b"".join(kept)


def _segment_end(data: bytes, start: int, code: int) -> int:
    if code == _EOI or code in _WITHOUT_SEGMENT:
        return start + 2
    end = start + 2 + max(2, int.from_bytes(data[start + 2 : start + 4], "big"))
    if end > len(data):
        raise Corrupt(f"the JPEG ends inside the segment from byte {start} on")
    if code != _SOS:
        return end
    following = _NEXT_MARKER.search(data, end)
    return len(data) if following is None else following.start()


def _segment(code: int, body: bytes) -> bytes:
    return b"\xff" + bytes([code]) + (len(body) + 2).to_bytes(2, "big") + body


def _application_segment(code: int, segment: bytes, removed: set[str]) -> bytes:
    """Return what is kept of a segment of an application: nothing of most."""
    body = segment[4:]
    kept = b""
    if code == _APP0 and body.startswith(_JFIF):
        # Behind the density are the size of a thumbnail, and its pixels.
        kept = body[: _JFIF_BYTES - 2] + b"\0\0" if len(body) >= _JFIF_BYTES else body
        word = "thumbnail"
    elif code == _APP14 and body.startswith(_ADOBE):
        kept, word = body[:_ADOBE_BYTES], "other_metadata"
    elif code == _APP2 and body.startswith(_PROFILE):
        kept, word = body, ""
    elif code == _COMMENT:
        word = "comments"
    elif body.startswith(_XMP):
        word = "xmp"
    elif (code == _APP0 and body.startswith(b"JFXX")) or (code == _APP2 and body.startswith(b"MPF\0")):
        word = "thumbnail"
    else:
        word = "comments" if code == _APP13 else "other_metadata"
    if kept == body:
        return segment
    removed.add(word)
    return _segment(code, kept) if kept else b""
