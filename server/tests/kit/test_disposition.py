"""`Content-Disposition` of downloads: one line of ASCII with the name of the file."""

import string
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.kit.disposition import attachment
from tests.rows import each_row

SAFE = string.ascii_letters + string.digits + " .-_()äöü日本語😀'&;=,+#%"


def read(header: str) -> str:
    """Return the name that a browser reads: `filename*` if it is present, else `filename`."""
    quoted, exact, extended = header.partition("; filename*=UTF-8''")
    if exact:
        return unquote(extended, errors="strict")
    return quoted.removeprefix('attachment; filename="').removesuffix('"')


@given(st.text(max_size=255))
@pytest.mark.asvs("5.4.2")
def test_any_name_gives_one_ascii_line_with_at_most_two_parameters(filename: str) -> None:
    header = attachment(filename)
    assert header.startswith('attachment; filename="')
    assert header.isascii()
    assert header.isprintable()
    quoted, _, extended = header.removeprefix('attachment; filename="').partition('"')
    assert quoted
    assert not set(quoted) & set('"\\/%')
    assert extended == "" or extended.startswith("; filename*=UTF-8''")
    assert not set(extended.removeprefix("; filename*=UTF-8''")) & set(" \"';,()=@/\\")


@given(st.text(alphabet=SAFE, min_size=1, max_size=255))
def test_an_ordinary_name_is_read_back_unchanged(filename: str) -> None:
    assert read(attachment(filename)) == filename


@each_row(
    "filename, rest",
    [
        ("report 2024.pdf", '"report 2024.pdf"'),
        ("Übersicht €.pdf", "\"_bersicht _.pdf\"; filename*=UTF-8''%C3%9Cbersicht%20%E2%82%AC.pdf"),
        ('a"; filename="b.exe', "\"a_; filename=_b.exe\"; filename*=UTF-8''a%22%3B%20filename%3D%22b.exe"),
        ("", '"download"'),
    ],
)
def test_a_plain_name_is_given_once_and_any_other_has_a_fallback(filename: str, rest: str) -> None:
    assert attachment(filename) == f"attachment; filename={rest}"


@each_row("filename", ["a\r\nSet-Cookie: x=1", "a\x00b", "a\u2028b", "a\x85b", "a\ud800b"])
@pytest.mark.asvs("5.4.2", "1.2.1")
def test_control_characters_do_not_reach_the_header(filename: str) -> None:
    assert "_" in read(attachment(filename))
    assert "\n" not in attachment(filename)


@each_row("filename", ["../../etc/passwd", "..\\..\\boot.ini"])
@pytest.mark.asvs("5.4.1")
def test_a_download_name_holds_no_path(filename: str) -> None:
    assert not set(read(attachment(filename))) & {"/", "\\"}


def test_text_direction_characters_are_replaced() -> None:
    assert read(attachment("invoice\u202efdp.exe")) == "invoice_fdp.exe"
