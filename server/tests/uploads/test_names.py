"""File names in uploads: what is kept, and which extension counts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.errors import Invalid
from sluice.uploads.names import MAX_BYTES, read_name
from tests.attacks import hostile_lines, naughty_strings, needs_attacks
from tests.rows import each_row


@each_row(
    ("sent", "kept", "extension"),
    [
        ("report.pdf", "report.pdf", "pdf"),
        ("REPORT.PDF", "REPORT.PDF", "pdf"),
        ("archive.tar.gz", "archive.tar.gz", "gz"),
        ("setup.exe. . ", "setup.exe. . ", "exe"),
        ("noextension", "noextension", ""),
        (".htaccess", ".htaccess", ""),
        ("..hidden", "..hidden", ""),
        ("/etc/cron.d/job.sh", "job.sh", "sh"),
        ("C:\\fakepath\\photo.jpg", "photo.jpg", "jpg"),
        ("../../a.png", "a.png", "png"),
        ("re\u0301sume\u0301.doc", "r\u00e9sum\u00e9.doc", "doc"),
        ("日本語.txt", "日本語.txt", "txt"),
        ("a b;c'd.txt", "a b;c'd.txt", "txt"),
    ],
)
def test_keeps_the_last_path_part_and_the_last_extension(sent: str, kept: str, extension: str) -> None:
    name = read_name(sent)
    assert (name.original, name.extension) == (kept, extension)


@each_row("sent", ["", ".", "..", " ", "a/", "a\\", "a\0.pdf", "a\n.pdf", "\x7f.pdf", "a\x85b", "x" * 256, "é" * 128])
def test_refuses_an_invalid_file_name(sent: str) -> None:
    with pytest.raises(Invalid) as refused:
        read_name(sent)
    assert refused.value.errors[0].startswith("file: ")


@given(st.text())
def test_an_accepted_name_has_no_path_no_controls_and_a_bounded_size(sent: str) -> None:
    assert_harmless(sent)


@needs_attacks
@each_row("sent", lambda: [*naughty_strings(), *hostile_lines()])
def test_a_hostile_name_is_refused_or_harmless(sent: str) -> None:
    assert_harmless(sent)


def assert_harmless(sent: str) -> None:
    try:
        name = read_name(sent)
    except Invalid:
        return
    assert not set(name.original) & set("/\\\0\r\n")
    assert len(name.original.encode()) <= MAX_BYTES
    assert "." not in name.extension
    assert name.extension == name.extension.lower()
