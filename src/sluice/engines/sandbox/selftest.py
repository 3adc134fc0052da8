"""The self-test at start: one good file of every format through a locked child, the way a stranger's file goes. The samples are the formats' own."""

import asyncio
import contextlib
import hashlib
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from sluice.engines.sandbox.program import private_file
from sluice.engines.sandbox.protocol import Job, Ran, RunResult, SandboxBroken
from sluice.kit.sealed import Sealed

_LINE_MAX: Final = 64 * 1024
_SAMPLE_SECONDS: Final = 60.0
_EVERY_FORMAT: Final = "every format"
_LOST: Final = json.dumps({"format": _EVERY_FORMAT, "failed": "their maker ended"}).encode()

Run = Callable[[Job, Sealed, str], Awaitable[RunResult]]
"""Runs a job on sealed bytes under a file name."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One good file of the format `name`, or why it could not be made."""

    name: str
    filename: str
    content: bytes
    failed: str = ""


async def self_test(sock: socket.socket, run: Run, *, at_once: int) -> None:
    """Read samples from `sock`, which is closed, and run every job on each. Raises `SandboxBroken` naming each format that failed."""
    turns = asyncio.Semaphore(at_once)

    async def examine(sample: Sample) -> str:
        async with turns:
            return await _examine(sample, run)

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(examine(sample)) async for sample in _samples(sock)]
    if failures := [failure for task in tasks if (failure := task.result())]:
        raise SandboxBroken(f"the self-test failed for {'; '.join(failures)}")


async def _samples(sock: socket.socket) -> AsyncIterator[Sample]:
    reader, writer = await asyncio.open_connection(sock=sock, limit=_LINE_MAX)
    try:
        async with asyncio.timeout(_SAMPLE_SECONDS):
            while not (about := json.loads(await reader.readline() or _LOST)).get("end"):
                content = await reader.readexactly(about.get("bytes", 0))
                yield Sample(about["format"], about.get("filename", ""), content, about.get("failed", ""))
                if about["format"] == _EVERY_FORMAT:
                    return
    except (OSError, asyncio.IncompleteReadError, TimeoutError) as fault:
        yield Sample(_EVERY_FORMAT, "", b"", f"{type(fault).__name__}: {fault}")
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


async def _examine(sample: Sample, run: Run) -> str:
    """Answer what is wrong, empty when nothing is."""
    if sample.failed:
        return f"{sample.name} (no sample: {sample.failed})"
    with private_file() as file:
        file.write(sample.content)
        file.flush()
        sealed = Sealed(file.fileno(), len(sample.content), hashlib.sha256(sample.content).digest())
        checked = await run("check", sealed, sample.filename)
        scanned = await run("scan", sealed, sample.filename)
    if not isinstance(checked, Ran):
        return f"{sample.name} ({checked})"
    found, outcome = checked.payload.get("format"), checked.payload.get("outcome")
    if (found, outcome) != (sample.name, "ok"):
        return f"{sample.name} (judged {found}, {outcome}: {checked.payload.get('detail')})"
    return "" if isinstance(scanned, Ran) else f"{sample.name} (scan: {scanned})"
