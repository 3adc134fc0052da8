"""The files that an upload token may store: claimed with the reservation, and given back if nothing is stored."""

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import insert, select, update

from sluice.access import UploadPermit
from sluice.db.database import Database
from sluice.db.rls import ALL_TENANTS
from sluice.db.schema import cors_origins, upload_tokens
from sluice.errors import TokenSpent, Unauthenticated
from sluice.files import lifecycle
from sluice.upload_tokens.repository import claim_attempt, delete_expired
from sluice.uploads.values import PendingFile
from tests.uploads.rows import LONG_AGO, pending, reserve

HOUR = timedelta(hours=1)
PERMIT = UploadPermit("utk_1", "papers", max_bytes=None, allowed_extensions=(), metadata={})


@pytest.fixture
async def database(database: Database) -> Database:
    """A database with a token for three files."""
    ids = {"token_id": "utk_1", "tenant_id": "ten_1", "token_prefix": "ut_live_1", "secret_hash": b"x", "mode": "live"}
    lists: dict[str, Any] = {"allowed_extensions": [], "allowed_origins": [], "methods": [], "metadata": {}}
    numbers = {"max_files": 3, "files_claimed": 0, "attempts": 0}
    origin = {"created_by": "key_1", "created_at": LONG_AGO, "expires_at": LONG_AGO + HOUR}
    async with database.transaction(ALL_TENANTS) as connection:
        row = ids | lists | numbers | origin | {"context_key": "papers"}
        await connection.execute(insert(upload_tokens).values(row))
    return database


def with_token(number: int, *, counts: bool = False) -> PendingFile:
    file = pending(number, HOUR, counts=counts)
    return replace(file, uploader=replace(file.uploader, permit=PERMIT))


async def claimed(database: Database) -> int:
    async with database.reading(ALL_TENANTS) as connection:
        return int((await connection.execute(select(upload_tokens.c.files_claimed))).scalar_one())


@pytest.mark.parametrize("counts", [False, True], ids=["of no plan", "of a plan"])
async def test_64_parallel_claims_of_three_files_give_three(database: Database, *, counts: bool) -> None:
    files = [with_token(number, counts=counts) for number in range(64)]
    claims = await asyncio.gather(*(reserve(file, database, free_limit=500) for file in files), return_exceptions=True)
    assert (claims.count(None), sum(isinstance(claim, TokenSpent) for claim in claims)) == (3, 61)
    assert await claimed(database) == 3


async def test_file_that_was_not_stored_is_given_back_once(database: Database) -> None:
    for number, end in enumerate((lifecycle.release, lifecycle.fence)):
        await reserve(with_token(number), database, free_limit=5)
        assert await claimed(database) == 1
        for _ in range(2):
            async with database.transaction("ten_1") as connection:
                await end(connection, "ten_1", f"file_{number}")
        assert await claimed(database) == 0


async def test_file_of_another_caller_and_a_revoked_token_claim_nothing(database: Database) -> None:
    await reserve(pending(1, HOUR), database, free_limit=5)
    assert await claimed(database) == 0
    async with database.transaction(ALL_TENANTS) as connection:
        await connection.execute(update(upload_tokens).values(revoked_at=LONG_AGO))
    with pytest.raises(Unauthenticated):
        await reserve(with_token(2), database, free_limit=5)
    assert await claimed(database) == 0


async def test_64_parallel_attempts_are_capped(database: Database) -> None:
    async def attempt() -> bool:
        async with database.transaction("ten_1") as connection:
            return await claim_attempt(connection, "ten_1", "utk_1", LONG_AGO)

    assert sum(await asyncio.gather(*(attempt() for _ in range(64)))) == 5 * 3 + 5


async def test_token_that_expired_long_ago_is_deleted_with_its_origins(database: Database) -> None:
    row = {"tenant_id": "ten_1", "token_id": "utk_1", "origin": "https://app.example.com"}
    async with database.transaction(ALL_TENANTS) as connection:
        await connection.execute(insert(cors_origins).values([row, row | {"token_id": ""}]))
        assert await delete_expired(connection, LONG_AGO + HOUR, 10) == 0
        assert await delete_expired(connection, LONG_AGO + 2 * HOUR, 10) == 1
        assert (await connection.execute(select(cors_origins.c.token_id))).scalars().all() == [""]
