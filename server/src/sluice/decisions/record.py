"""The value of one row of the decision log. Writing and deleting rows is in `repository`."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal

# The uploader of a group of rejections, for all upload tokens together
LINK_UPLOADERS: Final = "upload tokens"
# The modes of rows that are about no upload: a later scan, and what was sent of an upload that was sanitised.
NOT_UPLOADS: Final = ("rescan", "original")
MarkState = Literal["reviewed", "muted"]
_DETAIL_CHARACTERS: Final = 1000  # the length of the column


@dataclass(frozen=True, slots=True)
class DecisionRecord:
    """The decision on one file, with its rules and facts. `rules`, `facts`, `engines` and `actor` are JSON objects.

    `file_id` is None for a rejected upload, `reason` for an accepted one. `mode` is that of the upload, `rescan`, or
    `original` (what was sent of an upload that was sanitised).
    `repeat_key` finds a rejection again by what was sent; None if it must not be found so.
    """

    report_id: str
    tenant_id: str
    file_id: str | None
    context_key: str
    mode: str
    rules: Mapping[str, Any]
    rules_version: int
    facts: Mapping[str, Any]
    engines: Mapping[str, Any]
    outcome: str
    reason: str | None
    detail: str
    actor: Mapping[str, Any]
    created_at: datetime
    original_filename: str | None
    actor_id: str | None
    duration_ms: int | None
    repeat_key: str | None = None

    def row(self) -> dict[str, Any]:
        """Return the values by column."""
        # `asdict` would copy each value in depth.
        return {name: getattr(self, name) for name in self.__slots__} | {"detail": self.detail[:_DETAIL_CHARACTERS]}


@dataclass(frozen=True, slots=True)
class PastDecision:
    """The part of a decision on an upload that a replay needs. `rules` and `facts` are JSON texts."""

    report_id: str
    outcome: str
    reason: str | None
    rules: str
    facts: str


@dataclass(frozen=True, slots=True)
class FailedSum:
    """Uploads with a reason that have the rest in common, on one day (`2026-01-31`, UTC): how many, and the newest."""

    context_key: str
    reason: str
    extension: str
    actor_id: str | None
    day: str
    number: int
    first_seen: datetime
    last_seen: datetime
    newest_report_id: str


@dataclass(frozen=True, slots=True)
class Mark:
    """The review of a group of rejections: `reviewed` up to the report `report_id`, or `muted`.

    `marked_by` is None once the audit log, which holds the name, forgot it.
    """

    state: MarkState
    report_id: str
    marked_at: datetime
    marked_by: str | None


@dataclass(frozen=True, slots=True)
class DecisionFilter:
    """A filter of decisions on uploads; None matches any. Moments are inclusive, `filename` is a part of the name,
    which is searched among the newest that meet the other conditions.

    `only_failed`: those with a reason, which are rejected or in quarantine. `among_newest`: only this many of the
    newest decisions of the tenant are searched, for conditions that are in no index.
    """

    context_key: str | None = None
    outcome: str | None = None
    reason: str | None = None
    actor_id: str | None = None
    filename: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    only_failed: bool = False
    among_newest: int | None = None
