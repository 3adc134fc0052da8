"""Two roles on PostgreSQL: the table owner migrates, and the service uses a role that owns no table."""

from pathlib import Path

import pytest

from sluice.db.migrate import newest
from tests.cli.commands import Sluice, sluice_in
from tests.servers.postgres import Postgres


@pytest.fixture
def urls(postgres: Postgres) -> tuple[str, str]:
    """The URLs of a new database for its owner and for the service role."""
    owner = postgres.createdb().replace("+asyncpg", "")
    return owner, postgres.for_service(owner)


@pytest.fixture
def service(tmp_path: Path, urls: tuple[str, str]) -> Sluice:
    """The command with the service role only."""
    return sluice_in(tmp_path / "service", DATABASE_URL=urls[1])


def test_init_in_the_service_role_names_the_migration_setting(service: Sluice) -> None:
    result = service("init")
    assert result.code == 1
    assert "SLUICE_MIGRATION_DATABASE_URL" in result.error_line
    assert str(newest()) in result.error_line


def test_service_initializes_a_database_of_the_owner(service: Sluice, urls: tuple[str, str], tmp_path: Path) -> None:
    owner = sluice_in(tmp_path / "owner", DATABASE_URL=urls[1], MIGRATION_DATABASE_URL=urls[0])
    assert owner("migrate").out.strip() == f"Schema none became {newest()}."
    assert service("migrate").out.strip() == f"The database is at schema {newest()} already."
    created = service("init", "--json")
    assert created.code == 0, created.err
    assert service("tenants", "list", "--json").rows[0]["tenant_id"] == created.json["tenant_id"]


def test_doctor_says_if_row_level_security_is_active(service: Sluice, urls: tuple[str, str], tmp_path: Path) -> None:
    unrestricted = sluice_in(tmp_path / "alone", DATABASE_URL=urls[0])
    assert sluice_in(tmp_path / "owner", DATABASE_URL=urls[1], MIGRATION_DATABASE_URL=urls[0])("migrate").code == 0
    for sluice, expected in ((service, "on"), (unrestricted, "off")):
        engines = {engine["kind"]: engine for engine in sluice("doctor", "--json").json["engines"]}
        assert engines["database"]["limits"]["row_security"] == expected
