"""The absent scanner, for services whose contexts ask for no scan. It never says that anything is clean."""

from sluice.engines.scanner.own_look import Glance
from sluice.engines.scanner.protocol import ScanResult, Unavailable
from sluice.kit.health import EngineHealth, EngineState
from sluice.kit.sealed import Sealed


class NoScanner:
    """Answers every scan with `Unavailable`: contexts that ask for one are refused, not waved through."""

    name = "off"
    edition = None
    reach = None

    async def scan(
        self,
        sealed: Sealed,  # noqa: ARG002  (the protocol's signature)
        *,
        tenant_id: str,  # noqa: ARG002  (the same)
        glance: Glance | None = None,  # noqa: ARG002  (the same)
    ) -> ScanResult:
        """Answer that nothing was looked at."""
        return Unavailable("scanning is switched off (SLUICE_SCANNER=off)", self.name)

    async def health(self) -> EngineHealth:
        """Answer that it is off, which is a choice and not a fault."""
        return EngineHealth("scanner", self.name, EngineState.DEGRADED, detail="contexts with scan_for_viruses are refused")

    async def aclose(self) -> None:
        """Do nothing."""
