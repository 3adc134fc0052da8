"""kill -9 around every audited action: a committed action has its entry in the audit log, others have none."""

from collections.abc import Mapping
from typing import Any, Final

import httpx
import pytest
from sqlalchemy import Column, Table, select

from sluice.access import AUDITED_ROUTES
from sluice.db.database import Database
from sluice.db.rls import ALL_TENANTS
from sluice.db.schema import metadata
from tests.api.responses import data
from tests.api.test_tenant_isolation import EVER, webhook_ids
from tests.deployments import Deployments
from tests.run_length import LONG_RUN
from tests.scanning.waiting import until
from tests.service import API, ApiClient, Deployment, running_service, unchecked_service

pytestmark = pytest.mark.engine

SETTINGS: Final = {"BUCKET_PROBE": "false", "WEBHOOK_HOSTS": "127.0.0.1"}
ALONE: Final = {**SETTINGS, "WORKER_INSIDE": "false"}
"""Nothing but the action changes the database."""
POINTS: Final = ("audit.appended", "response.made")
STEP: Final = 1 if LONG_RUN else 8
"""The short form tries every eighth action at each point and on each setup, beginning with another one."""
NEW_BUCKET: Final = {"name": "new", "access_key_id": "A" * 16, "secret_access_key": "s", "default_bucket": "bucket"}
BODIES: Final[Mapping[str, Any]] = {
    "context.created": {"context_key": "made", "display_name": "x"},
    "context.changed": {"display_name": "changed"},
    "api_key.created": {"name": "made", "scopes": ["metadata"]},
    "api_key.changed": {"name": "changed"},
    "api_key.rotated": {"overlap_seconds": 60},
    "bucket.added": NEW_BUCKET,
    "bucket.changed": {"name": "changed"},
    "webhook_endpoint.created": {"url": "http://127.0.0.1:9/hook", "events": ["endpoint.test"]},
    "webhook_endpoint.changed": {"description": "changed"},
    "webhook_endpoint.recovered": EVER,
    "erasure.created": {"uploaded_by": "nobody"},
    "job.created": {"file_ids": ["file_unknown"]},
    "hash_entry.added": {"entries": [{"digest": "1" * 64}]},
    "cors.changed": {"allowed_origins": ["https://app.example.com"]},
    **{key: {"reason": "Case 7"} for key in ("file.held", "context.held")},
    **{key: {"comment": "looked at it"} for key in ("file.released", "file.refused", "file.rescan_asked")},
}
SUBJECTS: Final[Mapping[str, tuple[str, str]]] = {
    "bucket.made_default": ("config_id", "another_id"),  # the default cannot be deleted
    "context.check_secret_rotated": ("context_key", "checked_key"),
    "context.held": ("context_key", "free_key"),
    "context.example_removed": ("context_key", "example_key"),
    "context.unheld": ("context_key", "held_key"),
    "file.held": ("file_id", "free_id"),
    "file.unheld": ("file_id", "held_id"),
    "file.restored": ("file_id", "deleted_id"),
    "file.released": ("file_id", "released_id"),
    "file.refused": ("file_id", "refused_id"),
    "file.rescan_asked": ("file_id", "scanned_id"),
    "file.quarantine_downloaded": ("file_id", "scanned_id"),
    "file.quarantine_previewed": ("file_id", "scanned_id"),
    "job.linked": ("job_id", "export_id"),
}
"""Actions whose subject is another than that of the others: its name in the path, and among the ids."""
EXAMPLE: Final = b"an invoice with number, date, customer, quantity, price, amount, total, tax and payment terms"
HANDED_OUT: Final = {"job.linked", "file.previewed", "file.quarantine_previewed"}
"""Actions that change nothing but the audit log and its counts."""
FAIL_DELIVERIES: Final = "UPDATE webhook_deliveries SET state = 'failed', due_at = NULL"
_DELETIONS: Final = (
    *(
        "file.deleted",
        "bucket.deleted",
        "api_key.revoked",
        "upload_token.revoked",
        "webhook_endpoint.deleted",
        "hash_entry.removed",
        "context.example_removed",
    ),
)
ACTIONS: Final = sorted(
    ((audited.action, method, path) for (method, path), audited in AUDITED_ROUTES.items()),
    key=lambda one: (one[0] in _DELETIONS, one[0]),  # deletions last: the other actions need their subjects
)


@pytest.fixture
def deployment(deployments: Deployments, setup_name: str) -> Deployment:
    return deployments.fresh(setup_name)


@pytest.fixture
def owner(deployment: Deployment) -> tuple[ApiClient, Mapping[str, str]]:
    """A tenant with one of everything, and the ids. Its server has ended."""
    with running_service(deployment, **SETTINGS) as service:
        client = service.new_client()
        key_id = client.create_key("metadata").api_key_id
        ids = {"context_key": client.create_context(), "tenant_id": client.tenant_id, "api_key_id": key_id}
        ids["token_id"] = data(client.post("/upload-tokens", {"context": ids["context_key"]}), 201)["token_id"]
        ids["file_id"] = client.store(context=ids["context_key"])
        ids["digest"] = "0" * 64
        data(client.post("/hash-lists", {"entries": [{"digest": ids["digest"]}]}), 201)
        check = {"name": "policy", "url": "http://127.0.0.1:9/check"}
        ids |= {"checked_key": client.create_context(external_checks=[check]), "check_name": check["name"]}
        sent = {"files": {"file": ("a.txt", EXAMPLE)}}
        added = data(client.request("POST", f"/contexts/{ids['checked_key']}/examples", **sent), 201)
        ids |= {"example_key": ids["checked_key"], "example_id": added["example"]["example_id"]}
        ids |= _kept_ids(client)  # before there is a bucket, in which nothing could be stored
        for name in ("first", "another_id", "config_id"):
            ids[name] = data(client.post(client.buckets, {**NEW_BUCKET, "name": name}), 201)["config_id"]
        ids["job_id"] = data(client.post("/files/bulk-delete", {"file_ids": ["file_unknown"]}), 201)["job_id"]
        ids |= webhook_ids(client)
        ids["export_id"] = data(client.post("/files/export", {}), 201)["job_id"]
        assert until(lambda: data(client.get(f"/jobs/{ids['export_id']}"))["status"] == "done", 60)
    client.execute_sql("UPDATE jobs SET state = 'waiting' WHERE kind <> 'export'")
    client.execute_sql("UPDATE jobs SET due_at = '2100-01-01 00:00:00.000000'")
    # no attempt is due, so only the actions change anything
    client.execute_sql(FAIL_DELIVERIES)
    client.execute_sql("UPDATE webhook_endpoints SET event_types = '[\"endpoint.test\"]'")
    return client, ids


def _kept_ids(client: ApiClient) -> dict[str, str]:
    """Make contexts and files that are free, held, deleted and in quarantine."""
    ids = {name: client.create_context() for name in ("free_key", "held_key")}
    ids |= {name: client.store(context=ids["free_key"]) for name in ("free_id", "held_id", "deleted_id")}
    data(client.delete(f"/files/{ids['deleted_id']}"))
    for path in (f"/contexts/{ids['held_key']}", f"/files/{ids['held_id']}"):
        data(client.request("PUT", f"{path}/hold", json={"reason": "Case 6"}))
    doubtful = client.create_context(policies={"filename_pattern": {"mode": "quarantine", "pattern": "good"}})
    in_quarantine = ("released_id", "refused_id", "scanned_id")
    return ids | {name: client.store(context=doubtful) for name in in_quarantine}


@pytest.mark.asvs("16.3.2")
@pytest.mark.timeout(60 + 40 * len(ACTIONS))
def test_an_action_and_its_audit_entry_are_committed_together_or_not_at_all(
    deployment: Deployment, owner: tuple[ApiClient, Mapping[str, str]], setup_name: str
) -> None:
    client, ids = owner
    before = _load_state(client)
    for number, point in enumerate(POINTS):  # nothing is changed at the first
        offset = 0 if LONG_RUN else 2 * number + 4 * (setup_name != "sqlite-local")
        for action, method, path in ACTIONS[offset::STEP]:
            if action == "webhook_endpoint.recovered":  # nothing failed since a delivery was sent again
                client.execute_sql(FAIL_DELIVERIES)
                before = _load_state(client)
            where = path.replace(*SUBJECTS[action]) if action in SUBJECTS else path
            with unchecked_service(deployment, FAILPOINT=point, **ALONE) as service:
                dying = ApiClient(service, client.tenant_id, client.authorization)
                body = {"context": ids["context_key"]} if action == "upload_token.created" else BODIES.get(action)
                body = {} if path.endswith("/export") else body
                sent: dict[str, Any] = {"json": body}
                if action == "context.example_added":
                    sent = {"files": {"file": ("b.txt", EXAMPLE + b" more words")}}
                if action == "hash_list.imported":
                    sent = {"content": "2" * 64, "headers": {"Content-Type": "text/csv"}}
                with pytest.raises(httpx.TransportError):
                    dying.request(method, where.removeprefix(API).format_map(ids), **sent)
                service.process.wait(10)
            after = _load_state(client)
            if point == "audit.appended":
                assert after == before, action
            else:
                assert after["actions"][len(before["actions"]) :] == [action]
                assert (after["things"] == before["things"]) == (action in HANDED_OUT), action
            before = after


def _load_state(client: ApiClient) -> dict[str, Any]:
    """Return every row of the database but the times of use of keys, and the actions of the audit log, oldest first.

    The changes of counts are apart: the entries of the audit log are counted.
    """

    async def read(database: Database) -> dict[str, list[tuple[Any, ...]]]:
        async with database.reading(ALL_TENANTS) as connection:
            found = {one.name: await connection.execute(select(*_columns(one))) for one in metadata.sorted_tables}
            return {name: sorted(map(tuple, rows), key=repr) for name, rows in found.items()}

    tables = client.service.on_database(read)
    actions = [row[0] for row in sorted(tables.pop("audit_events"), key=lambda row: row[1])]
    del tables["audit_changes"]
    return {"counts": tables.pop("count_deltas"), "things": tables, "actions": actions}


def _columns(table: Table) -> list[Column[Any]]:
    if table.name == "audit_events":
        return [table.c.action, table.c.event_id]
    return [column for column in table.columns if column.name != "last_used_at"]
