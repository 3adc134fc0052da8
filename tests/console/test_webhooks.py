"""The webhooks screen: endpoints, secrets that are shown once, deliveries, sending again, and recovery."""

import re
from collections.abc import Iterator

import pytest
from standardwebhooks import Webhook

from tests.api.responses import data
from tests.console.users import User, signed_in
from tests.events.receiver import Receiver, running_receiver, wait_until
from tests.service import ApiClient


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with running_receiver() as running:
        yield running


@pytest.fixture
def admin(bare_client: ApiClient) -> Iterator[User]:
    with signed_in(bare_client) as user:
        yield user


def add(admin: User, receiver: Receiver, **fields: str) -> tuple[str, str]:
    """Add an endpoint in the console; return its path and its secret."""
    made = admin.post("/webhooks/new", url=receiver.url, **fields or {"event.*": "on"})
    secret = re.search(r"whsec_[\w+/=]+", made.text)
    path = re.search(r"/webhooks/whk_\w+", made.text)
    assert secret is not None, made.text
    assert path is not None
    return path[0], secret[0]


def test_endpoint_is_added_with_a_secret_that_is_shown_once(
    bare_client: ApiClient, admin: User, receiver: Receiver
) -> None:
    wrong = admin.post("/webhooks/new", url="ftp://x.example", contexts="a b")
    assert wrong.status_code == 422
    assert 'value="a b"' in wrong.text
    path, secret = add(admin, receiver, description="<b>desk</b>", **{"event.file.stored": "on"})
    shown = admin.get("/webhooks").text + admin.get(path).text + admin.get(f"{path}/edit").text
    assert secret not in shown
    assert "&lt;b&gt;desk" in shown
    (endpoint,) = data(bare_client.get("/webhook-endpoints"))
    assert endpoint["events"] == ["file.stored"]


def test_test_event_is_sent_signed_and_its_delivery_shown(
    bare_client: ApiClient, admin: User, receiver: Receiver
) -> None:
    path, secret = add(admin, receiver)
    assert admin.post(f"{path}/test").headers["location"].endswith("?notice=tested")
    wait_until(lambda: "Delivered" in admin.get(f"{path}?state=delivered").text)
    (received,) = receiver.wait_for(1)
    assert Webhook(secret).verify(received.body, received.headers)["type"] == "endpoint.test"
    page = admin.get(path).text
    assert "1 of 1 deliveries" in page
    delivery = re.search(r'name="delivery_id" value="(dlv_\w+)"', page)
    assert delivery is not None
    assert admin.post(f"{path}/redeliver", delivery_id=delivery[1]).status_code == 303
    receiver.wait_for(2)
    wait_until(lambda: "100 %" in admin.get("/webhooks").text)
    assert admin.post(f"{path}/redeliver", delivery_id="dlv_unknown").status_code == 422
    assert "No delivery in this state" in admin.get(f"{path}?state=failed").text


def test_answer_of_a_receiver_is_shown_as_text(admin: User, receiver: Receiver) -> None:
    receiver.answer_with(500, b"<script>alert(1)</script>")
    path, _secret = add(admin, receiver)
    admin.post(f"{path}/test")
    wait_until(lambda: "alert(1)" in admin.get(path).text)
    assert "<script>alert" not in admin.get(path).text


def test_secret_is_rotated_after_a_question(admin: User, receiver: Receiver) -> None:
    path, secret = add(admin, receiver)
    assert "Make a new secret?" in admin.post(f"{path}/rotate").text
    assert "Old secret</dt><dd>none" in admin.get(path).text
    rotated = re.search(r"whsec_[\w+/=]+", admin.post(f"{path}/rotate", sure="yes").text)
    assert rotated is not None
    assert rotated[0] != secret
    assert rotated[0] not in admin.get(path).text


def test_endpoint_is_changed_disabled_and_deleted(bare_client: ApiClient, admin: User, receiver: Receiver) -> None:
    path, _secret = add(admin, receiver)
    fields = {"url": receiver.url, "event.file.stored": "on", "contexts": "claims, letters", "status": "disabled"}
    assert admin.post(f"{path}/edit", **fields | {"url": "nowhere"}).status_code == 422
    assert admin.post(f"{path}/edit", **fields).status_code == 303
    (endpoint,) = data(bare_client.get("/webhook-endpoints"))
    assert (endpoint["status"], endpoint["contexts"]) == ("disabled", ["claims", "letters"])
    assert "Somebody disabled it" in admin.get(path).text
    assert admin.post(f"{path}/test").status_code == 422
    assert "Delete this endpoint?" in admin.post(f"{path}/delete").text
    assert admin.post(f"{path}/delete", sure="yes").status_code == 303
    assert admin.get(path).status_code == 404
    assert "No endpoints" in admin.get("/webhooks").text


def test_missed_events_are_recovered(bare_client: ApiClient, admin: User, receiver: Receiver) -> None:
    path, _secret = add(admin, receiver)
    data(bare_client.post("/api-keys", {"name": "told", "scopes": ["metadata"]}), 201)
    wait_until(lambda: "1 of 1 deliveries" in admin.get(path).text)
    again = {"since": "2020-01-01T00:00", "until": "2100-01-01T00:00"}
    done = admin.post(f"{path}/recover", **again).headers["location"].removeprefix("/console")
    assert re.search(r"\d+ deliveries begin anew", admin.get(done).text)
    assert admin.post(f"{path}/recover", since="x", until="y").status_code == 422
    assert admin.post(f"{path}/recover", since=again["until"], until=again["since"]).status_code == 422


def test_endpoint_of_another_tenant_is_unknown(bare_client: ApiClient, admin: User, receiver: Receiver) -> None:
    with signed_in(bare_client.other_tenant_client()) as theirs:
        path, _secret = add(theirs, receiver)
    for method, rest in (
        ("GET", ""),
        ("GET", "/edit"),
        ("POST", "/edit"),
        ("POST", "/rotate"),
        ("POST", "/test"),
        ("POST", "/recover"),
        ("POST", "/redeliver"),
        ("POST", "/delete"),
    ):
        response = admin.get(path + rest) if method == "GET" else admin.post(path + rest, sure="yes")
        assert response.status_code == 404, rest
