"""`sluice events` and `sluice webhooks` against a running service."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from standardwebhooks import Webhook

from tests.cli.commands import Sluice, sluice_in
from tests.events.receiver import Receiver, running_receiver
from tests.service import ApiClient


@pytest.fixture
def sluice(client: ApiClient, tmp_path: Path) -> Sluice:
    key = (client.authorization or "").removeprefix("Bearer ")
    return sluice_in(tmp_path / "home", URL=client.service.url, API_KEY=key)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with running_receiver() as running:
        yield running


def test_tail_prints_events_in_order(client: ApiClient, sluice: Sluice) -> None:
    client.create_key("upload", name="second")
    result = sluice("events", "tail", "--after", "oldest", "--limit", "2", "--json")
    assert (result.code, result.err) == (0, "")
    assert [(event["sequence"], event["data"]["name"]) for event in result.rows] == [(1, "tests"), (2, "second")]


def test_forward_signs_as_webhooks_are_signed(client: ApiClient, sluice: Sluice, receiver: Receiver) -> None:
    result = sluice("events", "forward", "--to", receiver.url, "--after", "oldest", "--limit", "1")
    assert result.code == 0
    found = re.search(r"whsec_\S+", result.out)
    assert found
    (got,) = receiver.got
    assert Webhook(found[0]).verify(got.body, got.headers) == json.loads(got.body)
    assert result.out.splitlines()[-1].endswith("204")


def test_endpoints_are_added_listed_and_removed(client: ApiClient, sluice: Sluice, receiver: Receiver) -> None:
    made = sluice("webhooks", "create", receiver.url, "--event", "endpoint.test", "--json").json
    assert made["secret"].startswith("whsec_")
    assert sluice("webhooks", "test", made["endpoint_id"]).code == 0
    assert receiver.wait_for(1)[0].event["type"] == "endpoint.test"
    assert [one["url"] for one in sluice("webhooks", "list", "--json").rows] == [receiver.url]
    assert sluice("webhooks", "rotate-secret", made["endpoint_id"]).code == 0
    assert sluice("webhooks", "deliveries", made["endpoint_id"]).code == 0
    assert sluice("webhooks", "delete", made["endpoint_id"], "--yes").code == 0
    assert sluice("webhooks", "list", "--json").rows == []


def test_endpoint_is_changed_and_events_are_sent_again(client: ApiClient, sluice: Sluice, receiver: Receiver) -> None:
    made = sluice("webhooks", "create", receiver.url, "--event", "file.purged", "--json").json["endpoint_id"]
    assert sluice("webhooks", "update", made, "--event", "file.stored", "--status", "disabled").code == 0
    client.store(context=client.create_context())
    assert sluice("webhooks", "update", made).code == 2
    assert sluice("webhooks", "update", made, "--status", "active").code == 0
    recovered = sluice("webhooks", "recover", made, "--since", "1h")
    assert (recovered.code, recovered.err) == (0, "Deliveries restarted: 1.\n")
    (got,) = receiver.wait_for(1)
    assert got.event["type"] == "file.stored"
    (delivery,) = sluice("webhooks", "deliveries", made, "--json").rows
    assert sluice("webhooks", "redeliver", delivery["delivery_id"]).code == 0
    assert [one.event["id"] for one in receiver.wait_for(2)] == [got.event["id"]] * 2
