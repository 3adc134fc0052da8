"""A past for a demo: copies of decisions on real uploads, at moments of the days before."""

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from sluice.db.database import Database
from sluice.decisions import DecisionFilter, DecisionRecord, repository
from sluice.kit.ids import first_id, new_id
from sluice.kit.paging import SliceRequest
from sluice.usage import repository as usage_rows

_MOST_COPIED: Final = 500
_ID_OF_MOMENT: Final = len("rep_") + 10  # as many characters of an id as stand for its moment


async def write_past(database: Database, tenant_id: str, now: datetime, *, days: int, per_day: int) -> int:
    """Write decisions for the days before `now`, about `per_day` for each; return how many. The same each time.

    They are of no stored file. Most are of accepted uploads, however few of those there are to copy.
    """
    async with database.reading(tenant_id) as connection:
        found = await repository.list_slice(connection, tenant_id, DecisionFilter(), SliceRequest(_MOST_COPIED))
    accepted = [record for record in found.items if record.reason is None]
    failed = [record for record in found.items if record.reason is not None]
    chance = random.Random(days * per_day)  # noqa: S311  (a demo, no secret)
    written = 0
    for back in range(1, days + 1):
        day = now - timedelta(days=back)
        number = round(per_day * chance.uniform(0.7, 1.2) * (0.3 if day.weekday() >= 5 else 1.0))  # noqa: PLR2004
        copies = [_copy(chance, accepted, failed, day) for _ in range(number)]
        async with database.transaction(tenant_id) as connection:
            for record in sorted(copies, key=lambda copy: copy.report_id):
                await repository.add(connection, record)
            stored = Counter(
                (f"{copy.created_at:%Y-%m-%d}", copy.context_key)
                for copy in copies
                if copy.outcome in {"accepted", "quarantined"}
            )
            for (on, context_key), uploads in stored.items():
                await usage_rows.add_uploads(connection, tenant_id, on, context_key, uploads)
        written += number
    return written


def _copy(
    chance: random.Random, accepted: Sequence[DecisionRecord], failed: Sequence[DecisionRecord], day: datetime
) -> DecisionRecord:
    # Weighted, so that some reasons are frequent and others rare, as in life.
    is_failed = bool(failed) and (not accepted or chance.random() < 0.14)  # noqa: PLR2004
    source = failed[int(len(failed) * chance.random() ** 2)] if is_failed else chance.choice(accepted)
    at = day - timedelta(seconds=chance.randrange(36_000))
    report_id = first_id("rep", at)[:_ID_OF_MOMENT] + new_id("rep")[_ID_OF_MOMENT:]
    duration = round(min(4000.0, chance.lognormvariate(4.0, 0.7)))
    return replace(source, report_id=report_id, file_id=None, created_at=at, duration_ms=duration)
