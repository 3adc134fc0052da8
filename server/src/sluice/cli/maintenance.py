"""`sluice audit`, `backup`, `restore` and `migrate-bucket`: compare, copy and move stored files."""

# ruff: noqa: PLC0415  (commands load their work when they run: `--help` must not wait for the stores' libraries)

import json as json_text
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from sluice.cli.environment import opened_database, task_settings
from sluice_client.cli import output
from sluice_client.cli.options import Json, Tenant
from sluice_client.cli.output import CommandRefused, Exit

if TYPE_CHECKING:
    from sluice.settings import Settings
    from sluice.storage import ObjectStore
    from sluice.worker.jobs.store_audit import AuditFinding, Position, StoreAudit

_BOOKMARK: Final = "audit-position.json"
_DATABASE: Final = "sluice.db"
_PLATFORM: Final = "platform"


def audit(
    *,
    strict: Annotated[
        bool,
        typer.Option(
            "--strict",
            help="Also check invariants: quotas and totals add up, no work is overdue, every tenant with buckets has a "
            "default.",
        ),
    ] = False,
    contents: Annotated[
        bool, typer.Option("--contents", help="Read every object and compare its SHA-256, not only its size.")
    ] = False,
    repair: Annotated[
        bool,
        typer.Option(
            "--repair",
            help="Delete objects that no file has, and count lists again. Never where two installations share a "
            "bucket's folder.",
        ),
    ] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Continue where the last audit was interrupted.")] = False,
    json: Json = False,
) -> int:
    """Compare the records of files with the objects in every bucket, in both directions.

    It reads beside a running service, store by store, in bounded memory, and changes nothing unless **--repair** is
    given. Only objects whose keys contain the id of a file are compared; others in a bucket are ignored. Every
    difference is one line: `missing` and `changed` objects of stored files, `stray` objects without a file,
    `unreachable` stores.

    Exits with 0 when there is no difference, with 1 when there is one. With --json: one line per difference, then one
    with the sums.
    """
    import asyncio

    from sluice.worker.jobs.store_audit import Position

    settings = task_settings()
    bookmark = settings.data_dir / _BOOKMARK
    begin = _load_bookmark(bookmark) if resume else Position()

    async def compare() -> "tuple[Counter[str], Position]":
        found: Counter[str] = Counter()
        position = begin
        async with _opened_audit(settings, contents=contents, repair=repair) as examiner:
            async for step in examiner.compare(begin):
                if isinstance(step, Position):
                    position = step
                    bookmark.write_text(json_text.dumps(asdict(position)))
                else:
                    found["repaired" if step.repaired else step.kind] += 1
                    _print_finding(step, json=json)
            if strict:
                async for finding in examiner.check_invariants():
                    found["repaired" if finding.repaired else finding.kind] += 1
                    _print_finding(finding, json=json)
        return found, position

    found, end = asyncio.run(compare())
    bookmark.unlink(missing_ok=True)
    if json:
        output.as_json({"rows": end.rows, "objects": end.objects, "findings": dict(found)})
    else:
        sums = ", ".join(f"{count} {kind}" for kind, count in sorted(found.items())) or "no difference"
        output.line(f"{end.rows} files and {end.objects} objects compared: {sums}.")
    return Exit.ERROR if found.total() - found["repaired"] else Exit.DONE


@asynccontextmanager
async def _opened_audit(settings: "Settings", *, contents: bool, repair: bool) -> "AsyncIterator[StoreAudit]":
    from sluice.wiring.storage import make_buckets, open_stores
    from sluice.worker.jobs.store_audit import StoreAudit

    async with opened_database(settings) as database:
        stores = open_stores(settings)
        try:
            yield StoreAudit(
                database, make_buckets(settings, database, stores), stores, contents=contents, repair=repair
            )
        finally:
            await stores.aclose()


def _print_finding(finding: "AuditFinding", *, json: bool) -> None:
    if json:
        output.as_json(asdict(finding))
        return
    repaired = " (repaired)" if finding.repaired else ""
    store = f" in {finding.store}" if finding.store else ""
    owner = finding.tenant_id or "the platform"
    output.line(f"{finding.kind}: {finding.subject}{store} of {owner}: {finding.detail}{repaired}")


def _load_bookmark(bookmark: Path) -> "Position":
    from sluice.worker.jobs.store_audit import Position

    try:
        return Position(**json_text.loads(bookmark.read_text()))
    except FileNotFoundError:
        raise CommandRefused("No audit was interrupted here: run it without --resume.", Exit.USAGE) from None
    except (ValueError, TypeError):
        raise CommandRefused(
            f"The bookmark {bookmark} cannot be read: run the audit without --resume.", Exit.ERROR
        ) from None


def backup(folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Where the backup is, or will be.")]) -> int:
    """Back up the embedded database and the local store into a folder, while the service runs.

    Copies the database by SQLite's online backup, then every object that it names, verified by its SHA-256. Into the
    same folder again, only new objects are copied. Neither the key files nor tenants' own buckets are part of it.
    """
    import sqlite3

    from sluice.db.sqlite import take_snapshot
    from sluice.wiring.start import make_folder
    from sluice.wiring.storage import make_local_store

    settings, folder = task_settings(), folder.absolute()
    database = _embedded_database(settings)
    if not database.exists():
        raise CommandRefused(f"There is no database at {database}: nothing to back up.", Exit.ERROR)
    make_folder(folder)
    # The database first: every object that the copy names exists in the store by then.
    try:
        take_snapshot(database, folder / _DATABASE)
    except sqlite3.Error as fault:
        raise CommandRefused(f"The database cannot be copied: {fault}.", Exit.ERROR) from fault
    source, target = make_local_store(settings.resolved_storage_dir), make_local_store(folder / "objects")
    return _copy_objects(folder / _DATABASE, source, target, f"Backed up to {folder}")


def restore(folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Where the backup is.")]) -> int:
    """Restore a backup into an empty SLUICE_DATA_DIR, every object verified by its SHA-256.

    The worker cleans up uploads that were in progress when the backup was made. Restore the key files separately.
    """
    import os
    import shutil

    from sluice.db.sqlite import is_sound
    from sluice.wiring.start import make_folder
    from sluice.wiring.storage import make_local_store

    settings, folder = task_settings(), folder.absolute()
    database, source = _embedded_database(settings), folder / _DATABASE
    if not source.exists():
        raise CommandRefused(f"There is no backup in {folder}.", Exit.USAGE)
    if database.exists():
        raise CommandRefused(f"There is a database at {database} already: restore into an empty SLUICE_DATA_DIR.")
    if not is_sound(source):
        raise CommandRefused(f"The backup's database {source} is damaged.", Exit.ERROR)
    make_folder(database.parent)
    # The objects first: a server would serve a database whose objects are not there yet.
    kept, store = make_local_store(folder / "objects"), make_local_store(settings.resolved_storage_dir)
    code = _copy_objects(source, kept, store, f"Restored to {settings.data_dir}")
    draft = database.with_name(f"{database.name}.restored")
    draft.unlink(missing_ok=True)
    with (
        source.open("rb") as kept_file,
        os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file,
    ):
        shutil.copyfileobj(kept_file, file)
    draft.rename(database)
    if not settings.keys_dir.exists():
        output.line("The key files are not part of a backup: put your copy of them into keys/ before the start.")
    return code


def _embedded_database(settings: "Settings") -> Path:
    url = settings.resolved_database_url
    if not url.startswith("sqlite:///") or settings.resolved_storage_url is not None:
        raise CommandRefused(
            "This is for SQLite and the local store. For PostgreSQL use pg_dump, for buckets their versioning; see "
            "docs/operations.md.",
            Exit.USAGE,
        )
    return Path(url.removeprefix("sqlite:///"))


def _copy_objects(database: Path, source: "ObjectStore", target: "ObjectStore", done_sentence: str) -> int:
    """Copy every object that `database` names, print the sums, and return the exit code: 1 if any is damaged."""
    import asyncio
    import tempfile

    from sluice.db.sqlite import stored_objects
    from sluice.worker.jobs.move_objects import Damaged, Recorded, StoreKey, copy_object

    async def copy_all() -> Counter[str]:
        counts: Counter[str] = Counter()
        try:
            with tempfile.TemporaryDirectory() as folder:
                for stored in stored_objects(database):
                    recorded = Recorded(stored.size_bytes, stored.sha256, stored.content_type)
                    ends = StoreKey(source, stored.key), StoreKey(target, stored.key)
                    try:
                        copied = await copy_object(*ends, recorded, Path(folder))
                    except Damaged as fault:
                        counts["damaged"] += 1
                        output.complain(f"{stored.file_id}: {fault}.")
                    else:
                        counts["copied" if copied else "there already"] += 1
        finally:
            await source.aclose()
            await target.aclose()
        return counts

    counts = asyncio.run(copy_all())
    sums = ", ".join(f"{count} objects {kind}" for kind, count in counts.items()) or "no objects"
    output.line(f"{done_sentence}: {sums}.")
    return Exit.ERROR if counts["damaged"] else Exit.DONE


def migrate_bucket(
    source: Annotated[
        str, typer.Argument(metavar="FROM", help="Id of the bucket (bkt_…), or `platform` for the service's own store.")
    ],
    target: Annotated[str, typer.Argument(metavar="TO", help="Id of another bucket of the tenant, or `platform`.")],
    *,
    tenant: Tenant,
) -> int:
    """Move a tenant's stored files from one bucket to another, while the service runs.

    Each object is copied and verified by its SHA-256 before its file is switched; run it again for those that failed.
    Bind the contexts to the new bucket first, or later uploads go to the old one. The old objects stay, since links
    that were given out lead there: an hour later **sluice audit --repair** deletes them.
    """
    import asyncio

    if source == target:
        raise CommandRefused("FROM and TO are the same bucket.", Exit.USAGE)
    counts = asyncio.run(_move_files(task_settings(), tenant, source, target))
    output.line(f"{counts['moved']} files moved, {counts['gone']} deleted meanwhile, {counts['failed']} failed.")
    return Exit.ERROR if counts["failed"] else Exit.DONE


async def _move_files(settings: "Settings", tenant_id: str, source: str, target: str) -> Counter[str]:
    from sluice.wiring.start import make_folder
    from sluice.wiring.storage import make_buckets, open_stores
    from sluice.worker.jobs.move_objects import ObjectMove

    counts: Counter[str] = Counter()
    make_folder(settings.resolved_spool_dir)
    async with opened_database(settings) as database:
        stores = open_stores(settings)
        try:
            buckets = make_buckets(settings, database, stores)
            ends = [(None if name == _PLATFORM else await buckets.get(tenant_id, name)) for name in (source, target)]
            async for moved in ObjectMove(database, stores, settings.resolved_spool_dir, tenant_id).run(*ends):
                counts[moved.outcome] += 1
                if moved.outcome == "failed":
                    output.complain(f"{moved.file_id}: {moved.detail}")
        finally:
            await stores.aclose()
    return counts
