"""The values of usage and limits. How they are counted is in `repository`."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal

from sluice.tenants import Plan

Grouping = Literal["day", "context"]
LimitName = Literal["uploads_per_month", "storage_bytes", "webhook_endpoints", "active_jobs"]
MOST_COUNTED: Final = 1000  # of a backlog


@dataclass(frozen=True, slots=True)
class UsageRow:
    """The usage of a day, of a context, or of the whole period (`key` is then empty).

    `uploads` are files that were stored and `bytes_stored` their sizes, also those deleted later; `rejections` are by
    reason code; `downloads` are links that were handed out. `quarantined` are the uploads that went into quarantine,
    and `undecided` those that were neither stored nor rejected, as an engine was unavailable.
    """

    key: str
    uploads: int
    bytes_stored: int
    downloads: int
    rejections: Mapping[str, int]
    quarantined: int = 0
    undecided: int = 0


@dataclass(frozen=True, slots=True)
class Limit:
    """How much of a limit is used; `limit` None: unlimited. `resets_at`: when the count is reset, None: never."""

    name: LimitName
    used: int
    limit: int | None
    resets_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class PlanUse:
    """The plan of a tenant, and what is used of its limits."""

    plan: Plan
    limits: tuple[Limit, ...]


@dataclass(frozen=True, slots=True)
class Backlog:
    """What waits for an action in a tenant: each number up to `MOST_COUNTED`.

    `failing_endpoints` are the webhook endpoints that fail or were disabled because they failed.
    """

    quarantined: int
    failing_endpoints: int
    active_jobs: int
