"""The contract of a malware scanner. No engine lives here."""

from dataclasses import dataclass
from typing import Protocol

from sluice.engines.health import EngineHealth
from sluice.kit.sealed import Sealed


@dataclass(frozen=True, slots=True)
class Clean:
    """All of the bytes were looked at and nothing was found."""

    engine: str
    signatures: str
    ms: float


@dataclass(frozen=True, slots=True)
class Infected:
    """The scanner names a threat."""

    threat: str
    engine: str
    signatures: str
    ms: float


@dataclass(frozen=True, slots=True)
class Incomplete:
    """The scanner answered, but did not look at all of it: a size, recursion or time limit of its own. Never clean."""

    why: str
    engine: str
    signatures: str
    ms: float


@dataclass(frozen=True, slots=True)
class Unavailable:
    """No answer that can be understood was had in time. Neither clean nor infected: the upload is to be tried again."""

    why: str
    engine: str


ScanResult = Clean | Infected | Incomplete | Unavailable


class Scanner(Protocol):
    """Looks for malware in sealed bytes."""

    name: str

    async def scan(self, sealed: Sealed, *, tenant_id: str) -> ScanResult:
        """Scan all of the bytes within the engine's own deadline. Never raises for a fault of the engine: that is `Unavailable`."""
        ...

    async def health(self) -> EngineHealth:
        """Answer how the engine is: version, signature version, limits. Never raises."""
        ...

    async def aclose(self) -> None:
        """Let go of connections. A second call is a no-op."""
        ...
