"""Sums over uploads for people: per day, per context and reason, and groups of rejections. Pure functions."""

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from typing import Final

from sluice.decisions import FailedSum, Mark, MarkState
from sluice.usage import UsageRow

# Groups are formed from this many of the newest rejections, so that their cost does not grow with the log.
MOST_GROUPED: Final = 2_000
# Durations of verdicts are measured on this many of the newest uploads.
MOST_MEASURED: Final = 2000


@dataclass(frozen=True, slots=True)
class Outcomes:
    """The numbers of uploads by outcome."""

    accepted: int = 0
    rejected: int = 0
    quarantined: int = 0
    undecided: int = 0

    @classmethod
    def of(cls, row: UsageRow) -> "Outcomes":
        """Return the outcomes of a sum of usage, which counts files in quarantine as uploads too."""
        rejected = sum(row.rejections.values())
        return cls(max(0, row.uploads - row.quarantined), rejected, row.quarantined, row.undecided)

    @property
    def total(self) -> int:
        """All uploads."""
        return self.accepted + self.rejected + self.quarantined + self.undecided


@dataclass(frozen=True, slots=True)
class UploadSums:
    """The uploads of some days: in all, each day, oldest first, by reason, the most frequent first."""

    outcomes: Outcomes
    days: Sequence[tuple[date, Outcomes]]
    reasons: Sequence[tuple[str, int]]
    p50_ms: int | None
    p95_ms: int | None
    measured: int

    @classmethod
    def of(
        cls, total: UsageRow, days: Iterable[UsageRow], last: date, number: int, measured: Sequence[int]
    ) -> "UploadSums":
        """Return the sums of `number` days up to `last`, and of the durations of the newest verdicts."""
        by_day = {row.key: Outcomes.of(row) for row in days}
        every = [last - timedelta(days=back) for back in reversed(range(number))]
        return cls(
            Outcomes.of(total),
            [(day, by_day.get(day.isoformat(), Outcomes())) for day in every],
            Counter(total.rejections).most_common(),
            _share(measured, 0.5),
            _share(measured, 0.95),
            len(measured),
        )


def _share(measured: Sequence[int], share: float) -> int | None:
    """Return the duration below which this share of the verdicts was given; None if none was measured."""
    return sorted(measured)[min(len(measured) - 1, int(len(measured) * share))] if measured else None


@dataclass(frozen=True, slots=True)
class GroupKey:
    """The key of a group of rejections."""

    context_key: str
    reason: str
    extension: str
    actor_id: str | None

    @property
    def group_id(self) -> str:
        """The id of the group: without any name in it, so that an erasure has nothing to blank."""
        words = json.dumps([self.context_key, self.reason, self.extension, self.actor_id])
        return hashlib.sha256(words.encode()).hexdigest()


@dataclass(slots=True)
class RejectionGroup:
    """Rejections that have the same key: how many, when, the newest of them, and the review of them."""

    key: GroupKey
    newest_report_id: str
    first_seen: datetime
    last_seen: datetime
    newest_filename: str = ""
    count: int = 0
    by_day: Counter[date] = field(default_factory=Counter)
    mark: Mark | None = None

    @property
    def state(self) -> MarkState | None:
        """The present state of the group: None is open, also after a rejection that is newer than the review."""
        if self.mark is None or (self.mark.state == "reviewed" and self.mark.report_id < self.newest_report_id):
            return None
        return self.mark.state


@dataclass(frozen=True, slots=True)
class RejectionGroups:
    """The groups of the newest rejections, the largest first. `truncated`: there are more than were examined."""

    groups: Sequence[RejectionGroup]
    rejections: int
    truncated: bool

    def in_state(self, state: MarkState | None) -> Sequence[RejectionGroup]:
        """Return the groups that are open (None), reviewed or muted."""
        return [group for group in self.groups if group.state == state]


def grouped(sums: Iterable[FailedSum]) -> Mapping[str, RejectionGroup]:
    """Return the groups of rejections by their ids."""
    groups: dict[str, RejectionGroup] = {}
    for one in sums:
        key = GroupKey(one.context_key, one.reason, one.extension.lower(), one.actor_id)
        group_id = key.group_id
        group = groups.get(group_id)
        if group is None:
            group = groups[group_id] = RejectionGroup(key, one.newest_report_id, one.first_seen, one.last_seen)
        group.newest_report_id = max(group.newest_report_id, one.newest_report_id)
        group.first_seen = min(group.first_seen, one.first_seen)
        group.last_seen = max(group.last_seen, one.last_seen)
        group.count += one.number
        group.by_day[date.fromisoformat(one.day)] += one.number
    return groups
