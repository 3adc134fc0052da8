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
from sluice.api_keys.service import ApiKeys
from sluice.console.app import console_routes, entry_route
from sluice.db.database import DatabaseUnavailable
from sluice.kit.throttle import FailureThrottle
from sluice.observe import scrape, traces
from sluice.observe.log import log
from sluice.observe.metrics import Metric, Source
from sluice.observe.siblings import Siblings
from sluice.scanner.protocol import reload_rules
from sluice.settings import Settings
from sluice.uploads.spool import held
from sluice.wiring.assembly import Assembled, assembled, run_worker
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
            folder, number = (None, 0) if siblings is None else (siblings.folder, siblings.number)
            started = assembled(given, launched, folder=folder, number=number)
            async with started as made, _background_tasks(given, made), made.services.content_links.serving():
                spool = partial(_spool_metrics, given.resolved_spool_dir)
                desk = MetricsDesk(metrics_readers(given), (spool, *sources), siblings)
                set_state(
                    app,
                    made.services,
                    _authenticator(given, made),
                    made.healths,
                    desk,
                    download_host=None if given.download_url is None else given.download_url.host,
                )
                app.state.reload_rules = partial(reload_rules, made.engines.scanner)
                made.engines.sandbox.prepare()
                if siblings is None:
                    yield
                    return
                async with siblings.serving(partial(desk.read, made.healths)):
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
async def _background_tasks(settings: Settings, made: Assembled) -> AsyncIterator[None]:
    stop = asyncio.Event()
    tasks = [asyncio.create_task(_write_last_used(made.services.api_keys, stop))]
    if settings.worker_inside:
        scanner = nullcontext(made.engines.scanner)
        tasks.append(asyncio.create_task(run_worker(settings, made.for_worker, scanner, stop)))
    try:
        yield
    finally:
        stop.set()
        await asyncio.gather(*tasks)


def _authenticator(settings: Settings, made: Assembled) -> Authenticator:
    return Authenticator(
        made.services.api_keys,
        made.services.upload_tokens,
        made.engines.verifiers,
        made.services.tenants,
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
