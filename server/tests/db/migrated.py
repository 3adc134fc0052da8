"""Copies of a database that was created once per run, because a copy takes less time than to create one."""

import shutil
from pathlib import Path

from tests.servers.postgres import Postgres
from tests.servers.shared import SharedServers


class Migrated:
    """Makes databases with the current schema."""

    def __init__(self, servers: SharedServers) -> None:
        self._servers = servers

    def sqlite(self, folder: Path, name: str = "test.db") -> str:
        """Return the URL of a new file in `folder`."""
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copy(self._servers.get("migrated_file"), folder / name)
        return f"sqlite:///{folder / name}"

    def postgres(self, server: Postgres) -> str:
        """Return the URL of a new database on the shared server."""
        return server.createdb(template=self._servers.get("migrated_database"))
