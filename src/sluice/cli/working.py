"""Running the worker alone, until a signal says stop. What it sweeps is in `worker`."""

import asyncio
import os
import signal
from contextlib import AsyncExitStack
from datetime import timedelta

import uvloop

from sluice.cli.environment import bring_up_to_date
from sluice.engines.sandbox import SandboxBroken
from sluice.kit.clock import utc_now
from sluice.observe import traces
from sluice.observe.log import log
from sluice.settings import Settings
from sluice.wiring.ahead import Launched
from sluice.wiring.assembly import WorkerServices, assembled_for_work, assembled_scanner
from sluice.wiring.start import StartRefused
from sluice.worker import loop
from sluice.worker.rescans import Rescans
from sluice.worker.stale_parts import StalePartsSweep
from sluice.worker.sweeps import Background


def work(settings: Settings, launched: Launched | None = None) -> None:
    """Sweep until SIGINT or SIGTERM; the round under way is finished. Raises `DatabaseAway` when there is no database to begin with.

    `launched` is the zygote of its scanner, where one was begun while this module was loaded.
    """
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_work(settings, launched))


async def _work(settings: Settings, launched: Launched | None) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    await bring_up_to_date(settings)
    async with AsyncExitStack() as stack:
        stack.enter_context(traces.exported(os.environ))
        parts = await stack.enter_async_context(assembled_for_work(settings))
        if settings.worker_port is not None:
            from sluice.cli.watched import watched  # noqa: PLC0415  (a worker without a port loads no HTTP framework)

            await stack.enter_async_context(watched(settings, settings.worker_port, parts))
        keep = timedelta(days=settings.decision_days), timedelta(days=settings.audit_days)
        background = Background(parts.database, parts.buckets, parts.stores, parts.limiter, *keep)
        log.info("working", pause_seconds=settings.worker_seconds)
        sweeping = loop.run(background, pause_seconds=settings.worker_seconds, stop=stop)
        stale = StalePartsSweep(parts.buckets, parts.stores, older_than=timedelta(hours=settings.stale_parts_hours))
        await asyncio.gather(sweeping, stale.run(stop), _rescan(settings, parts, stop, launched))
    log.info("stopped")


async def _rescan(settings: Settings, parts: WorkerServices, stop: asyncio.Event, launched: Launched | None) -> None:
    """Scan stored files again, with a scanner of its own. Where none can be had, all else goes on."""
    if not settings.rescan_per_second:
        return
    try:
        async with assembled_scanner(settings, launched) as scanner:
            rescans = Rescans(
                parts.database,
                parts.buckets,
                parts.stores,
                scanner,
                folder=settings.resolved_spool_dir,
                memory_bytes=settings.spool_memory_kb * 1024,
                per_second=settings.rescan_per_second,
                pause_seconds=settings.worker_seconds,
                clock=utc_now,
            )
            await rescans.run(stop)
    except (StartRefused, SandboxBroken) as fault:
        log.error("rescans_off", why=str(fault))
