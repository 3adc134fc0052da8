"""The one app that the server runs: settings read, services assembled, worker started, all taken down again in order."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

from fastapi import FastAPI

from sluice.api.app import furnish, make_app
from sluice.api.authenticate import Authenticator
from sluice.api.services import ApiServices, UploadDesk
from sluice.api_keys.service import ApiKeys
from sluice.db.database import DatabaseAway
from sluice.kit.clock import utc_now
from sluice.kit.throttle import FailureThrottle
from sluice.observe.log import log
from sluice.settings import Settings
from sluice.uploads.slots import TenantSlots
from sluice.wiring import Services, assembled
from sluice.worker import loop
from sluice.worker.sweeps import Background

_LAST_USED_SECONDS = 2.0


def create_app(settings: Settings | None = None) -> FastAPI:
    """Answer the app of `settings`, or of the environment's."""
    given = settings or Settings()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with assembled(given) as services:
            furnish(app, _api_services(given, services), _authenticator(given, services), services.healths)
            stop = asyncio.Event()
            tasks = [asyncio.create_task(_write_last_used(services.api_keys, stop))]
            if given.worker_inside:
                work = background(given, services)
                tasks.append(asyncio.create_task(loop.run(work, pause_seconds=given.worker_seconds, stop=stop)))
            try:
                yield
            finally:
                stop.set()
                await asyncio.gather(*tasks)

    return make_app(lifespan)


def background(settings: Settings, services: Services) -> Background:
    """Answer what the worker works with."""
    engines = services.engines
    keep = timedelta(days=settings.decision_days)
    return Background(engines.database, services.buckets, engines.stores, engines.limiter, utc_now, keep)


def _api_services(settings: Settings, services: Services) -> ApiServices:
    return ApiServices(
        contexts=services.contexts,
        files=services.files,
        buckets=services.buckets,
        api_keys=services.api_keys,
        pipeline=services.pipeline,
        signer=services.signer,
        upload_desk=UploadDesk(
            TenantSlots(settings.uploads_per_tenant, settings.upload_wait_seconds),
            settings.resolved_spool_dir,
            settings.spool_memory_kb * 1024,
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
