"""The contract of a malware scanner. No engine lives here."""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from sluice.engines.scanner.own_look import Glance
from sluice.kit.health import EngineHealth
from sluice.kit.sealed import Sealed
from sluice.threats import RULES_VERSION


@dataclass(frozen=True, slots=True)
class Edition:
    """What a verdict holds for: an engine with its version, the version of its signatures, and that of our own rules beside it.

    `signatures` is empty where the engine has no number for them: they may then change and nobody can tell.
    """

    engine: str
    signatures: str
    rules: str = RULES_VERSION

    def __str__(self) -> str:
        return f"{self.engine}/{self.signatures}+{self.rules}"


@dataclass(frozen=True, slots=True)
class Clean:
    """All of the bytes were looked at and nothing was found.

    `member` is the address of the daemon that said so, where there are several. `cached` tells a verdict given earlier on the same bytes
    by the same edition. `flags` name what is no threat and yet worth knowing, such as a macro that runs by itself.
    """

    engine: str
    signatures: str
    ms: float
    member: str = ""
    cached: bool = False
    flags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Infected:
    """The scanner names a threat."""

    threat: str
    engine: str
    signatures: str
    ms: float
    member: str = ""


@dataclass(frozen=True, slots=True)
class Incomplete:
    """The scanner answered, but did not look at all of it: a size, recursion or time limit of its own. Never clean."""

    why: str
    engine: str
    signatures: str
    ms: float
    member: str = ""


@dataclass(frozen=True, slots=True)
class Unavailable:
    """No answer that can be understood was had in time. Neither clean nor infected: the upload is to be tried again."""

    why: str
    engine: str


ScanResult = Clean | Infected | Incomplete | Unavailable


class Scanner(Protocol):
    """Looks for malware in sealed bytes."""

    name: str

    @property
    def edition(self) -> Edition | None:
        """What a verdict given now would most likely hold for; None when that is not known. Costs nothing to ask."""

    @property
    def reach(self) -> int | None:
        """Bytes of the largest file that is scanned to its end; None where there is no such limit or none is known. Costs nothing."""

    async def scan(self, sealed: Sealed, *, tenant_id: str, glance: Glance | None = None) -> ScanResult:
        """Scan all of the bytes within the engine's own deadline. `glance` is what our own rules see in them, where a child looks already.

        Never raises for a fault of the engine: that is `Unavailable`.
        """
        ...

    async def health(self) -> EngineHealth:
        """Answer how the engine is: version, signature version, limits. Never raises."""
        ...

    async def aclose(self) -> None:
        """Let go of connections. A second call is a no-op."""
        ...


@runtime_checkable
class FindsReach(Protocol):
    """A scanner that needs time to find out its `reach`."""

    async def find_reach(self, seconds: float) -> None:
        """Wait, at most `seconds`, until `reach` is known."""
        ...
