"""A column is added, filled and dropped by three later migrations while this release serves (decision 15).

The migrations are written by this test and chained behind those of the product: expand, fill, contract.
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
from sluice.db.rls import ALL_TENANTS
from tests.api.responses import data, page
from tests.db.test_migrations import differences
from tests.deployments import Deployments
from tests.load import Load, assert_downloadable, uploading_clients
from tests.recovery.audit_command import run_audit
from tests.scanning.waiting import until
from tests.service import ApiClient, running_service

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
        op.execute("CREATE TRIGGER lower_name AFTER INSERT ON files BEGIN "
                   "UPDATE files SET lowered = lower(new.original_filename) "
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


def _write_migrations(folder: Path) -> list[str]:
    """Write the three migrations into `folder`, chained behind the product's, and return their revisions."""
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

    async with database.transaction(ALL_TENANTS) as connection:
        await connection.run_sync(run)


async def _count_unfilled(database: Database) -> int:
    async with database.reading(ALL_TENANTS) as connection:
        return int((await connection.execute(text("SELECT count(*) FROM files WHERE lowered IS NULL"))).scalar_one())


async def _matches_declaration(database: Database) -> bool:
    async with database.reading(ALL_TENANTS) as connection:
        return await connection.run_sync(differences) == []


@contextmanager
def _uploads_continue(load: Load) -> Iterator[None]:
    """Assert that uploads continue after the block."""
    yield
    held = len(load.stored)
    assert until(lambda: len(load.stored) >= held + 5, 60), load.unexpected


@pytest.mark.parametrize("setup", ["sqlite-local", "postgres-local"])
def test_a_column_comes_and_goes_while_servers_write(deployments: Deployments, tmp_path: Path, setup: str) -> None:
    deployment = deployments.fresh(setup)
    expand, fill, contract = _write_migrations(tmp_path)
    with running_service(deployment) as service:
        client: ApiClient = service.new_client()
        context = client.create_context()
        for _ in range(3):
            client.store(context=context)
        with uploading_clients(client, context, clients=2) as load:
            with _uploads_continue(load):
                service.on_database(lambda database: _upgrade(database, tmp_path, expand))
            assert service.on_database(_count_unfilled) >= 3
            with _uploads_continue(load):
                service.on_database(lambda database: _upgrade(database, tmp_path, fill))
            assert service.on_database(_count_unfilled) == 0
            with _uploads_continue(load):
                service.on_database(lambda database: _upgrade(database, tmp_path, contract))
        assert (load.unexpected, load.broken_connections, load.statuses[503]) == ([], 0, 0)
        assert_downloadable(client, load)
        assert service.on_database(_matches_declaration)
    with running_service(deployment) as restarted:
        assert restarted.on_database(migrate.revision) == contract
        client = ApiClient(restarted, client.tenant_id, client.authorization)
        stored = page(client.get("/files"))[1]["total"]
        assert stored == len(load.stored) + 3
        data(client.delete(f"/files/{client.store(context=context)}"))
        assert page(client.get("/files"))[1]["total"] == stored
        assert until(lambda: run_audit(restarted, "--strict").of(client.tenant_id) == set(), 30)
