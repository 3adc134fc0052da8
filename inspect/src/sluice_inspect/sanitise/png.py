"""PNG and APNG without metadata: the chunks that decide how the picture looks, and the orientation."""
# W3C PNG (third edition), section 11; chunks of extensions that are not listed here do not change pixels.

import struct
import zlib
from collections.abc import Mapping
from typing import Final

from sluice_inspect.report import Corrupt, TooComplex
from sluice_inspect.sanitise import exif
from sluice_inspect.sanitise.cleaning import Cleaning

_SIGNATURE_BYTES: Final = 8
_CHUNKS_MOST: Final = 500_000
_END: Final = b"IEND"
_EXIF: Final = b"eXIf"
_KEPT: Final = frozenset({
    b"tRNS", b"cHRM", b"gAMA", b"iCCP", b"sBIT", b"sRGB", b"cICP", b"mDCV", b"cLLI", b"mDCv", b"cLLi", b"bKGD",
    b"hIST", b"pHYs", b"sPLT", b"oFFs", b"sCAL", b"sTER", b"acTL", b"fcTL", b"fdAT",
})  # fmt: skip
_TEXTS: Final = frozenset({b"tEXt", b"zTXt", b"iTXt"})
_KEYWORDS: Final[Mapping[bytes, str]] = {
    b"author": "author", b"copyright": "author", b"creation time": "dates", b"date:create": "dates",
    b"date:modify": "dates", b"xml:com.adobe.xmp": "xmp", b"raw profile type xmp": "xmp", b"software": "other_metadata",
    b"source": "camera", b"thumb::uri": "other_metadata", b"thumb::mtime": "dates",
}  # fmt: skip


def clean(data: bytes, cleaning: Cleaning) -> bytes:
    """Return the picture without metadata, if that is wanted."""
    if not cleaning.metadata:
        return data
    kept, at = [data[:_SIGNATURE_BYTES]], _SIGNATURE_BYTES
    for _ in range(_CHUNKS_MOST):
        if at + 12 > len(data):
            raise Corrupt("the PNG ends before its end chunk")
        length, name = struct.unpack_from(">L4s", data, at)
        end = at + 12 + length
        if end > len(data):
            raise Corrupt(f"the PNG ends inside the chunk from byte {at} on")
        is_critical = not name[0] & 0x20
        if is_critical or name in _KEPT:
            kept.append(data[at:end])
        elif name == _EXIF:
            block = exif.without_metadata(data[at + 8 : end - 4], cleaning.removed)
            kept.append(_chunk(_EXIF, block) if block else b"")
        else:
            cleaning.removed.add(_word(name, data[at + 8 : at + 88]))
        at = end
        if name == _END:
            break
    else:
        raise TooComplex("the PNG is cut into too many chunks")
    if at < len(data):
        cleaning.removed.add("other_metadata")
    return b"".join(kept)


def _chunk(name: bytes, body: bytes) -> bytes:
    return struct.pack(">L4s", len(body), name) + body + struct.pack(">L", zlib.crc32(name + body))


def _word(name: bytes, start: bytes) -> str:
    if name == b"tIME":
        return "dates"
    if name in _TEXTS:
        return _KEYWORDS.get(start.partition(b"\0")[0].lower(), "comments")
    return "other_metadata"
