"""Plain text and Markdown: encodings, integrity and blankness."""

import io
from collections.abc import Iterable

from sluice_inspect.formats.text import MARKDOWN, TEXT
from sluice_inspect.inspection import inspect_file
from sluice_inspect.report import Finding, Outcome
from tests.inspection.formats.examining import Row, verdicts
from tests.inspection.formats.image_samples import encoded, plain_picture
from tests.rows import each_row

PROSE = "Grüße aus Köln: 12 € für jeden.\n" * 40
EAST_ASIAN = "日本語の文章です。\n" * 60


@verdicts(TEXT)
def test_text_passes_in_any_encoding_and_bytes_that_it_cannot_contain_are_corrupt() -> Iterable[Row]:
    for encoding in (
        "utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be", "cp1252",
        "iso8859_15", "cp500", "utf-7",
    ):  # fmt: skip
        yield encoding, PROSE.encode(encoding, "replace"), "ok"
    for line_end in ("\n", "\x85"):
        data = f"a short line{line_end}12, 34{line_end}".encode("cp037") * 100
        yield f"short lines in EBCDIC {line_end!r}", data, "ok"
        yield f"zeros in EBCDIC {line_end!r}", data[:500] + bytes(4096) + data[500:], "corrupt"
    for codec in ("shift_jis", "euc_jp", "gb18030", "big5", "iso2022_jp", "utf-16-le"):
        yield codec, EAST_ASIAN.encode(codec), "ok"
    yield "ends in the middle", b"ends in the middle of caf\xe9", "ok"
    yield "colours", b"\x1b[31mred\x1b[0m log\n", "ok"
    yield "pages", b"page one\x0cpage two\n", "ok"
    yield "DOS", b"DOS\r\n\x1a", "ok"
    yield "zero", b"a line\n\0another", "corrupt"
    yield "zeros", PROSE.encode() + bytes(4096), "corrupt"
    yield "all bytes", bytes(range(1, 256)) * 9, "corrupt"
    yield "half a pair of UTF-16", b"\xff\xfe\x00\xd8a\x00", "corrupt"


@verdicts(TEXT)
def test_text_is_blank_without_a_visible_mark() -> Iterable[Row]:
    for text in (" \t\r\n", "\ufeff  \n", "\u00a0\u2003\u3000", "\u200b\u200d\ufeff", "\u00ad\u2060"):
        for encoding in ("utf-8", "utf-16", "utf-32-le"):
            yield f"{text!r} {encoding}", text.encode(encoding), "blank"
    for text in (".", "0", " " * 1_000_000 + "x", "ـ"):
        yield text[-9:], text.encode(), "ok"


@verdicts(MARKDOWN)
def test_markdown_is_blank_without_a_visible_mark() -> Iterable[Row]:
    for text in (" \r\n\t", "\ufeff", "\u200b\u00a0\n"):
        yield repr(text), text.encode(), "blank"
    yield "dash", b"\n" * 100_000 + b"-", "ok"


@each_row("text", ["# Title\n\nWords.\n", "<!DOCTYPE html><html><p>x</p></html>", "no mark at all", "caf\xe9"])
@each_row("encoding", ["utf-8", "utf-16", "cp1252"])
def test_any_text_is_markdown_and_a_picture_is_none(text: str, encoding: str) -> None:
    report = inspect_file(io.BytesIO(text.encode(encoding)), filename="a.md")
    assert (report.outcome, report.finding, report.format) == (Outcome.OK, None, "md")
    picture = io.BytesIO(encoded(plain_picture(), "PNG"))
    assert inspect_file(picture, filename="a.md").finding is Finding.TYPE_MISMATCH
