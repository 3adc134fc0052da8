"""Uploads in parts that a crash left unfinished: those of ours that are old enough are aborted, in the platform's bucket and in tenants'."""

import secrets
from datetime import timedelta

import pytest

from sluice.engines.storage import StoreFault
from sluice.engines.storage.s3 import S3Store
from sluice.engines.storage.s3_address import address_of
from sluice.engines.storage.s3_client import Patience
from sluice.engines.storage.s3_stale import StaleParts
from sluice.kit.ids import FILE_ID, new_id
from tests.api.places import Places
from tests.gate import running_service
from tests.length import amount
from tests.scanning.waiting import until
from tests.servers.radosgw import RadosGateway

PAGE = amount("PAGE", short=10, whole=1000)
OLD_ENOUGH, TOO_YOUNG = timedelta(seconds=-5), timedelta(hours=1)


def _begin(gateway: RadosGateway, bucket: str, key: str) -> str:
    """Begin an upload, send one part, and never complete it."""
    upload = gateway.client.create_multipart_upload(Bucket=bucket, Key=key)["UploadId"]
    gateway.client.upload_part(Bucket=bucket, Key=key, UploadId=upload, PartNumber=1, Body=b"x" * 1000)
    return key


def _ours(key: str) -> bool:
    return FILE_ID.search(key) is not None


@pytest.fixture
def bucket(gateway: RadosGateway) -> str:
    return gateway.fresh_bucket()


def _store(gateway: RadosGateway, bucket: str, **changed: str) -> S3Store:
    secret = changed.get("secret", gateway.secret_key)
    endpoint = changed.get("endpoint", gateway.endpoint)
    patience = Patience(connect_seconds=0.5, request_seconds=2.0, retries=0)
    return S3Store(bucket, gateway.region, gateway.access_key, secret, endpoint_url=endpoint, patience=patience)


async def test_only_old_uploads_of_ours_below_the_folder_are_aborted(gateway: RadosGateway, bucket: str) -> None:
    ours = _begin(gateway, bucket, f"mine/a & <b>/ü {new_id('file')}.txt")
    others = {_begin(gateway, bucket, key) for key in ("mine/video.mp4", f"theirs/{new_id('file')}.txt")}
    store = _store(gateway, bucket)
    assert await store.abort_stale_parts("mine/", TOO_YOUNG, _ours) == 0
    assert set(gateway.unfinished_uploads(bucket)) == {ours, *others}
    assert await store.abort_stale_parts("mine/", OLD_ENOUGH, _ours) == 1
    assert set(gateway.unfinished_uploads(bucket)) == others


async def test_more_than_a_page_of_them_is_aborted(gateway: RadosGateway, bucket: str) -> None:
    for _ in range(2 * PAGE + 5):
        gateway.client.create_multipart_upload(Bucket=bucket, Key=new_id("file"))
    address = address_of(bucket, gateway.region, gateway.endpoint)
    stale = StaleParts(address, gateway.region, gateway.access_key, gateway.secret_key, seconds=30, page=PAGE)
    asked: list[None] = []

    async def before() -> None:
        asked.append(None)

    assert await stale.abort("", OLD_ENOUGH, _ours, before=before) == 2 * PAGE + 5
    assert gateway.unfinished_uploads(bucket) == []
    assert len(asked) == 3 + 2 * PAGE + 5


async def test_a_bucket_that_refuses_or_is_away_is_a_fault_of_the_store(gateway: RadosGateway, bucket: str) -> None:
    for changed in ({"secret": secrets.token_hex(20)}, {"endpoint": "http://127.0.0.1:1"}):
        with pytest.raises(StoreFault):
            await _store(gateway, bucket, **changed).abort_stale_parts("", OLD_ENOUGH, _ours)


async def test_nothing_is_asked_of_an_endpoint_that_is_refused(gateway: RadosGateway, bucket: str) -> None:
    _begin(gateway, bucket, new_id("file"))

    async def refuse() -> None:
        raise StoreFault("not there")

    store = S3Store(bucket, gateway.region, gateway.access_key, gateway.secret_key, endpoint_url=gateway.endpoint, before=refuse)
    with pytest.raises(StoreFault, match="not there"):
        await store.abort_stale_parts("", OLD_ENOUGH, _ours)
    assert len(gateway.unfinished_uploads(bucket)) == 1


def test_the_worker_aborts_them_in_the_platforms_bucket_and_in_tenants(places: Places, gateway: RadosGateway) -> None:
    place, platform_bucket = places.fresh("postgres-s3"), gateway.fresh_bucket()
    own = {
        "STORAGE_BUCKET": platform_bucket,
        "STORAGE_REGION": gateway.region,
        "STORAGE_ENDPOINT": gateway.endpoint,
        "STORAGE_ACCESS_KEY_ID": gateway.access_key,
        "STORAGE_SECRET_ACCESS_KEY": gateway.secret_key,
        "STALE_PARTS_HOURS": str(1 / 3600),
        "SCANNER": "builtin",
    }
    with running_service(place, **own) as service:
        gate = service.new_gate().with_store()
        _begin(gateway, platform_bucket, f"a/{new_id('file')}")
        _begin(gateway, place.bucket, f"{gate.tenant_id}/{new_id('file')}")
        theirs = _begin(gateway, place.bucket, f"{gate.tenant_id}/backup.tar")
        assert until(lambda: gateway.unfinished_uploads(platform_bucket) == [])
        assert until(lambda: gateway.unfinished_uploads(place.bucket) == [theirs])
