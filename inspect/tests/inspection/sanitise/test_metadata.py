"""Metadata of pictures, films and sound: it is gone, and what is shown or heard is the same bit for bit."""

import io
import struct
import warnings
import zlib
from collections.abc import Iterator, Sequence

import av
import numpy as np
import pillow_heif
from PIL import Image, ImageCms, ImageSequence
from PIL.PngImagePlugin import PngInfo

from sluice_inspect.formats import aiff, avi, flac, jpeg2000, matroska, mp4, mpeg_audio, ogg, wav
from sluice_inspect.report import Outcome
from sluice_inspect.sanitise.exif import orientation_only
from sluice_inspect.source import MemoryBacked
from tests.inspection.formats.heif_samples import box, heic
from tests.inspection.formats.image_samples import animated, encoded, png_chunk, with_chunk
from tests.inspection.formats.tiff_samples import tiff_of_pages
from tests.inspection.sanitise.cleaned import SECRET, cleaned, hides, inspected
from tests.rows import each_row

_PROFILE = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
_PICTURE = Image.effect_noise((48, 32), 90).convert("RGB")
_OTHER = Image.effect_noise((48, 32), 60).convert("RGB")
_XMP = b"<x:xmpmeta xmlns:x='adobe:ns:meta/'>" + SECRET + b"</x:xmpmeta>"


def _exif(orientation: int) -> Image.Exif:
    exif = Image.Exif()
    exif[0x0112] = orientation
    exif[0x010E] = exif[0x010F] = exif[0x0110] = exif[0x013B] = exif[0x0131] = SECRET.decode()
    exif[0x0132] = "2024:02:29 12:00:00"
    exif.get_ifd(0x8769)[0x927C] = SECRET
    exif.get_ifd(0x8825)[0x001D] = SECRET.decode()
    return exif


def _segment(code: int, body: bytes) -> bytes:
    return b"\xff" + bytes([code]) + struct.pack(">H", 2 + len(body)) + body


def _jpeg(orientation: int = 6) -> bytes:
    plain = encoded(
        _PICTURE, "JPEG", quality=80, progressive=True, exif=_exif(orientation), xmp=_XMP, comment=SECRET,
        icc_profile=_PROFILE, dpi=(300, 300),
    )  # fmt: skip
    parts = (
        _segment(0xE0, b"JFXX\0\x10" + SECRET),
        _segment(0xE1, b"http://ns.adobe.com/xmp/extension/\0" + SECRET),
        _segment(0xE2, b"MPF\0" + SECRET),
        _segment(0xEB, b"JP" + SECRET),
        _segment(0xED, b"Photoshop 3.0\x008BIM" + SECRET),
    )
    return plain[:20] + b"".join(parts) + plain[20:] + encoded(_OTHER, "JPEG", comment=SECRET)


def _png() -> bytes:
    texts = PngInfo()
    texts.add_text("Author", SECRET.decode())
    texts.add_itxt("XML:com.adobe.xmp", SECRET.decode())
    texts.add_text("Comment", SECRET.decode(), zip=True)
    plain = encoded(_PICTURE, "PNG", pnginfo=texts, exif=_exif(8), icc_profile=_PROFILE, dpi=(72, 72))
    return with_chunk(with_chunk(plain, png_chunk(b"tIME", b"\7\xe8\2\x1d\0\0\0")), png_chunk(b"prVt", SECRET)) + SECRET


def _gif() -> bytes:
    plain = animated([_PICTURE, _OTHER], "GIF", loop=3, duration=90, comment=SECRET)
    xmp = b"\x21\xff\x0bXMP DataXMP" + bytes([len(SECRET)]) + SECRET + b"\0"
    return plain[:-1] + xmp + b";" + SECRET


def _webp(*, is_animated: bool = False) -> bytes:
    options = {"exif": _exif(3), "xmp": _XMP, "icc_profile": _PROFILE, "lossless": True}
    plain = animated([_PICTURE, _OTHER], "WEBP", **options) if is_animated else encoded(_PICTURE, "WEBP", **options)
    unknown = b"NOTE" + struct.pack("<L", 10) + SECRET + b"\0"
    return b"RIFF" + struct.pack("<L", len(plain) - 8 + len(unknown)) + plain[8:] + unknown + SECRET


def _tiff(order: str) -> bytes:
    """Return two pages and a smaller one, with remarks, and bytes that no directory refers to."""
    pixels = bytes(range(64))
    page = {256: (3, [8]), 257: (3, [8]), 258: (3, [8]), 259: (3, [1]), 262: (3, [1]), 273: (4, [8]), 279: (4, [64])}
    numbers = list(SECRET)
    told = {
        270: (1, numbers),
        274: (3, [6]),
        305: (1, numbers),
        315: (1, numbers),
        700: (1, numbers),
        34377: (1, numbers),
    }
    small = page | {254: (4, [1])}
    return tiff_of_pages(page | told, small, page | {33723: (1, numbers)}, data=pixels + SECRET, order=order)


def _heic() -> bytes:
    return heic(_PICTURE.resize((128, 96)), exif=_exif(1).tobytes(), xmp=_XMP, thumbnails=[32])


def _film() -> bytes:
    """Return a film with a place in its tags, a box of XMP, and a time."""
    plain = mp4.MP4.sample()
    at = plain.index(b"moov") - 4
    size = int.from_bytes(plain[at : at + 4], "big")
    movie = bytearray(plain[at + 8 : at + size])
    header = movie.index(b"mvhd") + 8
    movie[header : header + 8] = b"\xde\xad\xbe\xef" * 2
    tags = box(b"udta", box(b"\xa9xyz", SECRET), box(b"meta", bytes(4), box(b"ilst", SECRET)))
    assert at + size == len(plain), "nothing that has a place in the file comes behind the tags"
    return plain[:at] + box(b"moov", bytes(movie), tags) + box(b"uuid", bytes(16), _XMP)


def _sound(tags: bytes = SECRET) -> bytes:
    id3 = b"ID3\4\0\0" + bytes([0, 0, 0, 10 + len(tags)]) + b"TPE1" + struct.pack(">LH", len(tags), 0) + tags
    return id3 + mpeg_audio.MP3.sample() + b"TAG" + SECRET.ljust(125)


def _flac() -> bytes:
    plain = flac.FORMAT.sample()
    note = b"\x84" + len(SECRET).to_bytes(3, "big") + SECRET
    at = 4
    while not plain[at] & 0x80:
        at += 4 + int.from_bytes(plain[at + 1 : at + 4], "big")
    end = at + 4 + int.from_bytes(plain[at + 1 : at + 4], "big")
    return plain[:at] + bytes([plain[at] & 0x7F]) + plain[at + 1 : end] + note + plain[end:]


def _wav() -> bytes:
    plain = wav.FORMAT.sample()
    note = b"LIST" + struct.pack("<L", 10) + SECRET + b"\0"
    return plain[:4] + struct.pack("<L", len(plain) - 8 + len(note)) + plain[8:12] + note + plain[12:]


def _samples() -> Iterator[tuple[str, bytes, set[str]]]:
    camera = {"gps", "camera", "author", "dates", "comments"}
    yield "a.jpg", _jpeg(), {*camera, "xmp", "thumbnail", "other_metadata"}
    yield "a.png", _png(), {*camera, "xmp", "other_metadata"}
    yield "a.gif", _gif(), {"comments", "xmp", "other_metadata"}
    yield "still.webp", _webp(), {*camera, "xmp", "other_metadata"}
    yield "animated.webp", _webp(is_animated=True), {*camera, "xmp", "other_metadata"}
    yield "little.tiff", _tiff("<"), {"comments", "author", "xmp", "thumbnail", "other_metadata"}
    yield "big.tiff", _tiff(">"), {"comments", "author", "xmp", "thumbnail", "other_metadata"}
    yield "a.heic", _heic(), {*camera, "xmp", "thumbnail"}
    yield "a.avif", encoded(_PICTURE, "AVIF", exif=_exif(6), xmp=_XMP, icc_profile=_PROFILE), {*camera, "xmp"}
    yield "a.jp2", jpeg2000.JP2.sample() + box(b"xml ", SECRET), {"comments", "xmp"}
    yield "a.mp4", _film(), {"gps", "dates", "xmp", "other_metadata"}
    yield "a.mp3", _sound(), {"author", "other_metadata"}
    yield "a.flac", _flac(), {"other_metadata"}
    yield "a.wav", _wav(), {"other_metadata"}


@each_row(("name", "content", "words"), _samples, ids=str)
def test_metadata_is_gone_and_nothing_else(name: str, content: bytes, words: set[str]) -> None:
    assert hides(content), "the sample has no metadata"
    left, removed = cleaned(content, name, "metadata")
    assert removed == words
    assert not hides(left)
    before, after = inspected(content, name), inspected(left, name)
    assert (after.integrity, after.finding, after.format) == (Outcome.OK, None, before.format)
    assert cleaned(left, name, "metadata") == (left, set())
    assert cleaned(content, name, "active_content") == (content, set())
    if not name.endswith((".mp4", ".mp3", ".flac", ".wav")):
        assert _shown(left) == _shown(content)[: len(_shown(left))]


def _shown(content: bytes) -> Sequence[tuple[object, ...]]:
    """Return mode, orientation, profile, time and pixels of each frame; of a JPEG of the first."""
    with warnings.catch_warnings(action="ignore"), Image.open(io.BytesIO(content)) as picture:
        settings = picture.getexif().get(0x0112, 1), picture.info.get("icc_profile"), picture.info.get("dpi")
        frames = [
            (frame.mode, frame.info.get("duration"), *settings, frame.copy().tobytes())
            for frame in ImageSequence.Iterator(picture)
            if frame.width >= 48 or picture.format == "TIFF"
        ]
        return frames[:1] if picture.format in {"JPEG", "MPO"} else frames


def test_smaller_page_is_gone_and_the_others_are_there() -> None:
    left, _removed = cleaned(_tiff("<"), "a.tiff", "metadata")
    with Image.open(io.BytesIO(left)) as picture:
        assert getattr(picture, "n_frames", 0) == 2
    only = tiff_of_pages({256: (3, [8]), 257: (3, [8]), 254: (4, [1]), 273: (4, [8]), 279: (4, [64])}, data=bytes(64))
    assert cleaned(only, "a.tiff", "metadata") == (only, set())


def test_nothing_of_an_upright_picture_is_kept_but_of_a_turned_one_its_turn() -> None:
    upright, _removed = cleaned(_jpeg(1), "a.jpg", "metadata")
    turned, _removed = cleaned(_jpeg(6), "a.jpg", "metadata")
    assert b"Exif" not in upright
    assert turned.count(b"Exif") == 1
    assert orientation_only(6) in turned


def test_animation_keeps_its_times_and_repeats() -> None:
    apng = animated([_PICTURE, _OTHER], "PNG", duration=[70, 110], loop=2)
    told = with_chunk(apng, png_chunk(b"tEXt", b"Author\0" + SECRET))
    assert cleaned(told, "a.png", "metadata") == (apng, {"author"})
    left, _removed = cleaned(_gif(), "a.gif", "metadata")
    with Image.open(io.BytesIO(left)) as picture:
        assert (picture.info["loop"], picture.info["duration"]) == (3, 90)


def test_items_that_go_are_gone_for_readers_of_heif() -> None:
    pillow_heif.register_heif_opener()
    left, _removed = cleaned(_heic(), "a.heic", "metadata")
    pictures = pillow_heif.open_heif(left, convert_hdr_to_8bit=False)
    assert not pictures.info.get("exif")
    assert not pictures.info.get("xmp")
    assert pictures.info.get("thumbnails") == []


def test_track_of_places_is_emptied() -> None:
    """A track of timed metadata, as action cameras write them, beside the one of the film."""
    samples = SECRET * 3

    def movie(place: int) -> bytes:
        table = box(
            b"stbl",
            box(b"stsz", bytes(4), struct.pack(">LL", len(SECRET), 3)),
            box(b"stsc", bytes(4), struct.pack(">LLLL", 1, 1, 3, 1)),
            box(b"stco", bytes(4), struct.pack(">LL", 1, place)),
        )
        track = box(b"trak", box(b"mdia", box(b"hdlr", bytes(8), b"meta", bytes(13)), box(b"minf", table)))
        return box(b"moov", track)

    head = box(b"ftyp", b"isom", bytes(4), b"isom")
    film = head + movie(len(head) + len(movie(0)) + 8) + box(b"mdat", samples, b"pictures")
    left, _removed = cleaned(film, "a.mp4", "metadata")
    assert len(left) == len(film)
    assert left.endswith(bytes(len(samples)) + b"pictures")


def test_bytes_of_pixels_that_look_like_metadata_stay() -> None:
    rows = np.frombuffer(SECRET * 64, dtype=np.uint8)[: 24 * 24].reshape(24, 24)
    plain = encoded(Image.fromarray(rows), "PNG")
    assert cleaned(plain, "a.png", "metadata") == (plain, set())
    header = struct.pack(">LLBBBBB", 24, 1, 8, 0, 0, 0, 0)
    stored = zlib.compress(b"\0" + SECRET.ljust(24), 0)
    chunks = ((b"IHDR", header), (b"tEXt", b"x\0y"), (b"IDAT", stored), (b"IEND", b""))
    told = b"\x89PNG\r\n\x1a\n" + b"".join(png_chunk(*each) for each in chunks)
    assert hides(cleaned(told, "a.png", "metadata")[0])


def test_file_that_has_never_any_metadata_stays_as_it_is() -> None:
    for name, content in (("a.txt", b"Author: me\n"), ("a.csv", b"a,b\n1,2\n"), ("a.bmp", encoded(_PICTURE, "BMP"))):
        with MemoryBacked(content):
            assert cleaned(content, name, "metadata") == (content, set())


def _tagged(sample: bytes, muxer: str) -> bytes:
    """Return a recording with tags, and with a title of its track, as FFmpeg writes them."""
    file = io.BytesIO()
    with av.open(io.BytesIO(sample), "r") as recording, av.open(file, "w", format=muxer) as result:
        tags = {"title": SECRET.decode(), "artist": SECRET.decode(), "date": "2024-02-29", "location": "+48.1+11.5/"}
        result.metadata.update(tags)
        stream = result.add_stream_from_template(recording.streams[0])
        stream.metadata["title"] = SECRET.decode()
        for packet in recording.demux(recording.streams[0]):
            if packet.dts is not None:
                packet.stream = stream
                result.mux(packet)
    return file.getvalue()


def _packets(recording: bytes) -> list[tuple[int | None, bytes]]:
    with av.open(io.BytesIO(recording), "r") as opened:
        return [(packet.pts, bytes(packet)) for packet in opened.demux(opened.streams[0])]


def _recordings() -> Iterator[tuple[str, bytes]]:
    for each, muxer in (
        (matroska.MKV, "matroska"), (matroska.WEBM, "webm"), (avi.FORMAT, "avi"), (ogg.OGG, "ogg"), (ogg.OPUS, "ogg"),
        (mp4.MP4, "mp4"), (mp4.MOV, "mov"), (mp4.M4A, "ipod"), (wav.FORMAT, "wav"),
        (aiff.FORMAT, "aiff"), (flac.FORMAT, "flac"),
    ):  # fmt: skip
        yield f"a.{each.name}", _tagged(each.sample(), muxer)


@each_row(("name", "content"), _recordings, ids=str)
def test_every_packet_of_a_recording_stays(name: str, content: bytes) -> None:
    assert hides(content)
    left, removed = cleaned(content, name, "metadata")
    assert "comments" in removed or removed == {"other_metadata"}
    assert not hides(left)
    assert _packets(left) == _packets(content)
    assert inspected(left, name).outcome is inspected(content, name).outcome
    assert cleaned(left, name, "metadata") == (left, set())
