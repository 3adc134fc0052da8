"""Tenants changed and deleted by an operator while their service runs."""

from datetime import datetime, timedelta

import pytest
from sqlalchemy import text

from sluice.db.database import Database
from sluice.db.rls import ALL_TENANTS
from sluice.db.schema import metadata
from sluice.errors import FileHeld
from sluice.jobs.service import TenantDeletion
from sluice.tenants.service import Tenants
from tests.api.responses import assert_rejected, assert_unauthenticated, data
from tests.api.test_tenant_isolation import webhook_ids
from tests.operator_action import operator_action
from tests.scanning.waiting import until
from tests.service import ApiClient, Service

pytestmark = pytest.mark.engine

KEPT = {"tenants", "api_keys", "audit_events", "audit_changes", "jobs", "row_counts", "count_deltas"}


def test_a_changed_plan_is_applied_to_the_next_upload(service: Service) -> None:
    client = service.new_client("unlimited")
    context = client.create_context()
    client.store(context=context)
    client.store(context=context)  # by now the server has cached the plan
    month_ends = datetime.fromisoformat(data(client.get("/plan"))["limits"][0]["resets_at"])
    month = f"{month_ends - timedelta(days=1):%Y-%m}"
    used_up = "INSERT INTO plan_usage (tenant_id, month, uploads) VALUES (:tenant_id, :month, 500)"
    client.execute_sql(used_up, tenant_id=client.tenant_id, month=month)

    async def change(database: Database) -> None:
        await Tenants(database).change(operator_action(client.tenant_id), plan="free", name="Other")

    service.on_database(change)
    assert_rejected(client.upload(context=context), "monthly_limit_exceeded", 429)
    assert data(client.get("/plan"))["plan"] == "free"


def begin_deletion(client: ApiClient) -> None:
    async def delete(database: Database) -> None:
        await TenantDeletion(database).begin(operator_action(client.tenant_id))

    client.service.on_database(delete)


def test_a_deleted_tenant_is_refused_at_once_and_nothing_stays_but_its_audit_log_unless_it_has_a_hold(
    service: Service,
) -> None:
    client = service.new_client().with_store()
    context = client.create_context()
    for number in range(3):
        client.store(f"{number}.txt", context=context, metadata={"claim": "C-1"})
    client.upload("empty.txt", b"", context=context)
    data(client.post("/upload-tokens", {"context": context}), 201)
    webhook_ids(client)
    neighbour = service.new_client()
    kept = neighbour.store(context=neighbour.create_context())
    objects = client.object_keys()
    assert len(objects) >= 3
    begin_deletion(client)
    assert_unauthenticated(client.get("/files"))
    assert until(lambda: _state(client) == "done", 120)
    assert _tables_with_rows(client) <= KEPT
    assert not objects & client.object_keys()
    data(neighbour.get(f"/files/{kept}/metadata"))
    client = service.new_client()
    held = client.store(context=client.create_context())
    data(client.request("PUT", f"/files/{held}/hold", json={"reason": "Case 7"}))
    with pytest.raises(FileHeld):
        begin_deletion(client)
    data(client.get(f"/files/{held}/metadata"))


def _state(client: ApiClient) -> str:
    async def read(database: Database) -> str:
        asked = text("SELECT state FROM jobs WHERE tenant_id = :tenant_id AND kind = 'tenant_delete'")
        async with database.reading(ALL_TENANTS) as connection:
            return str((await connection.execute(asked, {"tenant_id": client.tenant_id})).scalar_one())

    return client.service.on_database(read)


def _tables_with_rows(client: ApiClient) -> set[str]:
    async def read(database: Database) -> set[str]:
        found = set()
        async with database.reading(ALL_TENANTS) as connection:
            for name, table in metadata.tables.items():
                if "tenant_id" in table.c:
                    counted = text(f"SELECT count(*) FROM {name} WHERE tenant_id = :tenant_id")
                    if (await connection.execute(counted, {"tenant_id": client.tenant_id})).scalar_one():
                        found.add(name)
        return found

    return client.service.on_database(read)
