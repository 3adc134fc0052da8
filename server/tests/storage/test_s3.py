"""The S3 store: an error sentence for each response, aborted uploads, and no settings from the environment."""

import asyncio
import json
import os
import re
import subprocess
import sys
import threading
import traceback

import pytest

from sluice.kit.health import EngineState
from sluice.storage import ObjectStore, PresignsDownloads, StoreError, StoreFull, parts
from sluice.storage.protocol import Timeouts
from sluice.storage.s3.client import bucket_address
from sluice.storage.s3.store import S3Store
from tests.rows import each_row
from tests.servers import free_port
from tests.servers.canned import answering
from tests.servers.radosgw import RadosGateway
from tests.storage.conftest import MakeS3, Seal, all_fail, every_call, read_object

MIB = 1024 * 1024
SHORT_TIMEOUTS = Timeouts(connect_seconds=0.5, request_seconds=1.0, retries=2)
NO_RETRIES = Timeouts(connect_seconds=0.5, request_seconds=1.0, retries=0)


def deny(gateway: RadosGateway, bucket: str, action: str, **objects: str) -> None:
    """Set a policy of the bucket that denies an action."""
    statement = {"Effect": "Deny", "Principal": "*", "Action": action, **objects}
    policy = {"Version": "2012-10-17", "Statement": [statement]}
    gateway.client.put_bucket_policy(Bucket=bucket, Policy=json.dumps(policy))


async def test_only_s3_store_presigns_downloads(s3_store: S3Store, local: ObjectStore) -> None:
    assert isinstance(s3_store, PresignsDownloads)
    assert not isinstance(local, PresignsDownloads)


@pytest.mark.parametrize("size", [10, 9 * MIB])
async def test_object_has_content_type_and_digest_metadata(
    s3_store: S3Store, gateway: RadosGateway, bucket: str, seal: Seal, size: int
) -> None:
    sealed = seal(os.urandom(size))
    await s3_store.put("a", sealed, content_type="image/png")
    head = gateway.client.head_object(Bucket=bucket, Key="a")
    assert head["ContentType"] == "image/png"
    assert head["Metadata"]["sha256"] == sealed.sha256.hex()


async def test_repr_and_errors_contain_no_secret(make_s3: MakeS3, seal: Seal) -> None:
    store = make_s3(secret_access_key="canary-secret-0123456789", access_key_id="CANARYKEYID0123456789")
    try:
        await store.put("a", seal(b"x"), content_type="text/plain")
    except StoreError as fault:
        text = repr(store) + repr(fault) + "".join(traceback.format_exception(fault))
    assert "canary" not in text.lower()


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"secret_access_key": "wrong"}, r"^The secret access key does not fit the access key id\.$"),
        ({"access_key_id": "AKIAIOSFODNN7EXAMPLE"}, r"^The store does not know this access key id\.$"),
        ({"bucket": "no-such-bucket"}, r"^There is no bucket of this name\.$"),
    ],
)
async def test_wrong_setting_is_named(make_s3: MakeS3, seal: Seal, changed: dict[str, str], sentence: str) -> None:
    store = make_s3(**changed)
    put, size, *others = every_call(store, seal, "a")
    await all_fail([put, *others], sentence)
    large = store.put("large", seal(bytes(9 * MIB)), content_type="text/plain")
    await all_fail([size, large, store.probe()])
    assert (await store.health()).state is EngineState.DOWN


@each_row(
    "action, sentence",
    [
        ("s3:PutObject", "may not write objects"),
        ("s3:GetObject", "may not read objects"),
        ("s3:DeleteObject", "may not delete objects"),
    ],
)
async def test_probe_names_permission_that_is_missing(
    s3_store: S3Store, gateway: RadosGateway, bucket: str, action: str, sentence: str
) -> None:
    deny(gateway, bucket, action, Resource=f"arn:aws:s3:::{bucket}/*")
    with pytest.raises(StoreError, match=sentence):
        await s3_store.probe()


async def test_probe_stays_in_its_folder(make_s3: MakeS3, gateway: RadosGateway, bucket: str) -> None:
    deny(gateway, bucket, "s3:PutObject", NotResource=f"arn:aws:s3:::{bucket}/base/path/*")
    with pytest.raises(StoreError, match="may not write objects"):
        await make_s3().probe()
    await make_s3(probe_folder="base/path/.sluice-probe").probe()
    assert gateway.keys(bucket) == []


@pytest.mark.parametrize(
    ("head", "code", "sentence"),
    [
        ("503 Slow Down", "SlowDown", "The store asks for fewer requests."),
        ("500 Internal Server Error", "InternalError", "The store responded with 500 InternalError."),
        ("507 Insufficient Storage", "", "The store has no room left."),
        ("403 Forbidden", "QuotaExceeded", "The store has no room left."),
        ("403 Forbidden", "RequestTimeTooSkewed", "The clock of this machine differs too much from the store's clock."),
        ("400 Bad Request", "AuthorizationHeaderMalformed", "The bucket is in another region than the one given."),
        ("301 Moved Permanently", "PermanentRedirect", "The bucket is in another region than the one given."),
        ("418 Teapot", "Very{doing}Odd!", "The store responded with 418."),
        ("200 OK", None, "The store's response is not one that S3 gives."),
    ],
)
async def test_errors_have_sentences(make_s3: MakeS3, seal: Seal, head: str, code: str | None, sentence: str) -> None:
    error = f"<Error><Code>{code}</Code><AWSAccessKeyId>canary</AWSAccessKeyId></Error>"
    async with answering(head, "<html>" if code is None else error) as server:
        store = make_s3(endpoint_url=server.url, timeouts=SHORT_TIMEOUTS)
        with pytest.raises(StoreError, match=f"^{re.escape(sentence)}$") as caught:
            await store.put("a", seal(b"x"), content_type="text/plain")
        assert isinstance(caught.value, StoreFull) == ("no room" in str(caught.value))
        assert "canary" not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize(
    "key",
    ["dns error/kind: Timeout", "certificates/a", "<Code>AccessDenied</Code>", "status: 403", "inner: BareRedirect"],
)
async def test_words_in_key_are_not_mistaken_for_error_text(make_s3: MakeS3, seal: Seal, key: str) -> None:
    store = make_s3(endpoint_url=f"http://127.0.0.1:{free_port()}", timeouts=NO_RETRIES)
    with pytest.raises(StoreError, match=r"^The store cannot be reached\.$"):
        await store.put(key, seal(b"x"), content_type="text/plain")
    there = make_s3()
    with pytest.raises(KeyError):
        await read_object(there, key)
    await there.put(key, seal(b"x"), content_type="text/plain")
    with pytest.raises(StoreError, match="already"):
        await there.put(key, seal(b"x"), content_type="text/plain")


async def test_truncated_upload_is_aborted(s3_store: S3Store, gateway: RadosGateway, bucket: str, seal: Seal) -> None:
    sealed = seal(bytes(20 * MIB))
    os.ftruncate(sealed.fd, 18 * MIB)
    with pytest.raises(StoreError, match="received bytes ended"):
        await s3_store.put("a", sealed, content_type="text/plain")
    assert (gateway.unfinished_uploads(bucket), gateway.keys(bucket)) == ([], [])


async def test_upload_is_aborted_when_it_is_cancelled(
    s3_store: S3Store, gateway: RadosGateway, bucket: str, seal: Seal, monkeypatch: pytest.MonkeyPatch
) -> None:
    entered, proceed = threading.Event(), threading.Event()
    read_into = parts.read_into

    def slow(fd: int, buffer: memoryview, offset: int) -> None:
        if offset > 8 * MIB:
            entered.set()
            proceed.wait(10)
        read_into(fd, buffer, offset)

    monkeypatch.setattr(parts, "read_into", slow)
    put = asyncio.create_task(s3_store.put("a", seal(bytes(30 * MIB)), content_type="text/plain"))
    await asyncio.to_thread(entered.wait, 10)
    assert gateway.unfinished_uploads(bucket) == ["a"]
    put.cancel()
    await asyncio.sleep(0)
    proceed.set()
    with pytest.raises(asyncio.CancelledError):
        await put
    assert (gateway.unfinished_uploads(bucket), gateway.keys(bucket)) == ([], [])


async def test_cancelled_small_put_completes(s3_store: S3Store, gateway: RadosGateway, bucket: str, seal: Seal) -> None:
    put = asyncio.create_task(s3_store.put("a", seal(b"x"), content_type="text/plain"))
    await asyncio.sleep(0)
    put.cancel()
    with pytest.raises(asyncio.CancelledError):
        await put
    left = gateway.keys(bucket)
    await s3_store.delete("a")
    assert left == ["a"]
    assert gateway.keys(bucket) == []


async def test_store_ignores_the_environment(make_s3: MakeS3, seal: Seal, monkeypatch: pytest.MonkeyPatch) -> None:
    environment = hostile_environment()
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    store = make_s3()
    await store.put("a", seal(b"x"), content_type="text/plain")
    assert await read_object(store, "a") == b"x"
    assert {name: os.environ.get(name) for name in environment} == environment


def test_store_ignores_environment_of_new_process(gateway: RadosGateway, bucket: str) -> None:
    environment = hostile_environment() | {
        "AWS_CHECKSUM_ALGORITHM": "no such algorithm",
        "AWS_SERVER_SIDE_ENCRYPTION": "aws:kms",
        "AWS_SSE_BUCKET_KEY_ENABLED": "no such flag",
        "AWS_SSE_CUSTOMER_KEY_BASE64": "no such key",
        "AWS_SSE_KMS_KEY_ID": "no such key",
    }
    arguments = (bucket, gateway.region, gateway.access_key, gateway.secret_key, gateway.endpoint)
    command, variables = [sys.executable, "-c", _EVERY_REQUEST, *arguments], dict(os.environ) | environment
    ended = subprocess.run(command, env=variables, capture_output=True, text=True, check=False, timeout=60)
    assert (ended.returncode, ended.stdout) == (0, "done\n"), ended.stderr
    assert gateway.keys(bucket) == ["kept"]
    assert "ServerSideEncryption" not in gateway.client.head_object(Bucket=bucket, Key="kept")


def hostile_environment() -> dict[str, str]:
    """Return a variable for every option that obstore or botocore would read, each of which breaks requests."""
    evil = f"http://127.0.0.1:{free_port()}"
    names = {
        evil: "CONTAINER_CREDENTIALS_FULL_URI EC2_METADATA_SERVICE_ENDPOINT ENDPOINT ENDPOINT_URL ENDPOINT_URL_S3"
        " ENDPOINT_URL_STS METADATA_ENDPOINT PROXY_URL",
        "no such flag": "ALLOW_HTTP DISABLE_BULK_DELETE DISABLE_TAGGING IMDSV1_FALLBACK UNSIGNED_PAYLOAD",
        "elsewhere": "BUCKET BUCKET_NAME DEFAULT_REGION REGION",
        "/nowhere": "CA_BUNDLE CONFIG_FILE CONTAINER_AUTHORIZATION_TOKEN_FILE SHARED_CREDENTIALS_FILE"
        " WEB_IDENTITY_TOKEN_FILE",
        "true": "HTTP2_ONLY S3_EXPRESS SKIP_SIGNATURE VIRTUAL_HOSTED_STYLE_REQUEST",
        "1ns": "CONNECT_TIMEOUT TIMEOUT",
        "token": "SESSION_TOKEN TOKEN",
        "evil": "SECRET_ACCESS_KEY USER_AGENT",
        "/evil": "CONTAINER_CREDENTIALS_RELATIVE_URI",
        "AKIAIOSFODNN7EXAMPLE": "ACCESS_KEY_ID",
        "disabled": "CONDITIONAL_PUT",
        "no such way": "COPY_IF_NOT_EXISTS",
        "nobody": "PROFILE",
        "no such certificate": "PROXY_CA_CERTIFICATE",
        "": "PROXY_EXCLUDES",
        "no such payer": "REQUEST_PAYER",
        "arn:aws:iam::1:role/evil": "ROLE_ARN",
    }
    proxies = dict.fromkeys(("HTTP_PROXY", "http_proxy", "ALL_PROXY"), evil)
    return {f"AWS_{name}": value for value, of in names.items() for name in of.split()} | proxies


_EVERY_REQUEST = """
import asyncio, hashlib, os, sys
from datetime import timedelta
import httpx
from sluice_inspect.sandbox.sealed import Sealed
from sluice.storage import StoreError
from sluice.storage.s3.store import S3Store

def sealed(body):
    fd = os.memfd_create("sealed")
    os.write(fd, body)
    return Sealed(fd, len(body), hashlib.sha256(body).digest())

async def main(bucket, region, key_id, secret, endpoint):
    store = S3Store(bucket, region, key_id, secret, endpoint_url=endpoint)
    large = bytes(9 * 1024**2)
    for key, body in (("kept", b"body"), ("large", large), ("other", b"")):
        await store.put(key, sealed(body), content_type="text/plain")
        assert b"".join([chunk async for chunk in store.read(key)]) == body
    try:
        await store.put("kept", sealed(b"new"), content_type="text/plain")
    except StoreError as error:
        assert "already" in str(error)
    else:
        raise AssertionError("replaced")
    await store.probe()
    assert [found.key async for batch in store.list_objects("") for found in batch] == ["kept", "large", "other"]
    url = await store.presign("kept", expires_in=60, filename="a", content_type="text/plain")
    async with httpx.AsyncClient(trust_env=False) as client:
        assert (await client.get(url)).content == b"body"
    assert await store.abort_stale_parts("", timedelta(0), lambda key: True) == 0
    await store.delete("other")
    assert await store.delete_many(["large", "missing"]) == {}
    await store.aclose()
    print("done", flush=True)

asyncio.run(main(*sys.argv[1:]))
os._exit(0)  # threads of the library may abort an interpreter that ends meanwhile
"""


async def test_small_put_is_conditional_and_names_the_digest_of_its_body(make_s3: MakeS3, seal: Seal) -> None:
    async with answering("200 OK\r\nETag: x") as server:
        await make_s3(endpoint_url=server.url).put("a", seal(b"body"), content_type="text/plain")
        sent = server.seen[0].lower()
    digest = "230d8358dc8e8890b4c58deeb62912ee2f20357ae92a5cc861b98e68fe31acb5"
    assert f"x-amz-content-sha256: {digest}" in sent
    assert "if-none-match: *" in sent


@each_row(
    "host, named",
    [
        ("0.0.0.0", "5647f05ec18958947d32874eeb788fa396a05d0bab7c1b71f112ceb7e9b31eee"),
        ("127.0.0.1", "unsigned-payload"),
    ],
)
async def test_large_body_has_its_digest_signed_unless_it_stays_on_this_machine(
    make_s3: MakeS3, seal: Seal, host: str, named: str
) -> None:
    async with answering("200 OK\r\nETag: x") as server:
        store = make_s3(endpoint_url=server.url.replace("127.0.0.1", host))
        await store.put("a", seal(bytes(2 * MIB)), content_type="text/plain")
    (request,) = (seen for seen in server.seen if seen.startswith("PUT"))
    assert f"x-amz-content-sha256: {named}" in request.lower()


@each_row(
    "endpoint, is_protected",
    [
        (None, True),
        ("https://s3.example", True),
        ("http://localhost:9000", True),
        ("http://[::1]:9000", True),
        ("http://minio:9000", False),
        ("http://10.0.0.1", False),
    ],
)
def test_tls_and_loopback_protect_what_is_sent(endpoint: str | None, *, is_protected: bool) -> None:
    assert bucket_address("bucket", "us-east-1", endpoint).is_protected == is_protected


async def test_many_objects_are_deleted_with_one_request(make_s3: MakeS3) -> None:
    keys = [f"a/{number}" for number in range(1000)]
    deleted = "".join(f"<Deleted><Key>{key}</Key></Deleted>" for key in keys)
    async with answering("200 OK", f"<DeleteResult>{deleted}</DeleteResult>") as server:
        assert await make_s3(endpoint_url=server.url).delete_many(keys) == {}
        (request,) = server.seen
        assert request.startswith("POST ")
        assert "?delete HTTP/1.1" in request


async def test_delete_many_names_denied_keys(s3_store: S3Store, gateway: RadosGateway, bucket: str, seal: Seal) -> None:
    for key in ("a", "b", "c"):
        await s3_store.put(key, seal(b"x"), content_type="text/plain")
    deny(gateway, bucket, "s3:DeleteObject", Resource=f"arn:aws:s3:::{bucket}/b")
    assert await s3_store.delete_many(["a", "b", "c"]) == {"b": "The credentials may not delete objects."}
    assert gateway.keys(bucket) == ["b"]


async def test_delete_many_falls_back_to_single_deletes_but_not_on_store_failure(make_s3: MakeS3) -> None:
    async with answering("501 Not Implemented", "<Error><Code>NotImplemented</Code></Error>") as server:
        failed = await make_s3(endpoint_url=server.url, timeouts=NO_RETRIES).delete_many(["a", "b"])
        assert failed == dict.fromkeys("ab", "The store responded with 501 NotImplemented.")
        assert sorted(seen.partition(" ")[0] for seen in server.seen) == ["DELETE", "DELETE", "POST"]
    for head in ("500 Internal Server Error", "503 Slow Down"):
        async with answering(head) as server:
            with pytest.raises(StoreError, match=f"responded with {head[:3]}"):
                await make_s3(endpoint_url=server.url, timeouts=NO_RETRIES).delete_many(["a", "b"])
            assert len(server.seen) == 1


async def test_delete_many_reports_missing_bucket_and_unreachable_store(make_s3: MakeS3) -> None:
    missing = await make_s3(bucket="no-such-bucket").delete_many(["a", "b"])
    assert missing == dict.fromkeys("ab", "There is no bucket of this name.")
    with pytest.raises(StoreError, match="cannot be reached"):
        await make_s3(endpoint_url=f"http://127.0.0.1:{free_port()}", timeouts=NO_RETRIES).delete_many(["a"])
