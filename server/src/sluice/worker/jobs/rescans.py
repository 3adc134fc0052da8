"""Rescans: scanning stored files again when signatures have changed, slowly, oldest verdict first.

Files that a reviewer wants to be scanned come first. Infected files, and those that a hash list denies since, are put
in quarantine, never deleted.
All progress is in the files' rows, so a rescan continues after any stop, and any number of workers may take part.
"""

import asyncio
from contextlib import closing, suppress
from datetime import timedelta
from pathlib import Path
from typing import Final

from sluice.access import worker
from sluice.buckets.service import Buckets
from sluice.buckets.stores import Stores
from sluice.db.database import Database
from sluice.db.rls import ALL_TENANTS
from sluice.decisions import DecisionRecord
from sluice.decisions import repository as decision_rows
from sluice.errors import ServiceUnavailable, StorageFull
from sluice.files import FileRecord, lifecycle
from sluice.files import repository as file_rows
from sluice.hash_lists import ListedHash
from sluice.hash_lists import repository as hash_rows
from sluice.kit.clock import Clock
from sluice.kit.ids import new_id
from sluice.observe.log import log
from sluice.observe.metrics import RESCANS
from sluice.scanner import EngineVersion, Scanner
from sluice.storage import StoreError
from sluice.uploads.hash_lookup import look_up
from sluice.uploads.inspection import scan
from sluice.uploads.names import extension_of
from sluice.uploads.reasons import Reason
from sluice.uploads.spool import Spool
from sluice.uploads.values import Facts, HashListFact, ScanFact
from sluice.worker.job import error_boundary, repeat, run_until
from sluice.worker.jobs.denied import log_denial, threat_of
from sluice_inspect.sandbox.sealed import Sealed

_BATCH: Final = 50
# Longer than any fetch and scan take. A file on which they failed is due again after it.
_CLAIM: Final = timedelta(minutes=30)
# How long a file waits whose scan gave no verdict, so that one that never gets any does not block all others; or a
# verdict by older signatures, which a pool may return while its members are updated one by one.
_POSTPONED: Final = timedelta(minutes=5)
# The engine whose verdict replaces no other's: a few rules are no second opinion on what an antivirus has cleared.
_BUILTIN: Final = "builtin"
_OWN_RULES: Final = frozenset({_BUILTIN, "yara"})
_REASONS: Final = {"clean": None, "incomplete": Reason.SCAN_INCOMPLETE.value, "infected": Reason.VIRUS_DETECTED.value}


class _BytesChanged(Exception):
    """The store returned other bytes than were stored."""


class _Released(Exception):
    """A reviewer released the file for this entry: nothing is written before its scan."""


class Rescans:
    """Scans at most `per_second` files a second, one at a time.

    Fetched bytes are held in memory up to `memory_bytes`, else in `folder`.
    """

    def __init__(
        self,
        database: Database,
        buckets: Buckets,
        stores: Stores,
        scanner: Scanner,
        *,
        folder: Path,
        memory_bytes: int,
        per_second: float,
        pause_seconds: float,
        clock: Clock,
    ) -> None:
        self._database = database
        self._buckets = buckets
        self._stores = stores
        self._scanner = scanner
        self._folder = folder
        self._memory_bytes = memory_bytes
        self._interval = 1 / per_second
        self._pause_seconds = pause_seconds
        self._clock = clock

    async def run(self, stop: asyncio.Event) -> None:
        """Work until `stop` is set; a scan in progress is then cancelled, and its file is due again."""
        await run_until(stop, repeat("rescans", self.one_batch, stop=stop, pause_seconds=lambda: self._pause_seconds))

    async def one_batch(self) -> int:
        """Scan files that a reviewer wants to be scanned, or else some whose verdict is by another engine version.

        Return how many; the oldest verdict comes first.
        """
        version = self._scanner.engine_version
        if version is None:
            return 0
        prefix = _BUILTIN if _OWN_RULES.issuperset(self._scanner.name.split("+")) else ""
        async with self._database.reading(ALL_TENANTS) as connection:
            asked = await file_rows.find_asked_rescans(connection, _BATCH)
            stale = asked or await file_rows.find_stale_verdicts(connection, version.is_of, _BATCH, prefix=prefix)
        loop = asyncio.get_running_loop()
        done = 0
        for file in stale:
            began = loop.time()
            scanner_available = True
            with error_boundary("rescans", file_id=file.file_id):
                scanner_available = await self._rescan(file, version)
            if not scanner_available:
                break
            done += 1
            await asyncio.sleep(began + self._interval - loop.time())
        return done

    async def _rescan(self, file: FileRecord, version: EngineVersion) -> bool:
        """Scan one file; return False if the scanner is unavailable, so that trying the next one is pointless."""
        async with self._database.transaction(file.tenant_id) as connection:
            if not await file_rows.claim_rescan(connection, file.tenant_id, file.file_id, str(version), _CLAIM):
                return True
        try:
            with closing(Spool(self._memory_bytes, self._folder)) as spool:
                sealed = await self._fetch(file, spool)
                listed = await self._look_up(file, sealed)
                if listed.own is not None and await self._settle_listed(file, listed, listed.own, str(version)):
                    return True
                scanned = await scan(sealed, file.tenant_id, self._scanner)
        except (StoreError, StorageFull, KeyError, _BytesChanged) as fault:
            log.warning("rescan_put_off", file_id=file.file_id, fault=type(fault).__name__, why=str(fault))
            if isinstance(fault, (KeyError, _BytesChanged)):  # another try will not find the object either
                async with self._database.transaction(file.tenant_id) as connection:
                    await file_rows.forget_rescan(connection, file.tenant_id, file.file_id)
            return True
        except (ServiceUnavailable, asyncio.CancelledError) as fault:
            stopped = isinstance(fault, asyncio.CancelledError)
            async with self._database.transaction(file.tenant_id) as connection:
                pause = timedelta(0) if stopped else _POSTPONED
                await file_rows.postpone_rescan(connection, file.tenant_id, file.file_id, pause)
            if stopped:
                raise
            return False
        await self._settle(file, scanned, version)
        return True

    async def _fetch(self, file: FileRecord, spool: Spool) -> Sealed:
        store = self._stores.of(await self._buckets.for_file(file.tenant_id, file.storage_config_id))
        async for chunk in store.read(file.object_key):
            await spool.write(chunk)
        sealed = await spool.seal()
        if sealed.sha256.hex() != file.sha256:
            raise _BytesChanged(f"{sealed.size} bytes, {sealed.checksum}")
        return sealed

    async def _look_up(self, file: FileRecord, sealed: Sealed) -> HashListFact:
        async with self._database.reading(file.tenant_id) as connection:
            algorithms = (await hash_rows.load_algorithms(connection, file.tenant_id)).all
        if not algorithms:
            return HashListFact()
        return await look_up(self._database, file.tenant_id, sealed, algorithms)

    async def _settle_listed(self, file: FileRecord, listed: HashListFact, entry: ListedHash, version: str) -> bool:
        """Quarantine a file that is denied since, or leave one that is allowed as it is, and log the decision.

        Return False for a file that a reviewer released although it is denied: it is yet to be scanned.
        """
        now = self._clock()
        threat = threat_of(entry) if entry.list == "deny" else None
        with suppress(_Released):
            async with self._database.transaction(file.tenant_id) as connection:
                outcome = await lifecycle.record_rescan(
                    connection, file.tenant_id, file.file_id, version, now, again_after=None, threat=threat
                )
                if outcome is None:
                    return True
                if outcome == "released":
                    raise _Released
                logged = "quarantined" if outcome == "quarantined" else "kept"
                await log_denial(connection, worker(file.tenant_id), file, listed, outcome=logged, at=now)
            RESCANS.labels("allowed" if threat is None else "denied").inc()
            if outcome == "quarantined":
                log.error("quarantined", file_id=file.file_id, tenant_id=file.tenant_id, threat=threat)
            return True
        return False

    async def _settle(self, file: FileRecord, scanned: ScanFact, version: EngineVersion) -> None:
        """Write the verdict and log the decision, in one transaction."""
        now = self._clock()
        again_after = None if version.is_of(scanned.engine_version) else _POSTPONED
        async with self._database.transaction(file.tenant_id) as connection:
            outcome = await lifecycle.record_rescan(
                connection,
                file.tenant_id,
                file.file_id,
                scanned.engine_version,
                now,
                again_after=again_after,
                threat=scanned.threat,
                # A threat that another engine found is not taken back while that one is silent.
                is_clean=scanned.outcome == "clean" and all(one.outcome == "clean" for one in scanned.each),
            )
            if outcome is None:
                return
            name = file.original_filename
            facts = Facts(name, extension_of(name), file.size_bytes, file.sha256, scanned=scanned)
            decision = DecisionRecord(
                report_id=new_id("rep"),
                tenant_id=file.tenant_id,
                file_id=file.file_id,
                context_key=file.context_key,
                mode="rescan",
                rules={},  # a rescan applies no rules of the context
                rules_version=0,
                facts=facts.to_json(),
                engines={"scanner": scanned.engine, "signatures": scanned.signatures},
                outcome="quarantined" if outcome == "quarantined" else "kept",
                reason=_REASONS[scanned.outcome],
                detail=scanned.detail,
                actor={"id": "worker", "name": "worker", "via": "worker"},
                created_at=now,
                original_filename=name,
                actor_id="worker",
                duration_ms=round(scanned.ms),
            )
            await decision_rows.add(connection, decision)
        RESCANS.labels("released" if outcome == "released" else scanned.outcome).inc()
        if outcome == "quarantined":
            log.error("quarantined", file_id=file.file_id, tenant_id=file.tenant_id, threat=scanned.threat)
        elif scanned.outcome == "incomplete":
            log.warning("rescan_incomplete", file_id=file.file_id, tenant_id=file.tenant_id, why=scanned.detail)
