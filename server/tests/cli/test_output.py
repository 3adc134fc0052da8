"""Untrusted names in what the commands of the server print: control and format characters are escaped."""

import re
import unicodedata
from contextlib import aclosing
from pathlib import Path

from sluice.db.database import Database
from sluice.tenants.service import Tenants
from tests.api.samples import TEXT
from tests.cli.commands import Sluice

HOSTILE_NAME = "in\u200bvoice\u2066\u202efdp.txt"
ESCAPED_NAME = "in\\u200bvoice\\u2066\\u202efdp.txt"


def is_hidden(character: str) -> bool:
    return character != "\n" and unicodedata.category(character) in {"Cc", "Cf", "Zl", "Zp"}


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
