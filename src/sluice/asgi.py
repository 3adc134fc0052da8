"""The one app that the server runs: settings read, services assembled, worker started, all taken down again in order."""

import asyncio
import os
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path

from fastapi import FastAPI

from sluice.api.app import furnish, make_app
from sluice.api.authenticate import Authenticator
from sluice.api.routes.metrics import MetricsDesk, MetricsReaders
from sluice.api.services import ApiServices, UploadDesk
from sluice.api_keys.service import ApiKeys
from sluice.db.database import DatabaseAway
from sluice.kit.clock import utc_now
from sluice.kit.throttle import FailureThrottle
from sluice.observe import spool_numbers, traces
from sluice.observe.log import log
from sluice.observe.metrics import Metric
from sluice.settings import Settings
from sluice.uploads.slots import TenantSlots
from sluice.uploads.spool import held
from sluice.wiring.ahead import Launched
from sluice.wiring.assembly import Services, assembled
from sluice.worker import loop
from sluice.worker.rescans import Rescans
from sluice.worker.stale_parts import StalePartsSweep
from sluice.worker.sweeps import Background

_LAST_USED_SECONDS = 2.0


def create_app(settings: Settings | None = None, launched: Launched | None = None) -> FastAPI:
    """Answer the app of `settings`, or of the environment's; `launched` is what was begun ahead of it."""
    given = settings or Settings()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        with traces.exported(os.environ):
            async with assembled(given, launched) as services, _running_tasks(given, services):
                desk = MetricsDesk(metrics_readers(given), (partial(_spool_numbers, given.resolved_spool_dir),))
                furnish(
                    app,
                    _api_services(given, services),
                    _authenticator(given, services),
                    services.healths,
                    desk,
                    download_host=None if given.download_url is None else given.download_url.host,
                )
                yield

    return make_app(lifespan)


def metrics_readers(settings: Settings) -> MetricsReaders:
    """Answer who may read the numbers of this process."""
    token = settings.metrics_token
    return MetricsReaders(None if token is None else token.get_secret_value(), from_here=not settings.production)


def _spool_numbers(folder: Path) -> Iterable[Metric]:
    return spool_numbers.families(folder, *held())


@asynccontextmanager
async def _running_tasks(settings: Settings, services: Services) -> AsyncIterator[None]:
    """Run what goes on beside the requests, until the block ends."""
    stop = asyncio.Event()
    tasks = [asyncio.create_task(_write_last_used(services.api_keys, stop))]
    if settings.worker_inside:
        work = background(settings, services)
        tasks.append(asyncio.create_task(loop.run(work, pause_seconds=settings.worker_seconds, stop=stop)))
        parts = StalePartsSweep(services.buckets, services.engines.stores, older_than=timedelta(hours=settings.stale_parts_hours))
        tasks.append(asyncio.create_task(parts.run(stop)))
        if settings.rescan_per_second:
            tasks.append(asyncio.create_task(rescans(settings, services).run(stop)))
    try:
        yield
    finally:
        stop.set()
        await asyncio.gather(*tasks)


def background(settings: Settings, services: Services) -> Background:
    """Answer what the worker works with."""
    engines = services.engines
    keep = timedelta(days=settings.decision_days), timedelta(days=settings.audit_days)
    return Background(engines.database, services.buckets, engines.stores, engines.limiter, *keep)


def rescans(settings: Settings, services: Services) -> Rescans:
    """Answer what scans stored files again."""
    engines = services.engines
    return Rescans(
        engines.database,
        services.buckets,
        engines.stores,
        engines.scanner,
        folder=settings.resolved_spool_dir,
        memory_bytes=settings.spool_memory_kb * 1024,
        per_second=settings.rescan_per_second,
        pause_seconds=settings.worker_seconds,
        clock=utc_now,
    )


def _api_services(settings: Settings, services: Services) -> ApiServices:
    return ApiServices(
        contexts=services.contexts,
        files=services.files,
        buckets=services.buckets,
        api_keys=services.api_keys,
        pipeline=services.pipeline,
        signer=services.signer,
        trail=services.trail,
        upload_desk=UploadDesk(
            TenantSlots(settings.uploads_per_tenant, settings.upload_wait_seconds),
            settings.resolved_spool_dir,
            settings.spool_memory_kb * 1024,
            kept_here=settings.resolved_storage_bucket is None,
        ),
    )


def _authenticator(settings: Settings, services: Services) -> Authenticator:
    return Authenticator(
        services.api_keys,
        services.engines.verifiers,
        services.tenants,
        FailureThrottle(settings.failed_logins, 60.0, 10_000),
        default_scopes=settings.jwt_default_scopes,
        provision=[settings.oidc_issuer] if settings.oidc_provision and settings.oidc_issuer else [],
        remember_seconds=settings.remember_seconds,
        log_logins=settings.log_logins,
    )


async def _write_last_used(api_keys: ApiKeys, stop: asyncio.Event) -> None:
    """Write when keys were last used, every few seconds and once more at the end: not at every request."""
    while not stop.is_set():
        try:
            async with asyncio.timeout(_LAST_USED_SECONDS):
                await stop.wait()
        except TimeoutError:
            pass
        try:
            await api_keys.write_last_used()
        except DatabaseAway as fault:
            log.warning("last_used_waits", fault=str(fault))
