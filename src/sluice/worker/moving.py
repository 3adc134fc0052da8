"""Moving a tenant's files from one bucket to another while the service runs: each is copied, checked, and only then switched.

The old objects stay where they are, since download links that were given out lead there: `sluice audit --mend` deletes them later.
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from sluice.buckets.bucket import Bucket
from sluice.buckets.stores import Stores
from sluice.db.database import Database
from sluice.db.types import AnyRow
from sluice.engines.storage import StoreFault
from sluice.errors import StorageFull
from sluice.worker import repository
from sluice.worker.copying import Damaged, Recorded, Spot, copy_object

_BATCH: Final = 200


@dataclass(frozen=True, slots=True)
class Moved:
    """What became of one file. `failed` ones stay where they are, and are tried again by the next run."""

    file_id: str
    outcome: Literal["moved", "failed", "gone"]
    detail: str = ""


class Move:
    """Moves all stored files of a tenant from one of its buckets to another; None is the platform's own store."""

    def __init__(self, database: Database, stores: Stores, folder: Path, tenant_id: str) -> None:
        self._database = database
        self._stores = stores
        self._folder = folder
        self._tenant_id = tenant_id

    async def run(self, source: Bucket | None, target: Bucket | None) -> AsyncIterator[Moved]:
        """Answer what became of each file, the oldest first. Raises `DatabaseAway`, and `StorageFull` of the folder for what is on its way."""
        after = ""
        config_id = None if source is None else source.config_id
        while True:
            async with self._database.reading(self._tenant_id) as connection:
                rows = await repository.stored_in(connection, self._tenant_id, config_id, after, _BATCH)
            if not rows:
                return
            for row in rows:
                yield await self._file(row, source, target)
            after = rows[-1].file_id

    async def _file(self, row: AnyRow, source: Bucket | None, target: Bucket | None) -> Moved:
        key = _rebased(row.object_key, source, target)
        recorded = Recorded(row.size_bytes, row.sha256, row.content_type)
        try:
            old, new = Spot(self._stores.of(source), row.object_key), Spot(self._stores.of(target), key)
            copied = await copy_object(old, new, recorded, self._folder)
        except (Damaged, StoreFault, StorageFull) as fault:
            return Moved(row.file_id, "failed", str(fault))
        async with self._database.transaction(self._tenant_id) as connection:
            to = None if target is None else target.config_id
            switched = await repository.switch(connection, row.file_id, row.storage_config_id, to, key)
        if switched:
            return Moved(row.file_id, "moved")
        if copied and key != row.object_key:
            await new.store.delete(key)  # the file was deleted meanwhile
        return Moved(row.file_id, "gone")


def _rebased(key: str, source: Bucket | None, target: Bucket | None) -> str:
    """Answer the key below the target's base path instead of the source's."""
    base = "" if source is None or not source.base_path else f"{source.base_path}/"
    relative = key.removeprefix(base)
    return relative if target is None else target.key_for(relative)
