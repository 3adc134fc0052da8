"""Plain text: encodings, integrity and blankness."""

from sluice_inspect.formats.text import TEXT
from sluice_inspect.report import Outcome
from tests.inspection.formats.examining import examine_bytes
from tests.rows import each_row

PROSE = "Grüße aus Köln: 12 € für jeden.\n" * 40


@each_row(
    "encoding",
    [
        "utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be", "cp1252",
        "iso8859_15", "cp500", "utf-7",
    ],
)  # fmt: skip
def test_text_passes_in_any_encoding(encoding: str) -> None:
    result = examine_bytes(TEXT, PROSE.encode(encoding, "replace"))
    assert (result.outcome, result.blank) == (Outcome.OK, None)


@each_row("line_end", ["\n", "\x85"])
def test_text_of_short_lines_in_ebcdic_passes(line_end: str) -> None:
    data = f"a short line{line_end}12, 34{line_end}".encode("cp037") * 100
    assert examine_bytes(TEXT, data).outcome is Outcome.OK
    assert examine_bytes(TEXT, data[:500] + bytes(4096) + data[500:]).outcome is Outcome.CORRUPT


@each_row("encoding", ["shift_jis", "euc_jp", "gb18030", "big5", "iso2022_jp", "utf-16-le"])
def test_east_asian_text_passes(encoding: str) -> None:
    assert examine_bytes(TEXT, ("日本語の文章です。\n" * 60).encode(encoding)).outcome is Outcome.OK


@each_row(
    "text", [b"ends in the middle of caf\xe9", b"\x1b[31mred\x1b[0m log\n", b"page one\x0cpage two\n", b"DOS\r\n\x1a"]
)
def test_unusual_text_passes(text: bytes) -> None:
    assert examine_bytes(TEXT, text).outcome is Outcome.OK


@each_row(
    "data", [b"a line\n\0another", PROSE.encode() + bytes(4096), bytes(range(1, 256)) * 9, b"\xff\xfe\x00\xd8a\x00"]
)
def test_bytes_that_text_cannot_contain_are_corrupt(data: bytes) -> None:
    assert examine_bytes(TEXT, data).outcome is Outcome.CORRUPT


@each_row("text", [" \t\r\n", "\ufeff  \n", "\u00a0\u2003\u3000", "\u200b\u200d\ufeff", "\u00ad\u2060"])
@each_row("encoding", ["utf-8", "utf-16", "utf-32-le"])
def test_text_without_visible_characters_is_blank(text: str, encoding: str) -> None:
    assert examine_bytes(TEXT, text.encode(encoding)).blank


@each_row("text", [".", "0", " " * 1_000_000 + "x", "ـ"])
def test_one_visible_mark_anywhere_is_not_blank(text: str) -> None:
    result = examine_bytes(TEXT, text.encode())
    assert (result.outcome, result.blank) == (Outcome.OK, None)
