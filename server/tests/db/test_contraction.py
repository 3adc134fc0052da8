"""A column is added, filled and dropped by three later steps while this release serves (decision 15)."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from sqlalchemy import text

from sluice.db import migrate
from sluice.db.database import Database
from sluice.db.rls import ALL_TENANTS
from tests.api.responses import data, page
from tests.db.described import described
from tests.db.steps import CONTRACT, EXPAND, FILL, run_steps, write_steps
from tests.deployments import Deployments
from tests.load import Load, assert_downloadable, uploading_clients
from tests.recovery.audit_command import run_audit
from tests.scanning.waiting import until
from tests.service import ApiClient, running_service


async def _count_unfilled(database: Database) -> int:
    async with database.reading(ALL_TENANTS) as connection:
        return int((await connection.execute(text("SELECT count(*) FROM files WHERE lowered IS NULL"))).scalar_one())


async def _described(database: Database) -> set[str]:
    async with database.reading(ALL_TENANTS) as connection:
        return await connection.run_sync(described)


@contextmanager
def _uploads_continue(load: Load) -> Iterator[None]:
    """Assert that uploads continue after the block."""
    yield
    held = len(load.stored)
    assert until(lambda: len(load.stored) >= held + 5, 60), load.unexpected


@pytest.mark.parametrize("setup", ["sqlite-local", "postgres-local"])
def test_a_column_comes_and_goes_while_servers_write(deployments: Deployments, tmp_path: Path, setup: str) -> None:
    deployment, steps = deployments.fresh(setup), tmp_path / "steps"
    expand, fill, contract = write_steps(steps, EXPAND, FILL, CONTRACT)
    with running_service(deployment) as service:
        before = service.on_database(_described)
        client: ApiClient = service.new_client()
        context = client.create_context()
        for _ in range(3):
            client.store(context=context)
        with uploading_clients(client, context, clients=2) as load:
            with _uploads_continue(load):
                service.on_database(lambda database: run_steps(database, steps, expand))
            assert service.on_database(_count_unfilled) >= 3
            with _uploads_continue(load):
                service.on_database(lambda database: run_steps(database, steps, fill))
            assert service.on_database(_count_unfilled) == 0
            with _uploads_continue(load):
                service.on_database(lambda database: run_steps(database, steps, contract))
        assert (load.unexpected, load.broken_connections, load.statuses[503]) == ([], 0, 0)
        assert_downloadable(client, load)
        assert service.on_database(_described) == before
    with running_service(deployment) as restarted:
        assert restarted.on_database(migrate.revision) == contract
        client = ApiClient(restarted, client.tenant_id, client.authorization)
        stored = page(client.get("/files"))[1]["total"]
        assert stored == len(load.stored) + 3
        data(client.delete(f"/files/{client.store(context=context)}"))
        assert page(client.get("/files"))[1]["total"] == stored
        assert until(lambda: run_audit(restarted, "--strict").of(client.tenant_id) == set(), 30)
