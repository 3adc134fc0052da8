"""Large objects on their way before it is known whether they may be there: visible once allowed, gone without a trace else."""

import asyncio
import os
from typing import Any

import pytest

from sluice.engines.storage import ObjectStore, PutsAhead, StoreFault
from sluice.engines.storage.s3 import S3Store
from tests.engines.storage.conftest import MakeS3, Seal, content
from tests.servers.radosgw import RadosGateway

_PART = 5 * 1024**2
_LARGE = os.urandom(2 * _PART + 1)


class _Going:
    """A put ahead under the key `a/b`, all of whose parts have been read."""

    def __init__(self, store: S3Store, seal: Seal) -> None:
        self.allowed: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self.put = asyncio.create_task(store.put_ahead("a/b", seal(_LARGE), content_type="application/pdf", allowed=self.allowed))


@pytest.fixture
def store(make_s3: MakeS3) -> S3Store:
    return make_s3(part_bytes=_PART)


async def _sent(gateway: RadosGateway, bucket: str) -> None:
    """Wait until two parts have arrived: the third is smaller than those that S3 takes before the end."""
    while not any([await asyncio.to_thread(_parts, gateway, bucket)]):
        pass


def _parts(gateway: RadosGateway, bucket: str) -> int:
    client: Any = gateway.client
    uploads = client.list_multipart_uploads(Bucket=bucket).get("Uploads", [])
    return sum(len(client.list_parts(Bucket=bucket, Key=up["Key"], UploadId=up["UploadId"]).get("Parts", [])) for up in uploads)


async def test_it_appears_once_it_is_allowed(store: S3Store, seal: Seal, gateway: RadosGateway, bucket: str) -> None:
    going = _Going(store, seal)
    await _sent(gateway, bucket)
    assert await store.size("a/b") is None
    going.allowed.set_result(True)
    await going.put
    assert await content(store, "a/b") == _LARGE
    assert gateway.unfinished_uploads(bucket) == []


async def test_what_is_not_allowed_leaves_nothing(store: S3Store, seal: Seal, gateway: RadosGateway, bucket: str) -> None:
    going = _Going(store, seal)
    await _sent(gateway, bucket)
    going.allowed.set_result(False)
    with pytest.raises(StoreFault):
        await going.put
    assert (gateway.keys(bucket), gateway.unfinished_uploads(bucket)) == ([], [])


async def test_one_that_is_cancelled_leaves_nothing(store: S3Store, seal: Seal, gateway: RadosGateway, bucket: str) -> None:
    going = _Going(store, seal)
    await _sent(gateway, bucket)
    going.put.cancel()
    with pytest.raises(asyncio.CancelledError):
        await going.put
    assert (gateway.keys(bucket), gateway.unfinished_uploads(bucket)) == ([], [])


async def test_one_that_waits_keeps_no_other_from_its_memory(
    store: S3Store, seal: Seal, gateway: RadosGateway, bucket: str
) -> None:
    waiting = [_Going(store, seal) for _ in range(4)]
    await _sent(gateway, bucket)
    await store.put("c/d", seal(_LARGE), content_type="application/pdf")
    assert gateway.keys(bucket) == ["c/d"]
    for going in waiting:
        going.allowed.set_result(False)
    await asyncio.wait([going.put for going in waiting])


async def test_a_taken_key_is_refused(store: S3Store, seal: Seal) -> None:
    await store.put("a/b", seal(b"there before"), content_type="text/plain")
    going = _Going(store, seal)
    going.allowed.set_result(True)
    with pytest.raises(StoreFault):
        await going.put
    assert await content(store, "a/b") == b"there before"


def test_only_what_goes_in_parts_goes_ahead(store: S3Store, local: ObjectStore) -> None:
    assert [store.takes_ahead(size) for size in (1, _PART, _PART + 1)] == [False, False, True]
    assert not isinstance(local, PutsAhead)
