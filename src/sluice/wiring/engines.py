"""Which database, limiter, sandbox and verifiers the settings ask for. The scanner and the stores have modules of their own."""

import sys
from dataclasses import replace

from sluice.db.database import Database
from sluice.db.postgres import PostgresTerms
from sluice.engines.identity import TokenVerifier
from sluice.engines.identity.claims import ClaimRules
from sluice.engines.identity.local import LocalVerifier
from sluice.engines.identity.oidc import OidcVerifier
from sluice.engines.identity.select import VerifierSet
from sluice.engines.limiter import Limiter
from sluice.engines.limiter.database import DatabaseLimiter
from sluice.engines.limiter.memory import MemoryLimiter
from sluice.engines.limiter.redis import RedisLimiter
from sluice.engines.sandbox import Level, Sandbox
from sluice.engines.sandbox.judge import Budget
from sluice.engines.sandbox.launch import Launched
from sluice.engines.sandbox.spawn import SpawnSandbox
from sluice.engines.sandbox.zygote import ZygoteSandbox
from sluice.settings import Settings
from sluice.wiring.secrets import load_signing_key, local_rules
from sluice.wiring.start import StartRefused, make_folder, refusing


def make_database(settings: Settings) -> Database:
    """Answer the database of these settings; its folder is made when missing."""
    make_folder(settings.data_dir)
    with refusing("SLUICE_DATABASE_URL"):
        return Database(settings.resolved_database_url, postgres=_terms(settings))


def make_owners_database(settings: Settings) -> Database:
    """Answer the database for migrations: as the owner of its tables, where the settings name one, and ending no statement."""
    make_folder(settings.data_dir)
    url = settings.migration_database_url
    with refusing("SLUICE_DATABASE_URL" if url is None else "SLUICE_MIGRATION_DATABASE_URL"):
        terms = replace(_terms(settings), statement_seconds=None, lock_seconds=None)
        return Database(settings.resolved_database_url if url is None else url.get_secret_value(), postgres=terms)


def _terms(settings: Settings) -> PostgresTerms:
    return PostgresTerms(
        pool_size=settings.database_pool_size,
        wait_seconds=settings.database_wait_seconds,
        connect_seconds=settings.database_connect_seconds,
        statement_seconds=settings.database_statement_seconds,
        lock_seconds=settings.database_lock_seconds,
        pgbouncer=settings.database_pgbouncer,
    )


def make_limiter(settings: Settings, database: Database) -> Limiter:
    """Answer the rate limiter of these settings; nothing is connected yet."""
    if settings.limiter == "memory":
        return MemoryLimiter()
    if settings.limiter == "database":
        return DatabaseLimiter(database)
    if settings.redis_url is None:
        raise StartRefused("SLUICE_LIMITER=redis needs SLUICE_REDIS_URL, the address of a Redis or Valkey.")
    with refusing("SLUICE_REDIS_URL"):
        return RedisLimiter(
            settings.redis_url.get_secret_value(), seconds=settings.redis_seconds, pool_size=settings.redis_pool_size
        )


def make_sandbox(settings: Settings, launched: Launched | None = None) -> Sandbox:
    """Answer the sandbox of these settings, not yet started; `launched` is the zygote of `ahead`, where there is one."""
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
        launched=launched,
    )


def make_verifiers(settings: Settings) -> VerifierSet:
    """Answer the verifiers of the issuers that these settings trust."""
    with refusing("SLUICE_OIDC_JWKS_URL, SLUICE_OIDC_ALGORITHMS, SLUICE_OIDC_ISSUER"):
        return VerifierSet(_verifiers(settings))


def _verifiers(settings: Settings) -> list[TokenVerifier]:
    verifiers: list[TokenVerifier] = [LocalVerifier(load_signing_key(settings).public, local_rules(settings))]
    if settings.oidc_issuer is not None:
        if settings.oidc_jwks_url is None:
            raise StartRefused("SLUICE_OIDC_ISSUER is set without SLUICE_OIDC_JWKS_URL, the address of the issuer's keys.")
        rules = ClaimRules(settings.oidc_issuer, settings.jwt_audience, settings.jwt_tenant_claim)
        verifiers.append(
            OidcVerifier(
                rules,
                jwks_url=str(settings.oidc_jwks_url),
                algorithms=settings.oidc_algorithms,
                rsa_bits=settings.oidc_rsa_bits,
            )
        )
    return verifiers
