"""The ASGI app of a server: reads the settings, assembles the services, runs the worker, closes all of it in order."""

import asyncio
import os
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager, nullcontext
from functools import partial
from pathlib import Path

from starlette.applications import Starlette

from sluice.api.app import make_app, set_state
from sluice.api.authenticate import Authenticator
from sluice.api.routes.metrics import MetricsDesk, MetricsReaders
from sluice.api.services import ApiServices
from sluice.api_keys.service import ApiKeys
from sluice.console.app import console_routes, entry_route
from sluice.db.database import DatabaseUnavailable
from sluice.kit.throttle import FailureThrottle
from sluice.observe import scrape, traces
from sluice.observe.log import log
from sluice.observe.metrics import Metric, Source
from sluice.observe.siblings import Siblings
from sluice.settings import Settings
from sluice.uploads.spool import held
from sluice.wiring.assembly import Services, assembled, run_worker
from sluice.wiring.prestart import EarlyZygote

_LAST_USED_SECONDS = 2.0


def create_app(
    settings: Settings | None = None,
    launched: EarlyZygote | None = None,
    sources: Sequence[Source] = (),
    siblings: Siblings | None = None,
) -> Starlette:
    """Return the app of `settings`, by default those of the environment.

    `launched` is a zygote started before, or the socket of a shared one, `sources` are further metrics, `siblings` the
    other processes of the server.
    """
    given = settings or Settings()

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        with traces.exported(os.environ):
            async with assembled(given, launched) as services, _background_tasks(given, services):
                spool = partial(_spool_metrics, given.resolved_spool_dir)
                desk = MetricsDesk(metrics_readers(given), (spool, *sources), siblings)
                set_state(
                    app,
                    _api_services(given, services),
                    _authenticator(given, services),
                    services.healths,
                    desk,
                    download_host=None if given.download_url is None else given.download_url.host,
                )
                services.engines.sandbox.prepare()
                if siblings is None:
                    yield
                    return
                async with siblings.serving(partial(desk.read, services.healths)):
                    yield

    routes = [*console_routes(), entry_route("/console")] if given.console else []
    if given.docs and not given.console:
        routes = [entry_route("/docs")]
    return make_app(lifespan, docs_pages=given.docs, first_routes=routes)


def metrics_readers(settings: Settings) -> MetricsReaders:
    """Return who may read the metrics of this process."""
    token = settings.metrics_token
    return MetricsReaders(None if token is None else token.get_secret_value())


def _spool_metrics(folder: Path) -> Iterable[Metric]:
    return scrape.spool_families(folder, *held())


@asynccontextmanager
async def _background_tasks(settings: Settings, services: Services) -> AsyncIterator[None]:
    stop = asyncio.Event()
    tasks = [asyncio.create_task(_write_last_used(services.api_keys, stop))]
    if settings.worker_inside:
        scanner = nullcontext(services.engines.scanner)
        tasks.append(asyncio.create_task(run_worker(settings, services.for_worker, scanner, stop)))
    try:
        yield
    finally:
        stop.set()
        await asyncio.gather(*tasks)


def _api_services(settings: Settings, services: Services) -> ApiServices:
    return ApiServices(
        contexts=services.contexts,
        files=services.files,
        jobs=services.jobs,
        buckets=services.buckets,
        api_keys=services.api_keys,
        uploads=services.uploads,
        reports=services.reports,
        signer=services.signer,
        audit=services.audit,
        upload_tokens=services.upload_tokens,
        cors=services.cors,
        resumable=services.resumable,
        events=services.events,
        tenants=services.tenants,
        quarantine=services.quarantine,
        sessions=services.sessions,
        webhooks=services.webhooks,
        usage=services.usage,
        receipts=services.receipts,
        erasures=services.erasures,
        sign_in=services.engines.sign_in,
        public_url=settings.resolved_public_url,
        ietf_uploads=settings.ietf_uploads,
    )


def _authenticator(settings: Settings, services: Services) -> Authenticator:
    return Authenticator(
        services.api_keys,
        services.upload_tokens,
        services.engines.verifiers,
        services.tenants,
        FailureThrottle(settings.failed_logins, 60.0, 10_000),
        default_scopes=settings.jwt_default_scopes,
        provision=[settings.oidc_issuer] if settings.oidc_provision and settings.oidc_issuer else [],
        log_logins=settings.log_logins,
    )


async def _write_last_used(api_keys: ApiKeys, stop: asyncio.Event) -> None:
    # One write every few seconds instead of one for each request, and one at the end so that nothing is lost.
    while not stop.is_set():
        try:
            async with asyncio.timeout(_LAST_USED_SECONDS):
                await stop.wait()
        except TimeoutError:
            pass
        try:
            await api_keys.write_last_used()
        except DatabaseUnavailable as fault:
            log.warning("last_used_waits", fault=str(fault))
