"""A sandbox in this process: the contract of `Sandbox` without confinement, for bytes that the tests made."""

import os
from typing import Literal

from sluice_inspect.child.shared_buffer import SharedBuffer, SharedBufferWriter
from sluice_inspect.sandbox import Completed, FewFiles, Level, OperatorRules, RunResult, SandboxHealth
from sluice_inspect.sandbox.protocol import Job
from sluice_inspect.sandbox.sealed import Sealed
from sluice_inspect.threats.scan import scan_source


class InProcessSandbox:
    """Runs the scan in this process, or returns `result` when it is given."""

    level: Level = "limits-only"

    def __init__(self, result: RunResult | None = None) -> None:
        self.result = result
        self.state: Literal["up", "degraded", "down"] = "up"
        self.asked: list[tuple[Job, str, str]] = []

    async def begin(self) -> None:
        """Do nothing: there is no process to start."""

    def prepare(self) -> None:
        """Do nothing."""

    async def start(self, *, every_format: bool = True, only: FewFiles | None = None) -> None:
        """Do nothing."""

    async def use_rules(self, rules: OperatorRules) -> str:
        """Ignore them: they would be loaded for all tests that follow."""
        os.close(rules.fd)
        return ""

    async def run(
        self,
        job: Job,
        sealed: Sealed,
        *,
        filename: str,
        tenant_id: str,
        buffer: SharedBuffer | None = None,
        **_: object,
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

    async def health(self) -> SandboxHealth:
        return SandboxHealth(self.state, "in process", {"level": self.level})

    async def aclose(self) -> None:
        """Do nothing: there is no process to end."""
