"""Untrusted names in the output of commands: control and format characters are escaped; JSON is exact."""

import json
import sys
import unicodedata
from functools import cache

import pytest

from sluice_client.cli import output
from tests.rows import each_row


def is_hidden(character: str) -> bool:
    return character != "\n" and unicodedata.category(character) in {"Cc", "Cf", "Zl", "Zp"}


@cache
def format_characters() -> list[str]:
    return [chr(code) for code in range(sys.maxunicode + 1) if unicodedata.category(chr(code)) == "Cf"]


@each_row("character", format_characters)
def test_format_character_is_escaped_in_all_text_output(character: str, capsys: pytest.CaptureFixture[str]) -> None:
    name = f"a{character}b"
    output.line(f"The file {name} is released.")
    output.table(("name",), [(name,)])
    output.complain(f"There is no tenant {name}.")
    printed = capsys.readouterr()
    escaped = character.encode("unicode_escape").decode("ascii")
    assert printed.out.count(f"a{escaped}b") == 2
    assert printed.err == f"sluice: There is no tenant a{escaped}b.\n"
    assert character not in printed.out + printed.err


@each_row("hidden", ["\n", "\r", "\x1b[31m", "\x7f", "\x9b", "\u2028"])
def test_control_character_cannot_start_a_new_line(hidden: str, capsys: pytest.CaptureFixture[str]) -> None:
    output.line(f"a{hidden}b")
    printed = capsys.readouterr().out
    assert printed.count("\n") == 1
    assert not any(is_hidden(character) for character in printed)


def test_json_output_preserves_strings_exactly(capsys: pytest.CaptureFixture[str]) -> None:
    names = ["in\u200bvoice\u2066\u202efdp.txt", *format_characters(), "a\x7fb\nc\\u202e"]
    output.as_json(names)
    printed = capsys.readouterr().out
    assert json.loads(printed) == names
    assert printed.isascii()
