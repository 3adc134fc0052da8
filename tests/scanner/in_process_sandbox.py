"""A sandbox in this process: the contract of `Sandbox` without any wall, for bytes that the tests made themselves."""

import os

from sluice.engines.sandbox import Level, Ran, RunResult
from sluice.engines.sandbox.protocol import Job
from sluice.engines.sandbox.tray import Tray, TrayWriter
from sluice.kit.health import EngineHealth, EngineState
from sluice.kit.sealed import Sealed
from sluice.threats.scan import scan_source


class InProcessSandbox:
    """Looks for threats here; with `answers`, says that instead."""

    level: Level = "limits-only"

    def __init__(self, answers: RunResult | None = None) -> None:
        self.answers = answers
        self.state = EngineState.UP
        self.asked: list[tuple[Job, str, str]] = []

    async def start(self) -> None:
        """Nothing to start."""

    async def run(self, job: Job, sealed: Sealed, *, filename: str, tenant_id: str, tray: Tray | None = None) -> RunResult:
        self.asked.append((job, filename, tenant_id))
        if self.answers is not None:
            return self.answers
        fd = sealed.reopen()
        writer = None if tray is None else TrayWriter(os.dup(tray.fd))
        try:
            return Ran(scan_source(fd, filename, writer, everything=job == "unpack"), ms=1.0)
        finally:
            os.close(fd)
            if writer is not None:
                writer.close()

    async def health(self) -> EngineHealth:
        return EngineHealth("sandbox", "twin", self.state, detail="in process", limits={"level": self.level})

    async def aclose(self) -> None:
        """Nothing to end."""
