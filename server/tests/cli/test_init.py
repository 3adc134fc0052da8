"""`sluice init` and `sluice migrate`: set up a service, and run again on an existing one."""

import json
import sqlite3
import stat
from contextlib import aclosing
from typing import Any

import pytest

from sluice.api_keys.service import ApiKeys
from sluice.db.database import Database
from sluice.db.migrate import newest
from tests.cli.commands import Sluice

FIELDS = {"tenant_id", "tenant_name", "plan", "api_key_id", "api_key", "created"}


async def principal_of(sluice: Sluice, api_key: str) -> tuple[str, set[str]]:
    """Return the tenant id and the scopes of the principal that the key authenticates."""
    async with aclosing(Database(f"sqlite:///{sluice.data_dir / 'sluice.db'}")) as database:
        principal = (await ApiKeys(database).authenticate(api_key)).value
    return principal.tenant_id, {scope.value for scope in principal.scopes}


async def test_init_prints_a_tenant_and_a_valid_admin_key(initialized: tuple[Sluice, dict[str, Any]]) -> None:
    sluice, created = initialized
    assert set(created) == FIELDS
    assert (created["tenant_name"], created["plan"], created["created"]) == ("default", "unlimited", True)
    assert await principal_of(sluice, created["api_key"]) == (created["tenant_id"], {"admin"})


@pytest.mark.asvs("13.3.2")
def test_init_creates_key_files_with_mode_0600(ready: Sluice) -> None:
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (ready.data_dir / "keys").iterdir()}
    assert modes == {"buckets.json": 0o600, "links.hex": 0o600, "jwt.pem": 0o600, "receipts.json": 0o600}


@pytest.mark.asvs("6.3.2")
async def test_second_init_with_new_key_reuses_the_tenant_and_creates_another_key(
    initialized: tuple[Sluice, dict[str, Any]],
) -> None:
    sluice, created = initialized
    second = sluice("init", "--new-key", "--json").json
    assert (second["tenant_id"], second["created"]) == (created["tenant_id"], False)
    assert second["api_key"] != created["api_key"]
    for key in (created["api_key"], second["api_key"]):
        assert (await principal_of(sluice, key))[0] == created["tenant_id"]


def test_second_init_creates_no_key_and_says_how_to_get_one(initialized: tuple[Sluice, dict[str, Any]]) -> None:
    sluice, created = initialized
    before = len(sluice("keys", "list", "--tenant", created["tenant_id"], "--json").rows)
    second = sluice("init", "--json").json
    assert (second["tenant_id"], second["api_key_id"], second["api_key"]) == (created["tenant_id"], None, None)
    assert "sluice init --new-key" in sluice("init").out.splitlines()[-1]
    assert len(sluice("keys", "list", "--tenant", created["tenant_id"], "--json").rows) == before


def test_init_prints_files_and_key_and_makes_another_when_that_is_revoked(sluice: Sluice) -> None:
    result = sluice("init")
    assert (result.code, result.err, result.out.count("Keep a copy")) == (0, "", 4)
    assert "sl_live_" in result.out.splitlines()[-1]
    tenant_id = sluice("tenants", "list", "--json").rows[0]["tenant_id"]
    (key,) = sluice("keys", "list", "--tenant", tenant_id, "--json").rows
    assert sluice("keys", "revoke", "--tenant", tenant_id, key["api_key_id"], "--yes").code == 0
    assert sluice("init", "--json").json["api_key"].startswith("sl_live_")


def test_init_creates_a_named_tenant_once(initialized: tuple[Sluice, dict[str, Any]]) -> None:
    sluice, created = initialized
    results = [sluice("init", "--name", "second", "--plan", "free", "--json").json for _ in range(2)]
    assert [result["created"] for result in results] == [True, False]
    assert results[0]["tenant_id"] == results[1]["tenant_id"] != created["tenant_id"]
    assert results[0]["plan"] == "free"


def test_init_creates_no_key_for_a_suspended_tenant(ready: Sluice) -> None:
    tenant_id = ready("init", "--name", "closed", "--json").json["tenant_id"]
    ready("tenants", "suspend", tenant_id)
    result = ready("init", "--name", "closed", "--json")
    assert (result.code, result.out) == (1, "")
    assert f"sluice tenants resume {tenant_id}" in json.loads(result.err)["error"]


def test_migrate_prints_the_previous_and_current_schema_version(sluice: Sluice) -> None:
    assert sluice("migrate").out == f"Schema none became {newest()}.\n"
    assert sluice("migrate").out == f"The database is at schema {newest()} already.\n"


def test_database_from_before_the_first_release_is_refused_with_what_it_lacks(ready: Sluice) -> None:
    with sqlite3.connect(ready.data_dir / "sluice.db") as connection:
        for column in ("provider", "settings"):
            connection.execute(f"ALTER TABLE storage_configs DROP COLUMN {column}")
    result = ready("migrate")
    assert result.code == 1
    assert result.error_line.startswith("The database lacks storage_configs.provider, storage_configs.settings: ")
    assert "UPGRADING.md" in result.error_line
