"""The services of a process, assembled from the settings and closed again: for the server, the worker, one command."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from sluice.api_keys.service import ApiKeys
from sluice.audit.service import AuditLog
from sluice.buckets.service import Buckets
from sluice.buckets.stores import Stores
from sluice.cors.service import Cors
from sluice.db.database import Database
from sluice.erasures.service import Erasures
from sluice.events.service import EventFeed
from sluice.examples.service import Examples
from sluice.files.links import LinkSigner, load_signing_secret
from sluice.files.service import Files, Quarantine
from sluice.hash_lists.service import HashLists
from sluice.identity import SignInFlow
from sluice.identity.verifier_set import VerifierSet
from sluice.jobs.service import MOST_ACTIVE, Jobs
from sluice.kit.cipher import Sealer
from sluice.kit.clock import utc_now
from sluice.kit.failpoints import arm
from sluice.kit.health import EngineHealth
from sluice.limiter import Limiter
from sluice.observe.log import log
from sluice.previews import Previews
from sluice.receipts.service import Receipts
from sluice.receipts.signing import ReceiptKeys
from sluice.resumable.service import ResumableLimits, ResumableUploads
from sluice.scanner import Scanner
from sluice.services import Services
from sluice.sessions.service import Sessions
from sluice.settings import Settings
from sluice.tenants.service import Tenants
from sluice.upload_tokens.service import UploadTokens
from sluice.uploads.content_links import ContentLinks
from sluice.uploads.external_checks import ExternalChecks
from sluice.uploads.reports import Reports
from sluice.uploads.slots import UploadSlots
from sluice.uploads.snapshot import SnapshotCache
from sluice.uploads.spool import Spool, SpoolRoom
from sluice.uploads.upload import UploadLimits, Uploads
from sluice.usage.service import UsageReader
from sluice.users.service import Users
from sluice.webhooks.service import MOST_ENDPOINTS, Webhooks
from sluice.wiring.engines import (
    make_contexts,
    make_database,
    make_limiter,
    make_scanner,
    make_sign_in,
    make_verifiers,
    scanner_healths,
)
from sluice.wiring.prestart import EarlyZygote
from sluice.wiring.refusal import StartRefused, refusing
from sluice.wiring.sandbox import make_sandbox, sandbox_health
from sluice.wiring.start import (
    LINK_SECRET,
    keyring,
    make_folder,
    receipt_keys_place,
    secret_place,
)
from sluice.wiring.storage import make_buckets, make_stores
from sluice.worker import runner
from sluice.worker.job import JobContext
from sluice.worker.jobs.bulk import BulkJobs
from sluice.worker.jobs.housekeeping import StalePartsSweep
from sluice.worker.jobs.incoming import run_orphan_sweep
from sluice.worker.jobs.rescans import Rescans
from sluice.worker.jobs.webhooks import WebhookDeliveries, WebhookOptions
from sluice_inspect.sandbox import Sandbox, SandboxBroken

_TEST_FILE_LIFE: Final = timedelta(hours=24)
_WEBHOOK_SECONDS: Final = 1.0  # between two looks for events to send


@dataclass(frozen=True, slots=True)
class Engines:
    """The engines of a server process."""

    database: Database
    stores: Stores
    limiter: Limiter
    sandbox: Sandbox
    scanner: Scanner
    verifiers: VerifierSet
    sign_in: SignInFlow | None


@dataclass(frozen=True, slots=True)
class WorkerServices:
    """The services of a worker: neither checker nor scanner, so that it works while those are unavailable."""

    database: Database
    buckets: Buckets
    stores: Stores
    limiter: Limiter
    keyring: Sealer


@dataclass(frozen=True, slots=True)
class Assembled:
    """Everything that a server calls, and the engines behind it."""

    engines: Engines
    services: Services
    keyring: Sealer

    @property
    def for_worker(self) -> WorkerServices:
        """The part that a worker needs."""
        engines = self.engines
        return WorkerServices(engines.database, self.services.buckets, engines.stores, engines.limiter, self.keyring)

    async def healths(self) -> Sequence[EngineHealth]:
        """Return the health of every engine; all are asked at once."""
        engines = self.engines
        asked = [
            engines.database.health(),
            engines.stores.platform.health(),
            engines.limiter.health(),
            sandbox_health(engines.sandbox),
        ]
        scanners = scanner_healths(engines.scanner, self.services.contexts)
        first, scanners_found = await asyncio.gather(asyncio.gather(*asked), scanners)
        return (*first, *scanners_found, *await engines.verifiers.health())


@asynccontextmanager
async def assembled(
    settings: Settings, launched: EarlyZygote | None = None, *, folder: Path | None = None, number: int = 0
) -> AsyncIterator[Assembled]:
    """Assemble the whole service and close it at the end. Raise `StartRefused` if a required engine is unavailable.

    This is process `number` of those that share `folder`; None: it is the only one.
    """
    _arm_failpoint(settings)
    async with AsyncExitStack() as stack:
        engines = await _start_engines(settings, launched, stack)
        sealer = keyring(settings)
        yield Assembled(engines, _make_services(settings, engines, sealer, folder, number), sealer)


@asynccontextmanager
async def assembled_for_work(settings: Settings) -> AsyncIterator[WorkerServices]:
    """Assemble what `sluice work` needs and close it at the end. Raise `StartRefused`."""
    _arm_failpoint(settings)
    async with AsyncExitStack() as stack:
        database = make_database(settings)
        stack.push_async_callback(database.aclose)
        stores = make_stores(settings)
        stack.push_async_callback(stores.aclose)
        limiter = make_limiter(settings, database)
        stack.push_async_callback(limiter.aclose)
        buckets = make_buckets(settings, database, stores)
        yield WorkerServices(database, buckets, stores, limiter, keyring(settings))


@asynccontextmanager
async def assembled_scanner(settings: Settings, launched: EarlyZygote | None = None) -> AsyncIterator[Scanner]:
    """Start a scanner with a sandbox of its own and close both at the end. Raise `StartRefused` or `SandboxBroken`."""
    async with AsyncExitStack() as stack:
        make_folder(settings.resolved_spool_dir)
        sandbox = make_sandbox(settings, launched)
        stack.push_async_callback(sandbox.aclose)
        await sandbox.start()
        scanner = await make_scanner(settings, sandbox)
        stack.push_async_callback(scanner.aclose)
        yield scanner


async def run_worker(
    settings: Settings,
    services: WorkerServices,
    scanner: AbstractAsyncContextManager[Scanner],
    stop: asyncio.Event,
) -> None:
    """Run all background work until `stop` is set: sweeps, the cleanup of stale parts, webhooks, and rescans.

    `scanner` is entered only if the settings ask for rescans.
    """
    sweeps = JobContext(
        services.database,
        services.buckets,
        services.stores,
        services.limiter,
        keep_decisions=timedelta(days=settings.decision_days),
        keep_audit=timedelta(days=settings.audit_days),
        free_uploads_per_month=settings.free_uploads_per_month,
        purge_after=timedelta(days=settings.purge_after_days),
    )
    stale_parts = StalePartsSweep(
        services.buckets, services.stores, older_than=timedelta(hours=settings.stale_parts_hours)
    )
    webhooks = WebhookDeliveries(
        services.database,
        services.keyring,
        WebhookOptions(settings.webhook_hosts),
        pause_seconds=min(settings.worker_seconds, _WEBHOOK_SECONDS),
    )
    bulk_jobs = BulkJobs(
        services.database,
        services.stores.platform,
        purge_after=timedelta(days=settings.purge_after_days),
        two_persons=settings.review_two_persons,
        pause_seconds=settings.worker_seconds,
        clock=utc_now,
    )
    jobs = [
        runner.run(sweeps, pause_seconds=settings.worker_seconds, stop=stop),
        stale_parts.run(stop),
        run_orphan_sweep(sweeps, stop),
        bulk_jobs.run(stop),
        webhooks.run(stop),
    ]
    if settings.rescan_per_second:
        jobs.append(_rescan(settings, services, scanner, stop))
    await asyncio.gather(*jobs)


async def _rescan(
    settings: Settings,
    services: WorkerServices,
    opened_scanner: AbstractAsyncContextManager[Scanner],
    stop: asyncio.Event,
) -> None:
    try:
        async with opened_scanner as scanner:
            rescans = Rescans(
                services.database,
                services.buckets,
                services.stores,
                scanner,
                folder=settings.resolved_spool_dir,
                memory_bytes=settings.spool_memory_kb * 1024,
                per_second=settings.rescan_per_second,
                pause_seconds=settings.worker_seconds,
                clock=utc_now,
            )
            await rescans.run(stop)
    except (StartRefused, SandboxBroken) as fault:
        # Sweeps give quota back and purge deleted files. They must not wait for a scanner.
        log.error("rescans_off", why=str(fault))
    except Exception:  # noqa: BLE001  (a scanner that fails must not end the other jobs)
        log.exception("worker_job_failed", job="rescans")


def make_quarantine(settings: Settings, database: Database) -> Quarantine:
    """Return the files in quarantine, for reviewers and operators."""
    return Quarantine(
        database,
        purge_after=timedelta(days=settings.purge_after_days),
        two_persons=settings.review_two_persons,
    )


def _arm_failpoint(settings: Settings) -> None:
    if settings.failpoint is None:
        return
    if settings.production:
        raise StartRefused("SLUICE_FAILPOINT kills the service and has no place in production.")
    with refusing("SLUICE_FAILPOINT"):
        arm(settings.failpoint)
    log.warning("failpoint_armed", failpoint=settings.failpoint)


async def _start_engines(settings: Settings, launched: EarlyZygote | None, stack: AsyncExitStack) -> Engines:
    database = make_database(settings)
    stack.push_async_callback(database.aclose)
    stores = make_stores(settings)
    stack.push_async_callback(stores.aclose)
    limiter = make_limiter(settings, database)
    stack.push_async_callback(limiter.aclose)
    verifiers = make_verifiers(settings)
    stack.push_async_callback(verifiers.aclose)
    sign_in = make_sign_in(settings)
    if sign_in is not None:
        stack.push_async_callback(sign_in.aclose)
    sandbox = make_sandbox(settings, launched)
    stack.push_async_callback(sandbox.aclose)
    await sandbox.begin()
    scanner = await make_scanner(settings, sandbox)
    stack.push_async_callback(scanner.aclose)
    log.info("engines", scanner=scanner.name, sandbox=sandbox.level)
    return Engines(database, stores, limiter, sandbox, scanner, verifiers, sign_in)


def _make_services(settings: Settings, engines: Engines, sealer: Sealer, folder: Path | None, number: int) -> Services:
    make_folder(settings.resolved_spool_dir)
    # A separate host keeps files of strangers out of the origin of the API; the same host would give no protection.
    download_host = None if settings.download_url is None else settings.download_url.host
    if download_host is not None and download_host == urlsplit(settings.resolved_public_url).hostname:
        raise StartRefused(
            "SLUICE_DOWNLOAD_URL names the host of SLUICE_PUBLIC_URL: downloads need a host of their own, or none."
        )
    database, stores = engines.database, engines.stores
    contexts = make_contexts(database, engines.scanner, sealer, settings.webhook_hosts)
    buckets = make_buckets(settings, database, stores)
    links = ContentLinks(str(settings.machine_url or settings.resolved_public_url), folder, number)
    uploads = _make_uploads(settings, engines, ExternalChecks(links, sealer, settings.webhook_hosts))
    signer = LinkSigner(load_signing_secret(secret_place(settings, LINK_SECRET)).value, settings.resolved_download_url)
    files = Files(
        database,
        buckets,
        stores,
        signer,
        purge_after=timedelta(days=settings.purge_after_days),
        two_persons=settings.review_two_persons,
    )
    jobs = Jobs(database, files, signer, stores.platform)
    sessions = Sessions(database)
    receipts = Receipts(database, ReceiptKeys(receipt_keys_place(settings)), settings.resolved_public_url)
    return Services(
        tenants=Tenants(database),
        contexts=contexts,
        examples=Examples(database, engines.sandbox),
        buckets=buckets,
        files=files,
        jobs=jobs,
        api_keys=ApiKeys(database),
        uploads=uploads,
        reports=Reports(database),
        signer=signer,
        audit=AuditLog(database),
        upload_tokens=UploadTokens(database, contexts, engines.limiter),
        cors=Cors(database),
        hash_lists=HashLists(database),
        resumable=ResumableUploads(
            database,
            stores.platform,
            partial(Spool, settings.spool_memory_kb * 1024, settings.resolved_spool_dir),
            uploads.slots,
            ResumableLimits(timedelta(hours=settings.resumable_hours), settings.resumable_mb * 1024 * 1024),
        ),
        events=EventFeed(database),
        quarantine=make_quarantine(settings, database),
        sessions=sessions,
        users=Users(database, sessions, settings.resolved_public_url, attempts_per_minute=settings.failed_logins),
        webhooks=Webhooks(database, sealer, settings.webhook_hosts),
        usage=UsageReader(
            database,
            free_uploads_per_month=settings.free_uploads_per_month,
            most_endpoints=MOST_ENDPOINTS,
            most_jobs=MOST_ACTIVE,
        ),
        receipts=receipts,
        erasures=Erasures(database, jobs, receipts),
        content_links=links,
        previews=Previews(
            files,
            engines.sandbox,
            signer,
            partial(Spool, settings.spool_memory_kb * 1024, settings.resolved_spool_dir),
        ),
        sign_in=engines.sign_in,
        public_url=settings.resolved_public_url,
        ietf_uploads=settings.ietf_uploads,
    )


def _make_uploads(settings: Settings, engines: Engines, external_checks: ExternalChecks) -> Uploads:
    return Uploads(
        database=engines.database,
        limiter=engines.limiter,
        sandbox=engines.sandbox,
        scanner=engines.scanner,
        stores=engines.stores,
        snapshots=SnapshotCache.of(engines.database, seconds=settings.remember_seconds),
        slots=UploadSlots(settings.uploads_per_tenant, settings.upload_wait_seconds),
        make_spool=partial(
            Spool,
            settings.spool_memory_kb * 1024,
            settings.resolved_spool_dir,
            kept_here=settings.resolved_storage_url is None,
        ),
        room=SpoolRoom(settings.spool_mb * 1024 * 1024, settings.upload_wait_seconds),
        limits=UploadLimits(
            settings.free_uploads_per_month,
            settings.validations_per_minute,
            timedelta(seconds=settings.upload_lease_seconds),
            _TEST_FILE_LIFE,
        ),
        clock=utc_now,
        external_checks=external_checks,
    )
