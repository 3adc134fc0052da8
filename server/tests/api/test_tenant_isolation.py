"""Tenant isolation on every route with an id: another tenant's id gets exactly the response of an unknown one.

And tenants that an operator changes and deletes while their service runs.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import text

from sluice.access import ROUTE_SCOPES
from sluice.db.database import Database
from sluice.db.rls import ALL_TENANTS
from sluice.db.schema import metadata
from sluice.errors import FileHeld
from sluice.jobs.service import TenantDeletion
from sluice.tenants.service import Tenants
from tests.api import tus
from tests.api.responses import assert_rejected, assert_unauthenticated, data, page, without_time
from tests.operator_action import operator_action
from tests.rows import each_row
from tests.scanning.waiting import until
from tests.service import API, ApiClient, Service

pytestmark = pytest.mark.engine
PREFIXES = {"file": "file", "report": "rep", "api_key": "key", "token": "utk", "endpoint": "whk", "delivery": "dlv"}
PREFIXES |= {"example": "exm", "config": "bkt", "job": "job", "upload": "upl", "tenant": "ten"}
UNKNOWN = {f"{name}_id": f"{prefix}_01hzzzzzzzzzzzzzzzzzzzzzzz" for name, prefix in PREFIXES.items()}
UNKNOWN |= {"context_key": "never_was", "check_name": "never_was", "digest": "0" * 64}
EVER = {"since": "2026-01-01T00:00:00Z", "until": "2126-01-01T00:00:00Z"}
HOLD, COMMENT, DISABLED = {"reason": "mine now"}, {"comment": "mine now"}, {"status": "disabled"}
CREDENTIAL = {"access_key_id": "A" * 16, "secret_access_key": "secret"}
BODIES: dict[tuple[str, str], Any] = {
    ("PATCH", "/contexts/{context_key}"): {"display_name": "mine now"},
    ("POST", "/contexts/{context_key}/replay"): {"changes": {}},
    ("PUT", "/contexts/{context_key}/hold"): HOLD,
    ("PUT", "/files/{file_id}/hold"): HOLD,
    **{("POST", f"/quarantine/{{file_id}}/{word}"): COMMENT for word in ("release", "refuse", "rescan")},
    ("PATCH", "/api-keys/{api_key_id}"): DISABLED,
    ("POST", "/api-keys/{api_key_id}/rotate"): {"overlap_seconds": 0},
    ("PATCH", "/webhook-endpoints/{endpoint_id}"): DISABLED,
    ("POST", "/webhook-endpoints/{endpoint_id}/recover"): EVER,
    ("PATCH", "/tenants/{tenant_id}/storage-configs/{config_id}"): {"name": "mine now"},
    ("POST", "/tenants/{tenant_id}/storage-configs"): {"name": "one", "default_bucket": "bucket", **CREDENTIAL},
}
"""Bodies for routes that read one, so that the id is judged and not the body."""
ROUTES = sorted((method, path.removeprefix(API)) for method, path in ROUTE_SCOPES)
WITH_IDS = [route for route in ROUTES if "{" in route[1]]


@dataclass(frozen=True)
class Owner:
    client: ApiClient
    ids: dict[str, str]


def webhook_ids(client: ApiClient) -> dict[str, str]:
    """Add an endpoint without a server, with a delivery to it in progress."""
    made = data(client.post("/webhook-endpoints", {"url": "http://127.0.0.1:9/hook", "events": ["*"]}), 201)
    path = f"/webhook-endpoints/{made['endpoint_id']}"
    data(client.post(f"{path}/test"))
    data(client.post(f"{path}/recover", EVER))
    delivery_id = page(client.get(f"{path}/deliveries"))[0][0]["delivery_id"]
    return {"endpoint_id": made["endpoint_id"], "delivery_id": delivery_id}


@pytest.fixture(scope="module")
def owner(service: Service) -> Owner:
    client = service.new_client().with_store()
    context = client.create_context(context_key="of_the_owner")
    buckets = data(client.get(client.buckets))
    stored = data(client.upload(context=context), 201)
    check = {"name": "owned", "url": "http://127.0.0.1:9/check", "if_unavailable": "accept", "timeout_seconds": 1}
    data(client.patch(f"/contexts/{context}", {"external_checks": [check]}))
    form = {
        "file": ("a.txt", b"invoice number date customer description quantity price amount total tax terms payment")
    }
    added = data(client.request("POST", f"/contexts/{context}/examples", files=form), 201)
    ids = {
        "context_key": context,
        "example_id": added["example"]["example_id"],
        "check_name": "owned",
        "file_id": stored["file_id"],
        "report_id": stored["report_id"],
        "api_key_id": client.create_key("metadata").api_key_id,
        "token_id": data(client.post("/upload-tokens", {"context": context}), 201)["token_id"],
        "job_id": data(client.post("/files/bulk-delete", {"file_ids": ["file_unknown"]}), 201)["job_id"],
        "upload_id": tus.begin(client, 5, context=context).path.rpartition("/")[2],
        "digest": data(client.post("/hash-lists", {"entries": [{"digest": "ab" * 32}]}), 201)["entries"][0]["digest"],
        **webhook_ids(client),
        # a tenant that stores in the service's own folder has no bucket: an invented id represents it
        "config_id": buckets[0]["config_id"] if buckets else "bkt_01haaaaaaaaaaaaaaaaaaaaaaa",
        "tenant_id": client.tenant_id,
    }
    return Owner(client, ids)


@pytest.fixture(scope="module")
def callers(shared_client: ApiClient) -> dict[str, ApiClient]:
    return {
        "key": shared_client.with_credential(shared_client.create_key("admin")),
        "token": shared_client.with_credential(shared_client.token(scope="admin")),
    }


@each_row("kind, route", [*(("key", route) for route in WITH_IDS), *(("token", route) for route in WITH_IDS[::6])])
@pytest.mark.asvs("8.2.2", "8.4.1")
def test_another_tenants_id_gets_the_same_response_as_an_unknown_one(
    callers: dict[str, ApiClient], owner: Owner, route: tuple[str, str], kind: str
) -> None:
    method, path = route
    caller = callers[kind]
    more: dict[str, Any] = {"json": BODIES[route]} if route in BODIES else {}
    if "upload_id" in path:
        more["headers"] = tus.VERSION
    # in the path of the caller's own tenant too: a foreign bucket must not be found there either
    tenants = (owner.ids["tenant_id"], caller.tenant_id) if "{tenant_id}" in path else (caller.tenant_id,)
    for tenant_id in tenants:
        foreign = caller.request(method, path.format_map(owner.ids | {"tenant_id": tenant_id}), **more)
        unknown_tenant = UNKNOWN["tenant_id"] if tenant_id == owner.ids["tenant_id"] else tenant_id
        unknown = caller.request(method, path.format_map(UNKNOWN | {"tenant_id": unknown_tenant}), **more)
        assert without_time(foreign) == without_time(unknown)
        if path.endswith("}") or tenant_id != caller.tenant_id:
            assert foreign.status_code == 404


def test_requests_of_another_tenant_change_nothing_and_no_list_shows_it(owner: Owner, shared_client: ApiClient) -> None:
    client, ids = owner.client, owner.ids
    assert data(client.get(f"/files/{ids['file_id']}/metadata"))["download_count"] == 0
    assert data(client.get(f"/api-keys/{ids['api_key_id']}"))["status"] == "active"
    assert data(client.get(f"/upload-tokens/{ids['token_id']}"))["status"] == "active"
    assert data(client.get(f"/contexts/{ids['context_key']}"))["display_name"] == "Tests"
    buckets = data(client.get(client.buckets))
    assert [(bucket["name"], bucket["is_default"]) for bucket in buckets] == ([("first", True)] if buckets else [])
    assert len(client.object_keys()) == 1
    for path in ("/contexts", "/files", "/api-keys"):
        shown = shared_client.get(path, page_size=100).text
        assert not [known for known in owner.ids.values() if known in shown]
    foreign, unknown = (shared_client.upload(context=ids["context_key"]) for ids in (owner.ids, UNKNOWN))
    assert without_time(foreign) == without_time(unknown)
    assert foreign.status_code == 404


@pytest.mark.asvs("10.3.3", "6.8.1")
def test_same_subject_of_two_issuers_is_two_uploaders(client: ApiClient) -> None:
    """The other issuer's file is simulated in the database: a service with two issuers is in `test_oidc_provider`."""
    context = client.create_context()
    user = client.with_credential(client.token(sub="user-7", scope="upload"))
    user.store("mine.txt", context=context)
    other = user.store("theirs.txt", context=context)
    # Deleted, changed and stored again: the counts are maintained only when a file enters or leaves a list.
    for change in ("state = 'deleted'", "uploaded_by = 'https://other.example|user-7'", "state = 'stored'"):
        client.execute_sql(f"UPDATE files SET {change} WHERE file_id = :file", file=other)
    key = client.create_key("upload")  # with an id that is also a subject
    client.with_credential(client.token(sub=key.api_key_id, scope="upload")).store("forged.txt", context=context)
    names = {"sluice|user-7": ["mine.txt"], "https://other.example|user-7": ["theirs.txt"], "user-7": []}
    for uploader, expected in (names | {key.api_key_id: []}).items():
        items = client.get("/files", uploaded_by=uploader).json()["data"]
        assert [item["original_filename"] for item in items] == expected, uploader


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
