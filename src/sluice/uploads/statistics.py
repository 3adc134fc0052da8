"""Sums over uploads for people: per day, per reason, and groups of rejections. Pure functions of decisions in short."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from functools import cached_property
from typing import Final

from sluice.decisions import DecisionSummary
from sluice.uploads.names import extension_of

# Sums are made of so many uploads, the newest, so that they cost the same however long the log is.
MOST_COUNTED: Final = 10_000


@dataclass(frozen=True, slots=True)
class Day:
    """What became of the uploads of one day (UTC)."""

    day: date
    accepted: int
    rejected: int
    quarantined: int
    undecided: int

    @property
    def total(self) -> int:
        """All of them."""
        return self.accepted + self.rejected + self.quarantined + self.undecided


@dataclass(frozen=True, slots=True)
class GroupKey:
    """What rejections have in common."""

    context_key: str
    reason: str
    extension: str
    actor_id: str | None


@dataclass(slots=True)
class RejectionGroup:
    """Rejections that have the same key: how many, when, and the newest of them."""

    key: GroupKey
    newest_report_id: str
    newest_filename: str
    last_seen: datetime
    first_seen: datetime
    count: int = 0
    by_day: Counter[date] = field(default_factory=Counter)


@dataclass(frozen=True)
class Statistics:
    """The sums of some uploads, newest first. `truncated`: there are more uploads than were counted."""

    decisions: tuple[DecisionSummary, ...]
    truncated: bool

    @property
    def total(self) -> int:
        """How many uploads were counted."""
        return len(self.decisions)

    @cached_property
    def outcomes(self) -> Mapping[str, int]:
        """Uploads by outcome."""
        return Counter(decision.outcome for decision in self.decisions)

    @cached_property
    def reasons(self) -> Sequence[tuple[str, int]]:
        """Reason codes and how many uploads have each, the most frequent first."""
        return Counter(decision.reason for decision in self.decisions if decision.reason is not None).most_common()

    def rejection_rates(self) -> Mapping[str, tuple[int, int]]:
        """Return for each context how many of its uploads have a reason, and how many there are."""
        failed: Counter[str] = Counter()
        every: Counter[str] = Counter()
        for decision in self.decisions:
            every[decision.context_key] += 1
            failed[decision.context_key] += decision.reason is not None
        return {context: (failed[context], every[context]) for context in every}

    def days(self, last: date, number: int) -> Sequence[Day]:
        """Return the sums of each of `number` days up to `last`, oldest first."""
        counted = Counter((decision.created_at.date(), decision.outcome) for decision in self.decisions)
        every = [last - timedelta(days=back) for back in reversed(range(number))]
        return [
            Day(day, *(counted[day, outcome] for outcome in ("accepted", "rejected", "quarantined", "undecided")))
            for day in every
        ]

    def duration_ms(self, share: float) -> int | None:
        """Return the duration below which this share of the verdicts was given; None if none was measured."""
        measured = sorted(decision.duration_ms for decision in self.decisions if decision.duration_ms is not None)
        return measured[min(len(measured) - 1, int(len(measured) * share))] if measured else None

    def groups(self) -> Sequence[RejectionGroup]:
        """Return the rejections by context, reason, extension and uploader, the largest group first."""
        return sorted(_grouped(self.decisions), key=lambda group: -group.count)


def _grouped(decisions: Iterable[DecisionSummary]) -> Iterable[RejectionGroup]:
    groups: dict[GroupKey, RejectionGroup] = {}
    for decision in decisions:
        if decision.reason is None:
            continue
        name = decision.original_filename or ""
        # Each upload token is somebody else: as one group they are more telling than as thousands.
        actor = "upload tokens" if (decision.actor_id or "").startswith("utk_") else decision.actor_id
        key = GroupKey(decision.context_key, decision.reason, extension_of(name), actor)
        group = groups.get(key)
        if group is None:
            group = groups[key] = RejectionGroup(
                key, decision.report_id, name, decision.created_at, decision.created_at
            )
        group.first_seen = decision.created_at
        group.count += 1
        group.by_day[decision.created_at.date()] += 1
    return groups.values()
