"""Everything put together and taken apart again: for the server, for the worker, for one command."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from urllib.parse import urlsplit

from sluice.api_keys.service import ApiKeys
from sluice.buckets.service import Buckets
from sluice.buckets.stores import Stores
from sluice.contexts.service import Contexts
from sluice.db.database import Database
from sluice.engines.identity.select import VerifierSet
from sluice.engines.limiter import Limiter
from sluice.engines.sandbox import Sandbox
from sluice.engines.scanner import Scanner
from sluice.files.links import LinkSigner, load_signing_secret
from sluice.files.service import Files
from sluice.kit.clock import utc_now
from sluice.kit.failpoints import arm
from sluice.kit.health import EngineHealth
from sluice.observe.log import log
from sluice.settings import Settings
from sluice.tenants.service import Tenants
from sluice.trail.service import Trail
from sluice.uploads.pipeline import Pipeline, Terms
from sluice.uploads.sight import Sight
from sluice.wiring.ahead import Launched
from sluice.wiring.engines import make_database, make_limiter, make_sandbox, make_verifiers
from sluice.wiring.scanning import make_contexts, make_scanner, scanner_health
from sluice.wiring.secrets import LINK_SECRET, secret_file
from sluice.wiring.start import StartRefused, make_folder, refusing
from sluice.wiring.storing import make_buckets, make_stores


@dataclass(frozen=True, slots=True)
class Engines:
    """The neighbours of one process."""

    database: Database
    stores: Stores
    limiter: Limiter
    sandbox: Sandbox
    scanner: Scanner
    verifiers: VerifierSet


@dataclass(frozen=True, slots=True)
class Services:
    """All that the doors (API, worker, commands) call, and the engines behind it."""

    engines: Engines
    tenants: Tenants
    contexts: Contexts
    buckets: Buckets
    files: Files
    api_keys: ApiKeys
    pipeline: Pipeline
    signer: LinkSigner
    trail: Trail

    async def healths(self) -> Sequence[EngineHealth]:
        """Ask every engine how it is, all at once."""
        engines = self.engines
        asked = [
            engines.database.health(),
            engines.stores.platform.health(),
            engines.limiter.health(),
            engines.sandbox.health(),
            scanner_health(engines.scanner, self.contexts),
        ]
        return (*await asyncio.gather(*asked), *await engines.verifiers.health())


@dataclass(frozen=True, slots=True)
class WorkerServices:
    """What a worker alone needs: no checker and no scanner, so that it works on while those are away (see `assembled_scanner`)."""

    database: Database
    buckets: Buckets
    stores: Stores
    limiter: Limiter


@asynccontextmanager
async def assembled(settings: Settings, launched: Launched | None = None) -> AsyncIterator[Services]:
    """Put the service together, and take it apart again. Raises `StartRefused` when an engine that is needed cannot be had."""
    _arm(settings)
    async with AsyncExitStack() as stack:
        engines = await _engines(settings, launched, stack)
        yield _services(settings, engines)


@asynccontextmanager
async def assembled_for_work(settings: Settings) -> AsyncIterator[WorkerServices]:
    """Put together what `sluice work` needs, and take it apart again. Raises `StartRefused`."""
    _arm(settings)
    async with AsyncExitStack() as stack:
        database = make_database(settings)
        stack.push_async_callback(database.aclose)
        stores = make_stores(settings)
        stack.push_async_callback(stores.aclose)
        limiter = make_limiter(settings, database)
        stack.push_async_callback(limiter.aclose)
        yield WorkerServices(database, make_buckets(settings, database, stores), stores, limiter)


def _arm(settings: Settings) -> None:
    """Arm the failpoint that these settings name; in production there is none."""
    if settings.failpoint is None:
        return
    if settings.production:
        raise StartRefused("SLUICE_FAILPOINT kills the service and has no place in production.")
    with refusing("SLUICE_FAILPOINT"):
        arm(settings.failpoint)
    log.warning("failpoint_armed", failpoint=settings.failpoint)


@asynccontextmanager
async def assembled_scanner(settings: Settings, launched: Launched | None = None) -> AsyncIterator[Scanner]:
    """Put together a scanner with a sandbox of its own, and take it apart again. Raises `StartRefused` or `SandboxBroken`."""
    async with AsyncExitStack() as stack:
        make_folder(settings.resolved_spool_dir)
        sandbox = make_sandbox(settings, launched)
        stack.push_async_callback(sandbox.aclose)
        await sandbox.start()
        scanner = await make_scanner(settings, sandbox)
        stack.push_async_callback(scanner.aclose)
        yield scanner


async def _engines(settings: Settings, launched: Launched | None, stack: AsyncExitStack) -> Engines:
    database = make_database(settings)
    stack.push_async_callback(database.aclose)
    stores = make_stores(settings)
    stack.push_async_callback(stores.aclose)
    limiter = make_limiter(settings, database)
    stack.push_async_callback(limiter.aclose)
    verifiers = make_verifiers(settings)
    stack.push_async_callback(verifiers.aclose)
    sandbox = make_sandbox(settings, launched)
    stack.push_async_callback(sandbox.aclose)
    await sandbox.start()
    scanner = await make_scanner(settings, sandbox)
    stack.push_async_callback(scanner.aclose)
    log.info("engines", scanner=scanner.name, sandbox=sandbox.level)
    return Engines(database, stores, limiter, sandbox, scanner, verifiers)


def _services(settings: Settings, engines: Engines) -> Services:
    make_folder(settings.resolved_spool_dir)
    database, stores = engines.database, engines.stores
    buckets = make_buckets(settings, database, stores)
    if settings.download_url is not None and urlsplit(settings.resolved_public_url).hostname == settings.download_url.host:
        raise StartRefused("SLUICE_DOWNLOAD_URL names the host of SLUICE_PUBLIC_URL: downloads need a host of their own, or none.")
    signer = LinkSigner(load_signing_secret(secret_file(settings, LINK_SECRET)).value, settings.resolved_download_url)
    return Services(
        engines=engines,
        tenants=Tenants(database),
        contexts=make_contexts(database, engines.scanner),
        buckets=buckets,
        files=Files(database, buckets, stores, signer, purge_after=timedelta(days=settings.purge_after_days)),
        api_keys=ApiKeys(database, remember_seconds=settings.remember_seconds),
        pipeline=_pipeline(settings, engines),
        signer=signer,
        trail=Trail(database),
    )


def _pipeline(settings: Settings, engines: Engines) -> Pipeline:
    return Pipeline(
        database=engines.database,
        limiter=engines.limiter,
        sandbox=engines.sandbox,
        scanner=engines.scanner,
        stores=engines.stores,
        sight=Sight(engines.database, utc_now, remember_seconds=settings.remember_seconds),
        terms=Terms(
            settings.free_uploads_per_month,
            timedelta(seconds=settings.upload_lease_seconds),
            timedelta(hours=settings.test_file_hours),
        ),
        clock=utc_now,
    )
