"""Servers that all xdist workers of a run share: each starts when a worker first needs it and stops at the end of the run.

The process that runs pytest owns them. Workers connect to its socket and ask for a server by name; a run without xdist
asks in the same process.
"""

import asyncio
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import cache, partial
from multiprocessing.connection import Client, Connection, Listener
from pathlib import Path
from typing import Any, Final, Protocol

import pytest

from sluice.db.database import Database
from sluice.db.migrate import upgrade
from tests.servers.azurite import running_azurite
from tests.servers.clamd import LARGEST, running_clamd
from tests.servers.fake_gcs import running_fake_gcs
from tests.servers.postgres import Postgres, running_postgres
from tests.servers.radosgw import running_radosgw
from tests.servers.redis import running_redis


class SharedServers(Protocol):
    """Return servers by name, the same for all workers."""

    def get(self, name: str) -> Any:
        """Return the server `name` of `OwnedServers`, started if it is not. Raise what its start raises, also a skip."""


class OwnedServers:
    """Servers of this process. Each is started, held and stopped by a thread of its own.

    The kernel ends a server with the thread that started it (`tests.servers.daemon`).
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._started: dict[str, Future[Any]] = {}
        self._threads: list[threading.Thread] = []
        self._starts: Final[Mapping[str, Callable[[Path], AbstractContextManager[Any]]]] = {
            "postgres": _postgres,
            "gateway": running_radosgw,
            "gcs": running_fake_gcs,
            "azurite": running_azurite,
            "redis": running_redis,
            "clamd": running_clamd,
            "large_clamd": partial(running_clamd, options=LARGEST),
            "migrated_file": _migrated_file,
            "migrated_database": lambda _: nullcontext(_migrated_database(self.get("postgres"))),
        }

    def get(self, name: str) -> Any:
        """Return the server; several callers at once wait for the same start."""
        with self._lock:
            if name not in self._started:
                self._started[name] = Future()
                self._threads.append(threading.Thread(target=self._run, args=(name,), name=name))
                self._threads[-1].start()
        return self._started[name].result()

    def close(self) -> None:
        """Stop all servers."""
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _run(self, name: str) -> None:
        started = self._started[name]
        try:
            with self._starts[name](self._folder / name) as server:
                started.set_result(server)
                self._stop.wait()
        except BaseException as fault:
            if started.done():
                raise
            started.set_exception(fault)  # a skip too: the worker's test raises it


@contextmanager
def _postgres(folder: Path) -> Iterator[Postgres]:
    with running_postgres(folder) as server:
        server.for_service(server.url)  # the role is there before two workers could create it at once
        yield server


@contextmanager
def _migrated_file(folder: Path) -> Iterator[Path]:
    folder.mkdir()
    _migrate(f"sqlite:///{folder / 'original.db'}")
    yield folder / "original.db"


def _migrated_database(server: Postgres) -> str:
    url = server.createdb()
    _migrate(url)
    return url.rpartition("/")[2]


def _migrate(url: str) -> None:
    async def migrated() -> None:
        database = Database(url)
        await upgrade(database)
        await database.aclose()

    asyncio.run(migrated())


@dataclass(frozen=True)
class _NotStarted:
    """Why a server was not started: pytest's own outcomes cannot be sent to another process."""

    is_skip: bool
    reason: str


class BorrowedServers:
    """The servers of the process that runs pytest, for one of its workers."""

    def __init__(self, address: str) -> None:
        self._address = address
        self.get = cache(self._get)

    def _get(self, name: str) -> Any:
        with Client(self._address, "AF_UNIX") as connection:
            connection.send(name)
            found = connection.recv()
        if isinstance(found, _NotStarted):
            (pytest.skip if found.is_skip else pytest.fail)(found.reason)
        if isinstance(found, BaseException):
            raise found
        return found


class SharedServersHost:
    """Lends the servers of the process that runs pytest to its workers, at the socket `address`."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="sluice-tests-")
        self._servers = OwnedServers(Path(self._folder.name))
        self.address: Final = f"{self._folder.name}/socket"
        self._listener = Listener(self.address, "AF_UNIX", backlog=64)
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Stop all servers and remove their files."""
        self._listener.close()
        self._servers.close()
        self._folder.cleanup()

    def _accept(self) -> None:
        while True:
            try:
                connection = self._listener.accept()
            except OSError:  # closed
                return
            threading.Thread(target=self._lend, args=(connection,), daemon=True).start()

    def _lend(self, connection: Connection) -> None:
        with connection:
            try:
                found = self._servers.get(connection.recv())
            except (pytest.skip.Exception, pytest.fail.Exception) as fault:
                found = _NotStarted(isinstance(fault, pytest.skip.Exception), str(fault))
            except BaseException as fault:  # noqa: BLE001  (raised in the worker)
                found = fault
            connection.send(found)
