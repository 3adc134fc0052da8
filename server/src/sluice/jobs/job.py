"""The value of a job, and the kinds of jobs. How a step of each kind is done is in `worker.jobs.bulk`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import Any, Final, Literal

from sluice.access import Principal, Scope, Via
from sluice.audit import AuditAction
from sluice.files import FileFilter

JobKind = Literal["bulk_delete", "bulk_quarantine", "bulk_restore", "erasure", "export", "tenant_delete"]
BulkKind = Literal["bulk_delete", "bulk_restore"]
ExportFormat = Literal["ndjson", "csv"]
JobState = Literal["waiting", "running", "done", "failed", "cancelled"]

# The scope that each kind requires
KINDS: Final[Mapping[JobKind, Scope]] = MappingProxyType(
    {
        "bulk_delete": Scope.DELETE,
        "bulk_quarantine": Scope.ADMIN,
        "bulk_restore": Scope.DELETE,
        "erasure": Scope.ADMIN,
        "export": Scope.METADATA,
        "tenant_delete": Scope.ADMIN,
    }
)


@dataclass(frozen=True, slots=True)
class Export:
    """The output of an export job: objects of the platform's store, each with its size, until `expires_at`."""

    format: ExportFormat
    parts: tuple[tuple[str, int], ...]
    expires_at: datetime

    @property
    def size_bytes(self) -> int:
        """The size of all parts."""
        return sum(size for _key, size in self.parts)


@dataclass(frozen=True, slots=True)
class Job:
    """One job of one tenant. `total` is None if the files were not counted; `skipped` files were left as they were.

    `position` is where the next step begins, and `generation` the number of the claim under which a worker does it:
    only the worker with the latest claim can write its progress.
    """

    job_id: str
    tenant_id: str
    kind: JobKind
    state: JobState
    params: Mapping[str, Any]
    total: int | None
    done: int
    skipped: int
    error: str | None
    position: str
    generation: int
    failures: int
    actor_id: str
    actor_name: str
    via: Via | Literal["worker"]
    request_id: str | None
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    result: Mapping[str, Any] | None

    @property
    def refused(self) -> Sequence[tuple[str, str]]:
        """The first files that were skipped, each with the reason."""
        return [(file_id, reason) for file_id, reason in (self.result or {}).get("refused", ())]

    @property
    def export(self) -> "Export | None":
        """The output of a job; None if it writes nothing, or has not ended."""
        result = self.result or {}
        if self.kind != "export" or self.state != "done" or "expires_at" not in result:
            return None
        parts = tuple((key, size) for key, size in result.get("parts", ()))
        return Export(self.params["format"], parts, datetime.fromisoformat(result["expires_at"]))

    def by(self, action: str) -> AuditAction:
        """Return an action for the audit log in the name of who asked for the job."""
        principal = Principal(self.tenant_id, self.actor_id, self.actor_name, frozenset(), via=self.via)
        return AuditAction(principal, action, self.request_id)


def filter_to_json(wanted: FileFilter) -> dict[str, Any]:
    """Return a filter as a job keeps it."""
    named = {name: getattr(wanted, name) for name in FileFilter.__slots__}
    kept = {name: value for name, value in named.items() if value is not None and value != ()}
    for name in ("created_after", "created_before"):
        if name in kept:
            kept[name] = kept[name].isoformat()
    if "metadata" in kept:
        kept["metadata"] = dict(kept["metadata"])
    return kept


def filter_from_json(kept: Mapping[str, Any]) -> FileFilter:
    """Return the filter that a job keeps."""
    moments = {name: datetime.fromisoformat(kept[name]) for name in ("created_after", "created_before") if name in kept}
    return FileFilter(**{**kept, **moments, "metadata": tuple(kept.get("metadata", {}).items())})
