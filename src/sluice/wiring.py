"""The composition root: settings in, services out. The only module that names a concrete engine; nothing is decided here but which."""

import asyncio
import hmac
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

from sluice.api_keys.service import ApiKeys
from sluice.buckets import Bucket
from sluice.buckets.service import Buckets, secret_binding
from sluice.buckets.stores import Stores
from sluice.contexts.service import Contexts
from sluice.db.database import HEALTH_SECONDS, Database, DatabaseAway
from sluice.db.postgres import PostgresTerms
from sluice.engines.health import EngineHealth, EngineState
from sluice.engines.identity import TokenVerifier
from sluice.engines.identity.claims import ClaimRules
from sluice.engines.identity.local import LocalVerifier
from sluice.engines.identity.local_keys import LocalKey, make_local_key
from sluice.engines.identity.oidc import OidcVerifier
from sluice.engines.identity.select import VerifierSet
from sluice.engines.limiter import Limiter
from sluice.engines.limiter.database import DatabaseLimiter
from sluice.engines.limiter.memory import MemoryLimiter
from sluice.engines.limiter.redis import RedisLimiter
from sluice.engines.sandbox import Level, Sandbox
from sluice.engines.sandbox.judge import Budget
from sluice.engines.sandbox.spawn import SpawnSandbox
from sluice.engines.sandbox.zygote import ZygoteSandbox
from sluice.engines.scanner import Scanner
from sluice.engines.scanner.builtin import BuiltinScanner
from sluice.engines.scanner.cached import CachedScanner
from sluice.engines.scanner.clamd import ClamdScanner
from sluice.engines.scanner.clamd_member import Care
from sluice.engines.scanner.off import NoScanner
from sluice.engines.storage import ObjectStore
from sluice.engines.storage.local import LocalStore
from sluice.engines.storage.s3 import S3Store
from sluice.engines.storage.s3_client import Patience
from sluice.engines.verdicts import VerdictCache
from sluice.engines.verdicts.memory import MemoryVerdicts
from sluice.engines.verdicts.redis import RedisVerdicts
from sluice.files.links import LinkSigner, load_signing_secret
from sluice.files.service import Files
from sluice.kit.clock import utc_now
from sluice.kit.failpoints import arm
from sluice.kit.keyring_file import KeyringFile, load_keyring
from sluice.observe.log import log
from sluice.settings import Settings
from sluice.tenants.service import Tenants
from sluice.threats import RULES_VERSION
from sluice.trail.service import Trail
from sluice.uploads.pipeline import Pipeline, Terms

_MB = 1024 * 1024
_KEYRING = "buckets.json"
_LINK_SECRET = "links.hex"  # noqa: S105  (the name of a file)
_SIGNING_KEY = "jwt.pem"


class StartRefused(Exception):
    """The service does not start with these settings on this machine. `str()` is one sentence that says what to do."""


_MOST_NAMED = 20


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
async def assembled(settings: Settings) -> AsyncIterator[Services]:
    """Put the service together, and take it apart again. Raises `StartRefused` when an engine that is needed cannot be had."""
    _arm(settings)
    async with AsyncExitStack() as stack:
        engines = await _engines(settings, stack)
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
    with _refusing("SLUICE_FAILPOINT"):
        arm(settings.failpoint)
    log.warning("failpoint_armed", failpoint=settings.failpoint)


@asynccontextmanager
async def assembled_scanner(settings: Settings) -> AsyncIterator[Scanner]:
    """Put together a scanner with a sandbox of its own, and take it apart again. Raises `StartRefused` or `SandboxBroken`."""
    async with AsyncExitStack() as stack:
        make_folder(settings.resolved_spool_dir)
        sandbox = make_sandbox(settings)
        stack.push_async_callback(sandbox.aclose)
        await sandbox.start()
        scanner = await make_scanner(settings, sandbox)
        stack.push_async_callback(scanner.aclose)
        yield scanner


def make_database(settings: Settings, *, patient: bool = False) -> Database:
    """Answer the database of these settings; its folder is made when missing. A `patient` one, for migrations, ends no statement."""
    make_folder(settings.data_dir)
    with _refusing("SLUICE_DATABASE_URL"):
        return Database(
            settings.resolved_database_url,
            postgres=PostgresTerms(
                pool_size=settings.database_pool_size,
                wait_seconds=settings.database_wait_seconds,
                connect_seconds=settings.database_connect_seconds,
                statement_seconds=None if patient else settings.database_statement_seconds,
                lock_seconds=None if patient else settings.database_lock_seconds,
                pgbouncer=settings.database_pgbouncer,
            ),
        )


def make_sandbox(settings: Settings) -> Sandbox:
    """Answer the sandbox of these settings, not yet started."""
    budget = Budget(wall_seconds=settings.sandbox_wall_seconds)
    workers = settings.sandbox_workers or None
    least: Level = "seccomp" if settings.sandbox == "auto" else settings.sandbox
    if sys.platform != "linux" and least == "limits-only":
        return SpawnSandbox(workers=workers, budget=budget, wait_seconds=settings.sandbox_wait_seconds)
    return ZygoteSandbox(
        workers=workers,
        least=least,
        files_per_worker=settings.sandbox_files_per_worker,
        budget=budget,
        wait_seconds=settings.sandbox_wait_seconds,
    )


async def make_scanner(settings: Settings, sandbox: Sandbox) -> Scanner:
    """Answer the scanner of these settings, behind a cache of clean verdicts where they ask for one."""
    scanner = await _choose_scanner(settings, sandbox)
    if settings.scanner == "off" or not settings.verdict_cache:
        return scanner
    terms = f"rules {RULES_VERSION}; passwords {settings.scanner_encrypted}"
    return CachedScanner(scanner, _make_verdicts(settings), terms=terms, per_tenant=settings.verdict_cache_per_tenant)


def _make_verdicts(settings: Settings) -> VerdictCache:
    life_seconds = settings.verdict_cache_hours * 3600
    if settings.redis_url is None:
        return MemoryVerdicts(most=settings.verdict_cache, life_seconds=life_seconds)
    links = load_signing_secret(_secret_file(settings, _LINK_SECRET)).value
    with _refusing("SLUICE_REDIS_URL"):
        return RedisVerdicts(
            settings.redis_url.get_secret_value(),
            secret=hmac.digest(links, b"sluice verdict cache v1", "sha256"),
            most=settings.verdict_cache,
            life_seconds=life_seconds,
        )


async def _choose_scanner(settings: Settings, sandbox: Sandbox) -> Scanner:
    """Answer the scanner itself; `auto` looks once whether a clamd is of use, and says what it took."""
    if settings.scanner == "off":
        return NoScanner()
    if settings.scanner == "builtin":
        return BuiltinScanner(sandbox, encrypted=settings.scanner_encrypted)
    clamd = _make_clamd(settings, sandbox)
    await clamd.start()
    health = await clamd.health()
    if settings.scanner == "clamd" or (health.state is not EngineState.DOWN and clamd.tells_limits):
        return clamd
    await clamd.aclose()
    if settings.production:
        raise StartRefused(
            f"No clamd is of use ({health.detail}): start one, or set SLUICE_SCANNER=builtin to rely on Sluice's own rules alone."
        )
    log.warning("scanner_builtin", why=f"no clamd is of use ({health.detail}); Sluice's own rules are used, which are no antivirus")
    return BuiltinScanner(sandbox, encrypted=settings.scanner_encrypted)


def _make_clamd(settings: Settings, sandbox: Sandbox) -> ClamdScanner:
    make_folder(settings.resolved_spool_dir)
    with _refusing("SLUICE_CLAMD"):
        return ClamdScanner(
            settings.clamd,
            sandbox,
            connect_seconds=settings.clamd_connect_seconds,
            stall_seconds=settings.clamd_stall_seconds,
            scan_seconds=settings.clamd_scan_seconds,
            concurrency=settings.clamd_concurrency,
            care=Care(probe=settings.clamd_probe_seconds),
            encrypted=settings.scanner_encrypted,
            signature_age=timedelta(days=settings.signature_days),
            folder=settings.resolved_spool_dir,
            tray_bytes=settings.scanner_unpacked_mb * _MB,
        )


def make_contexts(database: Database, scanner: Scanner) -> Contexts:
    """Answer the contexts, none of which may take larger files than the scanner scans."""
    return Contexts(database, scan_reach=lambda: scanner.reach)


async def scanner_health(scanner: Scanner, contexts: Contexts, *, named: bool = False) -> EngineHealth:
    """Answer how the scanner is; it is not well where contexts take larger files than it scans. `named` tells whose they are."""
    health = await scanner.health()
    try:
        async with asyncio.timeout(HEALTH_SECONDS):
            beyond = await contexts.beyond_reach(_MOST_NAMED)
    except (DatabaseAway, TimeoutError):
        return health
    if not beyond:
        return health
    count = f"{len(beyond)}{' or more' if len(beyond) == _MOST_NAMED else ''} context(s) take larger files than are scanned"
    which = ", ".join(f"{one.context_key} of {one.tenant_id} ({one.max_file_size_mb} MB)" for one in beyond)
    detail = "; ".join(filter(None, (health.detail, f"{count}: {which}" if named else count)))
    return replace(health, state=EngineState.DOWN if health.state is EngineState.DOWN else EngineState.DEGRADED, detail=detail)


def make_limiter(settings: Settings, database: Database) -> Limiter:
    """Answer the rate limiter of these settings; nothing is connected yet."""
    if settings.limiter == "memory":
        return MemoryLimiter()
    if settings.limiter == "database":
        return DatabaseLimiter(database)
    if settings.redis_url is None:
        raise StartRefused("SLUICE_LIMITER=redis needs SLUICE_REDIS_URL, the address of a Redis or Valkey.")
    with _refusing("SLUICE_REDIS_URL"):
        return RedisLimiter(
            settings.redis_url.get_secret_value(), seconds=settings.redis_seconds, pool_size=settings.redis_pool_size
        )


def local_rules(settings: Settings) -> ClaimRules:
    """Answer what a locally signed token must say."""
    return ClaimRules(settings.jwt_issuer, settings.jwt_audience, settings.jwt_tenant_claim)


def load_signing_key(settings: Settings) -> LocalKey:
    """Answer the key that `sluice token` signs with, made on the first start."""
    return make_local_key(_secret_file(settings, _SIGNING_KEY)).key


def make_key_files(settings: Settings) -> Sequence[Path]:
    """Make the secret files that are missing, and answer those made: their owner keeps a copy. Raises `SecretFileRefused`."""
    make_folder(settings.keys_dir)
    keyring, links, signing = (settings.keys_dir / name for name in (_KEYRING, _LINK_SECRET, _SIGNING_KEY))
    made = {
        keyring: load_keyring(keyring).made,
        links: load_signing_secret(links).made,
        signing: make_local_key(signing).made,
    }
    return [path for path, is_new in made.items() if is_new]


def keyring_path(settings: Settings) -> Path:
    """Answer where the keyring is; made when missing, except in production."""
    path = _secret_file(settings, _KEYRING)
    load_keyring(path)
    return path


def make_folder(folder: Path) -> None:
    """Make a folder that only its owner can enter."""
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as fault:
        raise StartRefused(f"The folder {folder} cannot be made: {fault.strerror}.") from fault


async def _engines(settings: Settings, stack: AsyncExitStack) -> Engines:
    database = make_database(settings)
    stack.push_async_callback(database.aclose)
    stores = make_stores(settings)
    stack.push_async_callback(stores.aclose)
    limiter = make_limiter(settings, database)
    stack.push_async_callback(limiter.aclose)
    verifiers = make_verifiers(settings)
    stack.push_async_callback(verifiers.aclose)
    sandbox = make_sandbox(settings)
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
    signer = LinkSigner(load_signing_secret(_secret_file(settings, _LINK_SECRET)).value, settings.resolved_public_url)
    return Services(
        engines=engines,
        tenants=Tenants(database),
        contexts=make_contexts(database, engines.scanner),
        buckets=buckets,
        files=Files(database, buckets, stores, signer, purge_after=timedelta(days=settings.purge_after_days)),
        api_keys=ApiKeys(database),
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
        terms=Terms(
            settings.free_uploads_per_month,
            timedelta(seconds=settings.upload_lease_seconds),
            timedelta(hours=settings.test_file_hours),
        ),
        clock=utc_now,
    )


def make_buckets(settings: Settings, database: Database, stores: Stores) -> Buckets:
    """Answer the buckets of all tenants."""
    return Buckets(
        database,
        stores,
        KeyringFile(settings.keys_dir / _KEYRING),
        allowed_endpoints=settings.bucket_endpoint_hosts,
        probe=settings.bucket_probe,
    )


def make_local_store(folder: Path) -> ObjectStore:
    """Answer the local store in a folder, which is made when missing: the service's own, or a backup's."""
    return LocalStore(folder)


def make_stores(settings: Settings) -> Stores:
    """Answer the stores of these settings: the platform's own, and how to reach a tenant's bucket. Raises `StoreFault`."""
    keyring_path = _secret_file(settings, _KEYRING)
    if load_keyring(keyring_path).made:
        log.warning("keyring_made", path=str(keyring_path), why="keep a copy: without it no bucket's credentials can be read")
    keyring = KeyringFile(keyring_path)
    patience = Patience(settings.s3_connect_seconds, settings.s3_request_seconds, settings.s3_retries)

    def connect(bucket: Bucket) -> ObjectStore:
        return S3Store(
            bucket.default_bucket,
            bucket.region,
            bucket.access_key_id,
            keyring.open(bucket.secret_sealed, bound_to=secret_binding(bucket)),
            endpoint_url=bucket.endpoint_url,
            patience=patience,
            part_bytes=settings.s3_multipart_mb * _MB,
            rest_seconds=settings.s3_rest_seconds,
            probe_folder=bucket.key_for(".sluice-probe"),
        )

    return Stores(_platform_store(settings, patience), connect)


def _platform_store(settings: Settings, patience: Patience) -> ObjectStore:
    """Answer the store of tenants without a bucket: a folder, or the operator's own bucket."""
    if settings.storage_bucket is None:
        return LocalStore(settings.resolved_storage_dir)
    if settings.storage_access_key_id is None or settings.storage_secret_access_key is None:
        raise StartRefused(
            "SLUICE_STORAGE_BUCKET needs SLUICE_STORAGE_ACCESS_KEY_ID and SLUICE_STORAGE_SECRET_ACCESS_KEY beside it."
        )
    return S3Store(
        settings.storage_bucket,
        settings.storage_region,
        settings.storage_access_key_id,
        settings.storage_secret_access_key.get_secret_value(),
        endpoint_url=None if settings.storage_endpoint is None else str(settings.storage_endpoint).rstrip("/"),
        patience=patience,
        part_bytes=settings.s3_multipart_mb * _MB,
        rest_seconds=settings.s3_rest_seconds,
    )


def make_verifiers(settings: Settings) -> VerifierSet:
    """Answer the verifiers of the issuers that these settings trust."""
    with _refusing("SLUICE_OIDC_JWKS_URL, SLUICE_OIDC_ALGORITHMS, SLUICE_OIDC_ISSUER"):
        return VerifierSet(_verifiers(settings))


def _verifiers(settings: Settings) -> list[TokenVerifier]:
    verifiers: list[TokenVerifier] = [LocalVerifier(load_signing_key(settings).public, local_rules(settings))]
    if settings.oidc_issuer is not None:
        if settings.oidc_jwks_url is None:
            raise StartRefused("SLUICE_OIDC_ISSUER is set without SLUICE_OIDC_JWKS_URL, the address of the issuer's keys.")
        rules = ClaimRules(settings.oidc_issuer, settings.jwt_audience, settings.jwt_tenant_claim)
        verifiers.append(OidcVerifier(rules, jwks_url=str(settings.oidc_jwks_url), algorithms=settings.oidc_algorithms))
    return verifiers


def _secret_file(settings: Settings, name: str) -> Path:
    """Answer the path of a secret file; in production it must be there already, put there by a person who keeps a copy."""
    path = settings.keys_dir / name
    if settings.production and not path.exists():
        raise StartRefused(f"The secret file {path} is missing; run `sluice init` once and keep a copy of it.")
    make_folder(settings.keys_dir)
    return path


@contextmanager
def _refusing(names: str) -> Iterator[None]:
    """Name the settings that a part cannot be made from."""
    try:
        yield
    except ValueError as fault:
        raise StartRefused(f"{names}: {fault}.") from fault
