import pytest

from sluice.formats.kinds.text import KIND
from sluice.formats.verdict import Outcome
from tests.formats.judging import corpus, judge, needs_corpus

PROSE = "Grüße aus Köln: 12 € für jeden.\n" * 40


@pytest.mark.parametrize(
    "encoding",
    [
        "utf-8",
        "utf-8-sig",
        "utf-16",
        "utf-16-le",
        "utf-16-be",
        "utf-32",
        "utf-32-le",
        "utf-32-be",
        "cp1252",
        "iso8859_15",
        "cp500",
        "utf-7",
    ],
)
def test_text_passes_in_any_encoding(encoding: str) -> None:
    judged = judge(KIND, PROSE.encode(encoding, "replace"))
    assert judged.outcome is Outcome.OK
    assert judged.blank is None


@pytest.mark.parametrize("encoding", ["shift_jis", "euc_jp", "gb18030", "big5", "iso2022_jp", "utf-16-le"])
def test_east_asian_text_passes(encoding: str) -> None:
    assert judge(KIND, ("日本語の文章です。\n" * 60).encode(encoding)).outcome is Outcome.OK


@pytest.mark.parametrize(
    "text", [b"ends in the middle of caf\xe9", b"\x1b[31mred\x1b[0m log\n", b"page one\x0cpage two\n", b"DOS\r\n\x1a"]
)
def test_odd_but_ordinary_text_passes(text: bytes) -> None:
    assert judge(KIND, text).outcome is Outcome.OK


@pytest.mark.parametrize(
    "data", [b"a line\n\0another", PROSE.encode() + bytes(4096), bytes(range(1, 256)) * 9, b"\xff\xfe\x00\xd8a\x00"]
)
def test_what_text_cannot_hold_is_corrupt(data: bytes) -> None:
    assert judge(KIND, data).outcome is Outcome.CORRUPT


@pytest.mark.parametrize("text", [" \t\r\n", "\ufeff  \n", "\u00a0\u2003\u3000", "\u200b\u200d\ufeff", "\u00ad\u2060"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-32-le"])
def test_text_without_a_mark_is_blank(text: str, encoding: str) -> None:
    assert judge(KIND, text.encode(encoding)).blank


@pytest.mark.parametrize("text", [".", "0", " " * 1_000_000 + "x", "ـ"])
def test_one_mark_is_content_wherever_it_stands(text: str) -> None:
    judged = judge(KIND, text.encode())
    assert judged.outcome is Outcome.OK
    assert judged.blank is None


@needs_corpus
def test_the_intact_files_of_the_corpus_pass() -> None:
    assert [
        path.name for path in corpus("txt", "valid", "not_blank") if judge(KIND, path.read_bytes()).outcome is not Outcome.OK
    ] == []
