"""Helpers that observe processes: which are alive, which are children of which, and waiting for their end."""

import asyncio
import os
import select
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from sluice_inspect.sandbox.protocol import Completed, RunResult, Sandbox


def payload_of(result: RunResult) -> Mapping[str, Any]:
    """Return the result of a completed job."""
    assert isinstance(result, Completed), result
    return result.payload


def pid_in(result: RunResult) -> int:
    """Return the process id of the child that ran a job."""
    return int(payload_of(result)["pid"])


def is_alive(pid: int) -> bool:
    """Return whether the process exists and is not a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in {"Z", "X"}
    except (FileNotFoundError, ProcessLookupError):
        return False


def children_of(pid: int) -> list[int]:
    """Return the process ids of all children, zombies included."""
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def read_proc(pid: object, name: str) -> str:
    """Return the content of `/proc/<pid>/<name>`."""
    return Path(f"/proc/{pid}/{name}").read_text()


def wait_for_end(pid: int, seconds: float = 10.0) -> None:
    """Wait until the process has ended; fail after `seconds`."""
    try:
        pidfd = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        assert select.select([pidfd], [], [], seconds)[0], f"process {pid} still runs"
    finally:
        os.close(pidfd)


def open_descriptors() -> set[str]:
    """Return the open descriptors of this process with their targets."""
    found = set()
    for entry in Path("/proc/self/fd").iterdir():
        try:
            found.add(f"{entry.name} {entry.readlink()}")
        except FileNotFoundError:  # the descriptor of the folder itself
            continue
    return found


async def wait_until(reached: Callable[[], bool]) -> None:
    """Let the event loop run until `reached` is true; the time limit of the test ends an endless wait."""
    while not reached():  # noqa: ASYNC110  (the code under test has no event to wait for)
        await asyncio.sleep(0)


async def wait_until_running(sandbox: Sandbox, number: int) -> None:
    """Let the event loop run until `number` jobs have been handed to a child."""
    while (await sandbox.health()).limits["running"] != number:  # noqa: ASYNC110  (as above)
        await asyncio.sleep(0)
    await asyncio.sleep(0)
