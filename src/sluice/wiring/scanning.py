"""Which scanner the settings ask for, and how far it reaches. What it answers is decided in `engines.scanner`."""

import asyncio
import hmac
from dataclasses import replace
from datetime import timedelta

from sluice.contexts.service import Contexts
from sluice.db.database import HEALTH_SECONDS, Database, DatabaseAway
from sluice.engines.sandbox import Sandbox
from sluice.engines.scanner import Scanner
from sluice.engines.scanner.builtin import BuiltinScanner
from sluice.engines.scanner.cached import CachedScanner
from sluice.engines.scanner.clamd import ClamdScanner
from sluice.engines.scanner.clamd_member import Care
from sluice.engines.scanner.off import NoScanner
from sluice.engines.verdicts import VerdictCache
from sluice.engines.verdicts.memory import MemoryVerdicts
from sluice.engines.verdicts.redis import RedisVerdicts
from sluice.files.links import load_signing_secret
from sluice.kit.health import EngineHealth, EngineState
from sluice.observe.log import log
from sluice.settings import Settings
from sluice.threats import RULES_VERSION
from sluice.wiring.secrets import LINK_SECRET, secret_file
from sluice.wiring.start import StartRefused, make_folder, refusing

_MB = 1024 * 1024
_MOST_NAMED = 20


async def make_scanner(settings: Settings, sandbox: Sandbox) -> Scanner:
    """Answer the scanner of these settings, behind a cache of clean verdicts where they ask for one."""
    scanner = await _choose_scanner(settings, sandbox)
    if settings.scanner == "off" or not settings.verdict_cache:
        return scanner
    terms = f"rules {RULES_VERSION}; passwords {settings.scanner_encrypted}"
    return CachedScanner(scanner, _make_verdicts(settings), terms=terms, per_tenant=settings.verdict_cache_per_tenant)


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
    with refusing("SLUICE_CLAMD"):
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


def _make_verdicts(settings: Settings) -> VerdictCache:
    life_seconds = settings.verdict_cache_hours * 3600
    if settings.redis_url is None:
        return MemoryVerdicts(most=settings.verdict_cache, life_seconds=life_seconds)
    links = load_signing_secret(secret_file(settings, LINK_SECRET)).value
    with refusing("SLUICE_REDIS_URL"):
        return RedisVerdicts(
            settings.redis_url.get_secret_value(),
            secret=hmac.digest(links, b"sluice verdict cache v1", "sha256"),
            most=settings.verdict_cache,
            life_seconds=life_seconds,
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
