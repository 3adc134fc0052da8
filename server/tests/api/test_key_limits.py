"""What an API key is limited to: contexts, networks, requests per minute. How it is rotated is in `test_api_keys`."""

from collections.abc import Callable
from typing import Any, Final

import httpx
import pytest

from sluice.access import CONTEXT_ROUTES, ROUTE_SCOPES, Scope
from tests.api import tus
from tests.api.responses import (
    assert_error,
    assert_not_found,
    assert_unauthenticated,
    data,
    page,
)
from tests.api.samples import TEXT
from tests.deployments import Deployments
from tests.rows import each_row
from tests.service import ApiClient, Key, Service, running_service

ALL_SCOPES: Final = ("upload", "download", "metadata", "delete", "review")
LIMITED: Final = "API key is limited"
Limited = tuple[str, str, ApiClient]


@pytest.fixture
def limited(client: ApiClient) -> Limited:
    """A context of a key, another context, and a client with that key."""
    own, other = client.create_context(), client.create_context()
    return own, other, client.with_credential(client.create_key(*ALL_SCOPES, contexts=[own]))


def assert_limited(response: httpx.Response, start: str) -> None:
    assert response.status_code == 403, response.text
    assert response.headers["sluice-error-code"] == "key_limited"
    assert response.json()["message"] == LIMITED
    (problem,) = response.json()["errors"]
    assert problem.startswith(start), problem


def key_path(key: Key) -> str:
    return f"/api-keys/{key.api_key_id}"


def test_refusal_by_limits_names_what_was_expected_and_found_and_is_in_the_audit_log(client: ApiClient) -> None:
    context = client.create_context()
    key, limited = client.create_key("upload"), client.create_key("upload", contexts=[context])
    unknown = "contexts: expected keys of contexts, found unknown_one"
    not_of_admins = f"contexts: expected none for a key with the scope admin, found {context}"
    network = "allowed_networks.0: expected a network such as 192.0.2.0/24 or 2001:db8::/32, found '192.0.2.1/24'"

    def create(scope: str, **limits: Any) -> httpx.Response:
        return client.post("/api-keys", {"name": "CI", "scopes": [scope], **limits})

    for response, problem in [
        (create("upload", allowed_networks=["192.0.2.1/24"]), network),
        (create("upload", contexts=[context, "unknown_one"]), unknown),
        (client.patch(key_path(key), {"contexts": ["unknown_one"]}), unknown),
        (create("admin", contexts=[context]), not_of_admins),
        (client.patch(key_path(limited), {"scopes": ["admin"]}), not_of_admins),
    ]:
        assert_error(response, 422, "Validation error", problem)
    assert data(client.get(key_path(key)))["contexts"] == []
    own, other = client.create_context(), client.create_context()
    key = client.create_key(*ALL_SCOPES, contexts=[own])
    file_id = client.store(context=other)
    refused = client.with_credential(key).post("/files/bulk-delete", {"file_ids": [file_id]})
    assert_limited(refused, "context: expected one of")
    (entry,), _ = page(client.get("/audit", actor=key.api_key_id))
    assert (entry["action"], entry["outcome"], entry["error"]) == ("job.created", "refused", "key_limited")


SOME: Final = "allowed_networks: expected some of 127.0.0.0/8, found"
AT_MOST: Final = "rate_per_minute: expected at most the 50 of the key that is used, found"
BEYOND: list[tuple[str, Any, Any, str]] = [
    ("allowed_networks", ["127.0.0.0/8"], None, f"{SOME} none"),
    ("allowed_networks", ["127.0.0.0/8"], ["127.0.0.0/16", "192.0.2.0/24"], f"{SOME} 127.0.0.0/16, 192.0.2.0/24"),
    ("rate_per_minute", 50, None, f"{AT_MOST} none"),
    ("rate_per_minute", 50, 51, f"{AT_MOST} 51"),
]


@each_row("field, own, wanted, problem", BEYOND)
def test_limited_admin_key_makes_changes_and_rotates_no_key_beyond_its_limits(
    bare_client: ApiClient, field: str, own: Any, wanted: Any, problem: str
) -> None:
    beyond = {} if wanted is None else {field: wanted}
    maker_key, other = bare_client.create_key("admin", **{field: own}), bare_client.create_key("admin", **beyond)
    maker = bare_client.with_credential(maker_key)
    assert_limited(maker.post("/api-keys", {"name": "x", "scopes": ["admin"], **beyond}), problem)
    assert_limited(maker.post(f"{key_path(other)}/rotate", {}), problem)
    assert_limited(maker.patch(key_path(other), {"name": "x"}), problem)
    assert_limited(maker.patch(key_path(maker_key), {field: wanted}), problem)
    assert data(maker.post("/api-keys", {"name": "x", "scopes": ["admin"], field: own}), 201)
    assert data(maker.delete(key_path(other)))["status"] == "revoked"


def test_key_uploads_only_into_its_contexts_and_asks_nothing_about_the_whole_tenant(limited: Limited) -> None:
    own, other, uploader = limited
    uploader.store(context=own)
    problem = f"context: expected one of {own}, found '{other}'"
    assert_limited(uploader.upload(context=other), problem)
    assert_limited(uploader.upload(context="unknown_one"), "context: expected one of")
    created = tus.create(uploader, 5, context=other, filename="a.txt")
    assert_limited(created, problem)
    assert "location" not in created.headers
    closed = [
        (method, path.removeprefix("/api/v1"))
        for (method, path), scope in ROUTE_SCOPES.items()
        if (method, path) not in CONTEXT_ROUTES
        and scope is not Scope.ADMIN
        and not path.startswith("/api/v1/uploads")
        and path not in {"/api/v1/files/upload", "/api/v1/files/validate"}
    ]
    assert {path for _method, path in closed} == {"/jobs", "/usage", "/plan", "/upload-tokens", "/hash-lists"}
    for method, path in closed:
        assert_limited(limited[2].request(method, path), "context: this request is about the whole tenant")


def test_key_reads_and_changes_only_files_of_its_contexts(client: ApiClient, limited: Limited) -> None:
    own, other, reader = limited
    (mine, my_report), (foreign, report) = (
        (uploaded["file_id"], uploaded["report_id"])
        for uploaded in (data(client.upload(context=context), 201) for context in (own, other))
    )
    calls: list[Callable[[str], httpx.Response]] = [
        lambda file_id: reader.get(f"/files/{file_id}"),
        lambda file_id: reader.get(f"/files/{file_id}/metadata"),
        lambda file_id: reader.get(f"/files/{file_id}/preview"),
        lambda file_id: reader.get(f"/files/{file_id}/receipt"),
        lambda file_id: reader.delete(f"/files/{file_id}"),
        lambda file_id: reader.post(f"/files/{file_id}/restore"),
    ]
    for call in calls:
        assert_not_found(call(foreign))
        assert call(mine).status_code == 200
    client.delete(f"/files/{foreign}")
    assert_not_found(reader.post(f"/files/{foreign}/restore"))
    assert data(reader.get(f"/reports/{my_report}"))["report_id"] == my_report
    assert_not_found(reader.get(f"/reports/{report}"))


@pytest.mark.engine
def test_lists_of_a_key_show_what_is_of_its_contexts(client: ApiClient, limited: Limited) -> None:
    own, other, reader = limited
    mine, second = client.store(context=own), client.create_context()
    client.store(context=other)
    for path in ("/files", "/reports", "/quarantine"):
        assert_limited(reader.get(path, context=other), f"context: expected one of {own}, found '{other}'")
        for found in (reader.get(path, context=own), reader.get(path)):
            assert found.status_code == 200
            assert {item["context_key"] for item in found.json()["data"]} <= {own}
    reader = client.with_credential(client.create_key("metadata", contexts=[own, second]))
    files = [client.store(context=second), mine]
    for sort in ({}, {"sort": "-size_bytes"}, {"filename": "note"}):
        items, pagination = page(reader.get("/files", **sort))
        assert ({item["file_id"] for item in items}, pagination["total"]) == (set(files), 2)
    assert_limited(reader.get("/reports"), f"context: expected one of {own}, {second}, found nothing")
    items, pagination = page(reader.get("/contexts", page_size=1))
    assert ([item["context_key"] for item in items], pagination["total"]) == ([second], 2)
    assert page(reader.get("/contexts", status="inactive"))[1]["total"] == 0
    assert data(reader.get(f"/contexts/{own}"))["context_key"] == own
    assert_limited(reader.get(f"/contexts/{other}"), "context: expected one of")


@each_row("path", ["/files/bulk-delete", "/files/bulk-restore", "/files/export"])
def test_jobs_require_a_filter_by_a_context_of_the_key(client: ApiClient, limited: Limited, path: str) -> None:
    own, other, worker = limited
    more: dict[str, Any] = {} if path.endswith("export") else {"max_files": 10}
    if not path.endswith("export"):
        by_id = worker.post(path, {"file_ids": [client.store(context=other)]})
        assert_limited(by_id, f"context: expected one of {own}, found nothing")
    for wanted in ({"filename": "note"}, {"context": other}):
        assert_limited(worker.post(path, {"filter": wanted, **more}), f"context: expected one of {own}")
    job = data(worker.post(path, {"filter": {"context": own}, **more}), 201)["job_id"]
    assert data(worker.get(f"/jobs/{job}"))["job_id"] == job
    foreign = data(client.post(path, {"filter": {"context": other}, **more}), 201)["job_id"]
    assert_not_found(worker.get(f"/jobs/{foreign}"))
    assert_not_found(worker.get(f"/jobs/{foreign}/download"))
    assert_not_found(worker.post(f"/jobs/{foreign}/cancel"))


def test_key_makes_tokens_only_for_contexts_that_it_has_and_as_long_as_it_has_them(client: ApiClient) -> None:
    own, other = client.create_context(), client.create_context()
    key = client.create_key("upload", contexts=[own])
    maker = client.with_credential(key)
    assert_limited(maker.post("/upload-tokens", {"context": other}), f"context: expected one of {own}")
    made = data(maker.post("/upload-tokens", {"context": own, "max_files": 3}), 201)
    holder = client.with_credential(made["token"])
    holder.store(context=own)
    foreign = data(client.post("/upload-tokens", {"context": other}), 201)
    assert data(maker.get(f"/upload-tokens/{made['token_id']}"))["files_stored"] == 1
    assert_not_found(maker.get(f"/upload-tokens/{foreign['token_id']}"))
    assert_not_found(maker.delete(f"/upload-tokens/{foreign['token_id']}"))
    data(client.patch(key_path(key), {"contexts": [other]}))
    assert_unauthenticated(holder.upload(context=own))
    assert client.service.http.get(f"/u/{made['token']}").status_code == 404
    data(client.patch(key_path(key), {"contexts": [own]}))
    holder.store(context=own)


def test_uploads_with_tokens_count_in_the_rate_of_their_maker(client: ApiClient) -> None:
    context = client.create_context()
    maker = client.with_credential(client.create_key("upload", rate_per_minute=3))
    made = data(maker.post("/upload-tokens", {"context": context, "max_files": 9}), 201)
    holder = client.with_credential(made["token"])
    for _ in range(2):
        holder.store(context=context)
    refused = holder.upload(context=context)
    assert_error(refused, 429, "Too many requests", "Slow down and try again")
    assert "ratelimit-limit" not in refused.headers
    assert maker.upload(context=context).status_code == 429
    # An attempt that the rate refuses is not one of the token's.
    assert data(client.get(f"/upload-tokens/{made['token_id']}"))["attempts"] == 2


def test_requests_beyond_the_rate_are_refused_but_no_appends(client: ApiClient) -> None:
    caller = client.with_credential(client.create_key("metadata", rate_per_minute=3))
    assert [caller.get("/files").status_code for _ in range(3)] == [200, 200, 200]
    refused = caller.get("/files")
    message = "The API key has made as many requests as it may in a minute"
    assert_error(refused, 429, "Too many requests", message)
    assert 0 < int(refused.headers["retry-after"]) <= 60
    assert refused.headers["ratelimit-limit"] == "3"
    assert client.get("/files").status_code == 200
    uploader = client.with_credential(client.create_key("upload", rate_per_minute=1))
    upload = tus.begin(uploader, len(TEXT), context=client.create_context())
    assert upload.patch(TEXT[:5], 0).status_code == 204
    assert upload.offset == 5
    assert upload.patch(TEXT[5:], 5).status_code == 200


def test_key_is_refused_from_other_networks_but_not_its_token(client: ApiClient) -> None:
    context = client.create_context()
    key = client.create_key("upload", "metadata", allowed_networks=["192.0.2.0/24", "127.0.0.0/8"])
    caller = client.with_credential(key)
    made = data(caller.post("/upload-tokens", {"context": context}), 201)
    data(client.patch(key_path(key), {"allowed_networks": ["192.0.2.0/24"]}))
    problem = "address: expected one of the key's networks, found 127.0.0.1"
    assert_error(caller.get("/files"), 403, LIMITED, problem)
    client.with_credential(made["token"]).store(context=context)
    data(client.patch(key_path(key), {"allowed_networks": ["192.0.2.0/24", "127.0.0.0/8"]}))
    assert caller.get("/files").status_code == 200


@pytest.mark.asvs("4.1.3", "15.3.4")
@each_row("setup", ["sqlite-local", "postgres-local"])
def test_address_behind_a_trusted_proxy_is_that_of_the_client(deployments: Deployments, setup: str) -> None:
    with running_service(deployments.fresh(setup), FAILED_LOGINS="2", TRUSTED_PROXIES="127.0.0.1") as service:
        client = service.new_client()

        def status(caller: ApiClient, forwarded: str) -> int:
            return caller.request("GET", "/files", headers={"X-Forwarded-For": forwarded}).status_code

        networks = ["192.0.2.0/24", "2001:db8::/32"]
        caller = client.with_credential(client.create_key("metadata", allowed_networks=networks))
        good = ("192.0.2.9", "2001:db8::7", "203.0.113.1, 192.0.2.9", "::ffff:192.0.2.9")
        bad = ("203.0.113.1", "192.0.2.9, 203.0.113.1", "2001:db9::7", "not an address")
        responses = {forwarded: status(caller, forwarded) for forwarded in (*good, *bad)}
        assert responses == dict.fromkeys(good, 200) | dict.fromkeys(bad, 403)
        assert caller.get("/files").status_code == 403
        # failed credentials are counted for each address; the client wrote everything left of the proxy's own entry
        wrong = client.with_credential("wrong")
        addresses = ("192.0.2.1", "192.0.2.1", "192.0.2.1", "192.0.2.2", "192.0.2.9, 192.0.2.1")
        assert [status(wrong, address) for address in addresses] == [401, 401, 429, 401, 429]


def test_changed_rate_applies_to_the_next_upload(client: ApiClient, caching_process: Service) -> None:
    context, key = client.create_context(), client.create_key("upload")
    uploader = client.with_credential(key)
    uploader.store(context=context)
    for rate in (1, 2):
        data(client.patch(key_path(key), {"rate_per_minute": rate}))
        uploader.store(context=context)
        assert uploader.upload(context=context).status_code == 429
    data(client.patch(key_path(key), {"rate_per_minute": None}))
    uploader.store(context=context)
    cached = client.create_key("upload", rate_per_minute=1)
    uploader = ApiClient(caching_process, client.tenant_id, f"Bearer {cached.text}")
    uploader.store(context=context)
    data(client.patch(key_path(cached), {"rate_per_minute": 100}))
    uploader.store(context=context)
