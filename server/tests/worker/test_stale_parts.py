"""Unfinished multipart uploads that a crash left behind: those of Sluice that are old enough are aborted."""

import secrets
from datetime import timedelta

import pytest

from sluice.kit.ids import FILE_ID, new_id
from sluice.storage import StoreError
from sluice.storage.protocol import Timeouts
from sluice.storage.s3.client import S3Credentials, bucket_address
from sluice.storage.s3.stale_parts import StaleParts
from sluice.storage.s3.store import S3Store
from tests.deployments import Deployments
from tests.run_length import amount
from tests.scanning.waiting import until
from tests.servers.radosgw import RadosGateway
from tests.service import running_service

PAGE = amount("PAGE", short=10, full=1000)
OLD_ENOUGH, TOO_YOUNG = timedelta(seconds=-5), timedelta(hours=1)


def _begin(gateway: RadosGateway, bucket: str, key: str) -> str:
    """Begin a multipart upload, send one part, and leave it unfinished."""
    upload = gateway.client.create_multipart_upload(Bucket=bucket, Key=key)["UploadId"]
    gateway.client.upload_part(Bucket=bucket, Key=key, UploadId=upload, PartNumber=1, Body=b"x" * 1000)
    return key


def _is_own(key: str) -> bool:
    return FILE_ID.search(key) is not None


@pytest.fixture
def bucket(gateway: RadosGateway) -> str:
    return gateway.fresh_bucket()


def _store(gateway: RadosGateway, bucket: str, **changed: str) -> S3Store:
    secret = changed.get("secret", gateway.secret_key)
    endpoint = changed.get("endpoint", gateway.endpoint)
    timeouts = Timeouts(connect_seconds=0.5, request_seconds=2.0, retries=0)
    return S3Store(bucket, gateway.region, gateway.access_key, secret, endpoint_url=endpoint, timeouts=timeouts)


async def test_aborts_only_old_uploads_of_sluice_below_the_base_path(gateway: RadosGateway, bucket: str) -> None:
    own_upload = _begin(gateway, bucket, f"mine/a & <b>/ü {new_id('file')}.txt")
    foreign_uploads = {_begin(gateway, bucket, key) for key in ("mine/video.mp4", f"foreign/{new_id('file')}.txt")}
    store = _store(gateway, bucket)
    assert await store.abort_stale_parts("mine/", TOO_YOUNG, _is_own) == 0
    assert set(gateway.unfinished_uploads(bucket)) == {own_upload, *foreign_uploads}
    assert await store.abort_stale_parts("mine/", OLD_ENOUGH, _is_own) == 1
    assert set(gateway.unfinished_uploads(bucket)) == foreign_uploads


async def test_aborts_more_than_one_page_of_stale_uploads(gateway: RadosGateway, bucket: str) -> None:
    for _ in range(2 * PAGE + 5):
        gateway.client.create_multipart_upload(Bucket=bucket, Key=new_id("file"))
    address = bucket_address(bucket, gateway.region, gateway.endpoint)
    credentials = S3Credentials(gateway.region, gateway.access_key, gateway.secret_key)
    stale = StaleParts(address, credentials, seconds=30, page_size=PAGE)
    asked: list[None] = []

    async def before() -> None:
        asked.append(None)

    assert await stale.abort("", OLD_ENOUGH, _is_own, before=before) == 2 * PAGE + 5
    assert gateway.unfinished_uploads(bucket) == []
    assert len(asked) == 3 + 2 * PAGE + 5


async def test_a_bucket_that_refuses_or_is_unreachable_raises_store_error(gateway: RadosGateway, bucket: str) -> None:
    for changed in ({"secret": secrets.token_hex(20)}, {"endpoint": "http://127.0.0.1:1"}):
        with pytest.raises(StoreError):
            await _store(gateway, bucket, **changed).abort_stale_parts("", OLD_ENOUGH, _is_own)


async def test_sends_no_request_to_a_refused_endpoint(gateway: RadosGateway, bucket: str) -> None:
    _begin(gateway, bucket, new_id("file"))

    async def refuse() -> None:
        raise StoreError("not there")

    keys = (gateway.access_key, gateway.secret_key)
    store = S3Store(bucket, gateway.region, *keys, endpoint_url=gateway.endpoint, before=refuse)
    with pytest.raises(StoreError, match="not there"):
        await store.abort_stale_parts("", OLD_ENOUGH, _is_own)
    assert len(gateway.unfinished_uploads(bucket)) == 1


def test_the_worker_aborts_stale_parts_in_buckets_of_all(deployments: Deployments, gateway: RadosGateway) -> None:
    deployment, platform_bucket = deployments.fresh("postgres-s3"), gateway.fresh_bucket()
    place = {"BUCKET": platform_bucket, "REGION": gateway.region, "ENDPOINT": gateway.endpoint}
    storage = place | {"ACCESS_KEY_ID": gateway.access_key, "SECRET_ACCESS_KEY": gateway.secret_key}
    own = {f"STORAGE_{name}": value for name, value in storage.items()}
    with running_service(deployment, **own, STALE_PARTS_HOURS=str(1 / 3600), SCANNER="builtin") as service:
        client = service.new_client().with_store()
        _begin(gateway, platform_bucket, f"a/{new_id('file')}")
        _begin(gateway, deployment.bucket, f"{client.tenant_id}/{new_id('file')}")
        foreign = _begin(gateway, deployment.bucket, f"{client.tenant_id}/backup.tar")
        assert until(lambda: gateway.unfinished_uploads(platform_bucket) == [])
        assert until(lambda: gateway.unfinished_uploads(deployment.bucket) == [foreign])
