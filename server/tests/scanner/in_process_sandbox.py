"""A sandbox in this process: the contract of `Sandbox` without confinement, for bytes that the tests made."""

import os

from sluice.kit.health import EngineHealth, EngineState
from sluice.kit.sealed import Sealed
from sluice.sandbox import Completed, Level, RunResult
from sluice.sandbox.protocol import Job
from sluice_inspect.child.shared_buffer import SharedBuffer, SharedBufferWriter
from sluice_inspect.threats.scan import scan_source


class InProcessSandbox:
    """Runs the scan in this process, or returns `result` when it is given."""

    level: Level = "limits-only"

    def __init__(self, result: RunResult | None = None) -> None:
        self.result = result
        self.state = EngineState.UP
        self.asked: list[tuple[Job, str, str]] = []

    async def begin(self) -> None:
        """Do nothing: there is no process to start."""

    def prepare(self) -> None:
        """Do nothing."""

    async def start(self, *, every_format: bool = True) -> None:
        """Do nothing."""

    async def run(
        self, job: Job, sealed: Sealed, *, filename: str, tenant_id: str, buffer: SharedBuffer | None = None
    ) -> RunResult:
        self.asked.append((job, filename, tenant_id))
        if self.result is not None:
            return self.result
        fd = sealed.reopen()
        writer = None if buffer is None else SharedBufferWriter(os.dup(buffer.fd))
        try:
            return Completed(scan_source(fd, filename, writer, everything=job == "extract_all"), ms=1.0)
        finally:
            os.close(fd)
            if writer is not None:
                writer.close()

    async def health(self) -> EngineHealth:
        return EngineHealth("sandbox", "twin", self.state, detail="in process", limits={"level": self.level})

    async def aclose(self) -> None:
        """Do nothing: there is no process to end."""
