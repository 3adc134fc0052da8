"""Looking at processes from outside, for tests: who lives, who is whose child, waiting for an end without sleeping."""

import asyncio
import os
import select
from collections.abc import Callable
from pathlib import Path

from sluice.engines.sandbox.protocol import Ran, RunResult, Sandbox


def pid_in(result: RunResult) -> int:
    """Answer the process id that a job told of its child."""
    assert isinstance(result, Ran)
    pid = result.payload["pid"]
    assert isinstance(pid, int)
    return pid


def is_alive(pid: int) -> bool:
    """Answer whether the process exists and is no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in {"Z", "X"}
    except (FileNotFoundError, ProcessLookupError):
        return False


def children_of(pid: int) -> list[int]:
    """Answer the process ids of all children, zombies included."""
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def of_process(pid: object, what: str) -> str:
    """Answer what the kernel says of a process under the name `what`."""
    return Path(f"/proc/{pid}/{what}").read_text()


def wait_for_end(pid: int, seconds: float = 10.0) -> None:
    """Wait until the process has ended; fails after `seconds`."""
    try:
        pidfd = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        assert select.select([pidfd], [], [], seconds)[0], f"process {pid} still runs"
    finally:
        os.close(pidfd)


def open_descriptors() -> set[str]:
    """Answer what this process holds open, by descriptor and target."""
    found = set()
    for entry in Path("/proc/self/fd").iterdir():
        try:
            found.add(f"{entry.name} {entry.readlink()}")
        except FileNotFoundError:  # the folder's own descriptor
            continue
    return found


async def until(reached: Callable[[], bool]) -> None:
    """Let the event loop work until `reached`; the test's own time limit ends what never comes."""
    while not reached():  # noqa: ASYNC110  (the code under test has no event for a test to wait on)
        await asyncio.sleep(0)


async def until_running(sandbox: Sandbox, number: int) -> None:
    """Let the event loop work until so many runs are under way and have been handed over."""
    while (await sandbox.health()).limits["running"] != number:  # noqa: ASYNC110  (as above)
        await asyncio.sleep(0)
    await asyncio.sleep(0)
