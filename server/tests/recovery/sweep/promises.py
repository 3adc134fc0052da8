"""What a service has acknowledged while it was killed, and the protocol of what proves that it keeps to it."""

import itertools
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, TypeVar

import httpx

from tests.api.responses import page
from tests.service import ApiClient

PATIENCE: Final = 60.0
_T = TypeVar("_T")
PREFIX: Final = b"\x07\x1b"
"""Begins the content of files: of no known format, and not blank."""


class Busy(Exception):
    """The service answered that it cannot do it now: 503, or 507 while a disk is full."""


def raise_if_busy(response: httpx.Response) -> None:
    """Raise `Busy`; an event hook of a client."""
    if response.status_code in {503, 507}:
        response.read()
        raise Busy(f"{response.request.method} {response.request.url}: {response.text}")


def patiently(act: Callable[[], _T]) -> _T:
    """Do something again until the service is not busy; return its result."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            return act()
        except Busy:
            assert time.monotonic() < deadline
            time.sleep(0.3)  # another process, so this polls


@dataclass
class Promises:
    """What was acknowledged: the SHA-256 of each stored file by its id, and the files that are deleted.

    A file is in none of these while a request is about it, and stays so if its answer is lost.
    """

    kept: dict[str, str] = field(default_factory=dict)
    held: dict[str, str] = field(default_factory=dict)
    """Files under a legal hold, which nothing may delete."""
    deleted: set[str] = field(default_factory=set)
    announced: Counter[tuple[str, str]] = field(default_factory=Counter)
    """How often the feed of events must tell at least of a change of a file: type and file."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def keep(self, file_id: str, digest: str, *events: str) -> None:
        """Note a file that is stored, and the events that told of it."""
        with self.lock:
            self.kept[file_id] = digest
            self.announced.update((event, file_id) for event in events)

    def delete(self, file_id: str, *events: str) -> None:
        """Note a file that is deleted, and the events that told of it."""
        with self.lock:
            self.deleted.add(file_id)
            self.announced.update((event, file_id) for event in events)

    def hold(self, file_id: str, digest: str, *events: str) -> None:
        """Note a file under a legal hold, and the events that told of it."""
        with self.lock:
            self.held[file_id] = digest
            self.announced.update((event, file_id) for event in events)

    def take(self, rng: random.Random, number: int = 1) -> dict[str, str]:
        """Take some of the kept files out, to change them; none if fewer than two would stay."""
        with self.lock:
            if len(self.kept) < number + 2:
                return {}
            chosen = rng.sample(sorted(self.kept), number)
            return {file_id: self.kept.pop(file_id) for file_id in chosen}


class Proof(Protocol):
    """What clients do with one kind of thing, and what must hold of it whenever the server dies."""

    points: tuple[str, ...]
    """The beginnings of the failpoints that are reached by what `act` does, and by nothing else."""
    share: float
    """How often a client does it, of its rounds."""

    def begin(self, client: ApiClient) -> None:
        """Prepare what it needs, on a server without a failpoint."""

    def act(self, client: ApiClient, rng: random.Random) -> None:
        """Send requests of one client. Any may raise `httpx.TransportError`, when the server dies, or `Busy`."""

    def check(self, client: ApiClient) -> None:
        """Assert after a kill, on the next server, what must hold then. It may die, too."""

    def end(self, client: ApiClient) -> None:
        """Assert after the last kill, besides what `check` does, what must hold once all work is done."""


def all_pages(client: ApiClient, path: str, **query: str) -> Iterator[dict[str, Any]]:
    """Yield the items of all pages of a list."""
    for number in itertools.count(1):
        items, _pagination = page(client.get(path, page=number, page_size=100, **query))
        yield from items
        if len(items) < 100:
            return
