"""What every engine can say of itself, for `sluice doctor` and the health page. How it is shown lives there."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class EngineState(StrEnum):
    """`degraded` works but wants a person's attention; `down` cannot serve."""

    UP = "up"
    DEGRADED = "degraded"
    DOWN = "down"


@dataclass(frozen=True, slots=True)
class EngineHealth:
    """One engine as it answers now: its kind (`storage`), its name (`local`), what it reports, and why it is not well."""

    kind: str
    name: str
    state: EngineState
    version: str = ""
    detail: str = ""
    limits: Mapping[str, int | str] = field(default_factory=dict)
