"""The value of a bucket, with its secret still sealed. What may be done with one is in `service`."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any, Self

from sluice.storage import ProviderSettings


@dataclass(frozen=True, slots=True)
class ProbedStep:
    """A step of a probe: `endpoint`, `credentials` or one of the store's own (`storage.ProbeStep`).

    `error` is one sentence, None if it succeeded; `answer` has the status and the code of the store's response to one
    that failed.
    """

    name: str
    error: str | None = None
    answer: str = ""


@dataclass(frozen=True, slots=True)
class BucketProbe:
    """What was found when a bucket was tried out at `at`: the steps up to the first one that failed, and remarks."""

    at: datetime
    steps: tuple[ProbedStep, ...]
    remarks: tuple[str, ...] = ()

    @property
    def failed(self) -> ProbedStep | None:
        """The step that failed, None if all succeeded."""
        return next((step for step in self.steps if step.error is not None), None)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Return the probe that `to_json` has written."""
        steps = tuple(ProbedStep(**step) for step in value["steps"])
        return cls(datetime.fromisoformat(value["at"]), steps, tuple(value.get("remarks", ())))

    def to_json(self) -> dict[str, Any]:
        """Return it as it is stored."""
        steps = [asdict(step) for step in self.steps]
        return {"at": self.at.isoformat(), "steps": steps, "remarks": list(self.remarks)}


@dataclass(frozen=True, slots=True)
class Bucket:
    """One bucket of one tenant. `base_path` has no slash at its ends.

    `default_bucket` is its name at the provider: that of a container for Azure. `secret_sealed` is the one secret that
    opens it, whose meaning the settings know.
    """

    config_id: str
    tenant_id: str
    name: str
    settings: ProviderSettings
    secret_sealed: str = field(repr=False)
    default_bucket: str
    base_path: str
    is_active: bool
    created_at: datetime
    updated_at: datetime | None
    is_default: bool = False
    last_probe: BucketProbe | None = None

    def key_for(self, rendered: str) -> str:
        """Return the object key of a rendered path template in this bucket."""
        return f"{self.base_path}/{rendered}" if self.base_path else rendered
