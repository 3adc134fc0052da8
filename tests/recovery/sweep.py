"""Killing a server at a named point while clients upload and delete, starting it again, and holding it to what it had promised.

What is held after every kill: `sluice audit --strict` finds nothing; every acknowledged file downloads with the SHA-256 that was sent;
what was deleted and what was rejected is not there; no process keeps bytes of an upload in the spool.
"""

import contextlib
import hashlib
import random
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from tests.api.answers import data, page
from tests.api.tokens import LocalIssuer
from tests.cli.forked import ForkedServer, run_forked
from tests.gate import Gate, Place, Service, environment_of
from tests.servers import free_port, listens

SETTINGS = {
    "UPLOAD_LEASE_SECONDS": "1",
    "PURGE_AFTER_DAYS": "0",
    "S3_MULTIPART_MB": "5",
    "SANDBOX_WORKERS": "2",
    "WORKER_SECONDS": "0.1",
    "LOG_LEVEL": "error",
    # less than a command may take here: an audit whose bucket hangs then says so by itself
    "S3_REQUEST_SECONDS": "15",
    "S3_RETRIES": "1",
}
SIZES = (3_000, 3_000, 1_500_000, 3_000, 6_000_000)
"""In memory, spooled on disk, sent in parts."""
CLIENTS = 3
DELETES = 0.4
MOST_KEPT = 40
"""More files than that are deleted again as they come: an audit asks the bucket for every one of them, after every kill."""
PATIENCE = 60.0


@dataclass
class Promises:
    """What the clients were told: the SHA-256 of every file whose 201 they saw, and the files whose deletion was answered."""

    kept: dict[str, str] = field(default_factory=dict)
    deleted: set[str] = field(default_factory=set)
    unsure: set[str] = field(default_factory=set)
    """Files whose deletion was asked for and not answered."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def one_to_delete(self, random_: random.Random) -> str | None:
        """Answer a file to delete, with the chance `DELETES`, and surely of more than `MOST_KEPT`; None for none."""
        with self.lock:
            if len(self.kept) < 2 or (len(self.kept) <= MOST_KEPT and random_.random() >= DELETES):
                return None
            file_id = random_.choice(sorted(self.kept))
            del self.kept[file_id]
            self.unsure.add(file_id)
            return file_id


@dataclass
class Sweep:
    """One place, one tenant, many deaths."""

    place: Place
    seed: int
    promises: Promises = field(default_factory=Promises)
    kills: Counter[str] = field(default_factory=Counter)
    checked: set[str] = field(default_factory=set)
    tenant: tuple[str, str | None] | None = None
    context: str = ""

    def kill_at(self, point: str, *, depth: int = 6) -> None:
        """Start a server that dies at `point`, hold it to all earlier promises, and upload until it is dead."""
        times = 1 if point.startswith(("settle", "purge")) else random.Random(f"{self.seed} {self.kills.total()}").randint(1, depth)
        with forked_service(self.place, FAILPOINT=f"{point}:{times}") as (service, process):
            if process.poll() is None and self._recovered(service, process):
                self._until_dead(service)
            process.wait(PATIENCE)
            assert process.returncode == -9, f"{point}: it ended with {process.returncode}\n{_words(service)}"
        self.kills[point] += 1
        self._wait_for_an_empty_spool(point)

    def end(self) -> None:
        """Start it once more, unarmed, and hold it to every promise."""
        self.checked.clear()
        with forked_service(self.place) as (service, process):
            assert self._recovered(service, process)

    def _recovered(self, service: Service, process: ForkedServer) -> bool:
        """Wait until the audit is content, and hold the server to its promises; False when it died on the way, as a worker's points do."""
        deadline = time.monotonic() + PATIENCE
        while (ended := self._audit(service)) != (0, ""):
            if process.poll() is not None:
                return False
            assert time.monotonic() < deadline, f"not recovered: {ended}\n{_words(service)}"
            time.sleep(0.3)  # the worker is another process: all one can do is look again
        with contextlib.suppress(httpx.TransportError):
            self._hold(service)
            return True
        process.wait(PATIENCE)
        return False

    def _hold(self, service: Service) -> None:
        gate = self._gate(service)
        for file_id, digest in sorted(self.promises.kept.items()):
            if file_id not in self.checked:
                link = data(gate.get(f"/files/{file_id}"))["download_url"]
                assert hashlib.sha256(service.http.get(link).content).hexdigest() == digest, f"{file_id} is changed"
                self.checked.add(file_id)
        for file_id in self.promises.deleted:
            assert gate.get(f"/files/{file_id}/metadata").status_code == 404
        self.promises.deleted.clear()
        names = {item["original_filename"] for item in page(gate.get("/files", page_size=100))[0]}
        assert not {name for name in names if name.startswith("rejected")}

    def _until_dead(self, service: Service) -> None:
        gate = self._gate(service)
        threads = [threading.Thread(target=self._ask_on, args=(gate, number)) for number in range(CLIENTS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE)

    def _ask_on(self, gate: Gate, number: int) -> None:
        chance = random.Random(f"{self.seed} {number} {self.kills.total()}")
        deadline = time.monotonic() + PATIENCE
        with contextlib.suppress(httpx.TransportError):
            while time.monotonic() < deadline:
                self._upload(gate, chance)
                self._delete(gate, chance)
                gate.upload("rejected.zzz", bytes(500), context=self.context)

    def _upload(self, gate: Gate, chance: random.Random) -> None:
        content = b"\x07\x1b" + chance.randbytes(8) + bytes(range(256)) * (chance.choice(SIZES) // 256)
        answer = gate.upload("a.zzz", content, context=self.context)
        if answer.status_code == 201:
            with self.promises.lock:
                self.promises.kept[answer.json()["data"]["file_id"]] = hashlib.sha256(content).hexdigest()
        else:
            assert answer.status_code == 503, answer.text

    def _delete(self, gate: Gate, chance: random.Random) -> None:
        file_id = self.promises.one_to_delete(chance)
        if file_id is not None and gate.delete(f"/files/{file_id}").status_code == 200:
            with self.promises.lock:
                self.promises.deleted.add(file_id)

    def _gate(self, service: Service) -> Gate:
        if self.tenant is None:
            gate = service.new_gate().with_store()
            self.tenant = (gate.tenant_id, gate.authorization)
            self.context = gate.context(max_file_size_mb=100, storage_quota_mb=100_000)
        return Gate(service, *self.tenant)

    def _audit(self, service: Service) -> tuple[int, str]:
        """Run `sluice audit --strict`; answer its exit code and the differences that it tells."""
        out, err = self.place.folder / "audit.out", self.place.folder / "audit.err"
        environment = environment_of(self.place, service.port, **SETTINGS)
        code = run_forked(["audit", "--strict", "--json"], environment, self.place.folder, out, err)
        return code, "".join(out.read_text().splitlines(keepends=True)[:-1]) + err.read_text()

    def _wait_for_an_empty_spool(self, point: str) -> None:
        """A checker that was handed the bytes dies a moment after its server."""
        deadline = time.monotonic() + PATIENCE / 2
        while left := self._spooled():
            assert time.monotonic() < deadline, f"{point}: bytes of uploads are left: {left}"
            time.sleep(0.1)  # it is another process: all one can do is look again

    def _spooled(self) -> list[str]:
        """Answer names in the spool, and open files of it that have no name any more, in whatever process."""
        spool = self.place.data_dir / "spool"
        return [str(path) for path in spool.rglob("*")] + [target for target in _open_files() if target.startswith(str(spool))]


@contextlib.contextmanager
def forked_service(place: Place, **settings: str) -> Iterator[tuple[Service, ForkedServer]]:
    """Start a server; the block begins when it answers, or when it has died, as it may at a worker's point."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    environment = environment_of(place, port, **SETTINGS, **settings)
    log = place.folder / "server.log"
    process = ForkedServer(environment, place.folder, log)
    try:
        deadline = time.monotonic() + PATIENCE
        while process.poll() is None and not listens(port):
            assert time.monotonic() < deadline, log.read_text()[-2000:]
            time.sleep(0.05)  # it is another process: all one can do is look again
        with httpx.Client(base_url=url, timeout=60) as client:
            yield Service(place, url, port, process, log, environment, client, LocalIssuer(place.data_dir)), process
    finally:
        process.kill()
        process.wait(PATIENCE)


def _open_files() -> Iterator[str]:
    for process in Path("/proc").iterdir():
        if process.name.isdecimal():
            with contextlib.suppress(OSError):  # it has ended, or is not ours to look at
                for entry in (process / "fd").iterdir():
                    with contextlib.suppress(OSError):
                        yield str(entry.readlink())


def _words(service: Service) -> str:
    return service.log.read_text(errors="replace")[-3000:]
