"""What may be done with verdict reports: find one, list them, and judge earlier uploads by changed rules."""

import asyncio
from datetime import datetime
from typing import Final

from sluice.db.database import Database
from sluice.decisions import DecisionFilter, repository
from sluice.errors import Invalid, NotFound, TooManyRequests
from sluice.kit.paging import Page, PageRequest, Slice, SliceRequest
from sluice.kit.text import is_plain
from sluice.uploads.replay import Replay
from sluice.uploads.report import VerdictReport
from sluice.uploads.statistics import MOST_COUNTED, Statistics
from sluice.uploads.values import Rules

MOST_LISTED: Final = repository.MOST_LISTED
MOST_REPLAYED: Final = 200_000
_BATCH: Final = 500  # judged in a thread in about 30 ms; between two batches others have their turn
_RETRY_SECONDS: Final = 10.0


class Reports:
    """The reports of all tenants, one tenant at a time. They are kept as long as the decision log."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._replaying: set[str] = set()
        self._turn = asyncio.Lock()

    async def get(self, tenant_id: str, report_id: str) -> VerdictReport:
        """Return one report; raise `NotFound`."""
        if not is_plain(report_id):
            raise NotFound
        async with self._database.reading(tenant_id) as connection:
            record = await repository.find(connection, tenant_id, report_id)
        if record is None:
            raise NotFound
        return VerdictReport.of(record)

    async def list_page(self, tenant_id: str, wanted: DecisionFilter, request: PageRequest) -> Page[VerdictReport]:
        """Return one page of reports, newest first; raise `Invalid` for a page beyond what is counted."""
        if request.offset >= repository.MOST_LISTED:
            raise Invalid(f"page: expected one of the first {repository.MOST_LISTED} reports; use since and until")
        if not _is_searchable(wanted):
            return Page((), request, 0)
        async with self._database.reading(tenant_id) as connection:
            page = await repository.list_page(connection, tenant_id, wanted, request)
        return Page(tuple(VerdictReport.of(record) for record in page.items), request, page.total)

    async def list_slice(self, tenant_id: str, wanted: DecisionFilter, request: SliceRequest) -> Slice[VerdictReport]:
        """Return some reports, newest first."""
        if not _is_searchable(wanted, request.before, request.after):
            return Slice((), has_newer=False, has_older=False)
        async with self._database.reading(tenant_id) as connection:
            found = await repository.list_slice(connection, tenant_id, wanted, request)
        return Slice(tuple(VerdictReport.of(record) for record in found.items), found.has_newer, found.has_older)

    async def count(self, tenant_id: str, wanted: DecisionFilter) -> int:
        """Return how many reports there are, counted to `decisions.repository.MOST_LISTED`."""
        if not _is_searchable(wanted):
            return 0
        async with self._database.reading(tenant_id) as connection:
            return await repository.count(connection, tenant_id, wanted)

    async def statistics(self, tenant_id: str, wanted: DecisionFilter) -> Statistics:
        """Return the sums of the newest uploads that meet `wanted`, at most `MOST_COUNTED`."""
        if not _is_searchable(wanted):
            return Statistics((), truncated=False)
        async with self._database.reading(tenant_id) as connection:
            rows = await repository.load_summaries(connection, tenant_id, wanted, MOST_COUNTED + 1)
        return Statistics(tuple(rows[:MOST_COUNTED]), truncated=len(rows) > MOST_COUNTED)

    async def replay(
        self, tenant_id: str, context_key: str, rules: Rules, *, since: datetime, until: datetime
    ) -> tuple[Replay, bool]:
        """Judge the uploads into a context again by `rules`; return the sums, and whether only the newest were judged.

        Raise `TooManyRequests` if another replay of the tenant runs.
        """
        if tenant_id in self._replaying:
            raise TooManyRequests(errors=["A replay of this tenant runs already"], retry_after=_RETRY_SECONDS, limit=1)
        self._replaying.add(tenant_id)
        try:
            return await self._replay(tenant_id, DecisionFilter(context_key, since=since, until=until), Replay(rules))
        finally:
            self._replaying.discard(tenant_id)

    async def _replay(self, tenant_id: str, wanted: DecisionFilter, replay: Replay) -> tuple[Replay, bool]:
        async with self._database.reading(tenant_id) as connection:
            skipped = await repository.skip_all_but(connection, tenant_id, wanted, MOST_REPLAYED)
        after = skipped or ""
        while True:
            async with self._database.reading(tenant_id) as connection:
                batch = await repository.load_past(connection, tenant_id, wanted, after, _BATCH)
            async with self._turn:  # the batches of several tenants take turns, so that one thread is busy at most
                await asyncio.to_thread(replay.add, batch)
            if len(batch) < _BATCH:
                return replay, skipped is not None
            after = batch[-1].report_id


def _is_searchable(wanted: DecisionFilter, *more: str | None) -> bool:
    """Return whether any row can hold these texts: PostgreSQL refuses to be asked for some."""
    texts = (wanted.context_key, wanted.reason, wanted.actor_id, wanted.filename, *more)
    return is_plain("".join(filter(None, texts)))
