"""`sluice secrets`: a new key for what is sealed at rest, without a restart, and however often it is cut off."""

import asyncio
import json
from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import text

from sluice.buckets import Bucket, repository
from sluice.buckets.service import secret_binding
from sluice.db.database import Database
from sluice.db.whose import EVERYBODY
from sluice.kit.cipher import CannotOpen
from sluice.kit.keyring_file import KeyringFile, add_key
from sluice.tenants.service import Tenants
from tests.cli.commands import Sluice


@pytest.fixture
def own(sluice: Sluice) -> Sluice:
    """A folder of its own that was set up: a rotation concerns everybody in it."""
    assert sluice("init", "--json").code == 0
    return sluice


def ring_of(sluice: Sluice) -> dict[str, Any]:
    ring: dict[str, Any] = json.loads((sluice.data_dir / "keys" / "buckets.json").read_text())
    return ring


def keyring(sluice: Sluice) -> KeyringFile:
    return KeyringFile(sluice.data_dir / "keys" / "buckets.json")


def keep_buckets(sluice: Sluice, count: int) -> list[Bucket]:
    """Put buckets into the database as the service does, without asking any store."""

    async def keep() -> list[Bucket]:
        database = Database(f"sqlite:///{sluice.data_dir / 'sluice.db'}")
        tenant_id = (await Tenants(database).create("Weir & Sons", "free")).tenant_id
        kept = [_bucket(sluice, tenant_id, number) for number in range(count)]
        async with database.transaction(EVERYBODY) as connection:
            for bucket in kept:
                await repository.add(connection, bucket)
        await database.aclose()
        return kept

    return asyncio.run(keep())


def _bucket(sluice: Sluice, tenant_id: str, number: int) -> Bucket:
    fields: dict[str, Any] = {
        "config_id": f"bkt_{number:026}",
        "tenant_id": tenant_id,
        "name": f"bucket {number}",
        "access_key_id": "A" * 16,
        "secret_sealed": "",
        "region": "us-east-1",
        "default_bucket": "bucket",
        "base_path": "",
        "endpoint_url": None,
        "is_active": True,
        "created_at": datetime.now(UTC),
        "updated_at": None,
    }
    binding = secret_binding(Bucket(**fields))
    return Bucket(**fields | {"secret_sealed": keyring(sluice).seal(f"secret {number}", bound_to=binding)})


def sealed_of(sluice: Sluice) -> dict[str, str]:
    async def read() -> dict[str, str]:
        database = Database(f"sqlite:///{sluice.data_dir / 'sluice.db'}")
        async with database.reading(EVERYBODY) as connection:
            rows = (await connection.execute(text("SELECT config_id, secret_sealed FROM storage_configs"))).all()
        await database.aclose()
        return {row.config_id: row.secret_sealed for row in rows}

    return asyncio.run(read())


def assert_all_open_with(sluice: Sluice, buckets: list[Bucket]) -> None:
    ring, sealed = keyring(sluice), sealed_of(sluice)
    for number, bucket in enumerate(buckets):
        assert ring.open(sealed[bucket.config_id], bound_to=secret_binding(bucket)) == f"secret {number}"
        assert ring.is_current(sealed[bucket.config_id])


@pytest.mark.asvs("13.3.4", "11.2.2")
def test_a_rotation_seals_everything_with_a_new_key(own: Sluice) -> None:
    buckets, before = keep_buckets(own, 3), ring_of(own)
    ended = own("secrets", "rotate")
    assert ended.code == 0, ended.err
    assert "sealed 3 secret(s)" in ended.out
    assert ring_of(own)["primary"] != before["primary"]
    assert before["keys"].items() < ring_of(own)["keys"].items()
    assert_all_open_with(own, buckets)


def test_the_old_keys_go_when_they_are_told_to(own: Sluice) -> None:
    buckets = keep_buckets(own, 2)
    old = buckets[0].secret_sealed
    own("secrets", "rotate")
    assert own("secrets", "retire").out == "Let go of 1 old key(s).\n"
    assert len(ring_of(own)["keys"]) == 1
    assert_all_open_with(own, buckets)
    with pytest.raises(CannotOpen):
        keyring(own).open(old, bound_to=secret_binding(buckets[0]))


@pytest.mark.asvs("13.3.4")
def test_a_rotation_that_was_cut_off_is_finished_without_another_key(own: Sluice) -> None:
    buckets = keep_buckets(own, 120)
    add_key(own.data_dir / "keys" / "buckets.json")  # as a command that died after its first step has left it
    assert own("secrets", "retire").complaint.startswith("120 secret(s) are still sealed with an old key")
    primary = ring_of(own)["primary"]
    ended = own("secrets", "rotate")
    assert f"Finished with the key {primary}: sealed 120 secret(s)" in ended.out
    assert ring_of(own)["primary"] == primary
    assert_all_open_with(own, buckets)


def test_retiring_without_an_old_key_changes_nothing(own: Sluice) -> None:
    before = ring_of(own)
    assert own("secrets", "retire").out == "There is no old key.\n"
    assert ring_of(own) == before


def test_no_key_is_ever_shown(own: Sluice) -> None:
    keep_buckets(own, 1)
    shown = [own("secrets", "rotate"), own("secrets", "retire")]
    keys = ring_of(own)["keys"].values()
    assert not [key for key in keys if any(key in ended.out + ended.err for ended in shown)]
