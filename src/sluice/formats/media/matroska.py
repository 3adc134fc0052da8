"""Matroska and WebM files: all elements stand in the file, clusters are filled and have their check sums. Decodes nothing."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final

from sluice.formats.budget import Deadline
from sluice.formats.media.ebml import HEADER, VOID, Element, children, element_at, has_its_sum, number, text
from sluice.formats.source import Source
from sluice.formats.verdict import Corrupt, TooComplex

_DOC_TYPE: Final = 0x4282
_SEGMENT: Final = 0x18538067
_CLUSTER: Final = 0x1F43B675
_TRACKS: Final = 0x1654AE6B
_TRACK_ENTRY: Final = 0xAE
_TRACK_TYPE: Final = 0x83
_CODEC: Final = 0x86
_ENCODING_PATH: Final = (0x6D80, 0x6240)
_ENCODING_TYPE: Final = 0x5033
_ENCRYPTED: Final = 1
_HEADER_MOST: Final = 4096
_LOOKED_THROUGH: Final = 1000
_TOP_LEVEL_MOST: Final = 300_000
_TOP_LEVEL_FROM: Final = 0x10000000
"""Elements of the segment have numbers of four bytes, those of a cluster shorter ones."""
_WEBM_CODECS: Final = frozenset(
    {"V_VP8", "V_VP9", "V_AV1", "A_VORBIS", "A_OPUS", "D_WEBVTT/SUBTITLES", "D_WEBVTT/CAPTIONS", "S_TEXT/WEBVTT"}
)


@dataclass(frozen=True, slots=True)
class Track:
    """One track as it is described."""

    kind: int
    codec: str
    is_encrypted: bool


@dataclass(frozen=True, slots=True)
class Segment:
    """What a file holds, all of it there."""

    tracks: tuple[Track, ...]
    clusters: int
    checked_sums: int
    """Clusters that have a check sum, which was right."""
    trailing: int
    """Bytes behind the segment."""


def doc_type(source: Source) -> str | None:
    """Answer what an EBML file says that it is, empty when it does not; None for what is no EBML file."""
    header = element_at(source, 0)
    if header is None or header.id != HEADER or header.end is None:
        return None
    within = children(source, header.body, min(header.end, header.body + _HEADER_MOST))
    return next((text(source, element) for element in within if element.id == _DOC_TYPE), "")


def is_webm(source: Source) -> bool:
    """Answer whether the file is WebM: by its name for itself, or as Matroska that holds nothing but what WebM may."""
    named = doc_type(source)
    if named == "webm":
        return True
    codecs = {track.codec for track in _first_tracks(source)} if named == "matroska" else set()
    return bool(codecs) and codecs <= _WEBM_CODECS


def read_segment(source: Source, deadline: Deadline) -> Segment:
    """Answer what a whole file holds. Raises `Corrupt` where it is damaged or cut. Beyond the deadline, clusters are not looked into."""
    if doc_type(source) not in {"matroska", "webm"}:
        raise Corrupt("the EBML header does not say that this is Matroska or WebM")
    segment = _segment(source)
    if segment is None:
        raise Corrupt("there is no segment behind the EBML header")
    if segment.end is not None and segment.end > source.size:
        raise Corrupt(f"the file ends at byte {source.size} of the {segment.end} that it declares")
    tracks: tuple[Track, ...] = ()
    clusters = sums = 0
    for element in _elements(source, segment):
        if element.id == _TRACKS:
            tracks = tuple(_tracks(source, element))
        elif element.id == _CLUSTER:
            clusters += 1
            sums += not deadline.has_passed and _check_cluster(source, element)
    if clusters and not tracks:
        raise Corrupt("the description of the tracks is missing")
    return Segment(tracks, clusters, sums, source.size - (segment.end or source.size))


def _segment(source: Source) -> Element | None:
    header = element_at(source, 0)
    offset = header.end if header else None
    while offset is not None and (element := element_at(source, offset)) is not None:
        if element.id == _SEGMENT:
            return element
        offset = element.end if element.id == VOID else None
    return None


def _elements(source: Source, segment: Element) -> Iterator[Element]:
    """Answer the elements of the segment with their ends, also where those were not known when they were written. Raises `Corrupt`."""
    limit = segment.end or source.size
    offset = segment.body
    for _ in range(_TOP_LEVEL_MOST):
        if offset >= limit:
            return
        element = element_at(source, offset)
        if element is None:
            if source.read_at(offset, min(limit - offset, 4096)).strip(b"\0") or limit - offset > 4096:  # noqa: PLR2004  (as much as was read)
                raise Corrupt(f"there is no element at byte {offset} of the file, where one must be")
            return
        if element.end is None:
            element = Element(element.id, element.offset, element.body, _end_of_open(source, element, limit))
        if element.end is not None and element.end > limit:
            raise Corrupt(
                f"the file ends at byte {limit}, inside the element that begins at byte {offset} and ends at byte {element.end}"
            )
        yield element
        offset = element.end or limit
    raise TooComplex(f"the file has more than {_TOP_LEVEL_MOST} parts")


def _end_of_open(source: Source, parent: Element, limit: int) -> int:
    """Answer where an element of unknown size ends: before the first that belongs above it. Raises `Corrupt` when the last within is cut."""
    for element in children(source, parent.body, limit):
        if element.id >= _TOP_LEVEL_FROM:
            return element.offset
        if element.end is None or element.end > limit:
            raise Corrupt(f"the file ends at byte {limit}, inside the element from byte {element.offset} on")
    return limit


def _check_cluster(source: Source, cluster: Element) -> bool:
    """Answer whether a cluster has a check sum. Raises `Corrupt` when that is wrong, and unless its elements fill it."""
    end = cluster.body
    for element in children(source, cluster.body, cluster.end or cluster.body):
        end = element.end or end
    if end != cluster.end:
        raise Corrupt(
            f"the cluster at byte {cluster.offset} of the file is damaged: its elements end at byte {end} and not at {cluster.end}"
        )
    sound = has_its_sum(source, cluster)
    if sound is False:
        raise Corrupt(f"the cluster at byte {cluster.offset} of the file is damaged: its check sum is another")
    return sound is not None


def _first_tracks(source: Source) -> list[Track]:
    """Answer the tracks as far as they can be found; judges nothing."""
    segment = _segment(source)
    if segment is None:
        return []
    for element in islice(children(source, segment.body, source.size), _LOOKED_THROUGH):
        if element.id == _TRACKS:
            return list(islice(_tracks(source, element), _LOOKED_THROUGH))
    return []


def _tracks(source: Source, parent: Element) -> Iterator[Track]:
    for entry in children(source, parent.body, parent.end or parent.body):
        if entry.id == _TRACK_ENTRY and entry.end is not None:
            fields = {field.id: field for field in children(source, entry.body, entry.end)}
            yield Track(
                kind=number(source, fields[_TRACK_TYPE]) if _TRACK_TYPE in fields else 0,
                codec=text(source, fields[_CODEC]) if _CODEC in fields else "",
                is_encrypted=_is_encrypted(source, [entry], (*_ENCODING_PATH, _ENCODING_TYPE)),
            )


def _is_encrypted(source: Source, parents: list[Element], path: tuple[int, ...]) -> bool:
    for name in path:
        parents = [
            child for parent in parents for child in children(source, parent.body, parent.end or parent.body) if child.id == name
        ]
    return any(number(source, element) == _ENCRYPTED for element in parents)
