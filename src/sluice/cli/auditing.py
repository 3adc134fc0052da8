"""`sluice audit`: printing what the audit finds as it goes, and keeping where it stands. What is compared is in `worker.audit`."""

import asyncio
import json as json_text
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Final

from sluice.cli import show
from sluice.cli.environment import opened_database
from sluice.cli.outcomes import CommandRefused, Exit
from sluice.settings import Settings
from sluice.wiring.storing import make_buckets, make_stores
from sluice.worker.audit import Audit, Finding, Position

_BOOKMARK: Final = "audit-position.json"


def audit(settings: Settings, *, strict: bool, contents: bool, mend: bool, resume: bool, json: bool) -> int:
    """Print every difference; the exit code is 1 when there is one that was not mended."""
    bookmark = settings.data_dir / _BOOKMARK
    begin = _kept(bookmark) if resume else Position()
    found, end = asyncio.run(_run(settings, begin, bookmark, strict=strict, contents=contents, mend=mend, json=json))
    bookmark.unlink(missing_ok=True)
    if json:
        show.as_json({"rows": end.rows, "objects": end.objects, "findings": dict(found)})
    else:
        sums = ", ".join(f"{count} {kind}" for kind, count in sorted(found.items())) or "no difference"
        show.line(f"{end.rows} files and {end.objects} objects compared: {sums}.")
    return Exit.REFUSED if found.total() - found["mended"] else Exit.DONE


async def _run(
    settings: Settings, begin: Position, bookmark: Path, *, strict: bool, contents: bool, mend: bool, json: bool
) -> tuple[Counter[str], Position]:
    found: Counter[str] = Counter()
    position = begin
    async with _opened(settings, contents=contents, mend=mend) as examiner:
        async for step in examiner.compare(begin):
            if isinstance(step, Position):
                position = step
                _keep(bookmark, step)
            else:
                found["mended" if step.mended else step.kind] += 1
                _tell(step, json=json)
        if strict:
            async for finding in examiner.invariants():
                found["mended" if finding.mended else finding.kind] += 1
                _tell(finding, json=json)
    return found, position


@asynccontextmanager
async def _opened(settings: Settings, *, contents: bool, mend: bool) -> AsyncIterator[Audit]:
    async with opened_database(settings) as database:
        stores = make_stores(settings)
        try:
            yield Audit(database, make_buckets(settings, database, stores), stores, contents=contents, mend=mend)
        finally:
            await stores.aclose()


def _tell(finding: Finding, *, json: bool) -> None:
    if json:
        show.as_json(asdict(finding))
        return
    mended = " (mended)" if finding.mended else ""
    store = f" in {finding.store}" if finding.store else ""
    show.line(
        show.harmless(
            f"{finding.kind}: {finding.subject}{store} of {finding.tenant_id or 'the platform'}: {finding.detail}{mended}"
        )
    )


def _keep(bookmark: Path, position: Position) -> None:
    bookmark.write_text(json_text.dumps(asdict(position)))


def _kept(bookmark: Path) -> Position:
    try:
        return Position(**json_text.loads(bookmark.read_text()))
    except FileNotFoundError:
        raise CommandRefused("No audit was interrupted here: run it without --resume.", Exit.USAGE) from None
    except (ValueError, TypeError):
        raise CommandRefused(f"The bookmark {bookmark} cannot be read: run the audit without --resume.", Exit.FAILED) from None
