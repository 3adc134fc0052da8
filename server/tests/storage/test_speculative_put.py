"""Speculative puts: the object appears when the put is allowed, and leaves nothing when it is refused."""

import asyncio
import os
from typing import Any

import pytest

from sluice.storage import ObjectStore, StoreError, SupportsSpeculativePut
from sluice.storage.s3.store import S3Store
from tests.servers.radosgw import RadosGateway
from tests.storage.conftest import MakeS3, Seal, read_object

_PART = 5 * 1024**2
_LARGE = os.urandom(2 * _PART + 1)


class _RunningPut:
    """A speculative put of the key `a/b` that has been started."""

    def __init__(self, store: S3Store, seal: Seal) -> None:
        self.allowed: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self.put = asyncio.create_task(
            store.put_speculatively("a/b", seal(_LARGE), content_type="application/pdf", allowed=self.allowed)
        )


@pytest.fixture
def store(make_s3: MakeS3) -> S3Store:
    return make_s3(part_bytes=_PART)


async def _wait_for_parts(gateway: RadosGateway, bucket: str) -> None:
    """Wait until parts have arrived. The last, smaller part is only sent at the end."""
    while not any([await asyncio.to_thread(_count_parts, gateway, bucket)]):
        pass


def _count_parts(gateway: RadosGateway, bucket: str) -> int:
    client: Any = gateway.client
    uploads = client.list_multipart_uploads(Bucket=bucket).get("Uploads", [])
    lists = [client.list_parts(Bucket=bucket, Key=one["Key"], UploadId=one["UploadId"]) for one in uploads]
    return sum(len(found.get("Parts", [])) for found in lists)


async def test_object_appears_once_allowed(store: S3Store, seal: Seal, gateway: RadosGateway, bucket: str) -> None:
    running = _RunningPut(store, seal)
    await _wait_for_parts(gateway, bucket)
    assert await store.size("a/b") is None
    running.allowed.set_result(True)
    await running.put
    assert await read_object(store, "a/b") == _LARGE
    assert gateway.unfinished_uploads(bucket) == []


@pytest.mark.parametrize("end", ["refused", "cancelled"])
async def test_speculative_put_that_is_refused_or_cancelled_leaves_nothing(
    store: S3Store, seal: Seal, gateway: RadosGateway, bucket: str, end: str
) -> None:
    running = _RunningPut(store, seal)
    await _wait_for_parts(gateway, bucket)
    if end == "refused":
        running.allowed.set_result(False)
    else:
        running.put.cancel()
    with pytest.raises(StoreError if end == "refused" else asyncio.CancelledError):
        await running.put
    assert (gateway.keys(bucket), gateway.unfinished_uploads(bucket)) == ([], [])


async def test_speculative_put_blocks_no_other(store: S3Store, seal: Seal, gateway: RadosGateway, bucket: str) -> None:
    waiting = [_RunningPut(store, seal) for _ in range(4)]
    await _wait_for_parts(gateway, bucket)
    await store.put("c/d", seal(_LARGE), content_type="application/pdf")
    assert gateway.keys(bucket) == ["c/d"]
    for running in waiting:
        running.allowed.set_result(False)
    await asyncio.wait([running.put for running in waiting])


async def test_speculative_put_refuses_existing_key(store: S3Store, seal: Seal) -> None:
    await store.put("a/b", seal(b"existing"), content_type="text/plain")
    running = _RunningPut(store, seal)
    running.allowed.set_result(True)
    with pytest.raises(StoreError):
        await running.put
    assert await read_object(store, "a/b") == b"existing"


def test_only_multipart_sizes_support_speculative_put(store: S3Store, local: ObjectStore) -> None:
    assert [store.can_put_speculatively(size) for size in (1, _PART, _PART + 1)] == [False, False, True]
    assert not isinstance(local, SupportsSpeculativePut)
