"""Who did what: every change is in the tenant's audit trail, and every refusal; nobody else's is, and no secret."""

import time

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from sluice.access import AUDITED_ROUTES, ROUTE_SCOPES
from sluice.db.database import Conflict, Database
from sluice.db.whose import EVERYBODY
from tests.api.answers import is_now, page, refused
from tests.gate import Gate, Service

FIELDS = {
    "event_id",
    "action",
    "target",
    "actor_id",
    "actor_name",
    "via",
    "outcome",
    "error",
    "request_id",
    "created_at",
}


def trail(gate: Gate, **query: object) -> list[dict[str, object]]:
    """Answer the trail without what made the gate itself, oldest first."""
    items, _ = page(gate.get("/audit", page_size=100, **query))
    return [item for item in reversed(items) if item["action"] != "bucket.added" and item["actor_id"] != "sluice|user-1"]


def told(gate: Gate) -> list[tuple[object, object, object]]:
    return [(item["action"], item["target"], item["outcome"]) for item in trail(gate)]


def test_every_route_that_changes_something_is_audited() -> None:
    changes = {route for route in ROUTE_SCOPES if route[0] != "GET" and not route[1].endswith("/files/upload")}
    assert changes <= AUDITED_ROUTES.keys() <= ROUTE_SCOPES.keys()


@pytest.mark.asvs("16.3.2")
def test_what_is_done_is_noted_in_order(gate: Gate) -> None:
    context = gate.context()
    gate.patch(f"/contexts/{context}", {"display_name": "Other"})
    file_id = gate.store(context=context)
    gate.get(f"/files/{file_id}")
    gate.delete(f"/files/{file_id}")
    key = gate.key("metadata")
    gate.patch(f"/api-keys/{key.api_key_id}", {"name": "other"})
    gate.delete(f"/api-keys/{key.api_key_id}")
    assert told(gate) == [
        ("context.created", context, "done"),
        ("context.changed", context, "done"),
        ("file.linked", file_id, "done"),
        ("file.deleted", file_id, "done"),
        ("api_key.created", key.api_key_id, "done"),
        ("api_key.changed", key.api_key_id, "done"),
        ("api_key.revoked", key.api_key_id, "done"),
    ]


def test_an_entry_says_who_and_when_and_in_which_request(gate: Gate) -> None:
    user = gate.as_(gate.token(sub="ada", name="Ada Byron", scope="admin"))
    answer = user.post("/contexts", {"context_key": "papers", "display_name": "x"})
    (entry,) = trail(gate, actor="sluice|ada")
    assert entry.keys() == FIELDS
    assert is_now(entry["created_at"])
    assert (entry["actor_name"], entry["via"], entry["error"]) == ("Ada Byron", "jwt", None)
    assert entry["request_id"] == answer.headers["request-id"]


@pytest.mark.asvs("16.3.2", "16.3.3")
def test_what_was_refused_for_want_of_a_scope_is_noted(gate: Gate) -> None:
    key = gate.key("metadata")
    assert gate.as_(key).delete("/files/file_1").status_code == 403
    assert gate.as_(key).post("/api-keys", {"name": "x", "scopes": ["admin"]}).status_code == 403
    entries = trail(gate, actor=key.api_key_id)
    assert [(entry["action"], entry["target"], entry["outcome"], entry["error"]) for entry in entries] == [
        ("file.deleted", "file_1", "refused", "scope_missing"),
        ("api_key.created", None, "refused", "scope_missing"),
    ]


@pytest.mark.one_process
def test_refusals_of_one_caller_do_not_fill_the_disk(gate: Gate) -> None:
    key = gate.key("metadata")
    for _ in range(70):
        assert gate.as_(key).delete("/files/file_1").status_code == 403
    assert len(trail(gate, actor=key.api_key_id)) == 60


@pytest.mark.parametrize("target", ["x" * 2000, "%F0%9F%8C%8A", "..%2f..", "%0d%0aX: y"])
def test_whatever_a_refused_caller_names_can_be_noted(gate: Gate, target: str) -> None:
    key = gate.key("metadata")
    answer = gate.as_(key).delete(f"/files/{target}")
    assert answer.status_code in {403, 404}
    trail(gate, actor=key.api_key_id)


def test_what_was_not_done_is_not_noted_as_done(gate: Gate) -> None:
    gate.post("/contexts", {"context_key": "no such key", "display_name": "x"})
    gate.delete("/files/file_unknown")
    gate.patch("/contexts/unknown", {"display_name": "x"})
    assert told(gate) == []


def test_no_secret_is_in_the_trail(gate: Gate) -> None:
    key = gate.key("metadata", name="canary", metadata={"note": "canary-metadata"})
    shown = gate.get("/audit", page_size=100).text
    assert key.api_key_id in shown
    assert key.text not in shown
    assert "canary-metadata" not in shown


def test_the_trail_of_another_tenant_is_not_shown(gate: Gate, lobby: Gate) -> None:
    context = gate.context()
    key = gate.key("metadata")
    shown = lobby.get("/audit", page_size=100).text
    assert key.api_key_id not in shown
    assert gate.tenant_id not in shown
    assert context in gate.get("/audit").text


def test_the_trail_is_for_admins(gate: Gate) -> None:
    refused(gate.as_(gate.key("metadata", "delete")).get("/audit"), 403, "Admin scope required", "Insufficient permissions")


def test_the_trail_is_listed_in_pages_and_by_action(gate: Gate) -> None:
    keys = [gate.key("metadata").api_key_id for _ in range(3)]
    items, pagination = page(gate.get("/audit", action="api_key.created", page=1, page_size=2))
    assert [item["target"] for item in items] == [keys[2], keys[1]]
    assert pagination["total"] == 4  # the gate's own key is the first
    assert page(gate.get("/audit", action="\0"))[0] == []


@pytest.mark.asvs("16.4.2")
def test_the_database_itself_refuses_to_change_an_entry(gate: Gate) -> None:
    gate.context()

    async def rewrite(database: Database) -> None:
        async with database.transaction(EVERYBODY) as connection:
            await connection.execute(
                text("UPDATE audit_events SET actor_name = 'nobody' WHERE tenant_id = :t"), {"t": gate.tenant_id}
            )

    with pytest.raises((Conflict, DBAPIError), match="append-only"):
        gate.service.on_database(rewrite)


@pytest.mark.asvs("14.2.4")
def test_old_entries_are_forgotten(hasty: Service) -> None:
    """That service keeps them for a moment."""
    gate = hasty.new_gate()
    gate.context()
    deadline = time.monotonic() + 20
    while page(gate.get("/audit"))[0]:
        assert time.monotonic() < deadline
        time.sleep(0.1)
