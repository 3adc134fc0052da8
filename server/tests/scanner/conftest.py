"""Fixtures of the scanner tests: sealed bytes, a real clamd and a real sandbox."""

import asyncio
import os
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from hashlib import sha256
from typing import Any, Protocol

import pytest
import uvloop

from sluice.scanner import Scanner, ScanResult
from sluice_inspect.sandbox.engine import ZygoteSandbox
from sluice_inspect.sandbox.sealed import Sealed
from tests.cli.zygotes import ForkedZygote
from tests.servers.clamd import Clamd, running_clamd


def pytest_asyncio_loop_factories() -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Run these tests on the event loop of the server: raw sockets behave differently on other loops."""
    return {"uvloop": uvloop.new_event_loop}


class Seal(Protocol):
    def __call__(self, data: bytes, *, on_disk: bool = False) -> Sealed: ...


@pytest.fixture
def seal() -> Iterator[Seal]:
    """Make sealed bytes in memory or in an unlinked file; close their descriptors when the test ends."""
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


async def scanned(scanner: Scanner, sealed: Sealed, **options: Any) -> ScanResult:
    """Scan for one and the same tenant."""
    return await scanner.scan(sealed, tenant_id="ten_1", **options)


@pytest.fixture(scope="session")
def clamd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clamd]:
    with running_clamd(tmp_path_factory.mktemp("clamd")) as server:
        yield server


@asynccontextmanager
async def running_sandbox() -> AsyncIterator[ZygoteSandbox]:
    """Run the production sandbox until the block ends; its zygote is forked from a loaded one."""
    started = ZygoteSandbox(workers=2, launched=ForkedZygote().launched())
    await started.start()
    yield started
    await started.aclose()


@pytest.fixture
async def sandbox() -> AsyncIterator[ZygoteSandbox]:
    async with running_sandbox() as started:
        yield started
