"""FLAC: metadata, every frame and every sample that it states are there, and the samples have the check sum that the encoder wrote."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from sluice.formats.budget import Deadline
from sluice.formats.kind import Kind
from sluice.formats.media import audio_tags, media, media_samples
from sluice.formats.media.flac_frames import FrameHeader, Run, ends_whole, follow, header_at
from sluice.formats.media.flac_samples import Listener
from sluice.formats.media.media import LACKS
from sluice.formats.source import Source
from sluice.formats.verdict import Corrupt, Limits, Measure, Unsupported

_MAGIC: Final = b"fLaC"
_STREAMINFO_BYTES: Final = 34
_BLOCKS_MOST: Final = 10_000


@dataclass(frozen=True, slots=True)
class _Info:
    """What the stream says of itself (RFC 9639, 8.2)."""

    rate: int
    channels: int
    bits: int
    samples: int
    """0 where the encoder did not know."""
    md5: bytes


def _recognises(source: Source) -> bool:
    try:
        start = audio_tags.behind_front_tags(source)
    except Corrupt:
        return False
    return source.read_at(start, 4) == _MAGIC or (start == 0 and header_at(source.head[:16]) is not None)


def _check(source: Source, limits: Limits) -> Mapping[str, Measure]:
    deadline = Deadline(limits.soft_seconds)
    start = audio_tags.behind_front_tags(source)
    if source.read_at(start, 4) != _MAGIC:
        return media.play(source, "flac", deadline)
    info, audio = _metadata(source, start)
    first = header_at(source.read_at(audio, 16))
    _check_start(source, info, first, audio)
    if audio == source.size:
        media.note_nothing(source)
        return {"stated_samples": 0, "samples": 0}
    listener = Listener(info.bits, info.channels)
    run = None if info.samples and info.md5.strip(b"\0") else follow(source, audio)
    if run and not run.is_whole:
        raise Corrupt("a frame of the FLAC is damaged or cut: its check sum is another")
    try:
        measures = media.play(source, "flac", deadline, on_sound=listener.take)
    except Corrupt:
        if _changes_unharmed(run or follow(source, audio)):
            raise Unsupported("the stream changes its form midway, which the decoder at hand does not follow") from None
        raise
    if measures.get("partially_checked"):
        if not ends_whole(source):
            raise Corrupt("the last frame of the FLAC is cut: its check sum is another")
    elif not listener.confused:
        _check_samples(info, listener)
    return {"stated_samples": info.samples, "samples": listener.samples} | dict(measures)


def _changes_unharmed(run: Run) -> bool:
    return run.changes and run.is_whole


def _metadata(source: Source, start: int) -> tuple[_Info, int]:
    """Answer what the stream says of itself, and where the frames begin. Raises `Corrupt`."""
    info = None
    for kind, offset, end in _blocks(source, start + len(_MAGIC)):
        if info is None and (kind or end - offset != _STREAMINFO_BYTES):
            break
        if info is None:
            data = source.read_at(offset, _STREAMINFO_BYTES)
            packed = int.from_bytes(data[10:18], "big")
            info = _Info(packed >> 44, (packed >> 41 & 7) + 1, (packed >> 36 & 31) + 1, packed & 0xFFFFFFFFF, data[18:])
        audio = end
    if info is None:
        raise Corrupt("the FLAC does not begin with a description of its stream")
    return info, audio


def _blocks(source: Source, offset: int) -> Iterator[tuple[int, int, int]]:
    """Answer kind, start and end of each block of metadata. Raises `Corrupt` when one passes the end of the file."""
    for _ in range(_BLOCKS_MOST):
        head = source.read_at(offset, 4)
        end = offset + 4 + int.from_bytes(head[1:], "big")
        if len(head) < 4 or end > source.size:  # noqa: PLR2004  (the header of a block)
            raise Corrupt(f"the FLAC ends at byte {source.size}, inside its metadata")
        yield head[0] & 0x7F, offset + 4, end
        offset = end
        if head[0] & 0x80:
            return


def _check_start(source: Source, info: _Info, first: FrameHeader | None, audio: int) -> None:
    if audio == source.size and not info.samples:
        return
    if first is None:
        raise Corrupt(f"there is no FLAC frame at byte {audio}, behind the metadata")
    if (first.channels, first.bits or info.bits) != (info.channels, info.bits):
        raise Corrupt(
            f"the FLAC says {info.channels} channels of {info.bits} bits, but its first frame has {first.channels} of {first.bits}"
        )


def _check_samples(info: _Info, listener: Listener) -> None:
    if listener.samples < info.samples:
        raise Corrupt(f"the FLAC holds {listener.samples} of the {info.samples} samples that it states")
    if (
        info.samples and info.md5.strip(b"\0") and info.md5 != listener.digest()
    ):  # without a count, nobody wrote the end of the header
        raise Corrupt("the samples of the FLAC are not those that were encoded: their check sum is another")


KIND: Final = Kind(
    name="flac",
    content_type="audio/flac",
    extensions=frozenset({"flac", "fla"}),
    recognises=_recognises,
    check=_check,
    blank=media.blank_media,
    sample=lambda: media_samples.sound("flac", "flac"),
    lacks=LACKS,
)
