"""MP3, AAC, FLAC, WAV and AIFF without tags: title, artist, cover and the like. The sound is as it was."""
# ID3 2.4 (id3.org), APEv2, RFC 9639 (FLAC), RIFF and AIFF.

from __future__ import annotations

import struct
from typing import Final, Literal

from sluice_inspect.report import Corrupt, TooComplex, Unsupported
from sluice_inspect.sanitise.cleaning import Cleaning

_WORDS: Final = {
    "author": (b"TPE1", b"TCOM", b"TCOP", b"ARTIST", b"IART", b"ICOP", b"AUTH"),
    "dates": (b"TYER", b"TDRC", b"TDAT", b"DATE=", b"ICRD"),
    "thumbnail": (b"APIC", b"PIC\0"),
    "comments": (b"COMM", b"TIT2", b"USLT", b"TITLE", b"INAM", b"ICMT", b"NAME"),
}  # fmt: skip
_SEARCHED: Final = 64 * 1024
_LYRICS_MOST: Final = 5_200  # of the first version, which states no length
_ID3_HEAD, _ID3_END, _APE_FOOTER = 10, 128, 32
_FLAC_TABLE, _FLAC_PADDING = frozenset({0, 3}), 1
_CHUNKS_MOST: Final = 100_000
_WAVE: Final = frozenset({b"fmt ", b"data", b"fact", b"cue ", b"smpl", b"inst", b"plst", b"wavl", b"slnt"})
_AIFF: Final = frozenset({b"FVER", b"COMM", b"SSND", b"MARK", b"INST", b"CHAN"})


def clean_frames(data: bytes, cleaning: Cleaning) -> bytes:
    """Return an MP3 or AAC without the tags in front of its frames and behind them."""
    if not cleaning.metadata:
        return data
    start, end = _tags_end(data, cleaning.removed), len(data)
    for _ in range(8):
        if data[max(start, end - _ID3_END) : end].startswith(b"TAG") and end - start >= _ID3_END:
            cleaning.removed.add("other_metadata")
            end -= _ID3_END
        elif (size := _lyrics_bytes(data, end)) and size <= end - start:
            cleaning.removed.add("comments")
            end -= size
        elif data[end - _APE_FOOTER : end].startswith(b"APETAGEX"):
            size, flags = struct.unpack_from("<L4xL", data, end - 20)
            size += _APE_FOOTER if flags & 0x80000000 else 0
            if size > end - start:
                raise Corrupt("the tag behind the sound is longer than the file")
            _note(data[end - size : end], cleaning.removed)
            end -= size
        else:
            break
    return data[start:end]


def _lyrics_bytes(data: bytes, end: int) -> int:
    """Return the length of the Lyrics3 tag that ends at a place, 0 if none does."""
    mark, stated = data[max(0, end - 9) : end], data[max(0, end - 15) : end - 9]
    if mark == b"LYRICS200" and stated.isdigit():
        return int(stated) + len(mark) + len(stated)
    begin = data.rfind(b"LYRICSBEGIN", max(0, end - _LYRICS_MOST), end) if mark == b"LYRICSEND" else -1
    return end - begin if begin >= 0 else 0


def clean_flac(data: bytes, cleaning: Cleaning) -> bytes:
    """Return a FLAC with nothing but its stream information and table of places in front of the sound."""
    if not cleaning.metadata:
        return data
    at = _tags_end(data, cleaning.removed)
    if data[at : at + 4] != b"fLaC":
        raise Corrupt("the FLAC does not begin with its signature")
    at += 4
    blocks: list[tuple[int, bytes]] = []
    is_last = False
    while not is_last:
        if at + 4 > len(data) or len(blocks) > _CHUNKS_MOST:
            raise Corrupt("the FLAC ends inside its metadata")
        is_last, kind = bool(data[at] & 0x80), data[at] & 0x7F
        end = at + 4 + int.from_bytes(data[at + 1 : at + 4], "big")
        body = data[at + 4 : end]
        if kind in _FLAC_TABLE or (kind == _FLAC_PADDING and not body.strip(b"\0")):
            blocks.append((kind, body))
        else:
            _note(body, cleaning.removed)
        at = end
    if not blocks:
        raise Corrupt("the FLAC says nothing of its stream")
    heads = [bytes([kind | (0x80 if number == len(blocks) else 0)]) for number, (kind, _) in enumerate(blocks, start=1)]
    listed = [head + len(body).to_bytes(3, "big") + body for head, (_, body) in zip(heads, blocks, strict=True)]
    return b"fLaC" + b"".join(listed) + data[at:]


def clean_wave(data: bytes, cleaning: Cleaning) -> bytes:
    """Return a WAV with nothing but the chunks of its sound."""
    return _clean_chunks(data, cleaning, b"RIFF", "little", _WAVE)


def clean_aiff(data: bytes, cleaning: Cleaning) -> bytes:
    """Return an AIFF with nothing but the chunks of its sound."""
    return _clean_chunks(data, cleaning, b"FORM", "big", _AIFF)


def _clean_chunks(
    data: bytes, cleaning: Cleaning, name: bytes, order: Literal["little", "big"], known: frozenset[bytes]
) -> bytes:
    if not cleaning.metadata:
        return data
    if data[:4] != name:
        raise Unsupported("the chunks of this variant have other sizes")
    end = min(len(data), 8 + int.from_bytes(data[4:8], order))
    kept, at, has_sound = [data[8:12]], 12, False
    for _ in range(_CHUNKS_MOST):
        if at + 8 > end:
            break
        size = int.from_bytes(data[at + 4 : at + 8], order)
        following = at + 8 + size + (size & 1)
        if at + 8 + size > end:
            if data[at : at + 4] not in {b"data", b"SSND"}:
                raise Corrupt(f"the chunk at byte {at} passes the end of the file")
            return data if not cleaning.removed else _unfinished()
        if data[at : at + 4] in known:
            kept += [data[at : at + 8 + size], b"\0" * (size & 1)]
            has_sound = True
        else:
            _note(data[at:following], cleaning.removed)
        at = following
    else:
        raise TooComplex("the file is cut into too many chunks")
    if at < len(data):
        cleaning.removed.add("other_metadata")
    if not has_sound:
        raise Corrupt("the file holds no sound")
    body = b"".join(kept)
    return name + len(body).to_bytes(4, order) + body


def _unfinished() -> bytes:
    raise Corrupt("the sound passes the end of the file")


def _tags_end(data: bytes, removed: set[str]) -> int:
    """Return where the tags in front of the sound end."""
    at = 0
    while data[at : at + 3] == b"ID3" and at + _ID3_HEAD <= len(data):
        size = 0
        for each in data[at + 6 : at + 10]:
            size = size << 7 | each & 0x7F
        end = at + _ID3_HEAD + size + (_ID3_HEAD if data[at + 5] & 0x10 else 0)
        if end >= len(data):
            raise Corrupt("the file ends inside its tags")
        _note(data[at:end], removed)
        at = end
    return at


def _note(tags: bytes, removed: set[str]) -> None:
    head = tags[:_SEARCHED].upper()
    removed |= {word for word, names in _WORDS.items() if any(name in head for name in names)} or {"other_metadata"}
