"""Which pages may read a response while the database is unavailable, and how long a listing is remembered."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from sluice.access import Principal, Scope
from sluice.cors import repository
from sluice.cors.service import Cors
from sluice.db.database import Database, DatabaseUnavailable
from tests.operator_action import operator_action
from tests.rows import each_row
from tests.uploads.rows import prepare

ORIGIN, OTHER = "https://tools.example.com", "https://other.example.com"
CALLER = Principal("ten_1", "key_1", "one", frozenset({Scope.UPLOAD}), "api_key")


@pytest.fixture
async def cors(tmp_path: Path) -> AsyncIterator[Cors]:
    database = Database(f"sqlite:///{tmp_path / 'test.db'}")
    await prepare(database)
    cors = Cors(database)
    await cors.replace(operator_action("ten_1"), [ORIGIN])
    yield cors
    await database.aclose()


@each_row("caller", [None, CALLER])
async def test_listed_origin_may_read_and_another_may_not(cors: Cors, caller: Principal | None) -> None:
    assert await cors.allows(ORIGIN, caller)
    assert not await cors.allows(OTHER, caller)


@each_row("caller", [None, CALLER])
async def test_known_origin_may_read_the_503_of_an_unavailable_database(
    cors: Cors, caller: Principal | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_arguments: object) -> None:
        raise DatabaseUnavailable

    assert await cors.allows(ORIGIN, caller)
    with monkeypatch.context() as patch:
        for name in ("is_listed_anywhere", "list_of_tenant"):
            patch.setattr(repository, name, fail)
        patch.setattr("sluice.cors.service._FRESH_SECONDS", 0.0)
        assert await cors.allows(ORIGIN, caller)
        assert not await cors.allows(OTHER, caller)


async def test_new_origin_is_known_at_once_though_it_was_refused_before(cors: Cors) -> None:
    assert not await cors.allows(OTHER, None)
    async with cors._database.transaction("ten_1") as connection:
        await repository.replace(connection, "ten_1", [OTHER])  # as another process does it
    assert await cors.allows(OTHER, None)
    assert await cors.allows(OTHER, CALLER)
