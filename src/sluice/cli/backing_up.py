"""`sluice backup` and `sluice restore`: the embedded database and the local store, to a folder and back, each object held to its SHA-256."""

import asyncio
import shutil
import sqlite3
import tempfile
from collections import Counter
from pathlib import Path
from typing import Final

from sluice.cli import show
from sluice.cli.outcomes import CommandRefused, Exit
from sluice.db.snapshot import is_sound, stored_objects, take_snapshot
from sluice.engines.storage import ObjectStore
from sluice.settings import Settings
from sluice.wiring.start import make_folder
from sluice.wiring.storing import make_local_store
from sluice.worker.copying import Damaged, Recorded, Spot, copy_object

_DATABASE: Final = "sluice.db"


def backup(settings: Settings, folder: Path) -> int:
    """Copy the database, then every object that it names; what a backup there has already is not copied again."""
    database = _embedded(settings)
    if not database.exists():
        raise CommandRefused(f"There is no database at {database}: nothing to back up.", Exit.FAILED)
    make_folder(folder)
    try:
        take_snapshot(database, folder / _DATABASE)
    except sqlite3.Error as fault:
        raise CommandRefused(f"The database cannot be copied: {fault}.", Exit.FAILED) from fault
    store, kept = make_local_store(settings.resolved_storage_dir), make_local_store(folder / "objects")
    return _told(asyncio.run(_copy(folder / _DATABASE, store, kept)), f"Backed up to {folder}")


def restore(settings: Settings, folder: Path) -> int:
    """Put a backup where these settings keep their data; refuses where a database is already."""
    database, source = _embedded(settings), folder / _DATABASE
    if not source.exists():
        raise CommandRefused(f"There is no backup in {folder}.", Exit.USAGE)
    if database.exists():
        raise CommandRefused(f"There is a database at {database} already: restore into an empty SLUICE_DATA_DIR.")
    if not is_sound(source):
        raise CommandRefused(f"The backup's database {source} is damaged.", Exit.FAILED)
    make_folder(database.parent)
    # The objects first: a database without its objects would be served.
    code = _told(
        asyncio.run(_copy(source, make_local_store(folder / "objects"), make_local_store(settings.resolved_storage_dir))),
        f"Restored to {settings.data_dir}",
    )
    draft = database.with_name(f"{database.name}.restored")
    shutil.copyfile(source, draft)
    draft.chmod(0o600)
    draft.rename(database)
    if not settings.keys_dir.exists():
        show.line("The key files are not part of a backup: put your copy of them into keys/ before the start.")
    return code


async def _copy(database: Path, source: ObjectStore, target: ObjectStore) -> Counter[str]:
    done: Counter[str] = Counter()
    try:
        with tempfile.TemporaryDirectory() as way:
            for stored in stored_objects(database):
                recorded = Recorded(stored.size_bytes, stored.sha256, stored.content_type)
                try:
                    copied = await copy_object(Spot(source, stored.key), Spot(target, stored.key), recorded, Path(way))
                except Damaged as fault:
                    done["damaged"] += 1
                    show.complain(f"{stored.file_id}: {fault}.")
                else:
                    done["copied" if copied else "there already"] += 1
    finally:
        await source.aclose()
        await target.aclose()
    return done


def _told(done: Counter[str], what: str) -> int:
    sums = ", ".join(f"{count} objects {kind}" for kind, count in done.items()) or "no objects"
    show.line(f"{what}: {sums}.")
    return Exit.REFUSED if done["damaged"] else Exit.DONE


def _embedded(settings: Settings) -> Path:
    url = settings.resolved_database_url
    if not url.startswith("sqlite:///") or settings.resolved_storage_bucket is not None:
        raise CommandRefused(
            "This is for SQLite and the local store. For PostgreSQL use pg_dump, for buckets their versioning; see docs/operations.md.",
            Exit.USAGE,
        )
    return Path(url.removeprefix("sqlite:///"))
