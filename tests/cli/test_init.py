"""`sluice init` and `sluice migrate`: a service set up once, and found again."""

import stat
from typing import Any

import pytest

from sluice.api_keys.service import ApiKeys
from sluice.db.database import Database
from sluice.db.migrate import newest
from tests.cli.commands import Sluice

FIELDS = {"tenant_id", "tenant_name", "plan", "api_key_id", "api_key", "created"}


async def holder_of(sluice: Sluice, api_key: str) -> tuple[str, set[str]]:
    """Answer the tenant and the scopes that the service would give whoever presents this key."""
    database = Database(f"sqlite:///{sluice.data_dir / 'sluice.db'}")
    try:
        principal = await ApiKeys(database).authenticate(api_key)
    finally:
        await database.aclose()
    return principal.tenant_id, {scope.value for scope in principal.scopes}


async def test_init_prints_a_tenant_and_an_admin_key_that_works(first: tuple[Sluice, dict[str, Any]]) -> None:
    sluice, made = first
    assert set(made) == FIELDS
    assert made["tenant_name"] == "default"
    assert made["plan"] == "unlimited"
    assert made["created"] is True
    assert await holder_of(sluice, made["api_key"]) == (made["tenant_id"], {"admin"})


@pytest.mark.asvs("13.3.2")
def test_init_makes_key_files_that_only_their_owner_can_read(ready: Sluice) -> None:
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (ready.data_dir / "keys").iterdir()}
    assert modes == {"buckets.json": 0o600, "links.hex": 0o600, "jwt.pem": 0o600}


@pytest.mark.asvs("6.3.2")
async def test_a_second_init_finds_the_tenant_and_gives_a_new_key(first: tuple[Sluice, dict[str, Any]]) -> None:
    sluice, made = first
    again = sluice("init", "--json").json
    assert again["tenant_id"] == made["tenant_id"]
    assert again["created"] is False
    assert again["api_key"] != made["api_key"]
    for key in (made["api_key"], again["api_key"]):
        assert (await holder_of(sluice, key))[0] == made["tenant_id"]


def test_init_makes_a_named_tenant_once(first: tuple[Sluice, dict[str, Any]]) -> None:
    sluice, made = first
    named = [sluice("init", "--name", "second", "--plan", "free", "--json").json for _ in range(2)]
    assert [one["created"] for one in named] == [True, False]
    assert named[0]["tenant_id"] == named[1]["tenant_id"] != made["tenant_id"]
    assert named[0]["plan"] == "free"


def test_init_gives_no_key_of_a_suspended_tenant(ready: Sluice) -> None:
    tenant_id = ready("init", "--name", "closed", "--json").json["tenant_id"]
    ready("tenants", "suspend", tenant_id)
    ended = ready("init", "--name", "closed", "--json")
    assert ended.code == 1
    assert ended.out == ""
    assert f"sluice tenants resume {tenant_id}" in ended.complaint


def test_init_tells_a_person_what_it_made(sluice: Sluice) -> None:
    ended = sluice("init")
    assert ended.code == 0
    assert ended.out.count("Keep a copy") == 3
    assert "sl_live_" in ended.out.splitlines()[-1]
    assert ended.err == ""


def test_migrate_says_from_where_to_where(sluice: Sluice) -> None:
    assert sluice("migrate").out == f"Schema none became {newest()}.\n"
    assert sluice("migrate").out == f"The database is at schema {newest()} already.\n"
