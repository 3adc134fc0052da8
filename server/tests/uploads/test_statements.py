"""The SQL of the upload path on both databases: values are read back typed, and every changed version is noticed."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import insert, select, text

from sluice.access import Principal, Scope
from sluice.buckets.repository import settings_columns
from sluice.db.database import Database
from sluice.db.rls import ALL_TENANTS
from sluice.db.schema import api_keys, contexts, default_buckets, files, storage_configs
from sluice.idempotency_keys import KeyClaim
from sluice.idempotency_keys import repository as key_rows
from sluice.idempotency_keys.key_claim import EarlierUpload
from sluice.storage import S3Settings
from sluice.uploads import repository
from sluice.uploads.values import PendingFile
from tests.uploads.rows import LONG_AGO, pending

HOUR = timedelta(hours=1)
CHANGED = datetime(2021, 5, 6, 7, 8, 9, 123456, tzinfo=UTC)
S3 = S3Settings("A", "r")
BUCKET = (
    {"config_id": "bkt_1", "tenant_id": "ten_1", "name": "first", "secret_sealed": "s"}
    | {"default_bucket": "b", "base_path": "p", "is_active": True}
    | {"created_at": LONG_AGO, "updated_at": CHANGED}
)
KEY = (
    {"api_key_id": "key_1", "tenant_id": "ten_1", "secret_hash": b"x" * 32, "key_prefix": "sl_live_1", "mode": "live"}
    | {"name": "k", "scopes": ["upload"], "status": "active", "metadata": {}}
    | {"created_at": LONG_AGO, "updated_at": CHANGED, "expires_at": LONG_AGO + HOUR}
)


@pytest.fixture
async def database(database: Database) -> Database:
    """A tenant with a context, a default bucket and a key."""
    async with database.transaction(ALL_TENANTS) as connection:
        await connection.execute(insert(storage_configs).values({**BUCKET, **settings_columns(S3)}))
        await connection.execute(insert(default_buckets).values(tenant_id="ten_1", config_id="bkt_1"))
        await connection.execute(insert(api_keys).values(KEY))
    return database


def _by_key(number: int) -> PendingFile:
    """Return a file whose versions are those of the bucket and the key in the database."""
    file = pending(number, HOUR)
    uploader = Principal("ten_1", "key_1", "k", frozenset({Scope.UPLOAD}), "api_key", key_id="key_1")
    versions = replace(file.versions, bucket_changed_at=CHANGED, key_changed_at=CHANGED)
    return replace(file, storage_config_id="bkt_1", uploader=uploader, versions=versions)


async def _used(database: Database) -> tuple[int, list[str]]:
    async with database.reading(ALL_TENANTS) as connection:
        used = (await connection.execute(select(contexts.c.storage_used_bytes))).scalar_one()
        return used, sorted((await connection.execute(select(files.c.file_id))).scalars())


async def test_a_snapshot_holds_context_bucket_and_plan(database: Database) -> None:
    found = await repository.load_snapshot(database, "ten_1", "papers")
    assert found is not None
    assert found.bucket is not None
    assert {name: getattr(found.bucket, name) for name in BUCKET} == BUCKET
    assert found.bucket.settings == S3
    assert found.bucket.is_default is True
    assert (found.context.created_at, found.context.reject_blank_files) == (LONG_AGO, False)
    assert (found.plan, found.usage.plan_uploads) == ("free", 0)
    assert abs(found.usage.at - datetime.now(UTC)) < timedelta(seconds=5)
    assert await repository.load_snapshot(database, "ten_1", "others") is None


async def test_an_unchanged_snapshot_is_reserved_for_a_key_and_for_a_user(database: Database) -> None:
    by_key = _by_key(1)
    by_user = replace(by_key, file_id="file_2", uploader=pending(2, HOUR).uploader)
    for file in (by_key, by_user):
        assert await repository.reserve(database, file, None)
    assert await _used(database) == (6, ["file_1", "file_2"])


@pytest.mark.parametrize(
    ("change", "for_user"),
    [
        ("UPDATE contexts SET status = 'inactive'", True),
        ("UPDATE contexts SET rules_version = 2", True),
        ("UPDATE storage_configs SET updated_at = created_at", True),
        ("UPDATE storage_configs SET updated_at = NULL", True),
        ("DELETE FROM default_buckets", True),
        ("UPDATE tenants SET plan = 'unlimited'", True),
        ("UPDATE tenants SET status = 'suspended'", True),
        ("UPDATE api_keys SET status = 'revoked'", False),
        ("UPDATE api_keys SET updated_at = NULL", False),
        ("UPDATE api_keys SET expires_at = created_at", False),
    ],
)
async def test_reserve_fails_after_any_change_of_the_caller(database: Database, change: str, *, for_user: bool) -> None:
    async with database.transaction(ALL_TENANTS) as connection:
        await connection.execute(text(change))
    by_key = _by_key(1)
    assert not await repository.reserve(database, by_key, None)
    by_user = replace(by_key, uploader=pending(1, HOUR).uploader)
    assert await repository.reserve(database, by_user, None) is not for_user
    assert await _used(database) == ((0, []) if for_user else (3, ["file_1"]))


async def test_reserve_needs_the_idempotency_key_of_the_upload_and_its_row_names_the_file(database: Database) -> None:
    claims = [KeyClaim("ten_1", key * 64, "f" * 64, "rep_1", HOUR) for key in "ab"]
    assert [await key_rows.add(database, claim) for claim in (*claims, replace(claims[0], report_id="rep_2"))] == [
        True,
        True,
        False,
    ]
    lost = replace(claims[1], report_id="rep_2")
    taken = [await repository.reserve(database, _by_key(n), claim) for n, claim in enumerate((claims[0], lost))]
    assert taken == [True, False]
    assert await _used(database) == (3, ["file_0"])
    async with database.transaction("ten_1") as connection:
        held = [await key_rows.lock(connection, claim) for claim in claims]
    assert held == [
        EarlierUpload("f" * 64, "rep_1", may_run=True, is_expired=False, file_state=state)
        for state in ("pending", None)
    ]


async def test_concurrent_reservations_succeed_or_fail_each_by_its_own_versions(database: Database) -> None:
    """On PostgreSQL the later files are one batch, in which the latest one decides whether the key has expired."""
    late = replace(_by_key(9), created_at=LONG_AGO + HOUR)
    done = await asyncio.gather(*(repository.reserve(database, file, None) for file in (*map(_by_key, range(4)), late)))
    assert done == [True] * 4 + [False]
    assert await _used(database) == (12, [f"file_{number}" for number in range(4)])
