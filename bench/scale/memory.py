"""The memory that concurrent large uploads need besides their spool, with a local store and with S3.

Only anonymous memory counts, not files or mappings of files.
"""

import asyncio
from contextlib import suppress
from http import HTTPStatus
from pathlib import Path
from typing import Any

from bench.cpu import anonymous_bytes
from bench.sluice import Sluice, running_sluice
from bench.stores import running_store
from bench.traffic import upload_large

_POLL_SECONDS = 0.25
_SLOW = {"UPLOAD_WAIT_SECONDS": "3600", "BODY_IDLE_SECONDS": "600", "BODY_BYTES_PER_SECOND": "1"}


def measure(folder: Path, *, megabytes: int, at_once: int) -> dict[str, Any]:
    """Return by store the MB of all processes when idle after small uploads, and the growth at the peak and after."""
    found = {}
    for store in ("local", "s3"):
        home = folder / store
        home.mkdir()
        with (
            running_store(home, store) as objects,
            running_sluice(home / "data", f"sqlite:///{home}/data/sluice.db", **_SLOW, **objects.settings) as sluice,
        ):
            found[store] = asyncio.run(_measured(sluice, megabytes, at_once))
        print(f"{store}: {found[store]}", flush=True)
    return found


async def _measured(sluice: Sluice, megabytes: int, at_once: int) -> dict[str, float]:
    target = sluice.context("large")
    for _ in range(at_once):
        await upload_large(target, 1)
    idle = anonymous_bytes(sluice.pid)
    peak = [idle]
    polling = asyncio.create_task(_poll(sluice.pid, peak))
    statuses = await asyncio.gather(*(upload_large(target, megabytes) for _ in range(at_once)))
    polling.cancel()
    with suppress(asyncio.CancelledError):
        await polling
    if set(statuses) != {HTTPStatus.CREATED}:
        raise SystemExit(f"unexpected statuses: {statuses}")
    after = anonymous_bytes(sluice.pid)
    return {
        name: round(value / 1e6, 1)
        for name, value in (("idle", idle), ("grown", max(peak) - idle), ("kept", after - idle))
    }


async def _poll(pid: int, peak: list[int]) -> None:
    while True:
        peak.append(await asyncio.to_thread(anonymous_bytes, pid))
        await asyncio.sleep(_POLL_SECONDS)
