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


EAST_ASIAN = "日本語の文章です。\n" * 60


@each_row(
    ("data", "outcome"),
    [
        *((EAST_ASIAN.encode(codec), Outcome.OK) for codec in ("shift_jis", "euc_jp", "gb18030", "big5", "iso2022_jp")),
        (EAST_ASIAN.encode("utf-16-le"), Outcome.OK),
        (b"ends in the middle of caf\xe9", Outcome.OK),
        (b"\x1b[31mred\x1b[0m log\n", Outcome.OK),
        (b"page one\x0cpage two\n", Outcome.OK),
        (b"DOS\r\n\x1a", Outcome.OK),
        (b"a line\n\0another", Outcome.CORRUPT),
        (PROSE.encode() + bytes(4096), Outcome.CORRUPT),
        (bytes(range(1, 256)) * 9, Outcome.CORRUPT),
        (b"\xff\xfe\x00\xd8a\x00", Outcome.CORRUPT),
    ],
)
def test_bytes_that_text_cannot_contain_are_corrupt_and_unusual_text_passes(data: bytes, outcome: Outcome) -> None:
    assert examine_bytes(TEXT, data).outcome is outcome


@each_row("text", [" \t\r\n", "\ufeff  \n", "\u00a0\u2003\u3000", "\u200b\u200d\ufeff", "\u00ad\u2060"])
@each_row("encoding", ["utf-8", "utf-16", "utf-32-le"])
def test_text_without_visible_characters_is_blank(text: str, encoding: str) -> None:
    assert examine_bytes(TEXT, text.encode(encoding)).blank


@each_row("text", [".", "0", " " * 1_000_000 + "x", "ـ"])
def test_one_visible_mark_anywhere_is_not_blank(text: str) -> None:
    result = examine_bytes(TEXT, text.encode())
    assert (result.outcome, result.blank) == (Outcome.OK, None)
