import io
import tarfile

import pytest

from sluice.formats import sniff
from sluice.formats.extensions import extension_of
from sluice.formats.registry import KINDS, kind_of
from tests.formats.judging import source_of


@pytest.mark.parametrize(
    ("name", "extension"),
    [
        ("a.PDF", "pdf"),
        ("archive.tar.gz", "gz"),
        ("folder/file.Txt. .", "txt"),
        ("C:\\files\\scan.JPG", "jpg"),
        ("folder.d/file", ""),
        (".htaccess", ""),
        ("", ""),
        (None, ""),
        ("dot.", ""),
    ],
)
def test_the_extension_is_the_last_one(name: str | None, extension: str) -> None:
    assert extension_of(name) == extension


def test_no_extension_is_promised_twice() -> None:
    promised = [extension for kind in KINDS for extension in kind.extensions]
    assert len(promised) == len(set(promised))


def test_every_kind_has_a_name_of_its_own() -> None:
    assert len({kind.name for kind in KINDS}) == len(KINDS)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if not kind.is_text], ids=lambda kind: kind.name)
def test_a_sample_is_recognised_as_its_own_kind_whatever_it_is_called(kind: object) -> None:
    own = next(each for each in KINDS if each is kind)
    with source_of(own.sample()) as source:
        assert sniff.recognise(source, KINDS, None) is own
        assert sniff.recognise(source, KINDS, kind_of("mp4")) is own


def test_the_named_kind_is_asked_first() -> None:
    document, archive = kind_of("docx"), kind_of("zip")
    assert document is not None
    with source_of(document.sample()) as source:
        assert sniff.recognise(source, KINDS, archive) is archive


@pytest.mark.parametrize(
    "page",
    [
        b"<!DOCTYPE html><p>",
        b"\xef\xbb\xbf \r\n<HTML lang='en'>",
        b'<?xml version="1.0"?>\n<html xmlns="x">',
        b"<!-- saved from --><head>",
    ],
)
def test_a_web_page_is_known_by_its_start(page: bytes) -> None:
    with source_of(page) as source:
        assert sniff.looks_like_html(source)


@pytest.mark.parametrize("text", [b"<note>html</note>", b"see <html>", b"<htmlish>", b"", b"<!-- a comment without an end"])
def test_other_text_is_no_web_page(text: bytes) -> None:
    with source_of(text) as source:
        assert not sniff.looks_like_html(source)


def tar() -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("member"))
    return file.getvalue()


@pytest.mark.parametrize(
    ("data", "content_type"),
    [
        (b"\x1f\x8b\x08\0" + bytes(20), "application/gzip"),
        (tar(), "application/x-tar"),
        (b"fLaC\0\0\0\x22" + bytes(40), "audio/flac"),
        (b"\x8f\x03\x01\xd1\x93" * 40, sniff.UNKNOWN),
        (b"", sniff.UNKNOWN),
    ],
)
def test_the_media_type_of_what_no_kind_knows_is_libmagics(data: bytes, content_type: str) -> None:
    with source_of(data) as source:
        assert sniff.content_type_of(source) == content_type


def test_text_is_told_from_binary_by_its_start() -> None:
    with source_of("GIF89a is a format. Grüße\n".encode()) as source:
        assert sniff.is_plain_text(source)
    with source_of(b"GIF89a\x01\x00\x01\x00") as source:
        assert not sniff.is_plain_text(source)
