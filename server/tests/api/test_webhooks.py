"""Webhook endpoints: create, change, sign, deliver, retry, recover; receivers that misbehave."""

import json
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text
from standardwebhooks import Webhook, WebhookVerificationError

from sluice.db.database import Database
from sluice.db.rls import ALL_TENANTS
from tests.api.responses import assert_error, assert_not_found, assert_validation_error, data, page
from tests.api.test_events import feed
from tests.events.receiver import RESET, Received, Receiver, running_receiver, wait_until
from tests.observe.metrics_page import read_metrics, until
from tests.rows import every_row
from tests.service import ApiClient

ENDPOINTS = "/webhook-endpoints"
UNKNOWN = "whk_00000000000000000000000000"
DELIVERY = "/webhook-deliveries/dlv_00000000000000000000000000"
Made = dict[str, Any]
NPM_PACKAGES = Path(__file__).parents[1] / "browser" / "node_modules"


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with running_receiver() as running:
        yield running


def add(client: ApiClient, receiver: Receiver, **fields: Any) -> dict[str, Any]:
    made: dict[str, Any] = data(client.post(ENDPOINTS, {"url": receiver.url, "events": ["*"], **fields}), 201)
    return made


def path_of(endpoint: dict[str, Any]) -> str:
    return f"{ENDPOINTS}/{endpoint['endpoint_id']}"


def deliveries(client: ApiClient, endpoint: dict[str, Any], **query: Any) -> list[dict[str, Any]]:
    return page(client.get(f"{path_of(endpoint)}/deliveries", **query))[0]


def wait_for_attempts(client: ApiClient, endpoint: dict[str, Any], attempts: int = 1) -> dict[str, Any]:
    wait_until(lambda: [one["attempts"] >= attempts for one in deliveries(client, endpoint)[:1]] == [True])
    return deliveries(client, endpoint)[0]


def pause_after(delivery: dict[str, Any]) -> timedelta:
    return datetime.fromisoformat(delivery["next_attempt_at"]) - datetime.fromisoformat(delivery["attempted_at"])


def let_time_pass(client: ApiClient, delivery: dict[str, Any]) -> None:
    sql = "UPDATE webhook_deliveries SET due_at = :past WHERE delivery_id = :id"
    client.execute_sql(sql, past=datetime(2020, 1, 1, tzinfo=UTC), id=delivery["delivery_id"])


def failed_delivery(client: ApiClient, receiver: Receiver, status: int = 500, **headers: Any) -> tuple[Made, Made]:
    """Let a receiver respond like this; return its endpoint and the first delivery, once that was tried."""
    receiver.respond_with(status, **headers)
    endpoint = add(client, receiver, events=["api_key.created"])
    client.create_key("upload")
    return endpoint, wait_for_attempts(client, endpoint)


def test_the_secret_of_an_endpoint_is_shown_once_and_sealed_at_rest(client: ApiClient, receiver: Receiver) -> None:
    made = add(client, receiver, description="claims")
    assert made["secret"].startswith("whsec_")
    shown = data(client.get(f"{ENDPOINTS}/{made['endpoint_id']}"))
    assert shown == {name: value for name, value in made.items() if name != "secret"}
    assert data(client.get(ENDPOINTS)) == [shown]
    assert (shown["status"], shown["contexts"], shown["description"]) == ("active", [], "claims")

    async def read(database: Database) -> list[str]:
        async with database.reading(ALL_TENANTS) as connection:
            return list(await connection.scalars(text("SELECT secret_sealed FROM webhook_endpoints")))

    sealed = client.service.on_database(read)
    assert sealed
    assert made["secret"].removeprefix("whsec_") not in json.dumps(sealed)


def test_urls_that_may_not_be_reached_and_wrong_bodies_and_ids_are_refused(shared_client: ApiClient) -> None:
    for url in [
        "http://app.example.com/hook",  # no https
        "http://127.0.0.2/hook",  # not the address that this operator allows
        *("ftp://app.example.com/hook", "app.example.com", "https://user:password@app.example.com/hook"),
        *("https://app.example.com/hook#part", "https://app.example.com:0/hook", "https://exämple.com/hook"),
        *("https://10.0.0.1/hook", "https://169.254.169.254/latest/meta-data", "https://localhost/hook"),
        *("https://[::1]/hook", "https://[::ffff:10.0.0.1]/hook", "https://[64:ff9b::a00:1]/hook"),
        *("https://[2002:a00:1::]/hook", "https://[v1.a]/hook", "https://a..b/hook", "https://xn--abc/hook"),
        f"https://{'a' * 64}.example/hook",
    ]:
        assert_validation_error(shared_client.post(ENDPOINTS, {"url": url, "events": ["*"]}), "url")
    assert_validation_error(shared_client.post(ENDPOINTS, {"url": "https://a.example", "events": []}), "events")
    wrong = {"url": "https://a.example", "events": ["file.lost"], "secret": "mine"}
    assert_validation_error(shared_client.post(ENDPOINTS, wrong), "events.0", "secret")
    assert_not_found(shared_client.patch(f"{ENDPOINTS}/{UNKNOWN}", {"status": "disabled"}))
    assert_not_found(shared_client.get(f"{ENDPOINTS}/{UNKNOWN}/deliveries"))
    for path in (f"{ENDPOINTS}/{UNKNOWN}/rotate-secret", f"{ENDPOINTS}/{UNKNOWN}/test", f"{DELIVERY}/redeliver"):
        assert_not_found(shared_client.post(path))


def test_a_tenant_has_ten_endpoints_at_most(client: ApiClient, receiver: Receiver) -> None:
    made = [add(client, receiver) for _ in range(10)]
    eleventh = client.post(ENDPOINTS, {"url": receiver.url, "events": ["*"]})
    assert_error(eleventh, 409, "Too many webhook endpoints", "Delete one of the 10 endpoints first")
    assert data(client.delete(f"{ENDPOINTS}/{made[0]['endpoint_id']}"))["deleted"] is True
    assert_not_found(client.get(f"{ENDPOINTS}/{made[0]['endpoint_id']}"))
    add(client, receiver)


def test_a_delivery_is_the_event_and_verifies_by_the_standards_library(client: ApiClient, receiver: Receiver) -> None:
    endpoint = add(client, receiver, events=["file.stored"])
    context = client.create_context()
    file_id = client.store(context=context)
    (got,) = receiver.wait_for(1)
    assert (got.path, got.headers["host"]) == ("/hooks/sluice?of=tests", f"127.0.0.1:{receiver.port}")
    assert got.headers["content-type"] == "application/json"
    assert Webhook(endpoint["secret"]).verify(got.body, got.headers) == got.event
    assert got.event == feed(client, type="file.stored")[0]
    assert got.event["data"]["file_id"] == file_id
    with pytest.raises(WebhookVerificationError):
        Webhook(endpoint["secret"]).verify(got.body.replace(b"claims", b"others") + b" ", got.headers)
    delivery = wait_for_attempts(client, endpoint)
    assert (delivery["status"], delivery["attempts"], delivery["response_status"]) == ("delivered", 1, 204)
    assert delivery["event_id"] == got.event["id"]
    assert "content-length" in delivery["response_headers"]
    url = client.service.url
    until(lambda: read_metrics(url)("sluice_webhook_attempts_total", outcome="delivered"), lambda count: count >= 1)


@pytest.mark.engine
def test_only_events_of_the_wanted_types_and_contexts_are_sent(client: ApiClient, receiver: Receiver) -> None:
    wanted, other = client.create_context(), client.create_context()
    add(client, receiver, events=["file.stored", "api_key.created"], contexts=[wanted])
    client.store(context=other)
    client.upload("a.exe", b"", context=wanted)
    stored = client.store(context=wanted)
    client.create_key("upload", name="of no context")
    got = receiver.wait_for(2)
    assert {one.event["data"].get("file_id") or one.event["data"]["name"] for one in got} == {stored, "of no context"}


def verified_by_npm(secret: str, got: Received) -> Any:
    """Return the event as the npm library of the standard verifies it, None if it refuses the delivery."""
    if shutil.which("node") is None or not (NPM_PACKAGES / "standardwebhooks").exists():
        pytest.skip("this setup has no npm package standardwebhooks: `make servers` installs it where npm is")
    program = (
        "const { Webhook } = require('standardwebhooks');"
        "const { secret, body, headers } = JSON.parse(require('fs').readFileSync(0, 'utf8'));"
        "try { console.log(JSON.stringify(new Webhook(secret).verify(body, headers))) }"
        "catch (fault) { if (fault.name !== 'WebhookVerificationError') throw fault; console.log('null') }"
    )
    sent = json.dumps({"secret": secret, "body": got.body.decode(), "headers": got.headers})
    return json.loads(
        subprocess.check_output(["node", "-e", program], input=sent, cwd=NPM_PACKAGES.parent, timeout=60, text=True)
    )


def test_a_delivery_verifies_by_the_npm_library_of_the_standard(client: ApiClient, receiver: Receiver) -> None:
    endpoint = add(client, receiver, events=["file.stored"])
    client.store("Grüße 🌊.txt", context=client.create_context())
    (got,) = receiver.wait_for(1)
    assert verified_by_npm(endpoint["secret"], got) == got.event
    assert verified_by_npm(endpoint["secret"], replace(got, body=got.body + b" ")) is None
    rotated = data(client.post(f"{ENDPOINTS}/{endpoint['endpoint_id']}/rotate-secret"))
    data(client.post(f"{ENDPOINTS}/{endpoint['endpoint_id']}/test"))
    got = receiver.wait_for(2)[-1]
    for secret in (endpoint["secret"], rotated["secret"]):
        assert verified_by_npm(secret, got) == got.event


def test_after_a_rotation_both_secrets_verify(client: ApiClient, receiver: Receiver) -> None:
    made = add(client, receiver)
    rotated = data(client.post(f"{path_of(made)}/rotate-secret"))
    assert rotated["secret"] != made["secret"]
    data(client.post(f"{path_of(made)}/test"))
    got = receiver.wait_for(1)[-1]
    for secret in (made["secret"], rotated["secret"]):
        assert Webhook(secret).verify(got.body, got.headers)["type"] == "endpoint.test"
    sql = "UPDATE webhook_endpoints SET old_secret_until = :past WHERE endpoint_id = :id"
    client.execute_sql(sql, past=datetime(2020, 1, 1, tzinfo=UTC), id=made["endpoint_id"])
    data(client.post(f"{path_of(made)}/test"))
    got = receiver.wait_for(2)[-1]
    with pytest.raises(WebhookVerificationError):
        Webhook(made["secret"]).verify(got.body, got.headers)


def test_a_test_event_goes_to_its_endpoint_alone(client: ApiClient, receiver: Receiver) -> None:
    with running_receiver() as other:
        endpoint = add(client, receiver, events=["file.purged"])
        add(client, other)
        data(client.post(f"{ENDPOINTS}/{endpoint['endpoint_id']}/test"))
        assert receiver.wait_for(1)[0].event["data"]["endpoint_id"] == endpoint["endpoint_id"]
        client.create_key("upload")
        assert [one.event["type"] for one in other.wait_for(1)] == ["api_key.created"]


@pytest.mark.engine
def test_what_is_no_success_is_tried_again_with_the_same_id(client: ApiClient) -> None:
    with ExitStack() as stack, every_row() as row:
        receivers = {
            status: stack.enter_context(running_receiver()) for status in (301, 302, 400, 404, 429, 500, 503, RESET)
        }
        for status, receiver in receivers.items():
            receiver.respond_with(status, b"x" * 5000, Location=f"http://127.0.0.1:{receiver.port}/elsewhere")
        endpoints = {status: add(client, receivers[status], events=["api_key.created"]) for status in receivers}
        client.create_key("upload")
        for status, receiver in receivers.items():
            with row(status):
                delivery = wait_for_attempts(client, endpoints[status])
                assert (delivery["status"], delivery["response_status"]) == ("pending", status or None)
                assert delivery["error"]
                assert len(delivery["response_body"]) == (2048 if status else 0)
                assert timedelta(seconds=4) < pause_after(delivery) < timedelta(seconds=7)
                receiver.respond_with(200)
                let_time_pass(client, delivery)
        for status, receiver in receivers.items():
            with row(status):
                first, second = receiver.wait_for(2)[:2]
                assert {one.path for one in receiver.got} == {"/hooks/sluice?of=tests"}  # no redirect was followed
                delivery = wait_for_attempts(client, endpoints[status], 2)
                ids = {first.headers["webhook-id"], second.headers["webhook-id"]}
                assert (ids, delivery["status"]) == ({delivery["event_id"]}, "delivered")
    assert "of=tests" not in client.service.log.read_text(), "an address may hold a token"


def test_retry_after_is_honoured(client: ApiClient, receiver: Receiver) -> None:
    _endpoint, delivery = failed_delivery(client, receiver, 429, Retry_After="3600")
    assert timedelta(seconds=3590) < pause_after(delivery) < timedelta(seconds=3610)


def test_a_receiver_that_is_gone_is_disabled_with_an_event(client: ApiClient, receiver: Receiver) -> None:
    with running_receiver() as other:
        receiver.respond_with(410)
        endpoint = add(client, receiver, events=["api_key.created"])
        path = path_of(endpoint)
        add(client, other, events=["endpoint.disabled"])
        client.create_key("upload")
        fields = other.wait_for(1)[0].event["data"]
        assert (fields["endpoint_id"], fields["reason"]) == (endpoint["endpoint_id"], "gone")
        shown = data(client.get(path))
        assert (shown["status"], shown["disabled_reason"]) == ("disabled", "gone")
        refused = client.post(f"{path}/test")
        assert_error(refused, 409, "Webhook endpoint disabled", "Set its status to active first")
        receiver.respond_with(200)
        again = data(client.patch(path, {"status": "active"}))
        assert (again["status"], again["disabled_reason"]) == ("active", None)
        client.create_key("upload", name="after")
        assert "after" in {one.event["data"]["name"] for one in receiver.wait_for(2)}


def test_five_days_of_failure_disable_an_endpoint(client: ApiClient, receiver: Receiver) -> None:
    endpoint, delivery = failed_delivery(client, receiver)
    sql = "UPDATE webhook_endpoints SET failing_since = :past WHERE endpoint_id = :id"
    client.execute_sql(sql, past=datetime.now(UTC) - timedelta(days=5, minutes=1), id=endpoint["endpoint_id"])
    let_time_pass(client, delivery)
    wait_until(lambda: data(client.get(path_of(endpoint)))["status"] == "disabled")
    assert data(client.get(path_of(endpoint)))["disabled_reason"] == "failing"
    assert [event["data"]["reason"] for event in feed(client, type="endpoint.disabled")] == ["failing"]


def test_a_delivery_that_failed_for_good_is_listed_and_sent_again(client: ApiClient, receiver: Receiver) -> None:
    endpoint, delivery = failed_delivery(client, receiver)
    client.execute_sql("UPDATE webhook_deliveries SET attempts = 9 WHERE delivery_id = :id", id=delivery["delivery_id"])
    let_time_pass(client, delivery)
    wait_until(lambda: bool(deliveries(client, endpoint, status="failed")))
    (failed,) = deliveries(client, endpoint, status="failed")
    assert (failed["attempts"], failed["next_attempt_at"]) == (10, None)
    receiver.respond_with(200)
    again = data(client.post(f"/webhook-deliveries/{delivery['delivery_id']}/redeliver"))
    assert (again["status"], again["attempts"]) == ("pending", 0)
    wait_until(lambda: bool(deliveries(client, endpoint, status="delivered")))


@pytest.mark.engine
def test_recover_delivers_what_was_never_taken(client: ApiClient, receiver: Receiver) -> None:
    since = (datetime.now(UTC) - timedelta(minutes=5)).isoformat()
    until = (datetime.now(UTC) + timedelta(minutes=5)).isoformat()
    client.create_key("upload", name="before")  # the endpoint did not exist
    endpoint = add(client, receiver, events=["api_key.created"])
    client.create_key("upload", name="taken")
    receiver.wait_for(1)
    wait_for_attempts(client, endpoint)
    path = f"{ENDPOINTS}/{endpoint['endpoint_id']}/recover"
    assert data(client.post(path, {"since": since, "until": until}))["deliveries"] == 2  # with the client's own key
    names = [one.event["data"]["name"] for one in receiver.wait_for(3)]
    assert sorted(names) == ["before", "taken", "tests"]
    assert_validation_error(client.post(path, {"since": until, "until": since}), "body")
    assert_validation_error(client.post(path, {"since": "yesterday", "until": until}), "since")
