"""What the scanner tests share: sealed bytes, a real clamd, a real sandbox, and scanners that are closed at the end."""

import asyncio
import os
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from hashlib import sha256
from typing import Protocol

import pytest
import uvloop

from sluice.engines.sandbox.zygote import ZygoteSandbox
from sluice.kit.sealed import Sealed
from tests.cli.zygotes import Begun
from tests.servers.clamd import Clamd, running_clamd


def pytest_asyncio_loop_factories() -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Run these tests on the server's own event loop: sockets are used below its streams, where loops differ."""
    return {"uvloop": uvloop.new_event_loop}


class Seal(Protocol):
    def __call__(self, data: bytes, *, on_disk: bool = False) -> Sealed: ...


@pytest.fixture
def seal() -> Iterator[Seal]:
    """Make sealed bytes in memory, or in an unlinked file; their descriptors are closed when the test ends."""
    fds: list[int] = []

    def make(data: bytes, *, on_disk: bool = False) -> Sealed:
        if on_disk:
            with tempfile.TemporaryFile() as file:
                fds.append(os.dup(file.fileno()))
        else:
            fds.append(os.memfd_create("sealed"))
        with os.fdopen(os.dup(fds[-1]), "wb") as file:
            file.write(data)
        return Sealed(fds[-1], len(data), sha256(data).digest())

    yield make
    for fd in fds:
        os.close(fd)


@pytest.fixture(scope="session")
def clamd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clamd]:
    with running_clamd(tmp_path_factory.mktemp("clamd")) as server:
        yield server


@asynccontextmanager
async def running_sandbox() -> AsyncIterator[ZygoteSandbox]:
    """Run the sandbox of production until the block ends, its zygote forked from a loaded one."""
    started = ZygoteSandbox(workers=2, launched=Begun().launched())
    await started.start()
    yield started
    await started.aclose()


@pytest.fixture
async def sandbox() -> AsyncIterator[ZygoteSandbox]:
    async with running_sandbox() as started:
        yield started
