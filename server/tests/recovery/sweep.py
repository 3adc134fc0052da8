"""Kills a server at a failpoint while clients upload, delete, restore and review, and checks what is left.

After every kill, no process keeps bytes of an upload in the spool. After `kills_per_check` kills: `sluice audit --strict`
finds nothing; every acknowledged file downloads with the SHA-256 that was sent; deleted and rejected files are not
there. At the end, the feed of events tells of what was acknowledged, of every report once, and of nothing else.
"""

import contextlib
import hashlib
import itertools
import random
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
from sqlalchemy import select

from sluice.db.database import Database
from sluice.db.rls import ALL_TENANTS
from sluice.db.schema import files
from tests.api import tus
from tests.api.responses import data, page
from tests.api.tokens import LocalIssuer
from tests.cli.forked import ForkedServer, run_forked
from tests.servers import free_port, listens
from tests.service import ApiClient, Deployment, Service, environment_of

SETTINGS = {
    "UPLOAD_LEASE_SECONDS": "1",
    "PURGE_AFTER_DAYS": "0",
    "S3_MULTIPART_MB": "5",
    "SANDBOX_WORKERS": "2",
    "WORKER_SECONDS": "0.3",
    "LOG_LEVEL": "error",
    # less than `PATIENCE`: an audit whose bucket hangs then ends with an error of its own
    "S3_REQUEST_SECONDS": "15",
    "S3_RETRIES": "1",
}
SIZES = (3_000, 3_000, 1_500_000, 3_000, 6_000_000)
"""Kept in memory, spooled on disk, stored in parts."""
BUSY_ROUNDS = 2
"""Rounds of requests that a client sends without a pause. Most failpoints are reached within them."""
PAUSE = 0.3
"""Seconds between later rounds, in which the worker reaches its failpoints."""
DELETES = 0.4
MOST_KEPT = 40
"""Above this number, files are always deleted: after every kill an audit asks the bucket for each of them."""
PATIENCE = 60.0
LURE = b"urgent invoice"
"""What the YARA rule of the sweep matches."""
DENIED = b"\x07\x1b" + bytes(reversed(range(256)))
"""What the hash list of the sweep denies."""
REFUSED = {
    "rejected-blank.zzz": (bytes(500), "blank_document"),
    "rejected-by-rule.zzz": (b"\x07\x1b" + LURE, "virus_detected"),
    "rejected-by-list.zzz": (DENIED, "denied_file"),
    "rejected-by-check.zzz": (b"\x07\x1b" + bytes(range(256)), "rejected_by_check"),
}
_DECISIONS = {"accepted": "file.stored", "quarantined": "file.quarantined", "rejected": "file.rejected"}
"""The event of a report, by its outcome."""


@dataclass
class Promises:
    """What was acknowledged: the SHA-256 of every stored file, and the deleted files."""

    kept: dict[str, str] = field(default_factory=dict)
    deleted: set[str] = field(default_factory=set)
    unconfirmed: set[str] = field(default_factory=set)
    """Files whose deletion was requested but not acknowledged."""
    announced: Counter[tuple[str, str]] = field(default_factory=Counter)
    """How often the feed of events must tell at least of a change of a file: type and file."""
    resumable: dict[str, tuple[str, bytes]] = field(default_factory=dict)
    """Resumable uploads that were not finished, by their names: path and bytes."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def choose_deletion(self, random_: random.Random) -> str | None:
        """Return a file to delete, with the probability `DELETES` or if more than `MOST_KEPT` are kept, else None."""
        with self.lock:
            if len(self.kept) < 2 or (len(self.kept) <= MOST_KEPT and random_.random() >= DELETES):
                return None
            file_id = random_.choice(sorted(self.kept))
            del self.kept[file_id]
            self.unconfirmed.add(file_id)
            return file_id


@dataclass
class Sweep:
    """One place and one tenant whose server is killed repeatedly."""

    deployment: Deployment
    seed: int
    clients: int = 3
    kills_per_check: int = 1
    promises: Promises = field(default_factory=Promises)
    kills: Counter[str] = field(default_factory=Counter)
    checked: set[str] = field(default_factory=set)
    context_fields: Mapping[str, Any] = field(default_factory=dict)
    """Fields of the context that most files are uploaded into."""
    tenant: tuple[str, str | None] | None = None
    context: str = ""
    doubtful: str = ""
    """The context whose files are all in quarantine."""
    short_lived: str = ""
    """The context whose files expire at once, when their retention is tested."""

    def kill_at(self, point: str, *, depth: int) -> None:
        """Start a server that dies at `point`, check earlier promises if a check is due, and upload until it is dead.

        It dies when the point is reached for the first time, or a later one up to `depth`.
        """
        times = (
            1
            if point.startswith(("settle", "purge", "incoming", "retention"))
            else random.Random(f"{self.seed} {self.kills.total()}").randint(1, depth)
        )
        with forked_service(self.deployment, **SETTINGS, FAILPOINT=f"{point}:{times}") as (service, process):
            is_due = self.kills and self.kills.total() % self.kills_per_check == 0
            if process.poll() is None and (not is_due or self._recovered(service, process)):
                self._upload_until_dead(service, process, expires=point.startswith("retention"))
            assert process.returncode == -9, f"{point}: exit code {process.returncode}\n{_log_tail(service)}"
            if point.startswith("retention"):
                self._keep_for(self._client(service), None)
        self.kills[point] += 1
        self._wait_for_an_empty_spool(point)

    def end(self) -> None:
        """Start the server without a failpoint and check every promise."""
        self.checked.clear()
        with forked_service(self.deployment, **SETTINGS) as (service, process):
            self._finish_all_parts(self._client(service))
            assert self._recovered(service, process)
            self._check_feed(self._client(service))
            self._check_engines(self._client(service))

    def _recovered(self, service: Service, process: ForkedServer) -> bool:
        """Wait until the audit finds nothing, then check the promises.

        Return False if the server died meanwhile, which happens at failpoints of the worker.
        """
        deadline = time.monotonic() + PATIENCE
        ended = None
        while service.on_database(_has_leases) or (ended := self._audit(service)) != (0, ""):
            if process.poll() is not None:
                return False
            assert time.monotonic() < deadline, f"not recovered: {ended}\n{_log_tail(service)}"
            time.sleep(0.3)  # the worker is another process, so this polls
        with contextlib.suppress(httpx.TransportError):
            self._check_promises(service)
            return True
        process.wait(PATIENCE)
        return False

    def _check_promises(self, service: Service) -> None:
        client = self._client(service)
        for file_id, digest in sorted(self.promises.kept.items()):
            if file_id not in self.checked:
                link = data(client.get(f"/files/{file_id}"))["download_url"]
                assert hashlib.sha256(service.http.get(link).content).hexdigest() == digest, f"{file_id} is changed"
                self.checked.add(file_id)
        for file_id in self.promises.deleted:
            assert client.get(f"/files/{file_id}/metadata").status_code == 404
        self.promises.deleted.clear()
        names = {item["original_filename"] for item in page(client.get("/files", page_size=100))[0]}
        assert not names & set(REFUSED)

    def _check_feed(self, client: ApiClient) -> None:
        """Assert that no event is lost, none invented, and that they are numbered one after the other."""
        deadline = time.monotonic() + PATIENCE
        while problems := _problems_of(_all_events(client), client.decisions(), self.promises.announced):
            assert time.monotonic() < deadline, problems
            time.sleep(0.3)  # the worker numbers events, so this polls
        life = {"file.stored": True, "file.restored": True, "file.released": True, "file.deleted": False}
        life |= dict.fromkeys(("file.quarantined", "file.refused", "file.purged"), False)
        is_stored = {
            event["data"]["file_id"]: life[event["type"]] for event in _all_events(client) if event["type"] in life
        }
        stored = {file["file_id"] for file in _all_pages(client, "/files", status="stored")}
        assert {file_id for file_id, is_there in is_stored.items() if is_there} == stored

    def _check_engines(self, client: ApiClient) -> None:
        """Assert that every engine and the external check agreed to each file that was accepted."""
        for row in client.decisions():
            if row["outcome"] == "accepted" and row["mode"] == "upload":
                scanned, external = row["facts"]["scanned"], row["facts"].get("external") or []
                assert {one["outcome"] for one in scanned["each"]} == {"clean"}, row
                assert len(scanned["each"]) > 1, row
                asked = self.context_fields if row["context_key"] == self.context else {}
                assert [one["verdict"] for one in external] == ["accept"] * len(asked), row

    def _upload_until_dead(self, service: Service, process: ForkedServer, *, expires: bool) -> None:
        client = self._client(service)
        if expires:
            with contextlib.suppress(httpx.TransportError):
                self._expire_a_file(client)
        is_dead = threading.Event()
        with ThreadPoolExecutor(self.clients) as clients:
            sent = [clients.submit(self._send_requests, client, number, is_dead) for number in range(self.clients)]
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(PATIENCE)
            is_dead.set()
            for one in sent:
                one.result()

    def _send_requests(self, client: ApiClient, number: int, is_dead: threading.Event) -> None:
        rng = random.Random(f"{self.seed} {number} {self.kills.total()}")
        with contextlib.suppress(httpx.TransportError):
            for round_ in itertools.count():
                if is_dead.wait(PAUSE if round_ >= BUSY_ROUNDS else 0):
                    return
                self._upload(client, rng)
                self._upload_in_parts(client, rng)
                self._delete(client, rng)
                self._restore(client, rng)
                self._review(client, rng)
                name = rng.choice(sorted(REFUSED))
                content, reason = REFUSED[name]
                refused = client.upload(name, content, context=self.context)
                assert refused.status_code == 503 or refused.json()["errors"] == [reason], refused.text

    def _upload(self, client: ApiClient, rng: random.Random) -> None:
        content = b"\x07\x1b" + rng.randbytes(8) + bytes(range(256)) * (rng.choice(SIZES) // 256)
        response = client.upload("a.zzz", content, context=self.context)
        if response.status_code == 201:
            file_id = response.json()["data"]["file_id"]
            with self.promises.lock:
                self.promises.kept[file_id] = hashlib.sha256(content).hexdigest()
                self.promises.announced["file.stored", file_id] += 1
        else:
            assert response.status_code == 503, response.text

    def _upload_in_parts(self, client: ApiClient, rng: random.Random) -> None:
        name, content = f"{rng.randbytes(8).hex()}.zzz", b"\x07\x1b" + rng.randbytes(8) + bytes(range(256)) * 30
        upload = tus.begin(client, len(content), context=self.context, filename=name)
        with self.promises.lock:
            self.promises.resumable[name] = (upload.path, content)
        self._finish_parts(client, name)

    def _finish_parts(self, client: ApiClient, name: str) -> None:
        """Send what is missing of a resumable upload, and the last byte until there is a verdict."""
        path, content = self.promises.resumable[name]
        upload, deadline, response = tus.Tus(client, path), time.monotonic() + PATIENCE, None
        while response is None or response.status_code != 200:
            assert time.monotonic() < deadline, response
            offset = upload.offset
            end = len(content) // 2 if offset < len(content) // 2 else len(content)
            response = upload.patch(content[offset:end], offset)
            assert response.status_code in {200, 204, 503}, response.text
            if response.status_code == 503:
                time.sleep(0.3)  # until the lease of an attempt that a kill has cut ends, so this polls
        file_id = response.json()["data"]["file_id"]
        with self.promises.lock:
            del self.promises.resumable[name]
            self.promises.kept[file_id] = hashlib.sha256(content).hexdigest()
            self.promises.announced["file.stored", file_id] += 1

    def _finish_all_parts(self, client: ApiClient) -> None:
        """Finish every resumable upload that a kill has cut; each must become exactly one file."""
        for name in sorted(self.promises.resumable):
            self._finish_parts(client, name)
            stored = [
                item for item in page(client.get("/files", filename=name))[0] if item["original_filename"] == name
            ]
            assert len(stored) == 1, name

    def _delete(self, client: ApiClient, rng: random.Random) -> None:
        file_id = self.promises.choose_deletion(rng)
        if file_id is not None and client.delete(f"/files/{file_id}").status_code == 200:
            with self.promises.lock:
                self.promises.deleted.add(file_id)
                self.promises.announced["file.deleted", file_id] += 1

    def _restore(self, client: ApiClient, rng: random.Random) -> None:
        """Delete a file and restore it, which its purge may be faster than."""
        with self.promises.lock:
            if len(self.promises.kept) < 2:
                return
            file_id = rng.choice(sorted(self.promises.kept))
            digest = self.promises.kept.pop(file_id)
            self.promises.unconfirmed.add(file_id)
        if client.delete(f"/files/{file_id}").status_code != 200:
            return
        restored = client.post(f"/files/{file_id}/restore")
        with self.promises.lock:
            self.promises.announced["file.deleted", file_id] += 1
            if restored.status_code == 200:
                self.promises.kept[file_id] = digest
                self.promises.announced["file.restored", file_id] += 1
            elif restored.status_code == 404:
                self.promises.deleted.add(file_id)

    def _review(self, client: ApiClient, rng: random.Random) -> None:
        """Upload a file into quarantine, and release or refuse it."""
        content = b"\x07\x1b" + rng.randbytes(8) + bytes(range(256))
        response = client.upload("a.zzz", content, context=self.doubtful)
        if response.status_code != 201:
            assert response.status_code == 503, response.text
            return
        file_id, word = response.json()["data"]["file_id"], rng.choice(("release", "refuse"))
        if client.post(f"/quarantine/{file_id}/{word}", {"comment": "looked at it"}).status_code != 200:
            return
        with self.promises.lock:
            self.promises.announced["file.quarantined", file_id] += 1
            self.promises.announced["file.released" if word == "release" else "file.refused", file_id] += 1
            if word == "release":
                self.promises.kept[file_id] = hashlib.sha256(content).hexdigest()
            else:
                self.promises.deleted.add(file_id)

    def _expire_a_file(self, client: ApiClient) -> None:
        """Store a file whose retention is over at once, and have the worker look."""
        client.upload("old.zzz", b"\x07\x1b" + bytes(range(256)), context=self.short_lived)
        self._keep_for(client, 0)

    def _keep_for(self, client: ApiClient, days: int | None) -> None:
        # No days are less than the API takes: nothing else would be due in a test.
        sql = "UPDATE contexts SET retention_days = :days, retention_due_at = :at WHERE context_key = :key"
        client.execute_sql(sql, days=days, at=datetime(2020, 1, 1, tzinfo=UTC), key=self.short_lived)

    def _client(self, service: Service) -> ApiClient:
        if self.tenant is None:
            client = service.new_client().with_store()
            self.tenant = (client.tenant_id, client.authorization)
            self.context = client.create_context(max_file_size_mb=20, storage_quota_mb=100_000, **self.context_fields)
            data(client.post("/hash-lists", {"entries": [{"digest": hashlib.sha256(DENIED).hexdigest()}]}), 201)
            self.doubtful = client.create_context(
                policies={"filename_pattern": {"mode": "quarantine", "pattern": "good"}}
            )
            self.short_lived = client.create_context()
        return ApiClient(service, *self.tenant)

    def _audit(self, service: Service) -> tuple[int, str]:
        """Run `sluice audit --strict`; return its exit code and the differences."""
        out, err = self.deployment.folder / "audit.out", self.deployment.folder / "audit.err"
        environment = environment_of(self.deployment, service.port, **SETTINGS)
        code = run_forked(["audit", "--strict", "--json"], environment, self.deployment.folder, out, err)
        return code, "".join(out.read_text().splitlines(keepends=True)[:-1]) + err.read_text()

    def _wait_for_an_empty_spool(self, point: str) -> None:
        """Wait for child processes that still hold bytes: they die a moment after their server."""
        deadline = time.monotonic() + PATIENCE / 2
        while left := self._spooled():
            assert time.monotonic() < deadline, f"{point}: left in the spool: {left}"
            time.sleep(0.1)  # another process, so this polls

    def _spooled(self) -> list[str]:
        """Return files in the spool, and unlinked files of it that any process has open."""
        spool = self.deployment.data_dir / "spool"
        return [str(path) for path in spool.rglob("*")] + [
            target for target in _open_files() if target.startswith(str(spool))
        ]


@contextlib.contextmanager
def forked_service(deployment: Deployment, **settings: str) -> Iterator[tuple[Service, ForkedServer]]:
    """Start a server; the block begins when it listens, or when it died at a failpoint of the worker."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    environment = environment_of(deployment, port, **settings)
    log = deployment.folder / "server.log"
    process = ForkedServer(environment, deployment.folder, log)
    try:
        deadline = time.monotonic() + PATIENCE
        while process.poll() is None and not listens(port):
            assert time.monotonic() < deadline, log.read_text()[-2000:]
            time.sleep(0.05)  # another process, so this polls
        with httpx.Client(base_url=url, timeout=60) as client:
            yield (
                Service(deployment, url, port, process, log, environment, client, LocalIssuer(deployment.data_dir)),
                process,
            )
    finally:
        process.kill()
        process.wait(PATIENCE)


async def _has_leases(database: Database) -> bool:
    """Return whether files wait for the end of a lease: an audit, which takes longer, would find them."""
    async with database.reading(ALL_TENANTS) as connection:
        return bool(await connection.scalar(select(files.c.file_id).where(files.c.lease_until.is_not(None)).limit(1)))


def _all_events(client: ApiClient) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = []
    while found := data(client.get("/events", limit=500, **({"after": events[-1]["id"]} if events else {}))):
        events += found
    return events


def _all_pages(client: ApiClient, path: str, **query: str) -> Iterator[dict[str, Any]]:
    for number in itertools.count(1):
        items, _pagination = page(client.get(path, page=number, page_size=100, **query))
        yield from items
        if len(items) < 100:
            return


def _problems_of(
    events: list[dict[str, Any]], decisions: Iterable[dict[str, Any]], announced: Mapping[tuple[str, str], int]
) -> list[str]:
    """Return what the feed lacks, and what it has too much, compared with the decisions and what was acknowledged."""
    decided = Counter(
        (event["type"], event["data"]["report_id"])
        for event in events
        if event["type"] in _DECISIONS.values() and event["data"].get("report_id")
    )
    expected = Counter(
        (_DECISIONS[row["outcome"]], row["report_id"]) for row in decisions if row["outcome"] in _DECISIONS
    )
    seen = Counter((event["type"], event["data"].get("file_id", "")) for event in events)
    sequences = [event["sequence"] for event in events]
    return [
        *(f"lost: {one}" for one in sorted((expected - decided) + (Counter(announced) - seen))),
        *(f"invented: {one}" for one in sorted(decided - expected)),
        *(["not numbered one after the other"] if sequences != list(range(1, len(events) + 1)) else []),
        *(["an id comes twice"] if len({event["id"] for event in events}) < len(events) else []),
    ]


def _open_files() -> Iterator[str]:
    for process in Path("/proc").iterdir():
        if process.name.isdecimal():
            with contextlib.suppress(OSError):  # it has ended or belongs to another user
                for entry in (process / "fd").iterdir():
                    with contextlib.suppress(OSError):
                        yield str(entry.readlink())


def _log_tail(service: Service) -> str:
    return service.log.read_text(errors="replace")[-3000:]
