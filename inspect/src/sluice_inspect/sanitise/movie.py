"""MP4 and QuickTime without tags, places and times: their boxes become free space, tracks of metadata too."""
# ISO/IEC 14496-12; QuickTime File Format (`udta`, timed metadata). Nothing moves: tracks name places in the file.

from __future__ import annotations

import re
import struct
from typing import Final

from sluice_inspect.containers.isobmff import Box, Layout, child, children, read_layout
from sluice_inspect.report import Corrupt, TooComplex
from sluice_inspect.sanitise.cleaning import Cleaning, NotClean
from sluice_inspect.source import MemoryBacked

_TAGS: Final = frozenset({b"udta", b"meta", b"uuid"})
_FREE: Final = frozenset({b"free", b"skip"})
_TIMED: Final = frozenset({b"mvhd", b"tkhd", b"mdhd"})
_WORDS: Final = (
    ("gps", re.compile(rb"\xa9xyz|loci|location|GPS|geo:", re.IGNORECASE)),
    ("camera", re.compile(rb"\xa9mak|\xa9mod|apple\.quicktime\.(?:make|model)|CNCV|com\.android")),
    ("author", re.compile(rb"\xa9(?:ART|aut|wrt|cpy)|aART|auth|cprt|\.(?:author|artist)")),
    ("dates", re.compile(rb"\xa9day|creationdate|yrrc")),
    ("comments", re.compile(rb"\xa9(?:cmt|nam|des|lyr|gen|alb)|desc|titl")),
    ("xmp", re.compile(rb"xpacket|adobe:ns:meta")),
    ("thumbnail", re.compile(rb"covr|thmb")),
)
_SAMPLES_MOST: Final = 2_000_000
_METADATA_HANDLERS: Final = frozenset({b"meta", b"camm", b"gpmd", b"nrtm"})


def clean(data: bytes, cleaning: Cleaning) -> bytes:
    """Return the film without metadata, if that is wanted. Sound and pictures are as they were."""
    if not cleaning.metadata:
        return data
    source = MemoryBacked(data)
    result = bytearray(data)
    layout = read_layout(source)
    if layout.cut is not None:
        raise Corrupt(f"the file ends inside the box from byte {layout.cut.offset} on")
    clean_boxes(source, result, layout, cleaning.removed, keeps_items=False)
    if layout.end < len(data):
        cleaning.removed.add("other_metadata")
        del result[layout.end :]
    return bytes(result)


def clean_boxes(
    source: MemoryBacked, result: bytearray, layout: Layout, removed: set[str], *, keeps_items: bool
) -> None:
    """Overwrite in `result` what the boxes of a file say of it. `keeps_items`: its pictures are listed in `meta`."""
    for box in layout.boxes:
        is_free = box.name in _FREE and any(result[box.body : box.end])
        if is_free or box.name == b"uuid" or (box.name in {b"meta", b"udta"} and not keeps_items):
            _blank(result, box, removed)
        elif box.name == b"moov":
            _clean_movie(source, result, box, removed, is_in_pieces=bool(layout.named(b"moof")))


def _clean_movie(source: MemoryBacked, result: bytearray, movie: Box, removed: set[str], *, is_in_pieces: bool) -> None:
    for box in children(source, movie):
        if box.name in _TAGS or (box.name in _FREE and any(result[box.body : box.end])):
            _blank(result, box, removed)
        elif box.name in _TIMED:
            _clear_times(result, box, removed)
        elif box.name == b"trak":
            _clean_track(source, result, box, removed, is_in_pieces=is_in_pieces)


def _clean_track(source: MemoryBacked, result: bytearray, track: Box, removed: set[str], *, is_in_pieces: bool) -> None:
    handler = child(source, track, b"mdia", b"hdlr")
    kind = source.read_at(handler.body + 8, 4) if handler else b""
    if kind in _METADATA_HANDLERS:
        if is_in_pieces:
            raise NotClean("inseparable")  # its samples are among those of the pieces
        _zero_samples(source, result, track)
        _blank(result, track, removed)
        return
    for box in children(source, track):
        if box.name in _TAGS:
            _blank(result, box, removed)
        elif box.name in _TIMED:
            _clear_times(result, box, removed)
        elif box.name == b"mdia":
            for inner in children(source, box):
                if inner.name in _TIMED:
                    _clear_times(result, inner, removed)
                elif inner.name in _TAGS:
                    _blank(result, inner, removed)


def _blank(result: bytearray, box: Box, removed: set[str]) -> None:
    body = bytes(result[box.body : box.end])
    removed |= {word for word, pattern in _WORDS if pattern.search(body)} or {"other_metadata"}
    result[box.offset + 4 : box.offset + 8] = b"free"
    result[box.body : box.end] = bytes(box.end - box.body)


def _clear_times(result: bytearray, box: Box, removed: set[str]) -> None:
    """Set when a movie or track was made and changed to nothing."""
    size = 16 if result[box.body] == 1 else 8
    start = box.body + 4
    if any(result[start : start + size]):
        removed.add("dates")
        result[start : start + size] = bytes(size)


def _zero_samples(source: MemoryBacked, result: bytearray, track: Box) -> None:
    """Overwrite the samples of a track (14496-12, 8.7)."""
    table = child(source, track, b"mdia", b"minf", b"stbl")
    boxes = {box.name: source.read_at(box.body, box.end - box.body) for box in children(source, table)} if table else {}
    try:
        sizes, runs = boxes[b"stsz"], boxes[b"stsc"]
        same, count = struct.unpack_from(">LL", sizes, 4)
        if count > _SAMPLES_MOST:
            raise TooComplex("a track has too many samples")
        each = [same] * count if same else list(struct.unpack_from(f">{count}L", sizes, 12))
        is_wide = b"co64" in boxes
        places = boxes[b"co64"] if is_wide else boxes[b"stco"]
        (chunks,) = struct.unpack_from(">L", places, 4)
        offsets = struct.unpack_from(f">{chunks}{'Q' if is_wide else 'L'}", places, 8)
        (entries,) = struct.unpack_from(">L", runs, 4)
        firsts = [struct.unpack_from(">LL", runs, 8 + 12 * number) for number in range(min(entries, chunks))]
    except (KeyError, struct.error) as error:
        raise NotClean("inseparable") from error
    sample = run = 0
    for number, start in enumerate(offsets, start=1):
        while run + 1 < len(firsts) and firsts[run + 1][0] <= number:
            run += 1
        taken = each[sample : sample + (firsts[run][1] if firsts else 0)]
        sample += len(taken)
        end = min(len(result), start + sum(taken))
        if start < end:
            result[start:end] = bytes(end - start)
