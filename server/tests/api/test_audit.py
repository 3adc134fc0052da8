"""The audit log of a tenant: it has every change and every refusal, nothing of other tenants, and no secret."""

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from sluice.access import AUDITED_ROUTES, ROUTE_SCOPES
from sluice.db.database import Conflict, Database
from sluice.db.rls import ALL_TENANTS
from tests.api.responses import assert_error, is_now, page
from tests.scanning.waiting import until
from tests.service import ApiClient, Service

FIELDS = {
    *("event_id", "action", "target", "actor_id", "actor_name", "via", "outcome", "error", "request_id", "created_at")
}


def audit_entries(client: ApiClient, **query: object) -> list[dict[str, object]]:
    """Return the audit log without the entries of creating the client itself, oldest first."""
    items = reversed(page(client.get("/audit", page_size=100, **query))[0])
    return [item for item in items if item["action"] != "bucket.added" and item["actor_id"] != "command|tests"]


def logged_actions(client: ApiClient) -> list[tuple[object, object, object]]:
    return [(item["action"], item["target"], item["outcome"]) for item in audit_entries(client)]


def test_every_route_that_changes_something_is_audited() -> None:
    logged_elsewhere, changing_nothing = ("/files/upload", "/uploads", "/{upload_id}"), ("/files/validate", "/replay")
    others = (*logged_elsewhere, *changing_nothing)
    changes = {route for route in ROUTE_SCOPES if route[0] != "GET" and not route[1].endswith(others)}
    assert changes <= AUDITED_ROUTES.keys() <= ROUTE_SCOPES.keys()


@pytest.mark.asvs("16.3.2")
def test_changes_are_logged_in_order_with_actor_time_and_request_id(client: ApiClient) -> None:
    client.post("/contexts", {"context_key": "no such key", "display_name": "x"})
    client.delete("/files/file_unknown")
    client.patch("/contexts/unknown", {"display_name": "x"})
    assert logged_actions(client) == [], "what failed is not logged as done"
    context = client.create_context()
    client.patch(f"/contexts/{context}", {"display_name": "Other"})
    file_id = client.store(context=context)
    client.get(f"/files/{file_id}")
    client.delete(f"/files/{file_id}")
    key = client.create_key("metadata")
    client.patch(f"/api-keys/{key.api_key_id}", {"name": "other"})
    client.delete(f"/api-keys/{key.api_key_id}")
    assert logged_actions(client) == [
        *(("context.created", context, "done"), ("context.changed", context, "done")),
        *(("file.linked", file_id, "done"), ("file.deleted", file_id, "done")),
        *((f"api_key.{done}", key.api_key_id, "done") for done in ("created", "changed", "revoked")),
    ]
    user = client.with_credential(client.token(sub="ada", name="Ada Byron", scope="admin"))
    response = user.post("/contexts", {"context_key": "papers", "display_name": "x"})
    (entry,) = audit_entries(client, actor="sluice|ada")
    assert entry.keys() == FIELDS
    assert is_now(entry["created_at"])
    assert (entry["actor_name"], entry["via"], entry["error"]) == ("Ada Byron", "jwt", None)
    assert entry["request_id"] == response.headers["request-id"]


@pytest.mark.asvs("16.3.2", "16.3.3")
def test_refusal_for_a_missing_scope_is_logged(client: ApiClient) -> None:
    key = client.create_key("metadata")
    assert client.with_credential(key).delete("/files/file_1").status_code == 403
    assert client.with_credential(key).post("/api-keys", {"name": "x", "scopes": ["admin"]}).status_code == 403
    entries = audit_entries(client, actor=key.api_key_id)
    assert [(entry["action"], entry["target"], entry["outcome"], entry["error"]) for entry in entries] == [
        ("file.deleted", "file_1", "refused", "scope_missing"),
        ("api_key.created", None, "refused", "scope_missing"),
    ]


@pytest.mark.one_process
def test_number_of_logged_refusals_per_caller_is_bounded(client: ApiClient) -> None:
    caller, key = client.with_credential(client.create_key("metadata")), client.create_key("metadata")
    for target in ("x" * 2000, "%F0%9F%8C%8A", "..%2f..", "%0d%0aX: y"):
        assert caller.delete(f"/files/{target}").status_code in {403, 404}
    audit_entries(client)
    for _ in range(70):
        assert client.with_credential(key).delete("/files/file_1").status_code == 403
    assert len(audit_entries(client, actor=key.api_key_id)) == 60


@pytest.mark.engine
def test_audit_log_is_paged_filtered_holds_no_secret_and_is_for_admins_of_its_tenant(
    client: ApiClient, shared_client: ApiClient
) -> None:
    keys = [client.create_key("metadata").api_key_id for _ in range(3)]
    items, pagination = page(client.get("/audit", action="api_key.created", page=1, page_size=2))
    assert [item["target"] for item in items] == [keys[2], keys[1]]
    assert pagination["total"] == 4  # the client's own key is the first
    assert page(client.get("/audit", action="\0"))[0] == []
    key = client.create_key("metadata", "delete", name="canary", metadata={"note": "canary-metadata"})
    shown = client.get("/audit", page_size=100).text
    assert key.api_key_id in shown
    assert key.text not in shown
    assert "canary-metadata" not in shown
    foreign = shared_client.get("/audit", page_size=100).text
    assert key.api_key_id not in foreign
    assert client.tenant_id not in foreign
    refused = client.with_credential(key).get("/audit")
    assert_error(refused, 403, "Admin scope required", "Insufficient permissions")


@pytest.mark.engine
@pytest.mark.asvs("16.4.2")
def test_database_refuses_to_change_an_entry(client: ApiClient) -> None:
    client.create_context()

    async def rewrite(database: Database) -> None:
        change = text("UPDATE audit_events SET actor_name = 'nobody' WHERE tenant_id = :tenant_id")
        async with database.transaction(ALL_TENANTS) as connection:
            await connection.execute(change, {"tenant_id": client.tenant_id})

    with pytest.raises((Conflict, DBAPIError), match="append-only"):
        client.service.on_database(rewrite)


@pytest.mark.engine
@pytest.mark.asvs("14.2.4")
def test_old_entries_are_deleted(limited_service: Service) -> None:
    """That service keeps entries only for a moment."""
    client = limited_service.new_client()
    client.create_context()
    assert until(lambda: page(client.get("/audit"))[0] == [], 60)
