"""What the tests of both stores use: each store, fresh, and sealed bytes to put into it."""

import hashlib
import os
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from sluice.engines.storage import ObjectStore
from sluice.engines.storage.local import LocalStore
from sluice.engines.storage.s3 import S3Store
from sluice.kit.sealed import Sealed
from tests.servers.radosgw import RadosGateway

Seal = Callable[[bytes], Sealed]
MakeS3 = Callable[..., S3Store]


@pytest.fixture
def seal() -> Iterator[Seal]:
    """Seals bytes the way the spool does; the descriptors are closed at the end of the test."""
    made: list[int] = []

    def sealed(content: bytes) -> Sealed:
        fd = os.memfd_create("sealed", os.MFD_CLOEXEC)
        made.append(fd)
        left = memoryview(content)
        while left:
            left = left[os.write(fd, left) :]
        return Sealed(fd, len(content), hashlib.sha256(content).digest())

    yield sealed
    for fd in made:
        os.close(fd)


@pytest.fixture
async def local(tmp_path: Path) -> AsyncIterator[LocalStore]:
    store = LocalStore(tmp_path / "store")
    yield store
    await store.aclose()


@pytest.fixture
def bucket(gateway: RadosGateway) -> str:
    return gateway.fresh_bucket()


@pytest.fixture
def make_s3(gateway: RadosGateway, bucket: str) -> MakeS3:
    """Makes a store in the test's bucket; named arguments replace single settings."""

    def made(**changed: object) -> S3Store:
        settings: dict[str, object] = {
            "bucket": bucket,
            "region": gateway.region,
            "access_key_id": gateway.access_key,
            "secret_access_key": gateway.secret_key,
            "endpoint_url": gateway.endpoint,
        }
        return S3Store(**(settings | changed))  # type: ignore[arg-type]  # the settings of each test differ in kind

    return made


@pytest.fixture
def s3_store(make_s3: MakeS3) -> S3Store:
    return make_s3()


@pytest.fixture(params=["local", "s3_store"])
def store(request: pytest.FixtureRequest) -> ObjectStore:
    """Either store in turn: what holds for one holds for the other."""
    found: ObjectStore = request.getfixturevalue(request.param)
    return found


async def content(store: ObjectStore, key: str, *, start: int = 0, length: int | None = None) -> bytes:
    """Read an object as a whole."""
    return b"".join([chunk async for chunk in store.read(key, start=start, length=length)])
