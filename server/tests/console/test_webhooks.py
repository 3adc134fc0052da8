"""The webhooks screen: endpoints, secrets that are shown once, deliveries, sending again, and recovery."""

from collections.abc import Iterator

import pytest
from standardwebhooks import Webhook

from tests.api.responses import data
from tests.console.users import User, match, signed_in
from tests.events.receiver import Receiver, running_receiver, wait_until
from tests.service import ApiClient


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with running_receiver() as running:
        yield running


SECRET = r"whsec_[\w+/=]+"


def add(admin: User, receiver: Receiver, **fields: str) -> tuple[str, str]:
    made = admin.post("/webhooks/new", url=receiver.url, **fields or {"event.*": "on"}).text
    return match(r"/webhooks/whk_\w+", made), match(SECRET, made)


def test_endpoint_is_added_with_a_secret_that_is_shown_once(client: ApiClient, admin: User, receiver: Receiver) -> None:
    wrong = admin.post("/webhooks/new", url="ftp://x.example", contexts="a b")
    assert wrong.status_code == 422
    assert 'value="a b"' in wrong.text
    path, secret = add(admin, receiver, description="<b>desk</b>", **{"event.file.stored": "on"})
    shown = admin.get("/webhooks").text + admin.get(path).text + admin.get(f"{path}/edit").text
    assert secret not in shown
    assert "&lt;b&gt;desk" in shown
    (endpoint,) = data(client.get("/webhook-endpoints"))
    assert endpoint["events"] == ["file.stored"]


def test_test_event_is_sent_signed_and_its_delivery_shown(client: ApiClient, admin: User, receiver: Receiver) -> None:
    path, secret = add(admin, receiver)
    assert admin.post(f"{path}/test").headers["location"].endswith("?notice=tested")
    wait_until(lambda: "Delivered" in admin.get(f"{path}?state=delivered").text)
    (received,) = receiver.wait_for(1)
    assert Webhook(secret).verify(received.body, received.headers)["type"] == "endpoint.test"
    page = admin.get(path).text
    assert "1 of 1 deliveries" in page
    delivery = match(r'name="delivery_id" value="(dlv_\w+)"', page)
    assert admin.post(f"{path}/redeliver", delivery_id=delivery).status_code == 303
    receiver.wait_for(2)
    wait_until(lambda: "100 %" in admin.get("/webhooks").text)
    assert admin.post(f"{path}/redeliver", delivery_id="dlv_unknown").status_code == 422
    assert "No delivery in this state" in admin.get(f"{path}?state=failed").text


def test_secret_is_rotated_after_a_question_and_an_answer_shown_as_text(admin: User, receiver: Receiver) -> None:
    receiver.respond_with(500, b"<script>alert(1)</script>")
    path, secret = add(admin, receiver)
    assert "Make a new secret?" in admin.post(f"{path}/rotate").text
    assert "Old secret</dt><dd>none" in admin.get(path).text
    rotated = match(SECRET, admin.post(f"{path}/rotate", sure="yes").text)
    assert rotated != secret
    assert rotated not in admin.get(path).text
    admin.post(f"{path}/test")
    wait_until(lambda: "alert(1)" in admin.get(path).text)
    assert "<script>alert" not in admin.get(path).text


def test_endpoint_is_changed_disabled_and_deleted(client: ApiClient, admin: User, receiver: Receiver) -> None:
    path, _secret = add(admin, receiver)
    fields = {"url": receiver.url, "event.file.stored": "on", "contexts": "claims, letters", "status": "disabled"}
    assert admin.post(f"{path}/edit", **fields | {"url": "nowhere"}).status_code == 422
    assert admin.post(f"{path}/edit", **fields).status_code == 303
    (endpoint,) = data(client.get("/webhook-endpoints"))
    assert (endpoint["status"], endpoint["contexts"]) == ("disabled", ["claims", "letters"])
    assert "Somebody disabled it" in admin.get(path).text
    assert admin.post(f"{path}/test").status_code == 422
    assert "Delete this endpoint?" in admin.post(f"{path}/delete").text
    assert admin.post(f"{path}/delete", sure="yes").status_code == 303
    assert admin.get(path).status_code == 404
    assert "No endpoints" in admin.get("/webhooks").text


def test_missed_events_are_recovered(client: ApiClient, admin: User, receiver: Receiver) -> None:
    path, _secret = add(admin, receiver)
    data(client.post("/api-keys", {"name": "announced", "scopes": ["metadata"]}), 201)
    wait_until(lambda: "1 of 1 deliveries" in admin.get(path).text)
    again = {"since": "2020-01-01T00:00", "until": "2100-01-01T00:00"}
    assert match(r"\d+ deliveries restarted", admin.follow(admin.post(f"{path}/recover", **again)))
    assert admin.post(f"{path}/recover", since="x", until="y").status_code == 422
    assert admin.post(f"{path}/recover", since=again["until"], until=again["since"]).status_code == 422


def test_endpoint_of_another_tenant_is_unknown(client: ApiClient, admin: User, receiver: Receiver) -> None:
    with signed_in(client.other_tenant_client()) as theirs:
        path, _secret = add(theirs, receiver)
    for rest in ("", "/edit"):
        assert admin.get(path + rest).status_code == 404, rest
    for rest in ("/edit", "/rotate", "/test", "/recover", "/redeliver", "/delete"):
        assert admin.post(path + rest, sure="yes").status_code == 404, rest
