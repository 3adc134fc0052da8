"""Google Cloud Storage by an HMAC key: signatures, links, multipart uploads, and a sentence for each refusal.

`google_xml` judges requests as Google documents its XML API.
"""

import asyncio
import os
import re
import time
import traceback
from collections.abc import Callable
from datetime import timedelta
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from sluice.kit.health import EngineState
from sluice.storage import AbortsStaleParts, MakesRemarks, PresignsDownloads, StoreError, StoreFull
from sluice.storage.gcs import client, hmac_puts
from sluice.storage.gcs.hmac_store import HmacGcsStore
from sluice.storage.protocol import Timeouts
from sluice.storage.s3.relay import Relay
from tests.rows import each_row
from tests.servers import free_port
from tests.servers.canned import answering
from tests.servers.faults import Fault, fault_proxy
from tests.servers.google import Answer, Seen
from tests.servers.google_xml import ACCESS_ID, GoogleXml, Stored, lacking, refusal
from tests.storage.conftest import MakeHmac, Seal, all_fail, every_call, read_object

MIB = 1024 * 1024
PART = 5 * MIB
LARGE = os.urandom(2 * PART + 1)
NO_RETRIES = Timeouts(connect_seconds=0.5, request_seconds=1.0, retries=0)
TRICKY = "a b/ü~+&=?#%2F'()*!:@$,;.txt"


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "_FIRST_PAUSE", 0.001)


@pytest.fixture
def store(make_hmac: MakeHmac) -> HmacGcsStore:
    return make_hmac(part_bytes=PART)


@pytest.fixture
def hasty(make_hmac: MakeHmac) -> HmacGcsStore:
    """A store that repeats nothing, and that is never left alone."""
    return make_hmac(timeouts=NO_RETRIES, rest_seconds=0.0, part_bytes=PART)


def objects(google: GoogleXml) -> dict[str, Stored]:
    """Return the objects of the one bucket."""
    (found,) = google.buckets.values()
    return found


def once(method: str, part: str, answer: Answer) -> Callable[[Seen], Answer | None]:
    """Answer the first request of a method whose target has a part."""
    left = [answer]
    return lambda seen: left.pop() if left and seen.method == method and part in seen.target else None


# Keys and links


@each_row(
    "changed, sentence",
    [
        ({"access_id": "GOOG1UNKNOWNUNKNOWN"}, "Google does not know the access ID, or its HMAC key is inactive or deleted."),
        ({"secret": "canary"}, "The secret does not fit the access ID of the HMAC key."),
    ],
)  # fmt: skip
async def test_wrong_key_is_named_without_being_quoted(
    make_hmac: MakeHmac, seal: Seal, changed: dict[str, str], sentence: str
) -> None:
    store = make_hmac(**changed)
    for call in (*every_call(store, seal, "a"), store.probe()):
        with pytest.raises(StoreError, match=f"^{re.escape(sentence)}$|left alone") as caught:
            await call
        assert not any(word in "".join(traceback.format_exception(caught.value)) for word in changed.values())
    assert (await store.health()).state is EngineState.DOWN


async def test_clock_that_differs_is_named(store: HmacGcsStore, google_xml: GoogleXml) -> None:
    google_xml.clock = timedelta(hours=1)
    await all_fail([store.size("a")], "^The clock of this machine differs too much from Google's clock.$")


@pytest.mark.parametrize("access_id", ["GOOG1\r\nx: y", "GOOG1 EXAMPLE", "GOOG1é"])
def test_access_id_that_could_change_the_request_is_refused(make_hmac: MakeHmac, access_id: str) -> None:
    with pytest.raises(StoreError, match="printable ASCII"):
        make_hmac(access_id=access_id)


def test_bucket_or_endpoint_that_could_change_the_address_is_refused(make_hmac: MakeHmac) -> None:
    for bucket in ("ab", "a/b/c", "evil.example@host"):
        with pytest.raises(StoreError, match="bucket name"):
            make_hmac(bucket=bucket)
    for url in ("ftp://a.example", "http://u:p@a.example", "http://a.example/p"):
        with pytest.raises(StoreError, match="endpoint"):
            make_hmac(endpoint=url)


@pytest.mark.parametrize("key", ["t/c/file.pdf", TRICKY, "k" * 1000])
async def test_link_is_signed_as_documented(store: HmacGcsStore, google_xml: GoogleXml, seal: Seal, key: str) -> None:
    assert isinstance(store, PresignsDownloads)
    await store.put(key, seal(b"content"), content_type="application/octet-stream")
    url = await store.presign(key, expires_in=60, filename="Übersicht.pdf", content_type="application/pdf")
    async with httpx.AsyncClient(trust_env=False) as http:
        response = await http.get(url)
        assert (response.status_code, response.content) == (200, b"content")
        assert response.headers["content-type"] == "application/pdf"
        disposition = "attachment; filename=\"_bersicht.pdf\"; filename*=UTF-8''%C3%9Cbersicht.pdf"
        assert response.headers["content-disposition"] == disposition
        for signed, changed in (("Expires=60", "Expires=61"), ("application%2Fpdf", "text%2Fhtml")):
            assert signed in url
            assert (await http.get(url.replace(signed, changed))).status_code == 403
        google_xml.clock = timedelta(seconds=62)
        assert (await http.get(url)).status_code == 400


async def test_link_to_google_has_the_documented_form(make_hmac: MakeHmac, google_xml: GoogleXml) -> None:
    url = await make_hmac(endpoint=None).presign("a b/ü", expires_in=10**9, filename="a", content_type="text/plain")
    (bucket,) = google_xml.buckets
    assert url.startswith(f"https://storage.googleapis.com/{bucket}/a%20b/%C3%BC?X-Goog-Algorithm=GOOG4-HMAC-SHA256&")
    query = {name: value for name, (value,) in parse_qs(urlsplit(url).query, strict_parsing=True).items()}
    credential = query["X-Goog-Credential"].split("/")
    assert [credential[0], *credential[2:]] == [ACCESS_ID, "auto", "storage", "goog4_request"]
    assert (query["X-Goog-Expires"], query["X-Goog-SignedHeaders"]) == ("604800", "host")
    assert google_xml.secret not in url


# Puts


@pytest.mark.parametrize("body", [b"x", LARGE], ids=["small", "large"])
async def test_object_has_its_type_and_digest(
    store: HmacGcsStore, google_xml: GoogleXml, seal: Seal, body: bytes
) -> None:
    sealed = seal(body)
    await store.put("a", sealed, content_type="text/plain;  charset=utf-8")
    (found,) = objects(google_xml).values()
    assert (found.body, found.headers["content-type"]) == (body, "text/plain; charset=utf-8")
    assert found.headers["x-goog-meta-sha256"] == sealed.sha256.hex()
    preconditions = [seen.headers.get("x-goog-if-generation-match") for seen in google_xml.seen]
    assert preconditions.count("0") == (1 if body == b"x" else 0), "Google refuses one of a multipart upload"
    assert await store.is_ours("a")
    assert google_xml.uploads == {}


async def test_bytes_that_change_on_the_way_are_no_object(
    store: HmacGcsStore, google_xml: GoogleXml, seal: Seal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hmac_puts, "_md5", lambda _body: "AAAAAAAAAAAAAAAAAAAAAA==")
    for body in (b"x", LARGE):
        await all_fail([store.put("a", seal(body), content_type="text/plain")], "400 BadDigest")
    assert (objects(google_xml), google_xml.uploads) == ({}, {})


@pytest.mark.parametrize(("body", "lost"), [(b"x", "PUT"), (LARGE, "uploadId=")], ids=["small", "large"])
async def test_put_whose_answer_is_lost_is_recognised(
    store: HmacGcsStore, google_xml: GoogleXml, seal: Seal, body: bytes, lost: str
) -> None:
    judged, losses = google_xml.answer, list[Seen]()

    async def answer(seen: Seen) -> Answer:
        found = await judged(seen)
        if (
            not losses
            and lost in f"{seen.method} {seen.target}"
            and seen.method in {"PUT", "POST"}
            and objects(google_xml)
        ):
            losses.append(seen)
            return Answer(0)
        return found

    google_xml.answer = answer  # type: ignore[method-assign]
    await store.put("a", seal(body), content_type="text/plain")
    assert losses
    assert await read_object(store, "a") == body
    assert google_xml.uploads == {}


async def test_upload_that_cannot_be_completed_leaves_nothing(
    hasty: HmacGcsStore, google_xml: GoogleXml, seal: Seal
) -> None:
    for method, part in (("PUT", "partNumber=2"), ("POST", "uploadId=")):
        google_xml.interfere = once(method, part, refusal(503, "ServiceUnavailable", ""))
        await all_fail([hasty.put("a", seal(LARGE), content_type="text/plain")], "503 ServiceUnavailable")
        assert (objects(google_xml), google_xml.uploads) == ({}, {})


async def test_object_that_appears_during_an_upload_is_not_replaced(
    store: HmacGcsStore, google_xml: GoogleXml, seal: Seal
) -> None:
    allowed = asyncio.get_running_loop().create_future()
    put = asyncio.create_task(store.put_speculatively("a", seal(LARGE), content_type="text/plain", allowed=allowed))
    await google_xml.reached(3)
    await store.put("a", seal(b"first"), content_type="text/plain")
    allowed.set_result(True)
    await all_fail([put], "already")
    assert await read_object(store, "a") == b"first"
    assert google_xml.uploads == {}


@pytest.mark.parametrize("end", ["allowed", "refused", "cancelled"])
async def test_speculative_put_creates_the_object_once_allowed(
    store: HmacGcsStore, google_xml: GoogleXml, seal: Seal, end: str
) -> None:
    assert store.can_put_speculatively(len(LARGE))
    assert not store.can_put_speculatively(PART)
    allowed = asyncio.get_running_loop().create_future()
    put = asyncio.create_task(
        store.put_speculatively("a", seal(LARGE), content_type="application/pdf", allowed=allowed)
    )
    await google_xml.reached(3)
    assert objects(google_xml) == {}
    if end == "cancelled":
        put.cancel()
    else:
        allowed.set_result(end == "allowed")
    if end == "allowed":
        await put
        assert await read_object(store, "a") == LARGE
    else:
        with pytest.raises(StoreError if end == "refused" else asyncio.CancelledError):
            await put
        assert objects(google_xml) == {}
    assert google_xml.uploads == {}


async def test_cancelled_put_completes_if_it_is_one_request(
    store: HmacGcsStore, google_xml: GoogleXml, seal: Seal
) -> None:
    put = asyncio.create_task(store.put("a", seal(b"x"), content_type="text/plain"))
    await asyncio.sleep(0)
    put.cancel()
    with pytest.raises(asyncio.CancelledError):
        await put
    assert list(objects(google_xml)) == ["a"]


async def test_stale_uploads_of_ours_are_aborted_by_the_clock_of_google(
    store: HmacGcsStore, google_xml: GoogleXml
) -> None:
    assert isinstance(store, AbortsStaleParts)
    google_xml.page = 2
    client_ = store._client
    for key in ("t/1", "t/1", "t/2&<", "t/3", "t/theirs", "other/1"):
        await client_.send("POST", key, {"uploads": ""})
    google_xml.clock = timedelta(minutes=10)
    assert await store.abort_stale_parts("t/", timedelta(hours=1), lambda _: True) == 0
    assert await store.abort_stale_parts("t/", timedelta(minutes=5), lambda key: key != "t/theirs") == 4
    assert sorted(upload.key for upload in google_xml.uploads.values()) == ["other/1", "t/theirs"]
    google_xml.interfere = lambda seen: lacking("storage.multipartUploads.list") if "uploads" in seen.query else None
    await all_fail(
        [store.abort_stale_parts("", timedelta(0), lambda _: True)], "permission storage.multipartUploads.list on"
    )


# Refusals

SENTENCES = [
    (refusal(404, "NoSuchBucket", "The specified bucket does not exist."), "There is no bucket of this name."),
    (lacking("storage.objects.create"), "The service account lacks the permission storage.objects.create on the bucket."),
    (
        lacking("storage.multipartUploads.create"),
        "The service account lacks the permission storage.multipartUploads.create on the bucket.",
    ),
    (refusal(403, "AccessDenied", "canary"), "The service account may not write objects."),
    (
        refusal(403, "InvalidSecurity", "canary"),
        "Google does not know the access ID, or its HMAC key is inactive or deleted.",
    ),
    (refusal(403, "AccountProblem", "canary"), "The billing account of the bucket's project is disabled or missing."),
    (
        refusal(400, "UserProjectMissing", "canary"),
        "The bucket has Requester Pays turned on, which is not supported.",
    ),
    (
        refusal(412, "OrgPolicyConstraintFailed", "canary"),
        "An organization policy of Google Cloud forbids the request.",
    ),
    (
        refusal(403, "AccessDenied", "canary", "constraints/storage.restrictAuthTypes"),
        "An organization policy of Google Cloud forbids HMAC keys.",
    ),
    (refusal(429, "SlowDown", "canary"), "The store asks for fewer requests."),
    (refusal(403, "CloudKmsDisabledKey", "canary"), "The Cloud KMS key of the bucket is disabled."),
    (refusal(403, "QuotaExceeded", "canary"), "A quota of the project is used up."),
    (refusal(412, "PreconditionFailed", "canary"), "There is an object under this key already."),
    (refusal(500, "InternalError", "canary"), "The store responded with 500 InternalError."),
    (refusal(418, "very{doing}odd!", "canary"), "The store responded with 418."),
    (
        Answer(307, b"<Error><Code>TemporaryRedirect</Code></Error>", {"Location": "http://127.0.0.2/"}),
        "The store sends the request on to another host, which is not followed.",
    ),
    (Answer(200, b"<html>"), "The store's response is not one that Google Cloud Storage gives."),
]  # fmt: skip


@each_row("answer, sentence", SENTENCES)
async def test_refusals_have_sentences(
    hasty: HmacGcsStore, google_xml: GoogleXml, seal: Seal, answer: Answer, sentence: str
) -> None:
    google_xml.interfere = lambda seen: answer if seen.method in {"PUT", "POST"} else None
    for body in (b"x", LARGE):
        with pytest.raises(StoreError, match=f"^{re.escape(sentence)}$") as caught:
            await hasty.put("a", seal(body), content_type="text/plain")
        assert isinstance(caught.value, StoreFull) == ("used up" in sentence)
        assert "canary" not in "".join(traceback.format_exception(caught.value))


@each_row(
    "method, permission",
    [
        ("PUT", "storage.objects.create"),
        ("POST", "storage.multipartUploads.create"),
        ("GET", "storage.objects.list"),
        ("DELETE", "storage.objects.delete"),
    ],
)
async def test_probe_names_permission_that_is_missing(
    store: HmacGcsStore, google_xml: GoogleXml, method: str, permission: str
) -> None:
    def interfere(seen: Seen) -> Answer | None:
        is_of_object = seen.path.count("/") > 1
        if method == "GET" and seen.method == "HEAD":
            return Answer(403)  # without a body, as every response to HEAD
        return lacking(permission) if is_of_object and seen.method == method else None

    google_xml.interfere = interfere
    await all_fail(
        [store.probe()], f"^The service account lacks the permission {re.escape(permission)} on the bucket.$"
    )


async def test_probe_remarks_on_versioning_and_refuses_a_public_bucket(
    store: HmacGcsStore, google_xml: GoogleXml
) -> None:
    assert isinstance(store, MakesRemarks)
    google_xml.is_versioned = True
    await store.probe()
    assert [remark.partition(":")[0] for remark in store.remarks] == ["Object versioning is on"]
    google_xml.interfere = lambda seen: lacking("storage.buckets.get") if "versioning" in seen.query else None
    await store.probe()
    assert store.remarks == []
    google_xml.is_public = True
    await all_fail([store.probe()], "^The bucket is public: anyone on the internet can read its objects.$")
    assert objects(google_xml) == {}


async def test_missing_bucket_is_no_missing_object(make_hmac: MakeHmac, seal: Seal) -> None:
    store = make_hmac(bucket="no-such-bucket", part_bytes=PART)
    large = store.put("large", seal(LARGE), content_type="text/plain")
    await all_fail([*every_call(store, seal, "a"), large, store.probe()], r"^There is no bucket of this name\.$")
    assert (await store.health()).detail == "There is no bucket of this name."
    await all_fail([make_hmac(bucket="no-such-bucket").delete_many(["a", "b"])], "no bucket of this name")


async def test_passing_failures_are_repeated(store: HmacGcsStore, google_xml: GoogleXml, seal: Seal) -> None:
    slow = refusal(503, "SlowDown", "")
    for method, part, call in (
        ("PUT", "/a", lambda: store.put("a", seal(b"x"), content_type="text/plain")),
        ("PUT", "partNumber=2", lambda: store.put("large", seal(LARGE), content_type="text/plain")),
        ("GET", "/a", lambda: read_object(store, "a")),
        ("DELETE", "/a", lambda: store.delete("a")),
    ):
        google_xml.interfere = once(method, part, slow)
        await call()
    assert list(objects(google_xml)) == ["large"]
    assert await read_object(store, "large") == LARGE


async def test_objects_that_cannot_be_deleted_are_named(hasty: HmacGcsStore, google_xml: GoogleXml, seal: Seal) -> None:
    for key in ("a", "b", "c"):
        await hasty.put(key, seal(b"x"), content_type="text/plain")
    google_xml.interfere = once("DELETE", "/b", lacking("storage.objects.delete"))
    sentence = "The service account lacks the permission storage.objects.delete on the bucket."
    assert await hasty.delete_many(["a", "b", "missing"]) == {"b": sentence}
    assert list(objects(google_xml)) == ["b", "c"]
    google_xml.interfere = lambda _: refusal(503, "ServiceUnavailable", "")
    await all_fail([hasty.delete_many(["b", "c"])], "503 ServiceUnavailable")


async def test_listing_follows_pages_and_ends_with_a_repeated_one(
    store: HmacGcsStore, google_xml: GoogleXml, seal: Seal
) -> None:
    for key in ("a/1&<", "a/2", "a/ü", "b"):
        await store.put(key, seal(b"x"), content_type="text/plain")
    google_xml.page = 1
    found = [one.key async for batch in store.list_objects("a") for one in batch]
    assert found == ["a/1&<", "a/2", "a/ü"]
    page = "<IsTruncated>true</IsTruncated><Contents><Key>a/1</Key><Size>1</Size></Contents>"
    google_xml.interfere = lambda _: Answer(200, f"<ListBucketResult>{page}</ListBucketResult>".encode())
    assert [len(batch) async for batch in store.list_objects("a")] == [1, 0]
    for body in (b"<html>", b"<ListBucketResult><Contents><Key>a</Key></Contents></ListBucketResult>"):
        google_xml.interfere = lambda _, body=body: Answer(200, body)  # type: ignore[misc]
        with pytest.raises(StoreError, match="not one that Google Cloud Storage gives"):
            await anext(store.list_objects("a"))


# Network


@each_row(
    "host, sentence",
    [("127.0.0.1", "The store cannot be reached."), ("nowhere.invalid", "The host name of the store is not known.")],
)
async def test_unreachable_endpoint_fails_quickly(make_hmac: MakeHmac, seal: Seal, host: str, sentence: str) -> None:
    store = make_hmac(endpoint=f"http://{host}:{free_port()}", timeouts=Timeouts(0.5, 1.0, 2))
    begin = time.monotonic()
    await all_fail([store.put("a", seal(b"x"), content_type="text/plain"), store.probe()], sentence)
    assert (await store.health()).detail == sentence
    assert time.monotonic() - begin < 4


async def test_unresponsive_store_times_out(make_hmac: MakeHmac, google_xml: GoogleXml, seal: Seal) -> None:
    async with fault_proxy(google_xml.url) as proxy:
        proxy.fault = Fault.BLACK_HOLE
        store = make_hmac(endpoint=proxy.endpoint, timeouts=Timeouts(0.2, 0.2, 1), part_bytes=PART)
        large = store.put("large", seal(LARGE), content_type="text/plain")
        for call in (*every_call(store, seal, "a"), large):
            await all_fail([call], "did not respond in time|left alone")


@pytest.mark.parametrize("status", [301, 307])
@pytest.mark.asvs("15.3.2", "1.3.6")
async def test_redirect_is_not_followed(make_hmac: MakeHmac, seal: Seal, status: int) -> None:
    async with answering("200 OK", "inside", host="127.0.0.2") as inside:
        async with answering(f"{status} Elsewhere\r\nLocation: {inside.url}/secret") as server:
            store = make_hmac(endpoint=server.url, timeouts=NO_RETRIES, part_bytes=PART)
            large = store.put("large", seal(LARGE), content_type="text/plain")
            await all_fail([*every_call(store, seal, "a"), large])
        assert inside.seen == []


@pytest.mark.asvs("1.3.6")
async def test_requests_ignore_proxies_of_the_environment_and_use_the_relay(
    make_hmac: MakeHmac, google_xml: GoogleXml, seal: Seal, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{free_port()}")
    origins = set[str]()

    async def resolve(origin: str) -> tuple[str, ...]:
        origins.add(origin)
        return ("127.0.0.1",)

    relay, named = Relay(resolve, 0.5), f"http://store.sluice.invalid:{urlsplit(google_xml.url).port}"
    await relay.start()
    store = make_hmac(endpoint=named, relay_url=relay.url, part_bytes=PART)
    await store.put("a b+c/é=1", seal(b"small"), content_type="text/plain")
    await store.put("large", seal(LARGE), content_type="text/plain")
    assert await read_object(store, "large") == LARGE
    assert [one.key async for batch in store.list_objects("") for one in batch] == ["a b+c/é=1", "large"]
    assert await store.delete_many(["a b+c/é=1", "large", "none"]) == {}
    assert await store.size("large") is None
    assert origins == {named}
    await store.aclose()
    await relay.aclose()


async def test_each_request_is_allowed_first(make_hmac: MakeHmac, google_xml: GoogleXml, seal: Seal) -> None:
    asked = list[int]()

    async def refuse() -> None:
        asked.append(len(asked))
        if len(asked) > 5:
            raise StoreError("not any more")

    store = make_hmac(before=refuse, part_bytes=PART)
    await all_fail([store.put("a", seal(LARGE), content_type="text/plain")], "not any more")
    assert len(google_xml.seen) == 5
    assert objects(google_xml) == {}
    link = store.presign("a", expires_in=60, filename="a", content_type="text/plain")
    await all_fail([link], "not any more")


async def test_truncated_or_other_range_is_refused(make_hmac: MakeHmac) -> None:
    for span, body, held_back in (("0-9/10", "only", 0), ("0-9/10", "only", 6), ("3-12/20", "0123456789", 0)):
        head = f"206 Partial Content\r\nContent-Range: bytes {span}"
        async with answering(head, body, held_back=held_back) as server:
            store = make_hmac(endpoint=server.url, timeouts=NO_RETRIES)
            await all_fail([read_object(store, "a")], "fewer bytes|connection to the store broke")
