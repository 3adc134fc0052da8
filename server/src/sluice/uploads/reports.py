"""Operations on verdict reports: find one, list and group them, and judge earlier uploads by changed rules."""

import asyncio
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from sluice.audit import AuditAction
from sluice.audit.repository import append
from sluice.db.database import Database
from sluice.decisions import DecisionFilter, MarkState, PastDecision, repository
from sluice.errors import Invalid, NotFound, TooManyRequests
from sluice.hash_lists import ListedHash
from sluice.hash_lists import repository as hash_rows
from sluice.kit.clock import Clock, utc_now
from sluice.kit.paging import Page, PageRequest, Slice, SliceRequest
from sluice.kit.text import is_plain
from sluice.uploads.replay import Replay, digests_in
from sluice.uploads.report import VerdictReport
from sluice.uploads.statistics import MOST_GROUPED, MOST_MEASURED, RejectionGroup, RejectionGroups, grouped
from sluice.uploads.values import Rules

MOST_LISTED: Final = repository.MOST_LISTED
MOST_REPLAYED: Final = 200_000
_BATCH: Final = 500  # judged in a thread in about 30 ms; between two batches others have their turn
_RETRY_SECONDS: Final = 10.0
_HEALTH_REPORTS: Final = 100


@dataclass(slots=True)
class ExternalHealth:
    """What an external check said in the newest reports of its context.

    Of the questions, `answered` got an answer. `why` is of the newest one without, at `failed_at`; `is_away`: that was
    the newest question.
    """

    asked: int = 0
    answered: int = 0
    is_away: bool = False
    why: str = ""
    failed_at: datetime | None = None


class Reports:
    """The reports of all tenants, one tenant at a time. They are kept as long as the decision log."""

    def __init__(self, database: Database, clock: Clock = utc_now) -> None:
        self._database = database
        self._clock = clock
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

    async def external_healths(self, tenant_id: str, context_key: str) -> Mapping[str, ExternalHealth]:
        """Return what the external checks of a context said in its newest reports, by the name of the check."""
        newest = await self.list_slice(tenant_id, DecisionFilter(context_key), SliceRequest(_HEALTH_REPORTS))
        healths: dict[str, ExternalHealth] = {}
        for report in newest.items:
            for fact in report.facts.external:
                health = healths.setdefault(fact.name, ExternalHealth())
                if fact.verdict is None and health.failed_at is None:
                    health.is_away, health.why, health.failed_at = not health.asked, fact.why, report.created_at
                health.asked += 1
                health.answered += fact.verdict is not None
        return healths

    async def count(self, tenant_id: str, wanted: DecisionFilter) -> int:
        """Return how many reports there are, counted to `decisions.repository.MOST_LISTED`."""
        if not _is_searchable(wanted):
            return 0
        async with self._database.reading(tenant_id) as connection:
            return await repository.count(connection, tenant_id, wanted)

    async def existing(self, tenant_id: str, report_ids: Collection[str]) -> frozenset[str]:
        """Return those of the reports that are kept."""
        async with self._database.reading(tenant_id) as connection:
            found = await repository.load_names(connection, tenant_id, report_ids) if report_ids else {}
        return frozenset(found)

    async def durations(self, tenant_id: str, since: datetime) -> Sequence[int]:
        """Return how many milliseconds the newest verdicts took, at most `MOST_MEASURED` of them."""
        async with self._database.reading(tenant_id) as connection:
            return await repository.load_durations(connection, tenant_id, since, MOST_MEASURED)

    async def groups(self, tenant_id: str, wanted: DecisionFilter) -> RejectionGroups:
        """Return the newest rejections of a context and a reason in groups; at most `MOST_GROUPED` are examined."""
        if not _is_searchable(wanted):
            return RejectionGroups((), 0, truncated=False)
        async with self._database.reading(tenant_id) as connection:
            sums, looked_at = await repository.sum_failed(connection, tenant_id, wanted, MOST_GROUPED + 1)
            groups = grouped(sums)
            marks = await repository.load_marks(connection, tenant_id, groups) if groups else {}
        for group_id, mark in marks.items():
            groups[group_id].mark = mark
        largest = sorted(groups.values(), key=lambda group: (-group.count, group.newest_report_id))
        return RejectionGroups(largest, sum(one.number for one in sums), truncated=looked_at > MOST_GROUPED)

    async def name_newest(self, tenant_id: str, groups: Sequence[RejectionGroup]) -> None:
        """Write the name of the newest file into each group."""
        async with self._database.reading(tenant_id) as connection:
            ids = [group.newest_report_id for group in groups]
            names = await repository.load_names(connection, tenant_id, ids) if ids else {}
        for group in groups:
            group.newest_filename = names.get(group.newest_report_id, "")

    async def mark(self, by: AuditAction, seen: Mapping[str, str], state: MarkState | None) -> None:
        """Mark groups of rejections, each up to the report that the user has seen; None opens them again.

        `seen` has the id of a report for each id of a group. The entry in the audit log is about that report.
        """
        now = self._clock()
        async with self._database.transaction(by.tenant_id) as connection:
            for group_id, report_id in sorted(seen.items()):
                event_id = await append(connection, by, report_id, now)
                if state is None:
                    await repository.delete_mark(connection, by.tenant_id, group_id)
                else:
                    await repository.set_mark(
                        connection, by.tenant_id, group_id, state, report_id=report_id, event_id=event_id, at=now
                    )

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
            has_lists = bool((await hash_rows.load_algorithms(connection, tenant_id)).all)
        after = skipped or ""
        while True:
            async with self._database.reading(tenant_id) as connection:
                batch = await repository.load_past(connection, tenant_id, wanted, after, _BATCH)
            async with self._turn:  # the batches of several tenants take turns, so that one thread is busy at most
                listed = await self._listed(tenant_id, batch) if has_lists else {}
                await asyncio.to_thread(replay.add, batch, listed)
            if len(batch) < _BATCH:
                return replay, skipped is not None
            after = batch[-1].report_id

    async def _listed(self, tenant_id: str, batch: Sequence[PastDecision]) -> Mapping[str, Sequence[ListedHash]]:
        """Return today's entries of hash lists on the files of these decisions, by their digests."""
        digests, found = await asyncio.to_thread(digests_in, batch), defaultdict[str, list[ListedHash]](list)
        for start in range(0, len(digests), hash_rows.MOST_ASKED):
            asked = digests[start : start + hash_rows.MOST_ASKED]
            for entry in await hash_rows.find_listed(self._database, tenant_id, asked):
                found[entry.digest].append(entry)
        return found


def _is_searchable(wanted: DecisionFilter, *more: str | None) -> bool:
    """Return whether any row can hold these texts: PostgreSQL refuses to be asked for some."""
    texts = (wanted.context_key, wanted.reason, wanted.actor_id, wanted.filename, *more)
    return is_plain("".join(filter(None, texts)))
