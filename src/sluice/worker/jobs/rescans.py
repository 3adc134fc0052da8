"""Scanning stored files again when signatures have changed: slowly, oldest verdict first. What is found is put in quarantine, never deleted.

Where it stands is in the files' rows alone, so it goes on where it was after any end, and any number of workers may do it.
"""

import asyncio
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Final

from sluice.buckets.service import Buckets
from sluice.buckets.stores import Stores
from sluice.db.database import Database, DatabaseAway
from sluice.db.whose import EVERYBODY
from sluice.engines.scanner import Scanner
from sluice.engines.storage import StoreFault
from sluice.errors import StorageFull, Unavailable
from sluice.files import FileRecord
from sluice.files import repository as file_rows
from sluice.kit.clock import Clock
from sluice.kit.ids import new_id
from sluice.kit.sealed import Sealed
from sluice.observe.log import log
from sluice.observe.metrics import RESCANS
from sluice.uploads import repository as upload_rows
from sluice.uploads.names import read_name
from sluice.uploads.spool import Spool
from sluice.uploads.stages.scan import scan
from sluice.uploads.values import Facts, ScanFact
from sluice.worker.stopping import until

_BATCH: Final = 50
_CLAIM: Final = timedelta(minutes=30)
"""Longer than any fetch and scan take. A file on which they failed is due again after it."""
_PUT_OFF: Final = timedelta(minutes=5)
"""So long a file waits whose scan gave no verdict, lest one that never gets any holds up all others; or one by older signatures, as a pool
may answer whose members are updated one by one."""
_ONLY_OWN: Final = "builtin"
"""The engine whose word replaces no other's: a few rules are no second opinion on what an antivirus has cleared."""


class _BytesChanged(Exception):
    """The store handed out other bytes than were stored."""


class Rescans:
    """Scans at most `per_second` files a second, one at a time. Fetched bytes wait in memory up to `memory_bytes`, else in `folder`."""

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
        self._between = 1 / per_second
        self._pause_seconds = pause_seconds
        self._clock = clock

    async def run(self, stop: asyncio.Event) -> None:
        """Work until `stop` is set; a scan under way is then given up, and its file is due again."""
        await until(stop, self._keep_on())

    async def one_batch(self) -> int:
        """Scan the files with the oldest verdicts by other editions than the scanner's own; answer how many were done."""
        edition = self._scanner.edition
        if edition is None:
            return 0
        only = _ONLY_OWN if self._scanner.name == _ONLY_OWN else ""
        async with self._database.reading(EVERYBODY) as connection:
            stale = await file_rows.stale_verdicts(connection, str(edition), _BATCH, only=only)
        done = 0
        for file in stale:
            began = asyncio.get_running_loop().time()
            if not await self._rescan(file, str(edition)):
                break
            done += 1
            await asyncio.sleep(began + self._between - asyncio.get_running_loop().time())
        return done

    async def _keep_on(self) -> None:
        while True:
            done = 0
            try:
                done = await self.one_batch()
            except DatabaseAway as fault:
                log.warning("rescans_wait", fault=str(fault))
            except Exception:  # noqa: BLE001  (one file that cannot be worked on must not end it)
                log.exception("rescan_fault")
            if not done:
                await asyncio.sleep(self._pause_seconds)

    async def _rescan(self, file: FileRecord, edition: str) -> bool:
        """Scan one file; answer False when the scanner is away, so that there is no use in the next."""
        async with self._database.transaction(file.tenant_id) as connection:
            if not await file_rows.claim_rescan(connection, file.file_id, edition, _CLAIM):
                return True
        try:
            with closing(Spool(self._memory_bytes, self._folder)) as spool:
                scanned = await scan(await self._fetch(file, spool), file.tenant_id, self._scanner)
        except (StoreFault, StorageFull, KeyError, _BytesChanged) as fault:
            log.warning("rescan_put_off", file_id=file.file_id, fault=type(fault).__name__, why=str(fault))
            return True
        except (Unavailable, asyncio.CancelledError) as fault:
            stopped = isinstance(fault, asyncio.CancelledError)
            async with self._database.transaction(file.tenant_id) as connection:
                await file_rows.put_off_rescan(connection, file.file_id, timedelta(0) if stopped else _PUT_OFF)
            if stopped:
                raise
            return False
        await self._settle(file, scanned, edition)
        return True

    async def _fetch(self, file: FileRecord, spool: Spool) -> Sealed:
        store = self._stores.of(await self._buckets.for_file(file.tenant_id, file.storage_config_id))
        async for chunk in store.read(file.object_key):
            await spool.write(chunk)
        sealed = await spool.seal()
        if sealed.sha256.hex() != file.sha256:
            raise _BytesChanged(f"{sealed.size} bytes, {sealed.checksum}")
        return sealed

    async def _settle(self, file: FileRecord, scanned: ScanFact, edition: str) -> None:
        """Note what was said and log the decision, in one transaction."""
        now = self._clock()
        again_after = None if scanned.edition == edition else _PUT_OFF
        name = read_name(file.original_filename)
        facts = Facts(name.original, name.extension, file.size_bytes, file.sha256, scanned=scanned)
        async with self._database.transaction(file.tenant_id) as connection:
            settled = await file_rows.settle_rescan(
                connection, file.file_id, scanned.edition, now, again_after=again_after, threat=scanned.threat
            )
            if settled is None:
                return
            quarantined = settled == "quarantined"
            await upload_rows.write_rescan(connection, file, facts, new_id("rep"), now, quarantined=quarantined)
        RESCANS.labels("released" if settled == "released" else scanned.outcome).inc()
        if quarantined:
            log.error("quarantined", file_id=file.file_id, tenant_id=file.tenant_id, threat=scanned.threat)
        elif scanned.outcome == "incomplete":
            log.warning("rescan_incomplete", file_id=file.file_id, tenant_id=file.tenant_id, why=scanned.detail)
