"""The time of a replay of many stored decisions, and how long it holds up the event loop meanwhile."""

import asyncio
import os
import resource
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

from sqlalchemy import insert

from sluice.contexts.policies import ActiveContent, ContentTypes, Document, EncryptedContent, Image, Policies
from sluice.db.database import Database
from sluice.db.migrate import upgrade
from sluice.db.rls import ALL_TENANTS
from sluice.db.schema import decisions, tenants
from sluice.kit.ids import new_id
from sluice.uploads.examined import ExamineFact
from sluice.uploads.replay import Verdict
from sluice.uploads.reports import Reports
from sluice.uploads.rules import decide
from sluice.uploads.values import Facts, Rules, ScanFact
from sluice_inspect import inspect_file
from tests.api import samples
from tests.servers.postgres import running_postgres

_TENANT, _CONTEXT = "ten_1", "papers"
_ACCEPTED = Verdict("accepted", None)
_FILES: Mapping[str, bytes] = {
    "letter.pdf": samples.pdf(),
    "photo.jpg": samples.picture("JPEG", (400, 300)),
    "scan.png": samples.picture(),
    "white.png": samples.white_picture(),
    "report.docx": samples.docx_file(),
    "table.xlsx": samples.xlsx_file(),
    "slides.pptx": samples.pptx_file(),
    "papers.zip": samples.zip_of(*((f"{number}.txt", samples.TEXT) for number in range(20))),
    "note.txt": samples.TEXT,
    "broken.pdf": samples.pdf()[:200],
}
_BATCH = 2000
_BEFORE = Rules(1, (), 10**8, reject_blank=True, reject_corrupt=True, scan=True, rate=None, quota_bytes=None)
# Every policy reads the report, and none can be judged without it.
_AFTER = replace(
    _BEFORE,
    version=2,
    allowed_extensions=("pdf", "jpg", "png", "docx", "xlsx", "pptx", "zip"),
    policies=Policies(
        content_types=ContentTypes(allow=["application/*", "image/*", "text/*"]),
        encrypted=EncryptedContent(),
        active_content=ActiveContent(),
        image=Image(max_width=300),
        document=Document(max_pages=100),
    ),
)


def measure(folder: Path, *, rows: int) -> dict[str, Any]:
    """Return the seconds of a replay of `rows` decisions on both databases."""
    figures: dict[str, Any] = {"load_before": os.getloadavg()[0]}
    figures["sqlite"] = asyncio.run(_replayed(f"sqlite:///{folder / 'sluice.db'}", rows))
    with running_postgres(folder / "postgres") as postgres:
        figures["postgresql"] = asyncio.run(_replayed(postgres.createdb(), rows))
    figures["load_after"] = os.getloadavg()[0]
    print(f"load of the machine: {figures['load_before']:.1f} before, {figures['load_after']:.1f} after")
    return figures


async def _replayed(url: str, rows: int) -> dict[str, Any]:
    database = Database(url)
    try:
        await upgrade(database)
        await _fill(database, rows)
        before, cpu, began = _peak_mb(), time.process_time(), time.perf_counter()
        watching = asyncio.create_task(_longest_delay())
        now = datetime.now(UTC)
        replay, truncated = await Reports(database).replay(
            _TENANT, _CONTEXT, _AFTER, since=now - timedelta(days=7), until=now + timedelta(days=1)
        )
        seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
        watching.cancel()
        delay_ms = await watching
    finally:
        await database.aclose()
    figures = {
        "judged": replay.judged,
        "unchanged": replay.unchanged,
        "unknown": sum(replay.unknown.values()),
        "truncated": truncated,
        "seconds": round(seconds, 2),
        "cpu_seconds": round(cpu, 2),
        "longest_delay_ms": round(delay_ms, 1),
        "growth_mb": round(_peak_mb() - before, 1),
    }
    print(f"{database.engine.dialect.name}: {figures}", flush=True)
    return figures


async def _fill(database: Database, rows: int) -> None:
    tenant = {"tenant_id": _TENANT, "name": "one", "plan": "pro", "status": "active", "created_at": datetime.now(UTC)}
    made = _decisions()
    async with database.transaction(ALL_TENANTS) as connection:
        await connection.execute(insert(tenants).values(tenant))
    for begin in range(0, rows, _BATCH):
        batch = [next(made) for _ in range(min(_BATCH, rows - begin))]
        async with database.transaction(ALL_TENANTS) as connection:
            await connection.execute(insert(decisions), batch)


def _decisions() -> Iterator[dict[str, Any]]:
    """Yield rows as uploads of the sample files leave them, in turn."""
    made: list[tuple[Facts, Verdict]] = []
    for name, content in _FILES.items():
        with NamedTemporaryFile() as file:
            file.write(content)
            file.flush()
            report = inspect_file(Path(file.name), filename=name)
        examined = ExamineFact(report, died=False, overran=None, detail=report.detail, ms=report.ms)
        scanned = ScanFact("clean", None, "", "clamd 1.4.3", "27501", 1.5, "127.0.0.1:3310")
        facts = Facts(
            name,
            name.rpartition(".")[2],
            len(content),
            "ab" * 32,
            quota_used_bytes=10**6,
            examined=examined,
            scanned=scanned,
        )
        rejection = decide(facts, _BEFORE)
        made.append((facts, _ACCEPTED if rejection is None else Verdict("rejected", rejection.reason)))
    while True:
        for facts, verdict in made:
            yield {
                "report_id": new_id("rep"),
                "tenant_id": _TENANT,
                "file_id": new_id("file") if verdict.reason is None else None,
                "context_key": _CONTEXT,
                "mode": "store",
                "rules": _BEFORE.to_json(),
                "rules_version": 1,
                "facts": facts.to_json(),
                "engines": {},
                "outcome": verdict.outcome,
                "reason": verdict.reason,
                "detail": "",
                "actor": {"id": "key_1", "name": "form", "via": "api_key"},
                "created_at": datetime.now(UTC),
                "original_filename": facts.filename,
                "actor_id": "key_1",
                "duration_ms": 40,
            }


async def _longest_delay() -> float:
    """Return by how many milliseconds the event loop was late at most, until the task is cancelled."""
    longest, step = 0.0, 0.005
    try:
        while True:
            began = time.perf_counter()
            await asyncio.sleep(step)
            longest = max(longest, (time.perf_counter() - began - step) * 1000)
    except asyncio.CancelledError:
        return longest


def _peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
