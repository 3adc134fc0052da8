"""Matroska and WebM: every element is in the file, clusters match their checksums, and FFmpeg decodes the media."""
# EBML is RFC 8794, Matroska RFC 9559. WebM is Matroska that says so, or that holds only what WebM allows.

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Final

from sluice_inspect.budget import Deadline
from sluice_inspect.facts.media import measure_media
from sluice_inspect.format import Examination, Family, Format, MatchOrder, named
from sluice_inspect.media.playback import MISSING_READER, play
from sluice_inspect.media.sample_files import encode_video
from sluice_inspect.report import Corrupt, Limits, Measure, TooComplex
from sluice_inspect.source import Source

# Identifiers of elements (RFC 8794, 11.2 and 11.3; RFC 9559, 5).
_EBML, _VOID, _CRC32, _DOC_TYPE = 0x1A45DFA3, 0xEC, 0xBF, 0x4282
_SEGMENT, _CLUSTER, _TRACKS, _TRACK_ENTRY = 0x18538067, 0x1F43B675, 0x1654AE6B, 0xAE
_CODEC_ID: Final = 0x86
# ContentEncodings / ContentEncoding / ContentEncodingType, whose value 1 is encryption.
_ENCODING_TYPE_PATH: Final = (0x6D80, 0x6240, 0x5033)
_ENCRYPTION: Final = 1
# Elements of the segment have identifiers of four bytes, those within a cluster shorter ones.
_MIN_TOP_LEVEL_ID: Final = 0x10000000

_MAX_ID_BYTES, _MAX_SIZE_BYTES, _CRC_ELEMENT_BYTES, _MAX_HEADER_BYTES = 4, 8, 6, 4096
# Writers begin a new cluster every few seconds, so that no honest file has more elements within one.
_MAX_CHILDREN: Final = 300_000
_MAX_SEARCHED: Final = 1000  # recognition must be cheap: the tracks are searched among this many elements
_READ_BYTES: Final = 1024 * 1024
_WEBM_CODECS: Final = frozenset(
    {"V_VP8", "V_VP9", "V_AV1", "A_VORBIS", "A_OPUS", "D_WEBVTT/SUBTITLES", "D_WEBVTT/CAPTIONS", "S_TEXT/WEBVTT"}
)


@dataclass(frozen=True, slots=True)
class _Element:
    """One EBML element as its header declares it. `end` is None for a size that was unknown when it was written."""

    id: int
    offset: int
    body: int
    end: int | None


@dataclass(frozen=True, slots=True)
class _MatroskaTrack:
    codec: str
    is_encrypted: bool


def _is_webm(source: Source) -> bool:
    doc_type = _read_doc_type(source)
    if doc_type == "webm":
        return True
    # Matroska that holds only what WebM allows plays as WebM.
    codecs = {track.codec for track in _find_tracks(source)} if doc_type == "matroska" else set()
    return bool(codecs) and codecs <= _WEBM_CODECS


def _examine(source: Source, limits: Limits) -> Examination:
    deadline = Deadline(limits.soft_seconds)
    if _read_doc_type(source) not in {"matroska", "webm"}:
        raise Corrupt("the EBML header does not say that this is Matroska or WebM")
    segment = _find_segment(source)
    if segment is None:
        raise Corrupt("no segment follows the EBML header")
    if segment.end is not None and segment.end > source.size:
        raise Corrupt(f"the file ends at byte {source.size} of the {segment.end} that it declares")
    tracks: list[_MatroskaTrack] = []
    clusters = 0
    for element in _read_segment(source, segment):
        if element.id == _TRACKS:
            tracks = list(_read_tracks(source, element))
        elif element.id == _CLUSTER:
            clusters += 1
            if not deadline.has_passed:
                _check_cluster(source, element)
    if clusters and not tracks:
        raise Corrupt("the description of the tracks is missing")
    trailing = source.size - (segment.end or source.size)
    measures: dict[str, Measure] = {"clusters": clusters, "trailing_bytes": trailing}
    undecodable = "the media are encrypted (DRM)" if any(track.is_encrypted for track in tracks) else ""
    return play(source, "matroska", deadline, measures=measures, undecodable=undecodable)


def _read_doc_type(source: Source) -> str | None:
    """Return the document type of an EBML file, empty if it states none; None for any other file."""
    header = _read_element(source, 0)
    if header is None or header.id != _EBML or header.end is None:
        return None
    elements = _children(source, header.body, min(header.end, header.body + _MAX_HEADER_BYTES))
    return next((_read_text(source, element) for element in elements if element.id == _DOC_TYPE), "")


def _find_segment(source: Source) -> _Element | None:
    header = _read_element(source, 0)
    offset = header.end if header else None
    while offset is not None and (element := _read_element(source, offset)) is not None:
        if element.id == _SEGMENT:
            return element
        offset = element.end if element.id == _VOID else None
    return None


def _read_segment(source: Source, segment: _Element) -> Iterator[_Element]:
    """Yield the elements of the segment, with their ends where the size is unknown too. Raise `Corrupt` at a gap."""
    limit = segment.end or source.size
    offset = segment.body
    for _ in range(_MAX_CHILDREN):
        if offset >= limit:
            return
        element = _read_element(source, offset)
        if element is None:
            if source.read_at(offset, min(limit - offset, 4096)).strip(b"\0") or limit - offset > 4096:
                raise Corrupt(f"there is no element at byte {offset} of the file, where one must be")
            return
        if element.end is None:
            element = _Element(element.id, element.offset, element.body, _find_end(source, element, limit))
        if element.end is not None and element.end > limit:
            raise Corrupt(
                f"the file ends at byte {limit}, inside the element that begins at byte {offset} and ends at byte"
                f" {element.end}"
            )
        yield element
        offset = element.end or limit
    raise TooComplex(f"the file has more than {_MAX_CHILDREN} parts")


def _find_end(source: Source, parent: _Element, limit: int) -> int:
    for element in _children(source, parent.body, limit):
        if element.id >= _MIN_TOP_LEVEL_ID:
            return element.offset
        if element.end is None or element.end > limit:
            raise Corrupt(f"the file ends at byte {limit}, inside the element that begins at byte {element.offset}")
    return limit


def _check_cluster(source: Source, cluster: _Element) -> None:
    end = cluster.body
    for element in _children(source, cluster.body, cluster.end or cluster.body):
        end = element.end or end
    damaged = f"the cluster at byte {cluster.offset} of the file is damaged"
    if end != cluster.end:
        raise Corrupt(f"{damaged}: its elements end at byte {end} and not at {cluster.end}")
    # The checksum is optional, and the first element if it is there (RFC 8794, 11.3.1).
    first = _read_element(source, cluster.body)
    if first is None or first.id != _CRC32 or first.end != cluster.body + _CRC_ELEMENT_BYTES:
        return
    stated = int.from_bytes(source.read_at(first.body, 4), "little")
    found, offset = 0, first.end
    while offset < end and (data := source.read_at(offset, min(_READ_BYTES, end - offset))):
        found = zlib.crc32(data, found)
        offset += len(data)
    if found != stated:
        raise Corrupt(f"{damaged}: its checksum does not match")


def _find_tracks(source: Source) -> list[_MatroskaTrack]:
    """Return the tracks that are described near the start. Raises nothing for damaged files."""
    segment = _find_segment(source)
    if segment is None:
        return []
    for element in islice(_children(source, segment.body, source.size), _MAX_SEARCHED):
        if element.id == _TRACKS:
            return list(islice(_read_tracks(source, element), _MAX_SEARCHED))
    return []


def _read_tracks(source: Source, parent: _Element) -> Iterator[_MatroskaTrack]:
    for entry in _children(source, parent.body, parent.end or parent.body):
        if entry.id == _TRACK_ENTRY and entry.end is not None:
            fields = {field.id: field for field in _children(source, entry.body, entry.end)}
            codec = _read_text(source, fields[_CODEC_ID]) if _CODEC_ID in fields else ""
            yield _MatroskaTrack(codec, _is_encrypted(source, entry))


def _is_encrypted(source: Source, track_entry: _Element) -> bool:
    parents = [track_entry]
    for element_id in _ENCODING_TYPE_PATH:
        parents = [
            child
            for parent in parents
            for child in _children(source, parent.body, parent.end or parent.body)
            if child.id == element_id
        ]
    sizes = ((each, (each.end or each.body) - each.body) for each in parents)
    numbers = (source.read_at(each.body, min(_MAX_SIZE_BYTES, size)) for each, size in sizes)
    return any(int.from_bytes(number, "big") == _ENCRYPTION for number in numbers)


def _read_element(source: Source, offset: int) -> _Element | None:
    """Return the element at `offset`, None if there is none."""
    head = source.read_at(offset, _MAX_ID_BYTES + _MAX_SIZE_BYTES)
    if not head:
        return None
    # Variable-size integers: the leading zero bits of the first byte count the bytes that follow it (RFC 8794, 4).
    id_bytes = 9 - head[0].bit_length()
    if id_bytes > _MAX_ID_BYTES or len(head) <= id_bytes:
        return None
    size_bytes = 9 - head[id_bytes].bit_length()
    body = id_bytes + size_bytes
    if size_bytes > _MAX_SIZE_BYTES or len(head) < body:
        return None
    mask = (1 << 7 * size_bytes) - 1
    size = int.from_bytes(head[id_bytes:body], "big") & mask
    element_id = int.from_bytes(head[:id_bytes], "big")
    # All data bits set mean that the size is unknown.
    return _Element(element_id, offset, offset + body, None if size == mask else offset + body + size)


def _children(source: Source, start: int, end: int) -> Iterator[_Element]:
    """Yield the elements from `start` on, up to the first that passes `end` or has an unknown size."""
    offset = start
    for _ in range(_MAX_CHILDREN):
        element = _read_element(source, offset) if offset < end else None
        if element is None:
            return
        yield element
        if element.end is None or element.end > end:
            return
        offset = element.end
    raise TooComplex(f"more than {_MAX_CHILDREN} elements follow byte {start} of the file")


def _read_text(source: Source, element: _Element) -> str:
    length = (element.end or element.body) - element.body
    return source.read_at(element.body, min(64, length)).rstrip(b"\0").decode("ascii", "replace")


MKV: Final = Format(
    name="mkv",
    family=Family.RECORDING,
    content_type="video/x-matroska",
    extensions=frozenset({"mkv", "mka", "mks", "mk3d"}),
    begins=(_EBML.to_bytes(4, "big"),),
    matches=lambda source: _read_doc_type(source) in {"matroska", ""},
    match_order=MatchOrder.RECORDING,
    examine=_examine,
    facts=partial(measure_media, demuxer="matroska"),
    sample=lambda: encode_video("matroska", "mpeg4"),
    missing_reader=MISSING_READER,
)

WEBM: Final = Format(
    name="webm",
    family=Family.RECORDING,
    content_type="video/webm",
    extensions=frozenset({"webm", "weba"}),
    # Every reader of Matroska reads WebM. Browsers do not read all Matroska under WebM's name.
    tolerated_extensions=frozenset({"mkv", "mka"}),
    begins=(_EBML.to_bytes(4, "big"),),
    matches=_is_webm,
    match_order=MatchOrder.RECORDING,
    examine=_examine,
    facts=partial(measure_media, demuxer="matroska"),
    sample=lambda: encode_video("webm", "libvpx"),
    missing_reader=MISSING_READER,
    names=named("WebM", "webm"),
)
