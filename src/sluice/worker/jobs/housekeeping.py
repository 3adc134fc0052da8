"""Housekeeping that no row asks for: leftovers of crashes in the platform's store, event numbers, counts, usage."""

from typing import Final

from sluice.db import counts
from sluice.db.rls import ALL_TENANTS
from sluice.events.service import number_all
from sluice.observe.log import log
from sluice.storage import StoreError, SweepsLeftovers
from sluice.usage import repository as usage_rows
from sluice.worker.job import JobContext

_DELTAS: Final = 2000
_LEFTOVER_SECONDS: Final = 24 * 3600.0  # longer than any upload may take


async def sweep_leftovers(context: JobContext) -> int:
    """Delete what crashed uploads left unfinished in the platform's store.

    Return 0: it never makes the next round start sooner.
    """
    if isinstance(context.stores.platform, SweepsLeftovers):
        try:
            await context.stores.platform.sweep(older_than_seconds=_LEFTOVER_SECONDS)
        except StoreError as fault:
            log.warning("leftovers_put_off", fault=str(fault))
    return 0


async def number_events(context: JobContext) -> int:
    """Assign numbers to events to which no reader of the feed did.

    Return 0: it never makes the next round start sooner.
    """
    await number_all(context.database)
    return 0


async def fold_usage(context: JobContext) -> int:
    """Add what was uploaded, rejected and downloaded to the sums of its day; return as `fold_counts` does."""
    async with context.database.transaction(ALL_TENANTS) as connection:
        folded = await usage_rows.fold(connection, _DELTAS)
    return folded if folded == _DELTAS else 0


async def fold_counts(context: JobContext) -> int:
    """Add what came onto lists and left them to the counts of lists.

    Return 0 for a few: only many make the next round start sooner.
    """
    async with context.database.transaction(ALL_TENANTS) as connection:
        folded = await counts.fold(connection, _DELTAS)
    return folded if folded == _DELTAS else 0
