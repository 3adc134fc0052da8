"""Untrusted names in terminal output: control and format characters are escaped; JSON is exact."""

import json
import re
import sys
import unicodedata
from contextlib import aclosing
from functools import cache
from pathlib import Path

import pytest

from sluice.db.database import Database
from sluice.tenants.service import Tenants
from sluice_client.cli import output
from tests.api.samples import TEXT
from tests.cli.commands import Sluice
from tests.rows import each_row

HOSTILE_NAME = "in\u200bvoice\u2066\u202efdp.txt"
ESCAPED_NAME = "in\\u200bvoice\\u2066\\u202efdp.txt"


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
    names = [HOSTILE_NAME, *format_characters(), "a\x7fb\nc\\u202e"]
    output.as_json(names)
    printed = capsys.readouterr().out
    assert json.loads(printed) == names
    assert printed.isascii()


def test_check_escapes_file_names_in_the_table(sluice: Sluice, tmp_path: Path) -> None:
    (tmp_path / HOSTILE_NAME).write_bytes(TEXT)
    result = sluice("check", tmp_path)
    assert result.code == 0
    assert ESCAPED_NAME in result.out
    assert not any(is_hidden(character) for character in result.out)
    assert [Path(row["path"]).name for row in sluice("check", "--json", tmp_path).rows] == [HOSTILE_NAME]


async def test_init_and_tenants_list_escape_the_tenant_name(sluice: Sluice) -> None:
    assert sluice("migrate").code == 0
    async with aclosing(Database(f"sqlite:///{sluice.data_dir / 'sluice.db'}")) as database:
        await Tenants(database).create(HOSTILE_NAME, "free")
    for arguments in (("init",), ("tenants", "list")):
        result = sluice(*arguments)
        assert result.code == 0
        assert ESCAPED_NAME in result.out
        assert not any(is_hidden(character) for character in result.out), arguments
    assert sluice("init", "--json").json["tenant_name"] == HOSTILE_NAME
    assert sluice("tenants", "list", "--json").rows[0]["name"] == HOSTILE_NAME
    assert re.fullmatch(r"Found the tenant ten_\w+ \(.*, plan free\)\.", sluice("init").out.splitlines()[0])
