"""The corpus of one entry: the sample of its kind, and what the tests' generators make of it. Small, and made anew each time."""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from PIL import Image
from tests.formats import images, media_files, pdfs, zips

from sluice.formats.kind import Kind

_PLUGINS: Final = {
    "png": "PNG",
    "jpeg": "JPEG",
    "gif": "GIF",
    "webp": "WEBP",
    "bmp": "BMP",
    "jp2": "JPEG2000",
    "tiff": "TIFF",
    "avif": "AVIF",
}
_ANIMATED: Final = frozenset({"png", "gif", "webp"})
_SOUNDS: Final = frozenset({"mp3", "flac", "ogg", "opus", "wav", "aiff", "m4a"})
_VIDEOS: Final = frozenset({"mp4", "mov", "mkv", "webm", "avi"})


def seeds(kind: Kind) -> Iterator[bytes]:
    """Yield intact files of a kind."""
    yield kind.sample()
    yield from _MORE.get(kind.name, lambda: iter(()))()
    if kind.name in _PLUGINS:
        yield from _pictures(kind.name)
    if kind.name in _SOUNDS:
        yield media_files.sound(kind.name, media_files.tone(0.1))
    if kind.name in _VIDEOS:
        yield media_files.video(kind.name, media_files.scene(2))


def _pictures(name: str) -> Iterator[bytes]:
    board = images.board(32)
    for mode in ("RGB", "L", "P", "1"):
        if name != "jp2" or mode in {"RGB", "L"}:
            yield _encoded(board.convert(mode), name)
    if name in _ANIMATED:
        yield images.animated([board, images.plain(32, 32), board.rotate(90)], _PLUGINS[name])


def _encoded(picture: Image.Image, name: str) -> bytes:
    return images.encoded(picture.convert("RGB") if name == "jpeg" and picture.mode in {"P", "1"} else picture, _PLUGINS[name])


def _pdfs() -> Iterator[bytes]:
    yield pdfs.pdf(pdfs.text("one"), pdfs.text("two"), packed=True)
    yield pdfs.pdf(pdfs.text("one"), objects={100: pdfs.stream(bytes(99), "/Subtype/Image/Width 9/Height 11", packed=True)})


def _zips() -> Iterator[bytes]:
    yield zips.archive(("a.txt", b"words"), ("b/c.txt", bytes(300)))
    yield zips.archive(("inner.zip", zips.archive(("a", b"words"))))


_MORE: Final[Mapping[str, Callable[[], Iterator[bytes]]]] = {
    "pdf": _pdfs,
    "zip": _zips,
    "json": lambda: iter([b'[1.5e3, "a\\u00e4", {"b": [null, true]}]', b'{"a": {"b": {}}}']),
    "xml": lambda: iter(
        [b'<!DOCTYPE a [<!ENTITY b "c">]><a x="y">&b;<![CDATA[d]]></a>', b'<?xml version="1.0" encoding="latin-1"?><a>\xe4</a>']
    ),
    "csv": lambda: iter([b'a;b\r\n"1;2";3\r\n', "a,b\n1,2\n".encode("utf-16")]),
    "html": lambda: iter([b"<!DOCTYPE html><html><head><style>p{color:red}</style></head><body><p>a<img src=x></body></html>"]),
    "eml": lambda: iter(
        [
            b"From: a@b.c\r\nContent-Type: multipart/mixed; boundary=x\r\n\r\n--x\r\n\r\nhi\r\n--x\r\nContent-Transfer-Encoding: base64\r\n\r\naGk=\r\n--x--\r\n"
        ]
    ),
    "yaml": lambda: iter([b"a: &x [1, 2]\nb: *x\nc: {d: 'e'}\n---\n- f\n"]),
    "rtf": lambda: iter([rb"{\rtf1\ansi{\fonttbl{\f0 Arial;}}\f0 a\'e4\u228?{\pict\pngblip 89504e47}{\*\x y}\bin3 abc}"]),
}
