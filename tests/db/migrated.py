"""Copies of a database that was migrated once, because a copy is several times faster than a migration."""

import asyncio
import shutil
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

from sluice.db.database import Database
from sluice.db.migrate import upgrade
from tests.servers.postgres import Postgres


class Migrated:
    """Makes databases with the current schema. Each kind is migrated at its first use."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._original = cache(self._migrated_file)
        self._template = cache(_migrated_database)

    def sqlite(self, folder: Path) -> str:
        """Return the URL of a new file in `folder`."""
        shutil.copy(self._original(), folder / "test.db")
        return f"sqlite:///{folder / 'test.db'}"

    def postgres(self, server: Postgres) -> str:
        """Return the URL of a new database on the server."""
        return server.createdb(template=self._template(server))

    def _migrated_file(self) -> Path:
        _migrate(f"sqlite:///{self._folder / 'original.db'}")
        return self._folder / "original.db"


def _migrated_database(server: Postgres) -> str:
    url = server.createdb()
    _migrate(url)
    return url.rpartition("/")[2]


def _migrate(url: str) -> None:
    async def migrated() -> None:
        database = Database(url)
        await upgrade(database)
        await database.aclose()

    with ThreadPoolExecutor(1) as thread:  # the caller may run in an event loop
        thread.submit(asyncio.run, migrated()).result()
