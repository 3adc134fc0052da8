"""Files that move from a bucket to the platform's store."""

import hashlib
from pathlib import Path

from sluice.db.database import Database
from sluice.db.rls import ALL_TENANTS
from sluice.files import repository
from sluice.worker.jobs.move_objects import Moved, ObjectMove
from tests.db.migrated import Migrated
from tests.db.rows import add_file, add_tenant
from tests.rows import each_row
from tests.worker.environment import WorkerEnvironment


@each_row(
    ("key", "expected"),
    [
        ("_incoming/upl_1-file_1", "files/_incoming/upl_1-file_1"),
        ("_exports/file_1", "files/_exports/file_1"),
        ("a/_exports/file_1", "a/_exports/file_1"),
    ],
)
async def test_a_moved_file_stays_out_of_the_folders_of_the_service(
    migrated: Migrated, tmp_path: Path, key: str, expected: str
) -> None:
    database = Database(migrated.sqlite(tmp_path))
    await add_tenant(database, "ten_1", "a")
    environment = WorkerEnvironment(database, tmp_path)
    await environment.add_bucket("bkt_1")
    digest = hashlib.sha256(b"x").hexdigest()
    await add_file(database, "ten_1", "file_1", storage_config_id="bkt_1", object_key=key, sha256=digest)
    source = tmp_path / "bkt_1" / "objects" / key
    source.parent.mkdir(parents=True)
    source.write_bytes(b"x")
    bucket = await environment.buckets.get("ten_1", "bkt_1")
    move = ObjectMove(database, environment.stores, tmp_path, "ten_1")
    assert [each async for each in move.run(bucket, None)] == [Moved("file_1", "moved")]
    async with database.reading(ALL_TENANTS) as connection:
        assert await repository.object_keys(connection, ["file_1"]) == {"file_1": expected}
    assert (tmp_path / "platform" / "objects" / expected).read_bytes() == b"x"
    await database.aclose()
