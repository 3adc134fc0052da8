"""The scanner engine `off`, for services whose contexts ask for no scan. It never returns `Clean`."""

import asyncio

from sluice.kit.health import EngineHealth, EngineState
from sluice.scanner.protocol import ScannerUnavailable, ScanResult
from sluice_inspect.sandbox.sealed import Sealed
from sluice_inspect.sandbox.unpack import UnpackReport


class NoScanner:
    """Returns `ScannerUnavailable` for every scan, so that uploads into contexts that ask for one are refused."""

    name = "off"
    engine_version = None
    scan_limit = None

    async def scan(
        self,
        sealed: Sealed,  # noqa: ARG002  (the protocol's signature)
        *,
        tenant_id: str,  # noqa: ARG002  (the same)
        unpack_report: "asyncio.Future[UnpackReport | None] | None" = None,  # noqa: ARG002  (the same)
    ) -> ScanResult:
        """Return `ScannerUnavailable`."""
        return ScannerUnavailable("scanning is switched off (SLUICE_SCANNER=off)", self.name)

    async def health(self) -> EngineHealth:
        """Return `degraded`: being off is a choice and not a fault."""
        return EngineHealth(
            "scanner", self.name, EngineState.DEGRADED, detail="contexts with scan_for_viruses are refused"
        )

    async def aclose(self) -> None:
        """Do nothing."""
