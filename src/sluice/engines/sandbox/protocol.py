"""The contract of the sandbox. No engine lives here."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

from sluice.engines.sandbox.tray import Tray
from sluice.kit.health import EngineHealth
from sluice.kit.sealed import Sealed

Job = Literal["check", "scan", "inspect", "uncover", "unpack"]
"""What a child can be asked: `check` judges the format (`sluice.formats`), the others look for known threats (`sluice.threats`).

`inspect` does both, `check` and `scan`, in little time: what takes longer is to be asked for by itself.
`uncover` also lays out what clamd does not see, and `unpack` everything that is packed in the file: both are lent a tray.
"""

Level = Literal["strict", "seccomp", "limits-only"]
"""How firmly children are held: `strict` by rlimits, no_new_privs, seccomp and Landlock, `seccomp` without Landlock, `limits-only` by rlimits."""


class SandboxBroken(Exception):
    """The sandbox cannot be trusted with strangers' bytes here. `str()` says why: the level that cannot be reached, or the formats that failed."""


@dataclass(frozen=True, slots=True)
class Ran:
    """The child answered. `payload` is its JSON object, bounded in size and otherwise not yet trusted: a child may lie."""

    payload: Mapping[str, object]
    ms: float


@dataclass(frozen=True, slots=True)
class Died:
    """The child ended, or answered nonsense, while it worked on this file."""

    why: str
    ms: float


@dataclass(frozen=True, slots=True)
class Overran:
    """The child was stopped at a limit of its own: wall clock, CPU time or memory."""

    limit: Literal["wall", "cpu", "memory"]
    ms: float


@dataclass(frozen=True, slots=True)
class Away:
    """No child could be had: the fault is ours, not the file's."""

    why: str


RunResult = Ran | Died | Overran | Away


class Sandbox(Protocol):
    """Runs one job on sealed bytes in a locked child process."""

    level: Level
    """The level that was reached; known once `start` has returned."""

    async def start(self) -> None:
        """Start the children and check one good file of every format inside; raises `SandboxBroken` with the format that failed."""
        ...

    async def run(self, job: Job, sealed: Sealed, *, filename: str, tenant_id: str, tray: Tray | None = None) -> RunResult:
        """Run `job` on a read-only descriptor of the bytes. A child is only ever reused for files of the same tenant.

        What it lays on `tray`, which stays the caller's to close, is sealed once the answer is `Ran`, and of no meaning otherwise.
        Never raises for anything that the file or the child does. Cancelling the call stops the child.
        """
        ...

    async def health(self) -> EngineHealth:
        """Answer how the engine is. Never raises."""
        ...

    async def aclose(self) -> None:
        """End every child. A second call is a no-op."""
        ...
