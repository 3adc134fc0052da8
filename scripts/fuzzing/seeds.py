"""The small corpus of one entry: the format's own sample, and files of the tests' generators."""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from PIL import Image

from sluice_inspect.format import Format
from tests.inspection.formats import image_samples, media_samples, pdf_samples, zip_samples

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


def seeds(kind: Format) -> Iterator[bytes]:
    """Yield intact files of a format."""
    yield kind.sample()
    yield from _MORE.get(kind.name, lambda: iter(()))()
    if kind.name in _PLUGINS:
        yield from _pictures(kind.name)
    if kind.name in _SOUNDS:
        yield media_samples.sound(kind.name, media_samples.tone(0.1))
    if kind.name in _VIDEOS:
        yield media_samples.video(kind.name, media_samples.scene(2))


def _pictures(name: str) -> Iterator[bytes]:
    board = image_samples.chess_board(32)
    for mode in ("RGB", "L", "P", "1"):
        if name != "jp2" or mode in {"RGB", "L"}:
            yield _encoded(board.convert(mode), name)
    if name in _ANIMATED:
        yield image_samples.animated([board, image_samples.plain_picture(32, 32), board.rotate(90)], _PLUGINS[name])


def _encoded(picture: Image.Image, name: str) -> bytes:
    return image_samples.encoded(
        picture.convert("RGB") if name == "jpeg" and picture.mode in {"P", "1"} else picture, _PLUGINS[name]
    )


def _pdfs() -> Iterator[bytes]:
    yield pdf_samples.pdf(pdf_samples.text("one"), pdf_samples.text("two"), packed=True)
    yield pdf_samples.pdf(
        pdf_samples.text("one"),
        objects={100: pdf_samples.stream(bytes(99), "/Subtype/Image/Width 9/Height 11", packed=True)},
    )


def _zips() -> Iterator[bytes]:
    yield zip_samples.archive(("a.txt", b"words"), ("b/c.txt", bytes(300)))
    yield zip_samples.archive(("inner.zip", zip_samples.archive(("a", b"words"))))


_MORE: Final[Mapping[str, Callable[[], Iterator[bytes]]]] = {
    "pdf": _pdfs,
    "zip": _zips,
    "json": lambda: iter([b'[1.5e3, "a\\u00e4", {"b": [null, true]}]', b'{"a": {"b": {}}}']),
    "xml": lambda: iter(
        [
            b'<!DOCTYPE a [<!ENTITY b "c">]><a x="y">&b;<![CDATA[d]]></a>',
            b'<?xml version="1.0" encoding="latin-1"?><a>\xe4</a>',
        ]
    ),
    "csv": lambda: iter([b'a;b\r\n"1;2";3\r\n', "a,b\n1,2\n".encode("utf-16")]),
    "html": lambda: iter(
        [b"<!DOCTYPE html><html><head><style>p{color:red}</style></head><body><p>a<img src=x></body></html>"]
    ),
    "eml": lambda: iter(
        [
            b"From: a@b.c\r\nContent-Type: multipart/mixed; boundary=x\r\n\r\n--x\r\n\r\nhi\r\n--x\r\nContent-Transfer-Encoding: base64\r\n\r\naGk=\r\n--x--\r\n"
        ]
    ),
    "yaml": lambda: iter([b"a: &x [1, 2]\nb: *x\nc: {d: 'e'}\n---\n- f\n"]),
    "rtf": lambda: iter(
        [rb"{\rtf1\ansi{\fonttbl{\f0 Arial;}}\f0 a\'e4\u228?{\pict\pngblip 89504e47}{\*\x y}\bin3 abc}"]
    ),
}
