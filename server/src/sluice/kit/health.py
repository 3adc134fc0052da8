"""The state that every engine reports, for `sluice doctor` and the health endpoints."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class EngineState(StrEnum):
    """`degraded` works but needs attention; `down` cannot serve."""

    UP = "up"
    DEGRADED = "degraded"
    DOWN = "down"


@dataclass(frozen=True, slots=True)
class EngineHealth:
    """The state of one engine: its kind (`storage`), its name (`local`), and in `detail` why it is not up."""

    kind: str
    name: str
    state: EngineState
    version: str = ""
    detail: str = ""
    limits: Mapping[str, int | str] = field(default_factory=dict)
