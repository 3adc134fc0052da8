"""`sluice migrate-bucket`: moving a tenant's files between its buckets and telling how it went. What a move is, is in `worker.moving`."""

import asyncio
from collections import Counter

from sluice.buckets.bucket import Bucket
from sluice.buckets.service import Buckets
from sluice.cli import show
from sluice.cli.environment import opened_database
from sluice.cli.outcomes import CommandRefused, Exit
from sluice.settings import Settings
from sluice.wiring.start import make_folder
from sluice.wiring.storing import make_buckets, make_stores
from sluice.worker.moving import Move

_PLATFORM = "platform"


def migrate_bucket(settings: Settings, tenant_id: str, source: str, target: str) -> int:
    """Move every file; the exit code is 1 when some could not be moved."""
    if source == target:
        raise CommandRefused("FROM and TO are the same bucket.", Exit.USAGE)
    done = asyncio.run(_move(settings, tenant_id, source, target))
    show.line(f"{done['moved']} files moved, {done['gone']} deleted meanwhile, {done['failed']} failed.")
    return Exit.REFUSED if done["failed"] else Exit.DONE


async def _move(settings: Settings, tenant_id: str, source: str, target: str) -> Counter[str]:
    done: Counter[str] = Counter()
    make_folder(settings.resolved_spool_dir)
    async with opened_database(settings) as database:
        stores = make_stores(settings)
        try:
            buckets = make_buckets(settings, database, stores)
            ends = [await _bucket(buckets, tenant_id, name) for name in (source, target)]
            async for moved in Move(database, stores, settings.resolved_spool_dir, tenant_id).run(*ends):
                done[moved.outcome] += 1
                if moved.outcome == "failed":
                    show.complain(f"{moved.file_id}: {moved.detail}")
        finally:
            await stores.aclose()
    return done


async def _bucket(buckets: Buckets, tenant_id: str, name: str) -> Bucket | None:
    return None if name == _PLATFORM else await buckets.get(tenant_id, name)
