"""Proofs about events: the feed tells of everything once, and each event reaches the endpoint of the tenant."""

import random
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.api.responses import data
from tests.events.receiver import Receiver
from tests.recovery.sweep.promises import PATIENCE, Promises, all_pages
from tests.service import ApiClient

_DECISIONS = {"accepted": "file.stored", "quarantined": "file.quarantined", "rejected": "file.rejected"}
"""The event of a report, by its outcome."""
_LIFE = {"file.stored": True, "file.restored": True, "file.released": True} | dict.fromkeys(
    ("file.deleted", "file.quarantined", "file.recalled", "file.refused", "file.purged"), False
)
"""Whether a file can be downloaded after an event about it."""


@dataclass
class Feed:
    """Every report and every acknowledged change is in the feed, and nothing else is."""

    promises: Promises
    context: str
    external_checks: int
    """How many external checks the context has."""
    points: tuple[str, ...] = ()
    share: float = 0

    def begin(self, client: ApiClient) -> None:
        pass

    def act(self, client: ApiClient, rng: random.Random) -> None:
        pass

    def check(self, client: ApiClient) -> None:
        pass

    def end(self, client: ApiClient) -> None:
        """Assert that no event is lost, none invented, and that they are numbered one after the other."""
        deadline = time.monotonic() + PATIENCE
        while problems := _problems_of(all_events(client), client.decisions(), self.promises.announced):
            assert time.monotonic() < deadline, problems
            time.sleep(0.3)  # the worker numbers events, so this polls
        is_stored = {
            event["data"]["file_id"]: _LIFE[event["type"]] for event in all_events(client) if event["type"] in _LIFE
        }
        stored = {file["file_id"] for file in all_pages(client, "/files", status="stored")}
        assert {file_id for file_id, is_there in is_stored.items() if is_there} == stored
        self._check_engines(client)

    def _check_engines(self, client: ApiClient) -> None:
        """Assert that every engine and the external check agreed to each file that was accepted."""
        for row in client.decisions():
            if row["outcome"] == "accepted" and row["mode"] == "upload":
                scanned, external = row["facts"]["scanned"], row["facts"].get("external") or []
                assert {one["outcome"] for one in scanned["each"]} == {"clean"}, row
                assert len(scanned["each"]) > 1, row
                asked = self.external_checks if row["context_key"] == self.context else 0
                assert [one["verdict"] for one in external] == ["accept"] * asked, row


@dataclass
class Webhooks:
    """Every event of the feed reaches the endpoint at least once, and nothing else does."""

    receiver: Receiver
    points: tuple[str, ...] = ("webhook.",)
    share: float = 0
    earlier: set[str] = field(default_factory=set)
    """Events from before there was an endpoint."""

    def begin(self, client: ApiClient) -> None:
        self.earlier = {event["id"] for event in all_events(client)}
        data(client.post("/webhook-endpoints", {"url": self.receiver.url, "events": ["*"]}), 201)

    def act(self, client: ApiClient, rng: random.Random) -> None:
        """Do nothing: every event is sent."""

    def check(self, client: ApiClient) -> None:
        pass

    def end(self, client: ApiClient) -> None:
        deadline = time.monotonic() + PATIENCE
        while lost := (expected := {event["id"] for event in all_events(client)} - self.earlier) - self._received():
            assert time.monotonic() < deadline, f"{len(lost)} of {len(expected)} events were not delivered: {lost}"
            time.sleep(0.3)  # the worker delivers them, so this polls
        assert not self._received() - expected, "events were delivered that are not in the feed"

    def _received(self) -> set[str]:
        return {request.headers["webhook-id"] for request in list(self.receiver.got)}


def all_events(client: ApiClient) -> list[dict[str, Any]]:
    """Return the events of the feed, oldest first."""
    events: list[dict[str, Any]] = []
    while found := data(client.get("/events", limit=500, **({"after": events[-1]["id"]} if events else {}))):
        events += found
    return events


def _problems_of(
    events: list[dict[str, Any]], decisions: Sequence[dict[str, Any]], announced: Mapping[tuple[str, str], int]
) -> list[str]:
    """Return what the feed lacks, and what it has too much, compared with the decisions and what was acknowledged."""
    decided = Counter(
        (event["type"], event["data"]["report_id"])
        for event in events
        if event["type"] in _DECISIONS.values() and event["data"].get("report_id")
    )
    uploaded = [row for row in decisions if row["mode"] != "rescan" and row["outcome"] in _DECISIONS]
    expected = Counter((_DECISIONS[row["outcome"]], row["report_id"]) for row in uploaded)
    recalled = Counter(event["data"]["file_id"] for event in events if event["type"] == "file.recalled")
    denied = Counter(row["file_id"] for row in decisions if row["mode"] == "rescan" and row["outcome"] == "quarantined")
    seen = Counter((event["type"], event["data"].get("file_id", "")) for event in events)
    sequences = [event["sequence"] for event in events]
    return [
        *(f"lost: {one}" for one in sorted((expected - decided) + (Counter(announced) - seen))),
        *(f"invented: {one}" for one in sorted(decided - expected)),
        *([f"recalled {denied} times, told of {recalled}"] if denied != recalled else []),
        *(["not numbered one after the other"] if sequences != list(range(1, len(events) + 1)) else []),
        *(["an id comes twice"] if len({event["id"] for event in events}) < len(events) else []),
    ]
