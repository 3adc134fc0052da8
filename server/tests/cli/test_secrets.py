"""`sluice secrets`: rotate the key of sealed secrets without a restart, and resume after interruptions."""

import asyncio
import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jwt
import pytest
from sqlalchemy import text
from standardwebhooks import Webhook

from sluice.buckets import Bucket, repository
from sluice.buckets.service import secret_binding
from sluice.db.database import Database
from sluice.db.rls import ALL_TENANTS
from sluice.identity.local import load_local_key
from sluice.kit.cipher import CannotOpen
from sluice.kit.keyring_file import KeyringFile, add_key, keyring_line, parse_keyring
from sluice.storage import S3Settings
from sluice.tenants.service import Tenants
from tests.api.responses import data
from tests.cli.commands import Sluice
from tests.deployments import Deployments
from tests.events.receiver import running_receiver
from tests.service import running_service


@pytest.fixture
def isolated(sluice: Sluice) -> Sluice:
    """The command in an initialized folder of its own, because a rotation affects every tenant in it."""
    assert sluice("init", "--json").code == 0
    return sluice


def keyring_file(sluice: Sluice) -> Path:
    return sluice.data_dir / "keys" / "buckets.json"


def keyring_content(sluice: Sluice) -> dict[str, Any]:
    ring: dict[str, Any] = json.loads(keyring_file(sluice).read_text())
    return ring


def store_buckets(sluice: Sluice, count: int) -> list[Bucket]:
    """Insert buckets into the database as the service does, without contacting a store."""

    async def store() -> list[Bucket]:
        database = Database(f"sqlite:///{sluice.data_dir / 'sluice.db'}")
        tenant_id = (await Tenants(database).create("Weir & Sons", "free")).tenant_id
        buckets = [_bucket(sluice, tenant_id, number) for number in range(count)]
        async with database.transaction(ALL_TENANTS) as connection:
            for bucket in buckets:
                await repository.add(connection, bucket)
        await database.aclose()
        return buckets

    return asyncio.run(store())


def _bucket(sluice: Sluice, tenant_id: str, number: int) -> Bucket:
    names = {"config_id": f"bkt_{number:026}", "tenant_id": tenant_id, "name": f"bucket {number}"}
    place = {"settings": S3Settings("A" * 16, "us-east-1"), "default_bucket": "bucket", "base_path": ""}
    dates = {"is_active": True, "created_at": datetime.now(UTC), "updated_at": None}
    fields: dict[str, Any] = names | place | dates | {"secret_sealed": ""}
    binding = secret_binding(Bucket(**fields))
    sealed = KeyringFile(keyring_file(sluice)).seal(f"secret {number}", bound_to=binding)
    return Bucket(**fields | {"secret_sealed": sealed})


def sealed_secrets(sluice: Sluice) -> dict[str, str]:
    async def read() -> dict[str, str]:
        database = Database(f"sqlite:///{sluice.data_dir / 'sluice.db'}")
        async with database.reading(ALL_TENANTS) as connection:
            rows = (await connection.execute(text("SELECT config_id, secret_sealed FROM storage_configs"))).all()
        await database.aclose()
        return {row.config_id: row.secret_sealed for row in rows}

    return asyncio.run(read())


def assert_current_key_opens(sluice: Sluice, buckets: list[Bucket]) -> None:
    ring, sealed = KeyringFile(keyring_file(sluice)), sealed_secrets(sluice)
    for number, bucket in enumerate(buckets):
        assert ring.open(sealed[bucket.config_id], bound_to=secret_binding(bucket)) == f"secret {number}"
        assert ring.is_current(sealed[bucket.config_id])


@pytest.mark.asvs("13.3.4", "11.2.2")
def test_rotate_seals_every_secret_with_a_new_key(isolated: Sluice) -> None:
    buckets, before = store_buckets(isolated, 3), keyring_content(isolated)
    result = isolated("secrets", "rotate")
    assert result.code == 0, result.err
    assert "sealed 3 secret(s)" in result.out
    assert keyring_content(isolated)["primary"] != before["primary"]
    assert before["keys"].items() < keyring_content(isolated)["keys"].items()
    assert_current_key_opens(isolated, buckets)


def test_retire_removes_the_old_keys_and_prints_none(isolated: Sluice) -> None:
    buckets = store_buckets(isolated, 2)
    rotated, retired = isolated("secrets", "rotate"), isolated("secrets", "retire")
    assert retired.out == "Removed 1 old key(s).\n"
    left = keyring_content(isolated)
    (key,) = left["keys"].values()
    assert key not in rotated.out + rotated.err + retired.out + retired.err
    assert_current_key_opens(isolated, buckets)
    with pytest.raises(CannotOpen):
        KeyringFile(keyring_file(isolated)).open(buckets[0].secret_sealed, bound_to=secret_binding(buckets[0]))
    assert isolated("secrets", "retire").out == "There is no old key.\n"
    assert keyring_content(isolated) == left


@pytest.mark.asvs("13.3.4")
def test_rotate_resumes_an_interrupted_rotation_without_adding_a_key(isolated: Sluice) -> None:
    buckets = store_buckets(isolated, 120)
    # The state after a command that was killed after its first step.
    add_key(keyring_file(isolated))
    assert isolated("secrets", "retire").error_line.startswith("120 secret(s) are still sealed with an old key")
    primary = keyring_content(isolated)["primary"]
    result = isolated("secrets", "rotate")
    assert f"Finished with the key {primary}: sealed 120 secret(s)" in result.out
    assert keyring_content(isolated)["primary"] == primary
    assert_current_key_opens(isolated, buckets)


@pytest.mark.asvs("13.3.4")
def test_a_keyring_of_the_environment_replaces_the_file_and_is_rotated_by_its_owner(isolated: Sluice) -> None:
    buckets = store_buckets(isolated, 2)
    first = isolated.with_settings(KEYRING=isolated("secrets", "keyring").out)
    (keyring_file(isolated)).unlink()
    assert first("secrets", "retire").out == "There is no old key.\n"
    second = isolated.with_settings(KEYRING=first("secrets", "keyring", "--new-key").out)
    assert second("secrets", "retire").error_line.startswith("2 secret(s) are still sealed with an old key")
    primary = json.loads(second.settings["KEYRING"])["primary"]
    assert second("secrets", "rotate").out.startswith(f"Finished with the key {primary}: sealed 2 secret(s) with it.")
    said, left = second("secrets", "retire").out.splitlines()
    assert said == "Nothing is sealed with 1 old key(s). Start all servers with this SLUICE_KEYRING:"
    assert set(json.loads(left)["keys"]) == {primary}
    ring, sealed = parse_keyring("it", left), sealed_secrets(isolated)
    opened = [ring.open(sealed[bucket.config_id], bound_to=secret_binding(bucket)) for bucket in buckets]
    assert opened == ["secret 0", "secret 1"]
    assert not (keyring_file(isolated)).exists()


def test_init_makes_no_keyring_file_beside_one_of_the_environment_or_a_file_that_it_names(sluice: Sluice) -> None:
    printed = sluice("secrets", "keyring").out
    ring = parse_keyring("it", printed)
    assert ring.key_ids == {ring.primary}
    assert not sluice.data_dir.exists()
    assert sluice.with_settings(KEYRING=printed)("init").code == 0
    names = [path.name for path in (sluice.data_dir / "keys").iterdir()]
    assert sorted(names) == ["jwt.pem", "links.hex", "receipts.json"]
    path = sluice.folder / "keyring"
    path.write_text(printed)
    path.chmod(0o400)
    named = sluice.with_settings(KEYRING_FILE=str(path))
    assert named("init").code == 0
    assert named("secrets", "keyring").out == printed
    assert not keyring_file(sluice).exists()


def test_servers_with_data_folders_of_their_own_share_a_keyring(deployments: Deployments, tmp_path: Path) -> None:
    shared = {"KEYRING": keyring_line("it", None), "WEBHOOK_HOSTS": "127.0.0.1"}
    first = deployments.fresh("postgres-local")
    first = replace(first, settings=dict(first.settings) | shared)
    second = replace(first, folder=tmp_path)
    with (
        running_receiver() as receiver,
        running_service(first, WORKER_INSIDE="false") as seals,
        running_service(second, WORKER_INSIDE="true"),
    ):
        client = seals.new_client()
        body = {"url": receiver.url, "events": ["api_key.created"]}
        endpoint = data(client.post("/webhook-endpoints", body), 201)
        client.create_key("upload")
        (got,) = receiver.wait_for(1)
        assert Webhook(endpoint["secret"]).verify(got.body, got.headers)["type"] == "api_key.created"
    assert not [path for one in (first, second) for path in one.data_dir.rglob("keys/buckets.json")]


@pytest.mark.asvs("13.3.1")
def test_secrets_of_the_environment_replace_every_file_of_another_machine(isolated: Sluice, tmp_path: Path) -> None:
    assert isolated("init").code == 0
    keys = isolated.data_dir / "keys"
    names = {"KEYRING": "buckets.json", "LINK_SECRET": "links.hex", "RECEIPT_KEYS": "receipts.json"}
    held = {setting: (keys / name).read_text() for setting, name in names.items()}
    other = isolated.with_settings(**held, SIGNING_KEY_FILE=str(keys / "jwt.pem"), DATA_DIR=str(tmp_path / "other"))
    tenant_id = other("init", "--json").json["tenant_id"]
    assert list((tmp_path / "other" / "keys").iterdir()) == []
    secrets = next(one for one in other("doctor", "--json").json["engines"] if one["kind"] == "secrets")
    assert secrets["state"] == "up"
    token = other("token", "--tenant", tenant_id, "--subject", "ada", "--scope", "upload")
    assert token.code == 0, token.err
    public = load_local_key(keys / "jwt.pem").public
    assert (
        jwt.decode(token.out.strip(), public, algorithms=["EdDSA"], options={"verify_aud": False})["tenant_id"]
        == tenant_id
    )
    said, line = other("receipts", "rotate").out.splitlines()
    assert said == "Start all servers with this SLUICE_RECEIPT_KEYS:"
    assert json.loads(line)["keys"][:1] == json.loads(held["RECEIPT_KEYS"])["keys"]
    damaged = other.with_settings(LINK_SECRET="7f")("serve")
    assert damaged.err.endswith("The secret SLUICE_LINK_SECRET does not hold 32 bytes in hex.\n")
