"""A column comes, is filled, and goes again in three later steps, as decision 15 has it, while this release serves and knows nothing of it.

The steps are this file's own, put behind those of the product in one chain: they expand, fill in what is there, and contract.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from alembic import command
from alembic.config import Config
from sqlalchemy import Connection, text

from sluice.db import migrate
from sluice.db.database import Database
from sluice.db.whose import EVERYBODY
from tests.api.answers import data, page
from tests.api.places import Places
from tests.db.test_migrations import differences
from tests.gate import Gate, running_service
from tests.load import Load, hold, uploading
from tests.recovery.auditing import audited
from tests.scanning.waiting import until

STEPS = Path(migrate.__file__).parent / "migrations"
_STEP = """
from alembic import op
import sqlalchemy as sa

revision, down_revision, branch_labels, depends_on = "{revision}", "{before}", None, None

def upgrade():
    on_postgres = op.get_bind().dialect.name == "postgresql"
    {body}
"""
_EXPAND = """
    op.add_column("files", sa.Column("lowered", sa.String(255), nullable=True))
    op.create_index("ix_files_lowered", "files", ["tenant_id", "lowered"])
    if on_postgres:
        op.execute("CREATE FUNCTION lower_name() RETURNS trigger LANGUAGE plpgsql AS $$ "
                   "BEGIN new.lowered := lower(new.original_filename); RETURN new; END $$")
        op.execute("CREATE TRIGGER lower_name BEFORE INSERT ON files FOR EACH ROW EXECUTE FUNCTION lower_name()")
    else:
        op.execute("CREATE TRIGGER lower_name AFTER INSERT ON files BEGIN UPDATE files SET lowered = lower(new.original_filename) "
                   "WHERE file_id = new.file_id; END")
"""
_FILL = """
    op.execute("UPDATE files SET lowered = lower(original_filename) WHERE lowered IS NULL")
"""
_CONTRACT = """
    op.execute("DROP TRIGGER lower_name" + (" ON files" if on_postgres else ""))
    if on_postgres:
        op.execute("DROP FUNCTION lower_name()")
    op.drop_index("ix_files_lowered", "files")
    op.drop_column("files", "lowered")
"""


def _later(folder: Path) -> list[str]:
    """Write the three steps into `folder`, in a chain with the product's, and answer their revisions."""
    before = str(migrate.newest())
    revisions = [f"{int(before) + number:04}" for number in (1, 2, 3)]
    for revision, body in zip(revisions, (_EXPAND, _FILL, _CONTRACT), strict=True):
        (folder / f"{revision}_later.py").write_text(_STEP.format(revision=revision, before=before, body=body.strip()))
        before = revision
    return revisions


async def _upgrade(database: Database, folder: Path, to: str) -> None:
    def run(connection: Connection) -> None:
        config = Config()
        config.set_main_option("script_location", str(STEPS))
        config.set_main_option("path_separator", "os")
        config.set_main_option("version_locations", f"{STEPS / 'versions'}:{folder}")
        config.attributes["connection"] = connection
        command.upgrade(config, to)

    async with database.transaction(EVERYBODY) as connection:
        await connection.run_sync(run)


async def _unfilled(database: Database) -> int:
    async with database.reading(EVERYBODY) as connection:
        return int((await connection.execute(text("SELECT count(*) FROM files WHERE lowered IS NULL"))).scalar_one())


async def _as_declared(database: Database) -> bool:
    async with database.reading(EVERYBODY) as connection:
        return await connection.run_sync(differences) == []


@contextmanager
def _served_meanwhile(load: Load) -> Iterator[None]:
    """Hold the block to uploads that go on after it as before it."""
    yield
    held = len(load.kept)
    assert until(lambda: len(load.kept) >= held + 5, 60), load.odd


@pytest.mark.parametrize("setup", ["sqlite-local", "postgres-local"])
def test_what_nobody_uses_any_more_goes_while_servers_write(places: Places, tmp_path: Path, setup: str) -> None:
    place = places.fresh(setup)
    expand, fill, contract = _later(tmp_path)
    with running_service(place) as service:
        gate: Gate = service.new_gate()
        context = gate.context()
        for _ in range(3):
            gate.store(context=context)
        with uploading(gate, context, clients=2) as load:
            with _served_meanwhile(load):
                service.on_database(lambda database: _upgrade(database, tmp_path, expand))
            assert service.on_database(_unfilled) >= 3
            with _served_meanwhile(load):
                service.on_database(lambda database: _upgrade(database, tmp_path, fill))
            assert service.on_database(_unfilled) == 0
            with _served_meanwhile(load):
                service.on_database(lambda database: _upgrade(database, tmp_path, contract))
        assert (load.odd, load.broken, load.statuses[503]) == ([], 0, 0)
        hold(gate, load)
        assert service.on_database(_as_declared)
    with running_service(place) as again:
        assert again.on_database(migrate.revision) == contract
        gate = Gate(again, gate.tenant_id, gate.authorization)
        stored = page(gate.get("/files"))[1]["total"]
        assert stored == len(load.kept) + 3
        data(gate.delete(f"/files/{gate.store(context=context)}"))
        assert page(gate.get("/files"))[1]["total"] == stored
        assert until(lambda: audited(again, "--strict").of(gate.tenant_id) == set(), 30)
