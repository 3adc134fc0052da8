"""The time of a processor that each transaction of the worker takes on SQLite, by the files that it changes.

Nothing else uses the database: uploads wait for such a transaction as long as it takes, and for its flush to disk.
"""

import asyncio
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from sqlalchemy import insert, select

from bench.scale.lists import SqliteRows, recount
from sluice.access import worker
from sluice.audit import AuditAction
from sluice.db import counts
from sluice.db.database import Database
from sluice.db.rls import ALL_TENANTS
from sluice.db.schema import contexts
from sluice.db.sqlite import Unit
from sluice.events import repository as event_rows
from sluice.files import lifecycle
from sluice.kit.clock import utc_now
from tests.uploads.rows import prepare

_FILES = (10, 50, 100)
_EACH = 30
_BYTES = 10_000_000_000


def measure(folder: Path) -> dict[str, Any]:
    """Return the milliseconds of a processor of each kind of transaction, the median."""
    figures: dict[str, Any] = {}
    print("| Files | delete | claim | purge | number events | fold counts |\n|---|---|---|---|---|---|")
    for files in _FILES:
        taken = asyncio.run(_taken(folder / f"{files}.db", files))
        figures[str(files)] = taken
        print(f"| {files} | {' | '.join(f'{milliseconds:.1f}' for milliseconds in taken.values())} |", flush=True)
    return figures


async def _taken(path: Path, files: int) -> Mapping[str, float]:
    rows = SqliteRows(path)
    database = Database(rows.url)
    await prepare(database)
    async with database.transaction(ALL_TENANTS) as connection:
        first = dict((await connection.execute(select(contexts))).mappings().one()) | {"storage_used_bytes": _BYTES}
        others = [{**first, "context_id": f"ctx_c{one}", "context_key": f"c{one}"} for one in range(4)]
        await connection.execute(insert(contexts), others)
    await database.aclose()
    tenant_id = first["tenant_id"]
    rows.fill(tenant_id, 20_000)
    await recount(rows.url, tenant_id)

    database, taken = Database(rows.url), defaultdict[str, list[float]](list)

    async def note(kind: str, unit: Unit[Any]) -> Any:
        result, seconds = await database.work(ALL_TENANTS, unit)
        taken[kind].append(seconds * 1000)
        return result

    by = AuditAction(worker(tenant_id), "file.deleted")
    for number in range(_EACH):
        some: Sequence[str] = [f"file_{number * files + one + 1:026}" for one in range(files)]
        delete = partial(lifecycle.delete_all, by=by, file_ids=some, at=utc_now(), purge_after=timedelta(0))
        await note("delete", delete)
    for _ in range(_EACH):
        claim = partial(lifecycle.begin_purges, again_after=timedelta(minutes=5), limit=files)
        due, _held = await note("claim", claim)
        owned = [(row.tenant_id, row.file_id) for row in due]
        await note("purge", partial(lifecycle.purge, owned=owned))
    for _ in range(_EACH):
        await note("number", partial(event_rows.number, tenant_id=tenant_id, limit=files))
        await note("fold", partial(counts.fold, limit=files))
    await database.aclose()
    return {kind: median(each) for kind, each in taken.items()}
