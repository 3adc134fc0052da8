"""Damaged and hostile files: a reason, or a result that is clean, and nothing else."""

import random
import struct
from collections.abc import Iterator

import pytest

from sluice_inspect.registry import FORMATS
from sluice_inspect.report import Corrupt, InspectionError
from sluice_inspect.sanitise.cleaning import NotClean
from tests.inspection.sanitise import test_documents, test_metadata
from tests.inspection.sanitise.cleaned import cleaned
from tests.rows import each_row
from tests.run_length import amount

_TRIES = amount("SANITISED_CHANGES", short=8, full=2_000)
# What libraries raise for some damage, which the worker reports as damaged.
_OF_LIBRARIES = (ValueError, RuntimeError, TypeError, KeyError, AttributeError, struct.error, IndexError, OSError)


def _samples() -> Iterator[tuple[str, bytes]]:
    for name, content, _words in (*test_metadata._samples(), *test_documents._told()):
        yield name, content
    for name, content, _words, _kept in test_documents._active():
        yield name, content
    for each in FORMATS:
        if not each.missing_reader:
            yield f"sample.{min(each.extensions)}", each.sample()


def test_changed_files_are_cleaned_or_refused() -> None:
    choice = random.Random(20260101)
    for name, content in _samples():
        for number in range(_TRIES if len(content) < 100_000 else 3):
            changed = bytearray(content)
            for _ in range(choice.choice((1, 3, 12))):
                changed[choice.randrange(len(changed))] = choice.choice((0, 1, 127, 128, 255, choice.randrange(256)))
            if number % 4 == 0:
                del changed[choice.randrange(len(changed)) :]
            _clean_twice(bytes(changed), name)


def _clean_twice(content: bytes, name: str) -> None:
    try:
        left, removed = cleaned(content, name, "metadata", "active_content")
    except (InspectionError, NotClean, *_OF_LIBRARIES):
        return
    if removed and name.endswith((".jpg", ".png", ".gif", ".webp", ".tiff", ".flac", ".wav")):
        assert cleaned(left, name, "metadata", "active_content") == (left, set()), name


@each_row(
    ("name", "content"),
    [
        ("a.jpg", b"\xff\xd8\xff\xe0\0\x10JFIF\0\1\1\1\0H\0H\0\0\xff\xe1\xff\xff"),
        ("a.png", b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR"),
        ("a.gif", b"GIF89a\1\0\1\0\0\0\0\x21\xfe\5"),
        ("a.webp", b"RIFF\x20\0\0\0WEBPVP8X\xff\xff\xff\x7f"),
        ("a.tiff", b"II*\0\x08\0\0\0\xff\xff"),
        ("a.tiff", b"II*\0\x08\0\0\0\1\0\x11\1\4\0\xff\xff\xff\xff\0\0\0\0"),
        ("a.flac", b"fLaC\0\xff\xff\xff"),
    ],
    ids=str,
)
def test_file_that_ends_too_early_is_damaged(name: str, content: bytes) -> None:
    with pytest.raises(Corrupt):
        cleaned(content, name, "metadata")
