"""Download links: they work without credentials, until they expire, and only as signed."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

import botocore.auth
import botocore.config
import botocore.session
import httpx
import pytest

from sluice.storage import StoreError
from sluice.storage.s3.store import S3Store
from tests.rows import each_row
from tests.storage.conftest import MakeS3, Seal

TRICKY = "t/Übersicht +%20&=#?/a b*~'.pdf"


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(trust_env=False) as opened:
        yield opened


def set_clock(monkeypatch: pytest.MonkeyPatch, moment: datetime) -> None:
    """Set the clock of the link signatures."""

    def fixed(remove_tzinfo: bool = True) -> datetime:  # noqa: FBT001, FBT002  (signature of botocore)
        return moment.replace(tzinfo=None)

    monkeypatch.setattr(botocore.auth, "get_current_datetime", fixed)


@pytest.mark.parametrize("key", ["t/c/file.pdf", TRICKY, "k" * 1000])
async def test_link_downloads_by_its_name(s3_store: S3Store, client: httpx.AsyncClient, seal: Seal, key: str) -> None:
    await s3_store.put(key, seal(b"content"), content_type="application/octet-stream")
    url = await s3_store.presign(key, expires_in=60, filename="Übersicht.pdf", content_type="application/pdf")
    response = await client.get(url)
    assert (response.status_code, response.content) == (200, b"content")
    assert response.headers["content-type"] == "application/pdf"
    disposition = "attachment; filename=\"_bersicht.pdf\"; filename*=UTF-8''%C3%9Cbersicht.pdf"
    assert response.headers["content-disposition"] == disposition


async def test_hostile_filename_injects_no_response_header_and_an_invalid_key_gets_no_link(
    s3_store: S3Store, client: httpx.AsyncClient, seal: Seal
) -> None:
    await s3_store.put("a", seal(b"x"), content_type="text/plain")
    url = await s3_store.presign("a", expires_in=60, filename='x"\r\nSet-Cookie: a=b', content_type="text/plain")
    response = await client.get(url)
    assert (response.status_code, "set-cookie" in response.headers) == (200, False)
    with pytest.raises(StoreError, match="A key"):
        await s3_store.presign("../a", expires_in=60, filename="a", content_type="text/plain")


async def test_link_contains_no_secret(make_s3: MakeS3) -> None:
    store = make_s3(secret_access_key="canary-secret")
    assert "canary" not in await store.presign("a", expires_in=60, filename="a", content_type="text/plain")


async def test_link_expires_after_its_lifetime(
    s3_store: S3Store, client: httpx.AsyncClient, seal: Seal, monkeypatch: pytest.MonkeyPatch
) -> None:
    await s3_store.put("a", seal(b"x"), content_type="text/plain")
    signed = []
    for age in (50, 70):
        set_clock(monkeypatch, datetime.now(UTC) - timedelta(seconds=age))
        signed.append(await s3_store.presign("a", expires_in=60, filename="a", content_type="text/plain"))
    assert [(await client.get(url)).status_code for url in signed] == [200, 403]


async def test_modified_link_is_refused(s3_store: S3Store, client: httpx.AsyncClient, seal: Seal) -> None:
    for key in "ab":
        await s3_store.put(key, seal(b"x"), content_type="text/plain")
    url = await s3_store.presign("a", expires_in=60, filename="a", content_type="text/plain")
    assert (await client.get(url)).status_code == 200
    for signed, changed in (
        ("/a?", "/b?"),
        ("X-Amz-Expires=60", "X-Amz-Expires=3600"),
        ("filename%3D%22a", "filename%3D%22b"),
        ("text%2Fplain", "text%2Fhtml"),
    ):
        assert signed in url
        assert (await client.get(url.replace(signed, changed))).status_code == 403, changed


@each_row(
    "bucket, region, endpoint_url, begin",
    [
        ("my-bucket", "eu-central-1", None, "https://my-bucket.s3.eu-central-1.amazonaws.com/"),
        ("my.bucket", "eu-west-1", None, "https://s3.eu-west-1.amazonaws.com/my.bucket/"),
        ("my-bucket", "cn-north-1", None, "https://my-bucket.s3.cn-north-1.amazonaws.com.cn/"),
        ("my-bucket", "us-east-1", "https://S3.Example.org:9000/", "https://s3.example.org:9000/my-bucket/"),
        ("my-bucket", "us-east-1", "http://[::1]:9000", "http://[::1]:9000/my-bucket/"),
    ],
)
async def test_links_match_those_of_botocore(
    monkeypatch: pytest.MonkeyPatch, bucket: str, region: str, endpoint_url: str | None, begin: str
) -> None:
    set_clock(monkeypatch, datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC))
    store = S3Store(bucket, region, "AKIAIOSFODNN7EXAMPLE", "secret", endpoint_url=endpoint_url)
    own_link = await store.presign(TRICKY, expires_in=300, filename="a b.pdf", content_type="application/pdf")
    style = "path" if endpoint_url or "." in bucket else "virtual"
    official = botocore.session.Session().create_client(
        "s3",
        region_name=region,
        endpoint_url=endpoint_url.lower().rstrip("/") if endpoint_url else None,
        aws_access_key_id="AKIAIOSFODNN7EXAMPLE",
        aws_secret_access_key="secret",
        config=botocore.config.Config(signature_version="s3v4", s3={"addressing_style": style}),
    )
    headers = {"ResponseContentDisposition": 'attachment; filename="a b.pdf"', "ResponseContentType": "application/pdf"}
    wanted = {"Bucket": bucket, "Key": TRICKY, **headers}
    botocore_link = official.generate_presigned_url("get_object", Params=wanted, ExpiresIn=300)
    assert own_link.startswith(begin)
    own, theirs = urlsplit(own_link), urlsplit(botocore_link)
    assert own[:3] == theirs[:3]
    assert parse_qs(own.query, strict_parsing=True) == parse_qs(theirs.query, strict_parsing=True)


REGIONS = ["", "evil.example/#", "us east", "é", "a" * 64, "us-east-1\n", "xn--abc"]
BUCKETS = ["", "ab", "a/b/c", "a?b", "a#bc", "a%2fb", "..a", "a" * 64, "evil.example@host", "abc\n"]
ENDPOINTS = ["", "example.org", "ftp://example.org", "http://", "http://user:pass@example.org", "http://exam ple.org"]
ENDPOINTS += [f"http://example.org{rest}" for rest in ("/path", "/?a=b", "/#a", ":port", ":99999", "\\@evil.example")]
ENDPOINTS += ["http://münchen.example", "http://[::1", "http://[fe80::1%25eth0]"]
ENDPOINTS += ["http://xn--abc", "http://999.1.1.1", "http://1.2.3.4.5"]


@each_row(
    "name, value, words",
    [("region", region, "region") for region in REGIONS]
    + [("bucket", bucket, "bucket name") for bucket in BUCKETS]
    + [("endpoint_url", url, "endpoint") for url in ENDPOINTS],
)
def test_setting_that_could_change_the_address_is_refused(name: str, value: str, words: str) -> None:
    place: dict[str, Any] = {"bucket": "my-bucket", "region": "us-east-1", name: value}
    with pytest.raises(StoreError, match=words):
        S3Store(**place, access_key_id="AKIAIOSFODNN7EXAMPLE", secret_access_key="secret")
