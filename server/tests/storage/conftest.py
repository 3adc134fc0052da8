"""Fixtures of the storage tests: a new store of each kind, and sealed bytes to put into it."""

import hashlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from sluice.storage import PROBES, AzureSettings, Connection, ObjectStore, StoreError
from sluice.storage.azure.store import AzureStore, open_container
from sluice.storage.gcs.hmac_store import HmacGcsStore
from sluice.storage.gcs.store import GcsStore
from sluice.storage.local.store import LocalStore
from sluice.storage.s3.store import S3Store
from sluice_inspect.sandbox.sealed import Sealed
from tests.servers.azurite import Azurite
from tests.servers.fake_gcs import FakeGcs, service_account_key
from tests.servers.google_xml import ACCESS_ID, GoogleXml, running_google_xml
from tests.servers.radosgw import RadosGateway

Seal = Callable[[bytes], Sealed]
MakeS3 = Callable[..., S3Store]
MakeAzure = Callable[..., AzureStore]
MakeGcs = Callable[..., GcsStore]
MakeHmac = Callable[..., HmacGcsStore]


@pytest.fixture
def seal() -> Iterator[Seal]:
    """Make sealed bytes like the spool; close their descriptors when the test ends."""
    made: list[int] = []

    def sealed(data: bytes) -> Sealed:
        fd = os.memfd_create("sealed", os.MFD_CLOEXEC)
        made.append(fd)
        left = memoryview(data)
        while left:
            left = left[os.write(fd, left) :]
        return Sealed(fd, len(data), hashlib.sha256(data).digest())

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
async def make_s3(gateway: RadosGateway, bucket: str) -> AsyncIterator[MakeS3]:
    """Make a store in the bucket of the test; named arguments replace single settings. Closed when the test ends."""
    stores: list[S3Store] = []

    def made(**changed: object) -> S3Store:
        place: dict[str, object] = {"bucket": bucket, "region": gateway.region, "endpoint_url": gateway.endpoint}
        keys = {"access_key_id": gateway.access_key, "secret_access_key": gateway.secret_key}
        stores.append(S3Store(**(place | keys | changed)))  # type: ignore[arg-type]  # they have different types
        return stores[-1]

    yield made
    for store in stores:
        await store.aclose()


@pytest.fixture
def s3_store(make_s3: MakeS3) -> S3Store:
    return make_s3()


@pytest.fixture
def container(azurite: Azurite) -> str:
    return azurite.fresh_container()


@pytest.fixture
async def make_azure(azurite: Azurite, container: str) -> AsyncIterator[MakeAzure]:
    """Make a store in the container of the test; named arguments replace single settings. Closed when the test ends.

    Those of `Connection` are settings too, and `secret`, which the account key is.
    """
    stores: list[AzureStore] = []

    def made(**changed: Any) -> AzureStore:
        secret = changed.pop("secret", azurite.key)
        of_connection = {each.name: changed.pop(each.name) for each in fields(Connection) if each.name in changed}
        place = {"account": azurite.account, "credential": "account_key", "endpoint_url": azurite.endpoint}
        name = changed.pop("container", container)
        connection = Connection(**({"probe_folder": PROBES} | of_connection))
        stores.append(open_container(AzureSettings(**(place | changed)), name, secret, connection))
        return stores[-1]

    yield made
    for store in stores:
        await store.aclose()


@pytest.fixture
def gcs_bucket(gcs: FakeGcs) -> str:
    return gcs.fresh_bucket()


@pytest.fixture
async def make_gcs(gcs: FakeGcs, gcs_bucket: str) -> AsyncIterator[MakeGcs]:
    """Make a store in the Google bucket of the test; named arguments replace single settings. Closed in the end."""
    stores: list[GcsStore] = []

    def made(
        *, bucket: str = gcs_bucket, secret: str | None = None, endpoint: str | None = gcs.endpoint, **changed: object
    ) -> GcsStore:
        connection = Connection(**({"probe_folder": PROBES} | changed))  # type: ignore[arg-type]  # different types
        stores.append(GcsStore(bucket, secret or service_account_key(), connection, endpoint_url=endpoint))
        return stores[-1]

    yield made
    for store in stores:
        await store.aclose()


@pytest.fixture
def azure_store(make_azure: MakeAzure) -> AzureStore:
    return make_azure()


@pytest.fixture
def gcs_store(make_gcs: MakeGcs) -> GcsStore:
    return make_gcs()


@pytest.fixture
async def google_xml() -> AsyncIterator[GoogleXml]:
    async with running_google_xml() as running:
        yield running


@pytest.fixture
async def make_hmac(google_xml: GoogleXml) -> AsyncIterator[MakeHmac]:
    """Make a store in a bucket that an HMAC key opens; named arguments replace single settings. Closed in the end."""
    stores: list[HmacGcsStore] = []
    own = google_xml.fresh_bucket()

    def made(
        *,
        bucket: str = own,
        access_id: str = ACCESS_ID,
        secret: str = google_xml.secret,
        endpoint: str | None = google_xml.url,
        **changed: object,
    ) -> HmacGcsStore:
        connection = Connection(**({"probe_folder": PROBES} | changed))  # type: ignore[arg-type]  # different types
        stores.append(HmacGcsStore(bucket, access_id, secret, connection, endpoint_url=endpoint))
        return stores[-1]

    yield made
    for store in stores:
        await store.aclose()


@pytest.fixture
def hmac_store(make_hmac: MakeHmac) -> HmacGcsStore:
    return make_hmac()


@pytest.fixture(params=["local", "s3_store", "azure_store", "gcs_store", "hmac_store"])
def store(request: pytest.FixtureRequest) -> ObjectStore:
    """Each store in turn: all fulfil the contract."""
    found: ObjectStore = request.getfixturevalue(request.param)
    return found


def every_call(store: ObjectStore, seal: Seal, key: str) -> list[Awaitable[object]]:
    """Return a call of each method that names an object."""
    put = store.put(key, seal(b"x"), content_type="text/plain")
    return [put, store.size(key), store.delete(key), read_object(store, key)]


async def all_fail(calls: Iterable[Awaitable[object]], sentence: str = ".") -> None:
    """Assert that each call raises a `StoreError` with this sentence."""
    for call in calls:
        with pytest.raises(StoreError, match=sentence):
            await call


async def read_object(store: ObjectStore, key: str, *, start: int = 0, length: int | None = None) -> bytes:
    """Return the bytes of an object, or of a range of it."""
    return b"".join([chunk async for chunk in store.read(key, start=start, length=length)])
