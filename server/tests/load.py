"""Clients that upload continuously and record every response. The faults are injected by the tests."""

import hashlib
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import httpx

from tests.api.responses import data
from tests.api.samples import noise
from tests.scanning.waiting import until
from tests.service import ApiClient

_SIZE = 20_000


@dataclass
class Load:
    """What the clients recorded: SHA-256 by file for every 201, the number of each status, and the longest wait."""

    stored: dict[str, str] = field(default_factory=dict)
    statuses: Counter[int] = field(default_factory=Counter)
    broken_connections: int = 0
    """Number of requests whose connection ended without a response."""
    longest_wait: float = 0.0
    unexpected: list[str] = field(default_factory=list)
    """Responses that a client cannot act on: neither 201 nor 503 with Retry-After."""
    lock: threading.Lock = field(default_factory=threading.Lock)
    stopped: threading.Event = field(default_factory=threading.Event)
    last_stored: float = 0.0

    def record(self, response: httpx.Response, content: bytes, seconds: float) -> None:
        with self.lock:
            self.statuses[response.status_code] += 1
            self.longest_wait = max(self.longest_wait, seconds)
            if response.status_code == 201:
                self.stored[response.json()["data"]["file_id"]] = hashlib.sha256(content).hexdigest()
                self.last_stored = time.monotonic()
            elif response.status_code != 503 or int(response.headers.get("retry-after", 0)) < 1:
                self.unexpected.append(f"{response.status_code} {response.text[:200]}")

    def has_stored_since(self, since: float) -> bool:
        """Return whether an upload was acknowledged after that moment."""
        return self.last_stored > since


@contextmanager
def uploading_clients(client: ApiClient, context: str, *, clients: int = 4, size: int = _SIZE) -> Iterator[Load]:
    """Run clients that upload until the block ends."""
    load = Load()
    # a new connection for each upload: a kept one may be closed by the server just when it is used again
    http = httpx.Client(base_url=client.service.url, timeout=120, limits=httpx.Limits(max_keepalive_connections=0))
    uploader = replace(client, service=replace(client.service, http=http))

    def upload_on(number: int) -> None:
        turn = 0
        while not load.stopped.is_set():
            turn += 1
            content = noise(size, seed=number * 1_000_000 + turn)
            began = time.monotonic()
            try:
                response = uploader.upload("a.zzz", content, context=context)
            except httpx.TransportError:
                load.broken_connections += 1
                continue
            load.record(response, content, time.monotonic() - began)
            # a client that gets Retry-After does not retry immediately
            load.stopped.wait(0.02 if response.status_code == 201 else 0.2)

    threads = [threading.Thread(target=upload_on, args=(number,)) for number in range(clients)]
    for thread in threads:
        thread.start()
    try:
        assert until(lambda: len(load.stored) >= clients, 60), load.unexpected
        yield load
    finally:
        load.stopped.set()
        for thread in threads:
            thread.join()
        http.close()


def assert_downloadable(client: ApiClient, load: Load) -> None:
    """Assert that every acknowledged file downloads with the SHA-256 that was uploaded."""
    with httpx.Client(timeout=60) as http:
        for file_id, digest in load.stored.items():
            link = data(client.get(f"/files/{file_id}"))["download_url"]
            assert hashlib.sha256(http.get(link).content).hexdigest() == digest, file_id
