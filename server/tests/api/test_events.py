"""The event feed: an event for each change, in order, with a long poll and as server-sent events."""

import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import httpx
import pytest

from sluice.events.catalogue import TYPES
from tests.api.responses import assert_error, assert_validation_error, data, is_now
from tests.api.samples import TEXT
from tests.scanning.waiting import until
from tests.service import API, ApiClient

WAITING_AT_ONCE = 10


def feed(client: ApiClient, **query: Any) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = data(client.get("/events", **query))
    return events


def last_id(client: ApiClient) -> str:
    return str(feed(client, limit=500)[-1]["id"])


@contextmanager
def stream(client: ApiClient, **headers: str) -> Iterator[Iterator[str]]:
    asked = {"Authorization": client.authorization or "", "Accept": "text/event-stream", **headers}
    with httpx.stream("GET", f"{client.service.url}{API}/events", headers=asked, timeout=30) as response:
        assert (response.status_code, response.headers["content-type"]) == (200, "text/event-stream; charset=utf-8")
        lines = response.iter_lines()
        assert next(lines) == ": events follow"
        yield lines


def test_each_change_has_an_event(client: ApiClient) -> None:
    context = client.create_context(allowed_extensions=["txt"])
    token = data(client.post("/upload-tokens", {"context": context, "end_user": "user-42"}), 201)
    stored = data(client.with_credential(token["token"]).upload(content=TEXT, context=context), 201)
    client.upload("a.exe", TEXT, context=context)
    client.patch(f"/contexts/{context}", {"max_file_size_mb": 2})
    client.delete(f"/files/{stored['file_id']}")
    key = client.create_key("metadata")
    client.delete(f"/api-keys/{key.api_key_id}")
    events = feed(client)
    assert [event["sequence"] for event in events] == list(range(1, len(events) + 1))
    assert {event["tenant_id"] for event in events} == {client.tenant_id}
    assert all(is_now(event["timestamp"]) and event["api_version"] == "v1" for event in events)
    assert [event["type"] for event in events] == [
        "api_key.created",  # the client's own
        *("upload_token.spent", "file.stored", "file.rejected", "context.updated", "file.deleted"),
        *("api_key.created", "api_key.revoked"),
    ]
    for event in events:
        TYPES[event["type"]].model_validate(event["data"], extra="forbid")
    by_type = {event["type"]: event["data"] for event in events}
    expected: dict[str, dict[str, Any]] = {
        "upload_token.spent": {"token_id": token["token_id"]},
        "file.stored": {name: stored[name] for name in ("file_id", "report_id")} | {"end_user": "user-42"},
        "file.rejected": {"reason": "extension_not_allowed"},
        "context.updated": {"changed": ["max_file_size_mb"]},
        "file.deleted": {"file_id": stored["file_id"]},
        "api_key.revoked": {"api_key_id": key.api_key_id},
    }
    for kind, fields in expected.items():
        assert by_type[kind] | fields == by_type[kind]


@pytest.mark.engine
def test_a_reader_goes_on_behind_the_last_event_that_it_has(client: ApiClient) -> None:
    context = client.create_context()
    for name in ("a", "b", "c"):
        client.store(f"{name}.txt", context=context)
    first, *rest = feed(client, type="file.stored")
    assert feed(client, after=first["id"], limit=1) == rest[:1]
    assert feed(client, after=first["id"]) == rest
    assert feed(client, after=rest[-1]["id"]) == []
    assert feed(client, type=["file.deleted", "file.rejected"]) == []
    assert_validation_error(client.get("/events", page=1, type="file.lost"), "page", "type")
    assert_validation_error(client.get("/events", limit=501, wait=31), "limit", "wait")
    for unknown in ("evt_00000000000000000000000000", "\0", last_id(client.other_tenant_client())):
        assert_validation_error(client.get("/events", after=unknown), "after")


@pytest.mark.engine
def test_a_long_poll_returns_with_its_event_or_in_time_without_one_and_ends_with_its_key(client: ApiClient) -> None:
    after = last_id(client)
    with ThreadPoolExecutor(1) as thread:
        waiting = thread.submit(feed, client, after=after, wait=30, type="api_key.created")
        client.store(context=client.create_context())  # of another type
        key = client.create_key("admin", name="waited for")
        assert [event["data"]["name"] for event in waiting.result(20)] == ["waited for"]
        after, began = last_id(client), time.monotonic()
        assert feed(client, after=after, wait=1) == []
        assert 0.9 < time.monotonic() - began < 10
        asked = {"after": after, "wait": 30, "type": "api_key.revoked"}
        ended = thread.submit(client.with_credential(key).get, "/events", **asked)
        client.delete(f"/api-keys/{key.api_key_id}")
        assert ended.result(20).status_code == 401


def test_a_stream_sends_events_and_resumes(client: ApiClient) -> None:
    context = client.create_context()
    with stream(client) as lines:
        client.store(context=context)
        sent = dict(line.split(": ", 1) for line in _block(lines))
    assert sent["event"] == "file.stored"
    event = json.loads(sent["data"])
    assert event["id"] == sent["id"]
    assert event == feed(client, type="file.stored")[0]
    client.create_key("upload")
    with stream(client, **{"Last-Event-ID": sent["id"]}) as lines:
        assert dict(line.split(": ", 1) for line in _block(lines))["event"] == "api_key.created"


def _block(lines: Iterator[str]) -> list[str]:
    found: list[str] = []
    for line in lines:
        if line and not line.startswith(":"):
            found.append(line)
        elif found:
            break
    return found


@pytest.mark.one_process
def test_readers_that_wait_are_limited_for_each_tenant(client: ApiClient) -> None:
    other_client = client.other_tenant_client()
    after = last_id(client)
    with ThreadPoolExecutor(WAITING_AT_ONCE + 3) as threads:
        readers = [threads.submit(client.get, "/events", after=after, wait=30) for _ in range(WAITING_AT_ONCE + 3)]
        assert until(lambda: [reader.done() for reader in readers].count(True) >= 3, 20), "no reader was refused"
        assert data(other_client.get("/events", after=last_id(other_client), wait=1)) == []
        client.create_key("upload")
        responses = [reader.result(20) for reader in readers]
    refused = [response for response in responses if response.status_code == 429]
    assert len(refused) == 3
    assert_error(refused[0], 429, refused[0].json()["message"], "Too many readers of this tenant wait for events")
    assert all(len(data(response)) == 1 for response in responses if response not in refused)
