"""Clients that upload on and on, whatever they are answered, and remember what they were promised. What goes wrong meanwhile is the tests' matter."""

import hashlib
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import httpx

from tests.api.answers import data
from tests.api.samples import noise
from tests.gate import Gate
from tests.scanning.waiting import until

_SIZE = 20_000


@dataclass
class Load:
    """What the clients saw: SHA-256 by file for every 201, how often each status came, and the longest wait for one."""

    kept: dict[str, str] = field(default_factory=dict)
    statuses: Counter[int] = field(default_factory=Counter)
    broken: int = 0
    """Requests whose connection ended without an answer."""
    longest: float = 0.0
    odd: list[str] = field(default_factory=list)
    """Answers that a client cannot act on: neither 201 nor a 503 with Retry-After."""
    lock: threading.Lock = field(default_factory=threading.Lock)
    over: threading.Event = field(default_factory=threading.Event)
    last_kept: float = 0.0

    def note(self, answer: httpx.Response, content: bytes, seconds: float) -> None:
        with self.lock:
            self.statuses[answer.status_code] += 1
            self.longest = max(self.longest, seconds)
            if answer.status_code == 201:
                self.kept[answer.json()["data"]["file_id"]] = hashlib.sha256(content).hexdigest()
                self.last_kept = time.monotonic()
            elif answer.status_code != 503 or int(answer.headers.get("retry-after", 0)) < 1:
                self.odd.append(f"{answer.status_code} {answer.text[:200]}")

    def is_served_again(self, since: float) -> bool:
        """Say whether an upload was acknowledged after that moment."""
        return self.last_kept > since


@contextmanager
def uploading(gate: Gate, context: str, *, clients: int = 4) -> Iterator[Load]:
    """Let so many clients upload until the block ends."""
    load = Load()
    # a connection of its own for each upload: one that is kept may be closed by the server just when it is used again
    http = httpx.Client(base_url=gate.service.url, timeout=120, limits=httpx.Limits(max_keepalive_connections=0))
    apart = replace(gate, service=replace(gate.service, http=http))

    def upload_on(number: int) -> None:
        turn = 0
        while not load.over.is_set():
            turn += 1
            content = noise(_SIZE, seed=number * 1_000_000 + turn)
            began = time.monotonic()
            try:
                answer = apart.upload("a.zzz", content, context=context)
            except httpx.TransportError:
                load.broken += 1
                continue
            load.note(answer, content, time.monotonic() - began)
            if answer.status_code != 201:
                load.over.wait(0.2)  # a client that is told to come back does not hammer

    threads = [threading.Thread(target=upload_on, args=(number,)) for number in range(clients)]
    for thread in threads:
        thread.start()
    try:
        assert until(lambda: len(load.kept) >= clients, 60), load.odd
        yield load
    finally:
        load.over.set()
        for thread in threads:
            thread.join()
        http.close()


def hold(gate: Gate, load: Load) -> None:
    """Every file that was promised downloads with the SHA-256 that was sent."""
    with httpx.Client(timeout=60) as client:
        for file_id, digest in load.kept.items():
            link = data(gate.get(f"/files/{file_id}"))["download_url"]
            assert hashlib.sha256(client.get(link).content).hexdigest() == digest, file_id
