"""Proofs about jobs: each that was acknowledged ends, and has done its work on each file exactly once."""

import hashlib
import json
import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.api.responses import data
from tests.api.test_erasures import stated
from tests.recovery.sweep.events import all_events
from tests.recovery.sweep.files import delete_unless_held, unique
from tests.recovery.sweep.promises import PATIENCE, Promises, all_pages
from tests.service import ApiClient


@dataclass
class Jobs:
    """Deletions and restorations of many files, and quarantine by a hash list."""

    promises: Promises
    context: str
    points: tuple[str, ...] = ("job.",)
    share: float = 0.25
    waiting: dict[str, Callable[[ApiClient, dict[str, Any]], None]] = field(default_factory=dict)
    """What to check of a job when it has ended, by its id."""
    deletions: Counter[str] = field(default_factory=Counter)
    """How often each file was deleted by jobs: the feed must tell of it exactly so often."""

    def begin(self, client: ApiClient) -> None:
        pass

    def act(self, client: ApiClient, rng: random.Random) -> None:
        rng.choice((self._delete, self._restore, self._quarantine))(client, rng)

    def check(self, client: ApiClient) -> None:
        for job_id in sorted(self.waiting):
            found = wait_for_job(client, f"/jobs/{job_id}")
            self.waiting[job_id](client, found)
            del self.waiting[job_id]

    def end(self, client: ApiClient) -> None:
        self.check(client)
        seen = Counter(event["data"]["file_id"] for event in all_events(client) if event["type"] == "file.deleted")
        for file_id, times in self.deletions.items():
            assert seen[file_id] == times, f"{file_id} was deleted {seen[file_id]} times"
        states = Counter(job["status"] for job in all_pages(client, "/jobs"))
        assert set(states) <= {"done", "cancelled"}, states

    def _delete(self, client: ApiClient, rng: random.Random) -> None:
        chosen = self.promises.take(rng, 3)
        with self.promises.lock:
            held = rng.sample(sorted(self.promises.held), min(1, len(self.promises.held)))
        job_id = begin_job(client, "/files/bulk-delete", {"file_ids": [*chosen, *held]}) if chosen else None
        if job_id is None:
            self._put_back(chosen)
            return

        def ended(_client: ApiClient, found: dict[str, Any]) -> None:
            refused = {one["file_id"]: one["reason"] for one in found["refused"]}
            assert {refused[file_id] for file_id in held} <= {"held"}, found
            for file_id, digest in chosen.items():
                if file_id in refused:  # a hold whose answer was lost
                    assert refused[file_id] == "held", found
                    self.promises.hold(file_id, digest)
                else:
                    self.promises.delete(file_id, "file.deleted")
                    self.deletions[file_id] = self.promises.announced["file.deleted", file_id]
            assert found["done"] + found["skipped"] == len(chosen) + len(held), found

        self.waiting[job_id] = ended

    def _restore(self, client: ApiClient, rng: random.Random) -> None:
        """Delete files and restore them, which their purge may be faster than."""
        chosen = {
            file_id: digest
            for file_id, digest in self.promises.take(rng, 2).items()
            if delete_unless_held(client, self.promises, file_id, digest)
        }
        with self.promises.lock:
            self.promises.announced.update(("file.deleted", file_id) for file_id in chosen)
        job_id = begin_job(client, "/files/bulk-restore", {"file_ids": [*chosen]}) if chosen else None
        if job_id is None:
            return

        def ended(_client: ApiClient, found: dict[str, Any]) -> None:
            refused = {one["file_id"]: one["reason"] for one in found["refused"]}
            for file_id, digest in chosen.items():
                if file_id in refused:
                    assert refused[file_id] == "not_found", found
                    self.promises.delete(file_id)
                else:
                    self.promises.keep(file_id, digest, "file.restored")
            assert found["done"] + found["skipped"] == len(chosen), found

        self.waiting[job_id] = ended

    def _quarantine(self, client: ApiClient, rng: random.Random) -> None:
        """Store a file twice, deny its SHA-256, and put both into quarantine."""
        content = unique(rng)
        digest = hashlib.sha256(content).hexdigest()
        chosen = [client.store("a.zzz", content, context=self.context) for _ in range(2)]
        data(client.post("/hash-lists", {"entries": [{"digest": digest}]}), 201)
        job_id = begin_job(client, f"/hash-lists/{digest}/quarantine", None)
        if job_id is None:
            return

        def ended(client: ApiClient, found: dict[str, Any]) -> None:
            doubtful = {file["file_id"] for file in all_pages(client, "/files", status="quarantined")}
            assert doubtful >= set(chosen), found
            assert found["done"] == len(chosen), found
            with self.promises.lock:
                self.promises.announced.update(("file.recalled", file_id) for file_id in chosen)

        self.waiting[job_id] = ended

    def _put_back(self, chosen: dict[str, str]) -> None:
        for file_id, digest in chosen.items():
            self.promises.keep(file_id, digest)


@dataclass
class Exports:
    """Lists of all files, each of them once."""

    promises: Promises
    points: tuple[str, ...] = ("export.",)
    share: float = 0.1
    waiting: dict[str, set[str]] = field(default_factory=dict)
    """The files that were held when an export began, by its id: each must be in its list."""

    def begin(self, client: ApiClient) -> None:
        pass

    def act(self, client: ApiClient, _rng: random.Random) -> None:
        held = set(self.promises.held)
        job_id = begin_job(client, "/files/export", {})
        if job_id is not None:
            self.waiting[job_id] = held

    def check(self, client: ApiClient) -> None:
        for job_id, held in sorted(self.waiting.items()):
            found = wait_for_job(client, f"/jobs/{job_id}")
            link = client.get(f"/jobs/{job_id}/download")
            if found["status"] == "cancelled" or link.status_code == 404:
                # an erasure ends every export before it
                assert list(all_pages(client, "/jobs", kind="erasure")), found
            else:
                lines = client.service.http.get(data(link)["download_url"]).text.splitlines()
                listed = Counter(json.loads(line)["file_id"] for line in lines)
                assert set(listed.values()) == {1}, listed
                # without those that were let go meanwhile, and may be deleted
                lost = (held & set(self.promises.held)) - set(listed)
                assert not lost, lost
            del self.waiting[job_id]

    def end(self, client: ApiClient) -> None:
        self.check(client)


@dataclass
class Erasures:
    """All files of a person are erased, each once, and one under a legal hold stays."""

    promises: Promises
    context: str
    points: tuple[str, ...] = ("erasure.",)
    share: float = 0.15
    waiting: dict[str, dict[str, str]] = field(default_factory=dict)
    """The files of each erasure, with the outcome that its receipt must state."""
    busy: threading.Lock = field(default_factory=threading.Lock)

    def begin(self, client: ApiClient) -> None:
        pass

    def act(self, client: ApiClient, rng: random.Random) -> None:
        if not self.busy.acquire(blocking=False):
            return
        try:
            _sweep_cancelled_exports(client)
            if all(data(client.get(f"/erasures/{job_id}"))["status"] == "done" for job_id in self.waiting):
                self.check(client)
            if not self.waiting:  # each reads every row of the tenant
                self._erase_a_person(client, rng)
        finally:
            self.busy.release()

    def _erase_a_person(self, client: ApiClient, rng: random.Random) -> None:
        # Valid for long, since the clock of the server may jump.
        now, name = int(time.time()), f"person-{rng.randbytes(8).hex()}"
        claims = {"iat": now - 7200, "exp": now + 7200, "sub": name, "name": f"Quillfeather {name}"}
        person = client.with_credential(client.token(**claims, scope="upload metadata"))
        contents = [unique(rng) for _ in range(3)]
        files: dict[str, str] = {}
        for content in contents:
            files[person.store(f"{name}.zzz", content, context=self.context)] = hashlib.sha256(content).hexdigest()
        (held, digest), *free = files.items()
        data(client.request("PUT", f"/files/{held}/hold", json={"reason": "Case 9"}))
        self.promises.hold(held, digest, "file.stored")
        job_id = data(client.post("/erasures", {"uploaded_by": f"sluice|{name}"}), 202)["job_id"]
        self.waiting[job_id] = {held: "held"} | {file_id: "erased" for file_id, _ in free}

    def check(self, client: ApiClient) -> None:
        for job_id, expected in list(self.waiting.items()):
            found = wait_for_job(client, f"/erasures/{job_id}", _sweep_cancelled_exports)
            assert found["status"] == "done", found
            listed = stated(client, found)["files"]
            assert len(listed) == len(expected), (listed, expected)
            assert {file["file_id"]: file["outcome"] for file in listed} == expected
            for file_id, outcome in expected.items():
                if outcome == "erased":
                    self.promises.delete(file_id, "file.stored", "file.deleted", "file.purged")
            del self.waiting[job_id]

    def end(self, client: ApiClient) -> None:
        self.check(client)
        ended = Counter(
            event["data"]["erasure_id"] for event in all_events(client) if event["type"] == "erasure.completed"
        )
        assert set(ended.values()) <= {1}, ended


def begin_job(client: ApiClient, path: str, body: Any) -> str | None:
    """Begin a job, and return its id; None if there are too many."""
    response = client.post(path, body)
    return None if response.status_code == 429 else str(data(response, 201)["job_id"])


def wait_for_job(
    client: ApiClient, path: str, meanwhile: Callable[[ApiClient], None] = lambda _client: None
) -> dict[str, Any]:
    """Wait until a job has ended, and return it."""
    deadline = time.monotonic() + PATIENCE
    while (found := data(client.get(path)))["status"] in {"waiting", "running"}:
        assert time.monotonic() < deadline, found
        meanwhile(client)
        time.sleep(0.1)  # the worker is another process, so this polls
    assert found["status"] != "failed", found
    return dict(found)


def _sweep_cancelled_exports(client: ApiClient) -> None:
    """Have what the exports wrote that an erasure ended deleted at once, not five minutes later."""
    client.execute_sql(
        "UPDATE jobs SET due_at = '2020-01-01 00:00:00.000000' "
        "WHERE kind = 'export' AND state = 'cancelled' AND due_at IS NOT NULL"
    )
