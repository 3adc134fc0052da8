"""What only the S3 store promises: a sentence for each answer, aborted uploads, and nothing from outside its arguments."""

import asyncio
import os
import threading
import traceback

import pytest

from sluice.engines.storage import ObjectStore, PresignsDownloads, StoreFault, StoreFull, s3_parts
from sluice.engines.storage.s3 import S3Store
from sluice.engines.storage.s3_client import Patience
from sluice.kit.health import EngineState
from tests.engines.storage.conftest import MakeS3, Seal, content
from tests.servers import free_port
from tests.servers.canned import answering
from tests.servers.radosgw import RadosGateway

MIB = 1024 * 1024
HASTY = Patience(connect_seconds=0.5, request_seconds=1.0, retries=2)
ONCE = Patience(connect_seconds=0.5, request_seconds=1.0, retries=0)


async def test_it_presigns_and_the_local_store_does_not(s3_store: S3Store, local: ObjectStore) -> None:
    assert isinstance(s3_store, PresignsDownloads)
    assert not isinstance(local, PresignsDownloads)


@pytest.mark.parametrize("size", [10, 9 * MIB])
async def test_the_object_says_what_it_is(s3_store: S3Store, gateway: RadosGateway, bucket: str, seal: Seal, size: int) -> None:
    sealed = seal(os.urandom(size))
    await s3_store.put("a", sealed, content_type="image/png")
    head = gateway.client.head_object(Bucket=bucket, Key="a")
    assert head["ContentType"] == "image/png"
    assert head["Metadata"]["sha256"] == sealed.sha256.hex()


async def test_neither_name_nor_fault_holds_a_secret(make_s3: MakeS3, seal: Seal) -> None:
    store = make_s3(secret_access_key="canary-secret-0123456789", access_key_id="CANARYKEYID0123456789")
    try:
        await store.put("a", seal(b"x"), content_type="text/plain")
    except StoreFault as fault:
        told = repr(store) + repr(fault) + "".join(traceback.format_exception(fault))
    assert "canary" not in told.lower()


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"secret_access_key": "wrong"}, r"^The secret access key does not fit the access key id\.$"),
        ({"access_key_id": "AKIAIOSFODNN7EXAMPLE"}, r"^The store does not know this access key id\.$"),
        ({"bucket": "no-such-bucket"}, r"^There is no bucket of this name\.$"),
    ],
)
async def test_what_is_wrong_is_said_in_one_sentence(make_s3: MakeS3, seal: Seal, changed: dict[str, str], sentence: str) -> None:
    store = make_s3(**changed)
    with pytest.raises(StoreFault, match=sentence):
        await store.put("a", seal(b"x"), content_type="text/plain")
    with pytest.raises(StoreFault, match=sentence):
        await content(store, "a")
    with pytest.raises(StoreFault, match=sentence):
        await store.delete("a")
    with pytest.raises(StoreFault):
        await store.size("a")
    with pytest.raises(StoreFault):
        await store.put("large", seal(bytes(9 * MIB)), content_type="text/plain")
    with pytest.raises(StoreFault):
        await store.probe()
    assert (await store.health()).state is EngineState.DOWN


@pytest.mark.parametrize(
    ("action", "sentence"),
    [
        ("s3:PutObject", "may not write objects"),
        ("s3:GetObject", "may not read objects"),
        ("s3:DeleteObject", "may not delete objects"),
    ],
)
async def test_the_probe_names_the_permission_that_is_missing(
    s3_store: S3Store, gateway: RadosGateway, bucket: str, action: str, sentence: str
) -> None:
    everything = f"arn:aws:s3:::{bucket}/*"
    statement = f'{{"Effect": "Deny", "Principal": "*", "Action": "{action}", "Resource": "{everything}"}}'
    gateway.client.put_bucket_policy(Bucket=bucket, Policy=f'{{"Version": "2012-10-17", "Statement": [{statement}]}}')
    with pytest.raises(StoreFault, match=sentence):
        await s3_store.probe()


async def test_the_probe_stays_in_its_folder(make_s3: MakeS3, gateway: RadosGateway, bucket: str) -> None:
    everything_but = f'"arn:aws:s3:::{bucket}/base/path/*"'
    statement = f'{{"Effect": "Deny", "Principal": "*", "Action": "s3:PutObject", "NotResource": {everything_but}}}'
    gateway.client.put_bucket_policy(Bucket=bucket, Policy=f'{{"Version": "2012-10-17", "Statement": [{statement}]}}')
    with pytest.raises(StoreFault, match="may not write objects"):
        await make_s3().probe()
    await make_s3(probe_folder="base/path/.sluice-probe").probe()
    assert gateway.keys(bucket) == []


@pytest.mark.parametrize(
    ("head", "code", "sentence"),
    [
        ("503 Slow Down", "SlowDown", r"^The store asks for fewer requests\.$"),
        ("500 Internal Server Error", "InternalError", r"^The store answered 500 InternalError\.$"),
        ("507 Insufficient Storage", "", r"^The store has no room left\.$"),
        ("403 Forbidden", "QuotaExceeded", r"^The store has no room left\.$"),
        ("403 Forbidden", "RequestTimeTooSkewed", r"^The clock of this machine differs too much from the store's clock\.$"),
        ("400 Bad Request", "AuthorizationHeaderMalformed", r"^The bucket is in another region than the one given\.$"),
        ("301 Moved Permanently", "PermanentRedirect", r"^The bucket is in another region than the one given\.$"),
        ("418 Teapot", "Very{doing}Odd!", r"^The store answered 418\.$"),
    ],
)
async def test_each_answer_has_its_sentence(make_s3: MakeS3, seal: Seal, head: str, code: str, sentence: str) -> None:
    async with answering(head, f"<Error><Code>{code}</Code><AWSAccessKeyId>canary</AWSAccessKeyId></Error>") as server:
        store = make_s3(endpoint_url=server.url, patience=HASTY)
        with pytest.raises(StoreFault, match=sentence) as caught:
            await store.put("a", seal(b"x"), content_type="text/plain")
        assert isinstance(caught.value, StoreFull) == ("no room" in str(caught.value))
        assert "canary" not in "".join(traceback.format_exception(caught.value))


async def test_an_answer_that_is_no_s3_answer_is_called_so(make_s3: MakeS3, seal: Seal) -> None:
    async with answering("200 OK", "<html>") as server:
        with pytest.raises(StoreFault, match=r"^The store's answer is not one that S3 gives\.$"):
            await make_s3(endpoint_url=server.url, patience=HASTY).put("a", seal(b"x"), content_type="text/plain")


@pytest.mark.parametrize(
    "key", ["dns error/kind: Timeout", "certificates/a", "<Code>AccessDenied</Code>", "status: 403", "inner: BareRedirect"]
)
async def test_words_in_a_key_are_not_taken_for_the_stores_words(make_s3: MakeS3, seal: Seal, key: str) -> None:
    store = make_s3(endpoint_url=f"http://127.0.0.1:{free_port()}", patience=ONCE)
    with pytest.raises(StoreFault, match=r"^The store cannot be reached\.$"):
        await store.put(key, seal(b"x"), content_type="text/plain")
    there = make_s3()
    with pytest.raises(KeyError):
        await content(there, key)
    await there.put(key, seal(b"x"), content_type="text/plain")
    with pytest.raises(StoreFault, match="already"):
        await there.put(key, seal(b"x"), content_type="text/plain")


async def test_an_upload_is_aborted_when_its_bytes_end_early(
    s3_store: S3Store, gateway: RadosGateway, bucket: str, seal: Seal
) -> None:
    sealed = seal(bytes(20 * MIB))
    os.ftruncate(sealed.fd, 18 * MIB)
    with pytest.raises(StoreFault, match="received bytes ended"):
        await s3_store.put("a", sealed, content_type="text/plain")
    assert gateway.unfinished_uploads(bucket) == []
    assert gateway.keys(bucket) == []


async def test_an_upload_is_aborted_when_it_is_cancelled(
    s3_store: S3Store, gateway: RadosGateway, bucket: str, seal: Seal, monkeypatch: pytest.MonkeyPatch
) -> None:
    entered, go_on = threading.Event(), threading.Event()
    read_exactly = s3_parts.read_exactly

    def slow(fd: int, count: int, offset: int) -> bytes:
        if offset > 8 * MIB:
            entered.set()
            go_on.wait(10)
        return read_exactly(fd, count, offset)

    monkeypatch.setattr(s3_parts, "read_exactly", slow)
    put = asyncio.create_task(s3_store.put("a", seal(bytes(30 * MIB)), content_type="text/plain"))
    await asyncio.to_thread(entered.wait, 10)
    assert gateway.unfinished_uploads(bucket) == ["a"]
    put.cancel()
    await asyncio.sleep(0)
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await put
    assert gateway.unfinished_uploads(bucket) == []
    assert gateway.keys(bucket) == []


async def test_a_cancelled_small_put_is_not_under_way_any_longer(
    s3_store: S3Store, gateway: RadosGateway, bucket: str, seal: Seal
) -> None:
    put = asyncio.create_task(s3_store.put("a", seal(b"x"), content_type="text/plain"))
    await asyncio.sleep(0)
    put.cancel()
    with pytest.raises(asyncio.CancelledError):
        await put
    left = gateway.keys(bucket)
    await s3_store.delete("a")
    assert left == ["a"]
    assert gateway.keys(bucket) == []


async def test_the_environment_does_not_matter(make_s3: MakeS3, seal: Seal, monkeypatch: pytest.MonkeyPatch) -> None:
    evil = f"http://127.0.0.1:{free_port()}"
    ambient = {
        "AWS_ACCESS_KEY_ID": "AKIAIOSFODNN7EXAMPLE",
        "AWS_SESSION_TOKEN": "token",
        "AWS_ENDPOINT_URL": evil,
        "AWS_ENDPOINT_URL_S3": evil,
        "AWS_SKIP_SIGNATURE": "true",
        "AWS_SERVER_SIDE_ENCRYPTION": "aws:kms",
        "AWS_PROFILE": "nobody",
        "AWS_PROXY_URL": evil,
        "HTTP_PROXY": evil,
        "http_proxy": evil,
        "ALL_PROXY": evil,
    }
    for name, value in ambient.items():
        monkeypatch.setenv(name, value)
    store = make_s3()
    await store.put("a", seal(b"x"), content_type="text/plain")
    assert await content(store, "a") == b"x"
    assert {name: os.environ.get(name) for name in ambient} == ambient


@pytest.mark.parametrize("sign_payload", [True, False])
async def test_a_changed_body_is_noticed_where_payloads_are_signed(make_s3: MakeS3, seal: Seal, *, sign_payload: bool) -> None:
    async with answering("200 OK\r\nETag: x") as server:
        await make_s3(endpoint_url=server.url, sign_payload=sign_payload).put("a", seal(b"body"), content_type="text/plain")
        sent = server.seen[0].lower()
    digest = "230d8358dc8e8890b4c58deeb62912ee2f20357ae92a5cc861b98e68fe31acb5"
    assert (f"x-amz-content-sha256: {digest}" in sent) == sign_payload
    assert "if-none-match: *" in sent
