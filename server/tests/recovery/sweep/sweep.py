"""Kills a server at a failpoint while clients use it, and checks what is left.

After every kill, no process keeps bytes of an upload in the spool. After `kills_per_check` kills: `sluice audit --strict`
finds nothing, which proves that counts and quota are exact; every acknowledged file downloads with the SHA-256 that was
sent; deleted and rejected files are not there; jobs that were acknowledged end. At the end, every proof checks all of
its promises: see `files`, `events`, `jobs` and `imports`.
"""

import contextlib
import random
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
from sqlalchemy import Table, select

from sluice.db.database import Database, DatabaseUnavailable
from sluice.db.rls import ALL_TENANTS
from sluice.db.schema import files, jobs, resumable_uploads, webhook_deliveries, webhook_endpoints
from tests.api.tokens import LocalIssuer
from tests.cli.forked import ForkedServer, run_forked
from tests.events.receiver import Receiver
from tests.recovery.sweep.events import Feed, Webhooks
from tests.recovery.sweep.files import Files, Holds, Previews, Retention
from tests.recovery.sweep.imports import Imports
from tests.recovery.sweep.jobs import Erasures, Exports, Jobs
from tests.recovery.sweep.promises import PATIENCE, Busy, Promises, Proof, raise_if_busy
from tests.servers import free_port, listens
from tests.service import ApiClient, Deployment, Service, environment_of

SETTINGS = {
    "UPLOAD_LEASE_SECONDS": "1",
    "PURGE_AFTER_DAYS": "0",
    "S3_MULTIPART_MB": "5",
    "SANDBOX_WORKERS": "2",
    "WORKER_SECONDS": "0.2",
    "LOG_LEVEL": "error",
    # less than `PATIENCE`: an audit whose bucket hangs then ends with an error of its own
    "S3_REQUEST_SECONDS": "15",
    "S3_RETRIES": "1",
}
BUSY_ROUNDS = 2
"""Rounds of requests that a client sends without a pause. Most failpoints are reached within them."""
PAUSE = 0.3
"""Seconds between later rounds, in which the worker reaches its failpoints."""
_RARE = ("parts", "settle", "purge", "incoming", "retention", "job", "export", "erasure", "preview")
"""Failpoints that are reached too seldom to wait for a later time."""


@dataclass
class Sweep:
    """One place and one tenant whose server is killed repeatedly."""

    deployment: Deployment
    seed: int
    clients: int = 3
    kills_per_check: int = 1
    receiver: Receiver | None = None
    """The receiver of webhooks; None: only files, their retention and the feed are proven."""
    settings: Mapping[str, str] = field(default_factory=lambda: SETTINGS)
    context_fields: Mapping[str, Any] = field(default_factory=dict)
    """Fields of the context that most files are uploaded into."""
    promises: Promises = field(default_factory=Promises)
    kills: Counter[str] = field(default_factory=Counter)
    acts: Counter[str] = field(default_factory=Counter)
    """How often clients have done all that each proof asks for."""
    proofs: Sequence[Proof] = ()
    files: Files | None = None
    retention: Retention | None = None
    tenant: tuple[str, str | None] = ("", None)

    def begin(self) -> None:
        """Start the server without a failpoint, and prepare what the proofs need."""
        with forked_service(self.deployment, **self.settings) as (service, _process):
            client = service.new_client().with_store()
            self.tenant = (client.tenant_id, client.authorization)
            context = client.create_context(max_file_size_mb=20, storage_quota_mb=100_000, **self.context_fields)
            doubtful = client.create_context(policies={"filename_pattern": {"mode": "quarantine", "pattern": "good"}})
            promises, checks = self.promises, len(self.context_fields.get("external_checks", ()))
            self.retention = Retention(promises, client.create_context(), with_holds=self.receiver is not None)
            self.files = Files(promises, context, doubtful)
            self.proofs = [self.files, self.retention]
            if self.receiver is not None:
                self.proofs += [
                    Holds(promises),
                    Previews(promises, context),
                    Jobs(promises, context),
                    Exports(promises),
                    Erasures(promises, context),
                    Imports(promises),
                    Webhooks(self.receiver),
                ]
            self.proofs += [Feed(promises, context, checks)]
            for proof in self.proofs:
                proof.begin(self._client(service))

    def kill_at(self, point: str, *, depth: int, during: Callable[[Service], None] | None = None) -> None:
        """Start a server that dies at `point`, check earlier promises if a check is due, and use it until it is dead.

        It dies when the point is reached for the first time, or a later one up to `depth`. What `during` does to it
        is done while clients use it.
        """
        rng = random.Random(f"{self.seed} {self.kills.total()}")
        times = 1 if point.startswith(_RARE) else rng.randint(1, depth)
        if self.files is not None:
            self.files.point = point
        with forked_service(self.deployment, **self.settings, FAILPOINT=f"{point}:{times}") as (service, process):
            is_due = self.kills and self.kills.total() % self.kills_per_check == 0
            if process.poll() is None and (not is_due or self._recovered(service, process)):
                self._use_until_dead(service, process, point, during)
            assert process.returncode == -9, f"{point}: exit code {process.returncode}\n{_log_tail(service)}"
            if self.retention is not None and point.startswith(self.retention.points):
                self.retention.check(self._client(service))
            service.on_database(_end_claims)
        self.kills[point] += 1
        self._wait_for_an_empty_spool(point)

    def end(self) -> None:
        """Start the server without a failpoint and check every promise."""
        with forked_service(self.deployment, **self.settings) as (service, process):
            for proof in self.proofs:
                proof.check(self._client(service))
            for proof in self.proofs:
                proof.end(self._client(service))
            assert self._wait_for_a_clean_audit(service, process)

    def summary(self, seconds: float) -> str:
        """Return what was done in one line, after all checks have passed."""
        total, promises = self.kills.total(), self.promises
        words = [
            f"{total} kills at {len(self.kills)} points",
            f"{len(promises.kept)} files kept",
            f"{len(promises.held)} held",
            f"{promises.announced.total()} changes told",
            *([f"{len(self.receiver.got)} deliveries"] if self.receiver is not None else []),
            *(f"{name} {number}" for name, number in sorted(self.acts.items())),
        ]
        return f"{', '.join(words)}, 0 violations; {seconds / max(total, 1):.1f} s a kill"

    def _recovered(self, service: Service, process: ForkedServer) -> bool:
        """Wait until the audit finds nothing, then check the promises.

        Return False if the server died meanwhile, which happens at failpoints of the worker.
        """
        if not self._wait_for_a_clean_audit(service, process):
            return False
        with contextlib.suppress(httpx.TransportError):
            for proof in self.proofs:
                proof.check(self._client(service))
            return True
        process.wait(PATIENCE)
        return False

    def _wait_for_a_clean_audit(self, service: Service, process: ForkedServer) -> bool:
        deadline = time.monotonic() + PATIENCE
        ended = None
        while service.on_database(_has_leases) or (ended := self._audit(service)) != (0, ""):
            if process.poll() is not None:
                return False
            assert time.monotonic() < deadline, f"not recovered: {ended}\n{_log_tail(service)}"
            time.sleep(0.1)  # the worker is another process, so this polls
        return True

    def _use_until_dead(
        self, service: Service, process: ForkedServer, point: str, during: Callable[[Service], None] | None
    ) -> None:
        is_dead = threading.Event()
        with ThreadPoolExecutor(self.clients + 1) as clients:
            sent = [
                clients.submit(self._send_requests, self._client(service), number, point, is_dead)
                for number in range(self.clients)
            ]
            if during is not None:
                sent.append(clients.submit(during, service))
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(PATIENCE)
            is_dead.set()
            for one in sent:
                one.result()

    def _send_requests(self, client: ApiClient, number: int, point: str, is_dead: threading.Event) -> None:
        rng = random.Random(f"{self.seed} {number} {self.kills.total()}")
        wanted = [proof for proof in self.proofs if proof.points and point.startswith(proof.points)]
        round_ = 0
        with contextlib.suppress(httpx.TransportError):
            while not is_dead.wait(PAUSE if round_ >= BUSY_ROUNDS else 0):
                chosen = [proof for proof in self.proofs if proof not in wanted and rng.random() < proof.share]
                rng.shuffle(chosen)  # the server may die in the first of them
                for proof in [*(wanted if number == 0 else []), *chosen]:
                    with contextlib.suppress(Busy, DatabaseUnavailable):  # the latter for rows that a proof changes
                        proof.act(client, rng)
                        self.acts[type(proof).__name__.lower()] += 1
                round_ += 1

    def _client(self, service: Service) -> ApiClient:
        service.http.event_hooks = {"response": [raise_if_busy]}
        return ApiClient(service, *self.tenant)

    def _audit(self, service: Service) -> tuple[int, str]:
        """Run `sluice audit --strict`; return its exit code and the differences."""
        out, err = self.deployment.folder / "audit.out", self.deployment.folder / "audit.err"
        environment = environment_of(self.deployment, service.port, **self.settings)
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


async def _end_claims(database: Database) -> None:
    """End the claims of a server that is dead: the next one need not wait until their time is over."""
    past = datetime(2020, 1, 1, tzinfo=UTC)
    waits: list[tuple[Table, Any]] = [
        (jobs, jobs.c.state != "done"),  # what a finished export wrote is kept for a day
        (files, files.c.state.in_(["deleted", "purging"])),
        (webhook_deliveries, webhook_deliveries.c.state == "pending"),
    ]
    async with database.transaction(ALL_TENANTS) as connection:
        for table, is_open in waits:
            await connection.execute(table.update().where(table.c.due_at.is_not(None), is_open).values(due_at=past))
        leased = webhook_endpoints.c.lease_until.is_not(None)
        await connection.execute(webhook_endpoints.update().where(leased).values(lease_until=past))
        judged = resumable_uploads.c.judging_until.is_not(None)
        await connection.execute(resumable_uploads.update().where(judged).values(judging_until=past))


def _open_files() -> Iterator[str]:
    for process in Path("/proc").iterdir():
        if process.name.isdecimal():
            with contextlib.suppress(OSError):  # it has ended or belongs to another user
                for entry in (process / "fd").iterdir():
                    with contextlib.suppress(OSError):
                        yield str(entry.readlink())


def _log_tail(service: Service) -> str:
    return service.log.read_text(errors="replace")[-3000:]
