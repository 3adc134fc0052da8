"""Uploads that are sent again: by an idempotency key, and a file that was just rejected for its content."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from sluice.errors import IdempotencyKeyReused
from sluice.kit.ids import first_id
from tests.api import forms
from tests.api.responses import (
    assert_error,
    assert_rejected,
    assert_spent,
    assert_validation_error,
    data,
    page,
)
from tests.api.samples import TEXT, picture, white_picture
from tests.api.test_upload_tokens import holder, issue
from tests.deployments import Deployments
from tests.rows import each_row
from tests.run_length import amount
from tests.scanning.waiting import until
from tests.service import ApiClient, running_service, unchecked_service

LEASE = {"UPLOAD_LEASE_SECONDS": "1"}


@pytest.fixture
def context(client: ApiClient) -> str:
    return client.create_context(scan_for_viruses=False)


def limited_context(client: ApiClient, max_uploads: int = 1) -> str:
    rate = {"max_uploads": max_uploads, "window_seconds": 3600}
    return client.create_context(scan_for_viruses=False, upload_rate_limit=rate)


def send(client: ApiClient, key: str | None, parts: list[forms.Part], boundary: str = forms.BOUNDARY) -> httpx.Response:
    headers = {"Content-Type": forms.content_type(boundary)} | ({} if key is None else {"Idempotency-Key": key})
    return client.request("POST", "/files/upload", content=forms.encode(parts, boundary), headers=headers)


def upload(
    client: ApiClient, context: str, key: str | None = "k-1", name: str = "a.txt", content: bytes = TEXT
) -> httpx.Response:
    return send(client, key, [forms.file(name, content), forms.field("context", context)])


def is_replayed(response: httpx.Response) -> bool:
    return bool(response.headers.get("idempotent-replayed") == "true")


def files_of(client: ApiClient) -> list[dict[str, Any]]:
    return page(client.get("/files", page_size=100))[0]


def without_time(response: httpx.Response) -> dict[str, Any]:
    body: dict[str, Any] = response.json()
    return {name: value for name, value in body.items() if name != "timestamp"}


def test_a_key_is_bound_to_what_was_sent_and_to_its_credential(client: ApiClient, context: str) -> None:
    stored = data(upload(client, context), 201)["file_id"]
    for name, content, metadata in (("b.txt", TEXT, "{}"), ("a.txt", b"other words", "{}"), ("a.txt", TEXT, '{"a":1}')):
        parts = [forms.file(name, content), forms.field("context", context), forms.field("metadata", metadata)]
        refused = send(client, "k-1", parts)
        assert_error(refused, 422, "Idempotency key reused", *IdempotencyKeyReused.errors)
        assert refused.headers["sluice-error-code"] == "idempotency_key_reused"
        assert len(files_of(client)) == 1
    assert upload(client, client.create_context(scan_for_viruses=False)).status_code == 422
    another = client.with_credential(client.create_key("upload"))
    assert data(upload(another, context), 201)["file_id"] != stored


def test_a_rejection_is_replayed_takes_no_place_in_the_rate_limit_and_a_429_is_not_kept(
    client: ApiClient, context: str
) -> None:
    first, again = (upload(client, context, "rejected", "a.png", white_picture()) for _ in range(2))
    assert_rejected(again, "blank_document")
    assert without_time(again) == without_time(first)
    assert (is_replayed(first), is_replayed(again)) == (False, True)
    assert len(client.decisions()) == 1
    context = limited_context(client)
    assert [upload(client, context).status_code for _ in range(3)] == [201] * 3
    assert upload(client, context, key="other").status_code == 429
    client.patch(f"/contexts/{context}", {"upload_rate_limit": None})
    stored = upload(client, context, key="other")
    assert (stored.status_code, is_replayed(stored)) == (201, False)
    assert is_replayed(upload(client, context, key="other"))


def test_holder_of_a_spent_token_gets_the_response_again_and_stores_nothing_more(
    client: ApiClient, context: str
) -> None:
    page_client = holder(client, issue(client, context, max_files=1))
    first, again = (upload(page_client, context) for _ in range(2))
    assert without_time(again) == without_time(first)
    assert is_replayed(again)
    assert_spent(upload(page_client, context, key="other"))
    assert_spent(upload(page_client, context, key=None))
    assert len(files_of(client)) == 1
    with ThreadPoolExecutor(4) as pool:
        assert {response.status_code for response in pool.map(lambda _: upload(page_client, context), range(12))} == {
            201
        }
    token = page(client.get("/upload-tokens"))[0][0]
    assert (token["attempts"], token["files_stored"]) == (1, 1)


def test_a_known_key_orders_no_verdict_beyond_the_attempts_of_its_token(client: ApiClient) -> None:
    sender = holder(client, issue(client, context := limited_context(client), max_files=1))
    data(upload(client, context), 201)  # the rate is used up
    judged_anew = [upload(sender, context).status_code for _ in range(12)]
    assert judged_anew == [429] * 10 + [401] * 2
    assert page(client.get("/upload-tokens"))[0][0]["attempts"] == 10


@pytest.mark.engine
def test_parallel_repeats_make_one_file_for_each_key(client: ApiClient) -> None:
    context = client.create_context(scan_for_viruses=False, reject_blank_files=False, reject_corrupt_files=False)

    def send_one(number: int) -> tuple[str, httpx.Response]:
        key = f"k-{number // 10}"
        return key, upload(client, context, key=key, name=f"{key}.txt")

    keys = amount("RETRIED", short=10, full=100)
    with ThreadPoolExecutor(16) as pool:
        responses = list(pool.map(send_one, range(10 * keys)))
    assert {response.status_code for _key, response in responses} <= {201, 409}
    running = [response for _key, response in responses if response.status_code == 409]
    assert all(response.headers["sluice-error-code"] == "idempotency_key_in_use" for response in running)
    assert all(int(response.headers["retry-after"]) > 0 for response in running)
    stored = {(key, data(response, 201)["file_id"]) for key, response in responses if response.status_code == 201}
    assert Counter(key for key, _file_id in stored) == Counter({f"k-{number}": 1 for number in range(keys)})
    assert page(client.get("/files"))[1]["total"] == keys
    assert client.used_bytes(context) == keys * len(TEXT)


@each_row("point", ["reserve.done", "store.done", "record.done"])
def test_a_killed_server_leaves_at_most_one_file_for_a_key(
    deployments: Deployments, setup_name: str, point: str
) -> None:
    deployment = deployments.fresh(setup_name)
    with unchecked_service(deployment, FAILPOINT=point, **LEASE) as service:
        client = service.new_client().with_store()
        context = client.create_context(scan_for_viruses=False)
        with pytest.raises(httpx.TransportError):
            upload(client, context)
    with running_service(deployment, **LEASE, WORKER_SECONDS="0.2") as service:
        client = ApiClient(service, client.tenant_id, client.authorization)
        responses: list[httpx.Response] = []

        def is_over() -> bool:
            responses.append(upload(client, context))
            return responses[-1].status_code != 409

        assert until(is_over, 60)  # the worker has fenced the pending file
        assert responses[-1].status_code == 201
        assert is_replayed(responses[-1]) == (point == "record.done")
        assert is_replayed(upload(client, context))
        assert len(files_of(client)) == 1


@pytest.mark.engine
def test_repeated_upload_gets_the_first_response_and_stores_nothing(client: ApiClient, context: str) -> None:
    first, again = upload(client, context), upload(client, context)
    assert (first.status_code, again.status_code) == (201, 201)
    assert without_time(again) == without_time(first)
    assert again.headers["sluice-report-id"] == first.headers["sluice-report-id"]
    assert (is_replayed(first), is_replayed(again)) == (False, True)
    assert len(files_of(client)) == 1
    sql = "UPDATE idempotency_keys SET expires_at = :past WHERE tenant_id = :tenant"
    client.execute_sql(sql, past=datetime.now(UTC) - timedelta(hours=1), tenant=client.tenant_id)
    assert not is_replayed(upload(client, context)), "keys are forgotten after a day"
    assert len(files_of(client)) == 2


def test_a_key_has_1_to_255_characters_and_the_same_fields_in_another_body_are_the_same_upload(
    client: ApiClient, context: str
) -> None:
    for key in ("", "a b", "x" * 256):
        assert_validation_error(upload(client, context, key), "Idempotency-Key")
    assert upload(client, context, key="~" * 255).status_code == 201
    without_key = [upload(client, context, key=None) for _ in range(2)]
    assert not any(is_replayed(response) for response in without_key)
    assert len(files_of(client)) == 3
    file, named = forms.file("a.txt", TEXT), forms.field("context", context)
    first = send(client, "k", [file, named, forms.field("metadata", '{"a": 1, "b": [2]}')])
    again = send(client, "k", [forms.field("metadata", '{"b":[2],"a":1}'), named, file], boundary="another")
    assert (first.status_code, again.status_code, is_replayed(again)) == (201, 201, True)
    assert data(again, 201)["metadata"] == {"a": 1, "b": [2]}


def test_a_file_that_was_just_rejected_takes_no_second_place_in_the_rate_limit(client: ApiClient) -> None:
    context = limited_context(client, max_uploads=2)
    responses = [upload(client, context, None, "a.png", white_picture()) for _ in range(4)]
    for response in responses:
        assert_rejected(response, "blank_document")
    assert [is_replayed(response) for response in responses] == [False, True, True, True]
    assert len({response.headers["sluice-report-id"] for response in responses}) == 1
    assert [without_time(response) for response in responses[1:]] == [without_time(responses[0])] * 3
    assert len(client.decisions()) == 1
    assert upload(client, context, None, "a.png", picture()).status_code == 201
    assert upload(client, context, None, "a.png", picture()).status_code == 429
    full = limited_context(client)
    first, again = (upload(client, full, None, "c.png", white_picture()) for _ in range(2))
    assert without_time(again) == without_time(first)
    assert upload(client, full, None, "b.png", white_picture()).status_code == 429


@each_row("changed", ["name", "content", "credential", "rules", "time"])
def test_a_rejection_is_not_replayed_for_anything_else(client: ApiClient, changed: str) -> None:
    client = client.other_tenant_client().with_store()
    context = client.create_context(scan_for_viruses=False)
    upload(client, context, None, "a.png", white_picture())
    caller = client.with_credential(client.create_key("upload", "metadata")) if changed == "credential" else client
    if changed == "rules":
        client.patch(f"/contexts/{context}", {"max_file_size_mb": 5})
    elif changed == "time":
        minute_ago = first_id("rep", datetime.now(UTC) - timedelta(seconds=60))
        sql = "UPDATE decisions SET report_id = :id WHERE tenant_id = :tenant"
        client.execute_sql(sql, id=minute_ago, tenant=client.tenant_id)
    content = white_picture() + (b" " if changed == "content" else b"")
    again = upload(caller, context, None, "b.png" if changed == "name" else "a.png", content)
    assert again.status_code == 400
    assert not is_replayed(again)


def test_a_rejection_that_is_not_for_the_content_is_judged_again(client: ApiClient) -> None:
    client.store("first.txt", TEXT, context=client.create_context(context_key="duplicates"))
    data(client.patch("/contexts/duplicates", {"policies": {"duplicates": {}}, "scan_for_viruses": False}))
    extension = client.create_context(scan_for_viruses=False, allowed_extensions=["pdf"])
    size = client.create_context(scan_for_viruses=False, policies={"min_size_bytes": {"bytes": 1000}})
    deep = client.create_context(scan_for_viruses=False)
    rows = [(context, "a.txt", TEXT) for context in (extension, "duplicates", size)]
    for context, name, content in (*rows, (deep, "deep.json", b"[" * 100_000 + b"]" * 100_000)):
        responses = [upload(client, context, None, name, content) for _ in range(2)]
        assert [response.status_code for response in responses] == [400, 400], context
        assert not any(is_replayed(response) for response in responses)
        assert len({response.headers["sluice-report-id"] for response in responses}) == 2
