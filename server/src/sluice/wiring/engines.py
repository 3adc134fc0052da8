"""The engines that the settings ask for: database, limiter, scanner, verifiers. See also `storage` and `sandbox`."""

import asyncio
import hashlib
import hmac
import os
import ssl
from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import partial
from importlib.util import find_spec

from sluice.contexts.service import Contexts
from sluice.db.database import HEALTH_SECONDS, Database, DatabaseUnavailable
from sluice.db.postgres import PostgresOptions
from sluice.files.links import load_signing_secret
from sluice.identity import SignInFlow, TokenVerifier
from sluice.identity.code_flow import CodeFlow
from sluice.identity.local import LocalVerifier
from sluice.identity.oidc import OidcVerifier
from sluice.identity.tokens import MAX_ID_TOKEN_LENGTH, ClaimRules
from sluice.identity.verifier_set import VerifierSet
from sluice.kit.cipher import Sealer
from sluice.kit.health import EngineHealth, EngineState
from sluice.limiter import Limiter
from sluice.limiter.database import DatabaseLimiter
from sluice.limiter.memory import MemoryLimiter
from sluice.observe.log import log
from sluice.scanner import FindsScanLimit, Scanner, healths_of
from sluice.scanner.builtin import BuiltinScanner
from sluice.scanner.clamd.scanner import ClamdScanner
from sluice.scanner.icap.connection import IcapAddress
from sluice.scanner.icap.scanner import GRACE_SECONDS, IcapScanner
from sluice.scanner.off import NoScanner
from sluice.scanner.several import ConfiguredScanner, SeveralScanners
from sluice.scanner.verdict_cache import CachedScanner, MemoryVerdictCache, VerdictCache
from sluice.scanner.yara import YaraScanner
from sluice.settings import Settings
from sluice.wiring.refusal import StartRefused, refusing
from sluice.wiring.start import (
    KEPT_RULES,
    LINK_SECRET,
    load_signing_key,
    local_rules,
    make_data_folder,
    make_folder,
    secret_place,
)
from sluice_inspect.ocr.languages import installed_languages
from sluice_inspect.sandbox import Sandbox
from sluice_inspect.sandbox.rules import compile_kept_rules, compile_rules
from sluice_inspect.threats import RULES_VERSION

_MAX_NAMED_CONTEXTS = 20


def make_database(settings: Settings) -> Database:
    """Return the database; create the data folder if missing."""
    make_data_folder(settings)
    with refusing("SLUICE_DATABASE_URL"):
        return Database(settings.resolved_database_url, postgres=_postgres_options(settings))


def make_owners_database(settings: Settings) -> Database:
    """Return the database for migrations: connected as the owner of its tables if the settings name one."""
    make_folder(settings.data_dir)
    url = settings.migration_database_url
    with refusing("SLUICE_DATABASE_URL" if url is None else "SLUICE_MIGRATION_DATABASE_URL"):
        # A migration of a large table may run longer than any statement of the service.
        options = replace(_postgres_options(settings), statement_seconds=None, lock_seconds=None)
        return Database(settings.resolved_database_url if url is None else url.get_secret_value(), postgres=options)


def _postgres_options(settings: Settings) -> PostgresOptions:
    return PostgresOptions(
        pool_size=settings.database_pool_size,
        wait_seconds=settings.database_wait_seconds,
        connect_seconds=settings.database_connect_seconds,
        statement_seconds=settings.database_statement_seconds,
        lock_seconds=settings.database_lock_seconds,
        pgbouncer=settings.database_pgbouncer,
    )


def make_limiter(settings: Settings, database: Database) -> Limiter:
    """Return the rate limiter, which connects when it is first used. Raise `StartRefused` if Redis has no address."""
    if settings.limiter == "memory":
        return MemoryLimiter()
    if settings.limiter == "database":
        return DatabaseLimiter(database)
    if settings.redis_url is None:
        raise StartRefused("SLUICE_LIMITER=redis needs SLUICE_REDIS_URL, the address of a Redis or Valkey.")
    _require_redis()
    from sluice.limiter.redis import RedisLimiter  # noqa: PLC0415  (an extra: `sluice[redis]`)

    with refusing("SLUICE_REDIS_URL"):
        return RedisLimiter(settings.redis_url.get_secret_value(), seconds=settings.redis_seconds)


def _require_redis() -> None:
    if find_spec("redis") is None:
        raise StartRefused("SLUICE_REDIS_URL needs the library redis, which is not installed: install `sluice[redis]`.")


def make_verifiers(settings: Settings) -> VerifierSet:
    """Return the verifiers of the token issuers that these settings trust.

    Raise `StartRefused` if an issuer is set without the address of its keys.
    """
    with refusing("SLUICE_OIDC_JWKS_URL, SLUICE_OIDC_ALGORITHMS, SLUICE_OIDC_ISSUER"):
        verifiers: list[TokenVerifier] = [LocalVerifier(load_signing_key(settings).public, local_rules(settings))]
        if settings.oidc_issuer is not None:
            if settings.oidc_jwks_url is None:
                raise StartRefused(
                    "SLUICE_OIDC_ISSUER is set without SLUICE_OIDC_JWKS_URL, the address of the issuer's keys."
                )
            verifiers.append(
                OidcVerifier(
                    ClaimRules(settings.oidc_issuer, settings.jwt_audience, settings.jwt_tenant_claim),
                    jwks_url=str(settings.oidc_jwks_url),
                    algorithms=settings.oidc_algorithms,
                    rsa_bits=settings.oidc_rsa_bits,
                )
            )
        return VerifierSet(verifiers)


def make_sign_in(settings: Settings) -> SignInFlow | None:
    """Return the sign-in flow of the console at the issuer; None if the settings name no client.

    Raise `StartRefused` if a client is set without its issuer.
    """
    if not settings.console or settings.console_oidc_client_id is None:
        return None
    if settings.oidc_issuer is None or settings.oidc_jwks_url is None:
        raise StartRefused(
            "SLUICE_CONSOLE_OIDC_CLIENT_ID is set without SLUICE_OIDC_ISSUER and SLUICE_OIDC_JWKS_URL, "
            "where people sign in."
        )
    with refusing("SLUICE_OIDC_ISSUER, SLUICE_OIDC_JWKS_URL, SLUICE_OIDC_ALGORITHMS"):
        verifier = OidcVerifier(
            ClaimRules(settings.oidc_issuer, settings.console_oidc_client_id, settings.jwt_tenant_claim),
            jwks_url=str(settings.oidc_jwks_url),
            algorithms=settings.oidc_algorithms,
            rsa_bits=settings.oidc_rsa_bits,
            max_length=MAX_ID_TOKEN_LENGTH,
        )
        secret = settings.console_oidc_client_secret
        return CodeFlow(
            verifier,
            client_id=settings.console_oidc_client_id,
            client_secret=None if secret is None else secret.get_secret_value(),
            scopes=settings.console_oidc_scopes,
        )


async def make_scanner(settings: Settings, sandbox: Sandbox, *, keeps_rules: bool = True) -> Scanner:
    """Return the scanner, behind a cache of clean verdicts if the settings ask for one. Raise `StartRefused`.

    YARA rules that can be used are kept in the data folder if `keeps_rules`.
    """
    if settings.scanner == ("off",) or not settings.verdict_cache:
        return await _choose_scanner(settings, sandbox, None, keeps_rules=keeps_rules)
    verdicts = _make_verdict_cache(settings)
    shared = None if settings.verdict_cache_per_tenant else verdicts
    scanner = await _choose_scanner(settings, sandbox, shared, keeps_rules=keeps_rules)
    conditions = f"rules {RULES_VERSION}; passwords {settings.scanner_encrypted}"
    if settings.icap:  # the same name may mean another service by now
        conditions += f"; icap {' '.join((*settings.icap, *settings.icap_reqmod))}"
    return CachedScanner(scanner, verdicts, conditions=conditions)


async def _choose_scanner(
    settings: Settings, sandbox: Sandbox, shared: VerdictCache | None, *, keeps_rules: bool
) -> Scanner:
    """Return the scanner. `shared` is for what holds for all tenants."""
    if settings.scanner == ("off",):
        return NoScanner()
    if settings.scanner == ("auto",):
        return await _choose_clamd_or_rules(settings, sandbox, shared)
    optional = settings.scanner_optional
    engines: list[ConfiguredScanner] = []
    for name in settings.scanner:
        scanner: Scanner
        if name == "clamd":
            scanner = await _make_clamd(settings, sandbox, shared)
        elif name == "builtin":
            scanner = BuiltinScanner(sandbox, encrypted=settings.scanner_encrypted)
        elif name == "yara":
            scanner = await _make_yara(settings, sandbox, keeps_rules=keeps_rules)
        else:
            scanner = await _make_icap(settings, name.removeprefix("icap:"))
        engines.append(ConfiguredScanner(scanner, name not in optional))
    # Our own rules see every file, and are the first to see it. clamd's scan includes them.
    if not any(engine.is_required and engine.scanner.name in {"clamd", "builtin"} for engine in engines):
        engines.insert(0, ConfiguredScanner(BuiltinScanner(sandbox, encrypted=settings.scanner_encrypted)))
    return engines[0].scanner if len(engines) == 1 else SeveralScanners(engines)


async def _make_clamd(settings: Settings, sandbox: Sandbox, shared: VerdictCache | None) -> ClamdScanner:
    make_folder(settings.resolved_spool_dir)
    with refusing("SLUICE_CLAMD"):
        clamd = ClamdScanner(
            settings.clamd,
            sandbox,
            connect_seconds=settings.clamd_connect_seconds,
            stall_seconds=settings.clamd_stall_seconds,
            scan_seconds=settings.clamd_scan_seconds,
            concurrency=settings.clamd_concurrency,
            encrypted=settings.scanner_encrypted,
            folder=settings.resolved_spool_dir,
            verdicts=shared,
        )
    await clamd.start()
    return clamd


async def _choose_clamd_or_rules(settings: Settings, sandbox: Sandbox, shared: VerdictCache | None) -> Scanner:
    """Return clamd if one can be used, else our own rules. Raise `StartRefused` in production."""
    clamd = await _make_clamd(settings, sandbox, shared)
    health = await clamd.health()
    if health.state is not EngineState.DOWN:
        return clamd
    await clamd.aclose()
    if settings.production:
        raise StartRefused(
            f"No clamd can be used ({health.detail}): start one, or set SLUICE_SCANNER=builtin to rely on Sluice's own "
            "rules alone."
        )
    log.warning(
        "scanner_builtin",
        why=f"no clamd can be used ({health.detail}); Sluice's own rules are used, which are no antivirus",
    )
    return BuiltinScanner(sandbox, encrypted=settings.scanner_encrypted)


async def _make_icap(settings: Settings, name: str) -> IcapScanner:
    """Return the engine for an ICAP server of the settings."""
    make_folder(settings.resolved_spool_dir)
    with refusing("SLUICE_ICAP"):
        address = IcapAddress.parse(settings.icap_addresses[name])
    tls = None
    if address.is_tls:
        try:
            tls = ssl.create_default_context(cafile=settings.icap_ca_file)
        except OSError as fault:  # of the file system, or of OpenSSL
            raise StartRefused(f"SLUICE_ICAP_CA_FILE: {settings.icap_ca_file} holds no certificates.") from fault
    scanner = IcapScanner(
        name,
        address,
        method="REQMOD" if name in settings.icap_reqmod else "RESPMOD",
        tls=tls,
        scan_seconds=settings.icap_scan_seconds,
        concurrency=settings.icap_concurrency,
        encrypted=settings.scanner_encrypted,
        folder=settings.resolved_spool_dir,
        grace_seconds=0.0 if f"icap:{name}" in settings.scanner_optional else GRACE_SECONDS,
    )
    await scanner.start()
    return scanner


async def _make_yara(settings: Settings, sandbox: Sandbox, *, keeps_rules: bool) -> YaraScanner:
    """Return the engine for the rules of the operator. Raise `StartRefused` if it is required and has none."""
    if settings.yara_rules is None:
        raise ValueError("expected SLUICE_YARA_RULES")  # the settings refuse it
    # Rules of another folder are others.
    digest = hashlib.sha256(os.fsencode(settings.yara_rules.absolute())).hexdigest()[:16]
    kept = settings.data_dir.absolute() / KEPT_RULES / digest
    scanner = YaraScanner(
        settings.yara_rules,
        sandbox,
        partial(compile_rules, kept=kept if keeps_rules else None),
        compile_kept=partial(compile_kept_rules, kept),
        after_check="clamd" in settings.scanner,
    )
    fault = await scanner.start()
    if fault and "yara" not in settings.scanner_optional:
        await scanner.aclose()
        raise StartRefused(f"SLUICE_YARA_RULES: {fault}")
    return scanner


def _make_verdict_cache(settings: Settings) -> VerdictCache:
    if settings.redis_url is None:
        return MemoryVerdictCache(max_verdicts=settings.verdict_cache)
    _require_redis()
    from sluice.scanner.redis_verdict_cache import RedisVerdictCache  # noqa: PLC0415  (an extra: `sluice[redis]`)

    links = load_signing_secret(secret_place(settings, LINK_SECRET)).value
    with refusing("SLUICE_REDIS_URL"):
        return RedisVerdictCache(
            settings.redis_url.get_secret_value(),
            # Verdicts are signed: who can write to Redis must not be able to declare a file clean.
            secret=hmac.digest(links, b"sluice verdict cache v1", "sha256"),
            max_verdicts=settings.verdict_cache,
        )


def make_contexts(
    database: Database, scanner: Scanner, sealer: Sealer | None = None, allowed: Collection[str] = ()
) -> Contexts:
    """Return the contexts, none of which may accept files larger than the scanner scans.

    With a `sealer` they may have external checks.
    """

    async def find_scan_limit(size: int, seconds: float) -> int | None:
        if isinstance(scanner, FindsScanLimit):
            await scanner.find_scan_limit(seconds, size)
        return scanner.scan_limit

    return Contexts(
        database, find_scan_limit=find_scan_limit, sealer=sealer, allowed=allowed, ocr_languages=installed_languages
    )


async def scanner_healths(scanner: Scanner, contexts: Contexts, *, named: bool = False) -> Sequence[EngineHealth]:
    """Return the health of each engine of the scanner: degraded if contexts accept larger files than are scanned.

    `named` lists these contexts and their tenants in the detail; the public health page only counts them.
    """
    health, *more = await healths_of(scanner)
    if not isinstance(scanner, FindsScanLimit):
        return [health, *more]
    try:
        async with asyncio.timeout(HEALTH_SECONDS):
            beyond = await contexts.beyond_scan_limit(_MAX_NAMED_CONTEXTS)
    except (DatabaseUnavailable, TimeoutError):
        beyond = []
    if not beyond:
        return [health, *more]
    number = f"{len(beyond)}{' or more' if len(beyond) == _MAX_NAMED_CONTEXTS else ''}"
    count = f"{number} context(s) take larger files than are scanned"
    which = ", ".join(f"{one.context_key} of {one.tenant_id} ({one.max_file_size_mb} MB)" for one in beyond)
    detail = "; ".join(filter(None, (health.detail, f"{count}: {which}" if named else count)))
    state = EngineState.DOWN if health.state is EngineState.DOWN else EngineState.DEGRADED
    return [replace(health, state=state, detail=detail), *more]
