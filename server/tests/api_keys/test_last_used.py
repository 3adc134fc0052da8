"""When keys were last used: collected in the process, written in batches."""

from datetime import UTC, datetime
from typing import Any

import pytest

from sluice.api_keys import repository
from sluice.api_keys.service import ApiKeys
from sluice.db.database import Database, DatabaseUnavailable

MOMENT = datetime(2026, 1, 31, tzinfo=UTC)


async def test_uses_are_kept_while_the_database_is_unavailable(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    database = Database(f"sqlite:///{tmp_path / 'test.db'}")
    keys = ApiKeys(database, clock=lambda: MOMENT)
    written: dict[tuple[str, str], datetime] = {}
    is_available = False

    async def write(_connection: object, used: dict[tuple[str, str], datetime]) -> None:
        if not is_available:
            raise DatabaseUnavailable
        written.update(used)

    monkeypatch.setattr(repository, "write_last_used", write)
    keys._used["ten_1", "key_1"] = MOMENT
    with pytest.raises(DatabaseUnavailable):
        await keys.write_last_used()
    keys._used["ten_1", "key_2"] = MOMENT
    is_available = True
    await keys.write_last_used()
    await keys.write_last_used()
    await database.aclose()
    assert written == {("ten_1", "key_1"): MOMENT, ("ten_1", "key_2"): MOMENT}
