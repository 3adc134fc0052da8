"""Two roles on PostgreSQL: the owner of the tables migrates, and the service works in a role that owns nothing."""

from pathlib import Path

import pytest

from sluice.db.migrate import newest
from tests.cli.commands import Sluice, sluice_in
from tests.servers.postgres import Postgres


@pytest.fixture
def urls(postgres: Postgres) -> tuple[str, str]:
    """A fresh database as its owner and as the service's role."""
    owner = postgres.createdb().replace("+asyncpg", "")
    return owner, postgres.for_service(owner)


@pytest.fixture
def service(tmp_path: Path, urls: tuple[str, str]) -> Sluice:
    """The command in the service's role alone."""
    return sluice_in(tmp_path / "service", DATABASE_URL=urls[1])


def test_the_services_role_is_told_who_has_to_migrate(service: Sluice) -> None:
    ended = service("init")
    assert ended.code == 3
    assert "SLUICE_MIGRATION_DATABASE_URL" in ended.complaint
    assert str(newest()) in ended.complaint


def test_once_the_owner_has_migrated_the_services_role_is_enough(service: Sluice, urls: tuple[str, str], tmp_path: Path) -> None:
    owner = sluice_in(tmp_path / "owner", DATABASE_URL=urls[1], MIGRATION_DATABASE_URL=urls[0])
    assert owner("migrate").out.strip() == f"Schema none became {newest()}."
    assert service("migrate").out.strip() == f"The database is at schema {newest()} already."
    made = service("init", "--json")
    assert made.code == 0, made.err
    assert service("tenants", "list", "--json").rows[0]["tenant_id"] == made.json["tenant_id"]


def test_the_doctor_says_whether_the_wall_stands(service: Sluice, urls: tuple[str, str], tmp_path: Path) -> None:
    alone = sluice_in(tmp_path / "alone", DATABASE_URL=urls[0])
    assert sluice_in(tmp_path / "owner", DATABASE_URL=urls[1], MIGRATION_DATABASE_URL=urls[0])("migrate").code == 0
    for sluice, wanted in ((service, "on"), (alone, "off")):
        engines = {engine["kind"]: engine for engine in sluice("doctor", "--json").json["engines"]}
        assert engines["database"]["limits"]["row_security"] == wanted
