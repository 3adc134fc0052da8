"""Google Cloud Storage: tokens, signed links, checksums, resumable uploads, and a sentence for each refusal.

`google` is the emulator behind a server that judges requests as Google documents it; other servers get no token.
"""

import asyncio
import json
import os
import re
import time
import traceback
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from sluice.kit.health import EngineState
from sluice.storage import FieldRefused, GcsSettings, MakesRemarks, PresignsDownloads, StoreError, StoreFull
from sluice.storage.gcs import client, credentials, puts
from sluice.storage.gcs.store import GcsStore
from sluice.storage.protocol import Timeouts
from sluice.storage.s3.relay import Relay
from tests.rows import each_row
from tests.servers import free_port
from tests.servers.canned import answering
from tests.servers.fake_gcs import EMAIL, FakeGcs, service_account_key
from tests.servers.faults import Fault, fault_proxy
from tests.servers.google import Answer, Google, Seen, lacking, refusal, running_google
from tests.storage.conftest import MakeGcs, Seal, all_fail, every_call, read_object

MIB = 1024 * 1024
PART = MIB
LARGE = os.urandom(3 * MIB + 1)
SHORT_TIMEOUTS = Timeouts(connect_seconds=0.5, request_seconds=1.0, retries=2)
NO_RETRIES = Timeouts(connect_seconds=0.5, request_seconds=1.0, retries=0)
TRICKY = "a b/ü~+&=?#%2F'()*!:@$,;.txt"


@pytest.fixture
async def google(gcs: FakeGcs, gcs_bucket: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Google]:
    async with running_google(gcs, gcs_bucket, service_account_key()) as running:
        monkeypatch.setattr(client, "is_google", lambda _origin: True)
        monkeypatch.setattr(credentials, "TOKEN_URL", running.token_url)
        monkeypatch.setattr(client, "_FIRST_PAUSE", 0.001)
        yield running


@pytest.fixture
def store(make_gcs: MakeGcs, google: Google) -> GcsStore:
    return make_gcs(endpoint=google.url, part_bytes=PART)


@pytest.fixture
def hasty(make_gcs: MakeGcs, google: Google) -> GcsStore:
    """A store that repeats nothing, and that is never left alone."""
    return make_gcs(endpoint=google.url, timeouts=NO_RETRIES, rest_seconds=0.0, part_bytes=PART)


def answers(*found: tuple[str, str, Answer]) -> Callable[[Seen], Answer | None]:
    """Answer requests, given by a method and a part of their path, once each."""
    left = list(found)

    def interfere(seen: Seen) -> Answer | None:
        for number, (method, path, answer) in enumerate(left):
            if seen.method == method and path in seen.target:
                del left[number]
                return answer
        return None

    return interfere


def always(answer: Answer) -> Callable[[Seen], Answer | None]:
    """Answer all requests but those for a token."""
    return lambda seen: None if seen.path == "/token" else answer


# Credentials


async def test_one_token_is_asked_for_at_a_time_and_used_until_it_expires(store: GcsStore, google: Google) -> None:
    await asyncio.gather(*(store.size(f"a/{number}") for number in range(5)))
    assert [seen.path for seen in google.seen].count("/token") == 1
    assert service_account_key().count("127.0.0.1:9") == 1, "the address of the tenant's file was not called"


def test_tokens_come_from_google_whatever_the_key_says() -> None:
    assert credentials.TOKEN_URL == "https://oauth2.googleapis.com/token"
    for origin in ("https://storage.googleapis.com", "https://storage.europe-west3.rep.googleapis.com"):
        assert client.is_google(origin)
    for origin in ("http://storage.googleapis.com", "https://googleapis.com.example.org", "https://xgoogleapis.com"):
        assert not client.is_google(origin)


async def test_other_server_gets_no_token(make_gcs: MakeGcs) -> None:
    async with answering("404 Not Found", '{"error": {"message": "No such object: a"}}') as server:
        assert await make_gcs(endpoint=server.url).size("a") is None
        (request,) = server.seen
        assert "authorization" not in request.lower()


async def test_revoked_token_is_replaced_and_a_revoked_key_named(store: GcsStore, google: Google, seal: Seal) -> None:
    await store.put("a", seal(b"x"), content_type="text/plain")
    google.tokens.clear()
    await store.put("b", seal(b"x"), content_type="text/plain")
    assert google.keys() == ["a", "b"]

    def revoke(seen: Seen) -> None:
        if "bytes 1048576-" in seen.headers.get("content-range", ""):
            google.tokens.clear()
            google.refused_grant = "Invalid JWT Signature."

    google.interfere = revoke
    sentence = r"^The key of the service account is deleted or disabled, or is not one of this account\.$"
    with pytest.raises(StoreError, match=sentence):
        await store.put("c", seal(LARGE), content_type="text/plain")
    assert google.keys() == ["a", "b"]


@each_row(
    "described, sentence",
    [
        ("Invalid JWT Signature.", "is deleted or disabled"),
        ("Invalid grant: account not found", "does not exist any more"),
        ("Account is disabled", "is disabled"),
        (
            "Invalid JWT: Token must be a short-lived token (60 minutes) and in a reasonable timeframe.",
            "clock of this machine",
        ),
    ],
)
async def test_refused_key_is_named(store: GcsStore, google: Google, described: str, sentence: str) -> None:
    google.refused_grant = described
    with pytest.raises(StoreError, match=sentence) as caught:
        await store.probe()
    assert "JWT" not in str(caught.value)
    assert (await store.health()).state is EngineState.DOWN


@pytest.mark.parametrize("key", ["", "[]", "{}", '{"private_key": 1}', '{"private_key": "x", "client_email": "a"}'])
def test_key_that_is_none_is_refused(key: str) -> None:
    with pytest.raises(FieldRefused, match="JSON of a service account's key") as caught:
        GcsSettings("a@example.com").rotated({"service_account_key": key})
    assert caught.value.field == "service_account_key"


def test_key_that_cannot_sign_is_refused_without_being_quoted(make_gcs: MakeGcs) -> None:
    for pem in ("canary", json.loads(service_account_key())["private_key"][:-100]):
        secret = json.dumps({"client_email": EMAIL, "private_key_id": "a", "private_key": pem})
        with pytest.raises(StoreError, match="no private key that can be used") as caught:
            make_gcs(secret=secret)
        assert pem[:60] not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize("bucket", ["", "ab", "A-bucket", "a/b/c", "a?bc", "..a", "abc\n", "evil.example@host"])
def test_bucket_that_could_change_the_address_is_refused(make_gcs: MakeGcs, bucket: str) -> None:
    with pytest.raises(StoreError, match="bucket name"):
        make_gcs(bucket=bucket)


@pytest.mark.parametrize("url", ["", "ftp://a.example", "http://u:p@a.example", "http://a.example/p", "http://[::1"])
def test_endpoint_that_is_no_origin_is_refused(make_gcs: MakeGcs, url: str) -> None:
    with pytest.raises(StoreError, match="endpoint"):
        make_gcs(endpoint=url)


# Links


@pytest.mark.parametrize("key", ["t/c/file.pdf", TRICKY, "k" * 1000])
async def test_link_is_signed_as_documented(store: GcsStore, seal: Seal, key: str) -> None:
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


async def test_link_to_google_has_the_documented_form(make_gcs: MakeGcs, gcs_bucket: str) -> None:
    store = make_gcs(endpoint=None)
    url = await store.presign("a b/ü", expires_in=60, filename="a", content_type="text/plain")
    assert url.startswith(
        f"https://storage.googleapis.com/{gcs_bucket}/a%20b/%C3%BC?X-Goog-Algorithm=GOOG4-RSA-SHA256&"
    )
    query = {name: value for name, (value,) in parse_qs(urlsplit(url).query, strict_parsing=True).items()}
    credential = query["X-Goog-Credential"].split("/")
    assert [credential[0], *credential[2:]] == [EMAIL, "auto", "storage", "goog4_request"]
    assert query["X-Goog-Date"].startswith(credential[1])
    assert (query["X-Goog-Expires"], query["X-Goog-SignedHeaders"]) == ("60", "host")
    assert len(query["X-Goog-Signature"]) == 512
    assert "PRIVATE" not in url


# Puts


@pytest.mark.parametrize("body", [b"x", LARGE], ids=["small", "large"])
async def test_object_has_its_type_and_digest_and_is_only_created(
    store: GcsStore, google: Google, seal: Seal, body: bytes
) -> None:
    sealed = seal(body)
    await store.put("a", sealed, content_type="image/png")
    (found,) = google.gcs.objects(google.bucket)
    assert found["contentType"] == "image/png"
    assert found["metadata"]["sha256"] == sealed.sha256.hex()
    created = [seen for seen in google.seen if seen.method == "POST" and seen.path.startswith("/upload/")]
    assert [seen.query["ifGenerationMatch"] for seen in created] == ["0"]
    assert found["md5Hash"].encode() in created[0].body
    assert await store.is_ours("a")


async def test_bytes_that_change_on_the_way_are_no_object(
    store: GcsStore, google: Google, seal: Seal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(puts, "_md5", lambda _body: "AAAAAAAAAAAAAAAAAAAAAA==")
    monkeypatch.setattr(puts, "_md5_of_file", lambda _fd, _size: "AAAAAAAAAAAAAAAAAAAAAA==")
    for body in (b"x", LARGE):
        await all_fail([store.put("a", seal(body), content_type="text/plain")], "400 invalid")
    assert (google.keys(), google.sessions) == ([], {})


@pytest.mark.parametrize("body", [b"x", LARGE], ids=["small", "large"])
async def test_put_whose_answers_are_lost_is_recognised(
    store: GcsStore, google: Google, seal: Seal, body: bytes
) -> None:
    lost, lose = 0, asyncio.Event()
    judged = google.answer

    async def answer(seen: Seen) -> Answer:
        nonlocal lost
        found = await judged(seen)
        if not lose.is_set() and seen.path.startswith("/upload/") and seen.method in {"POST", "PUT"}:
            lost += 1
            if lost > 1 or body == b"x":
                lose.set()
                return Answer(0)
        return found

    google.answer = answer  # type: ignore[method-assign]
    await store.put("a", seal(body), content_type="text/plain")
    assert lose.is_set()
    assert await read_object(store, "a") == body
    assert google.keys() == ["a"]


async def test_large_put_goes_on_after_what_the_store_kept(store: GcsStore, google: Google, seal: Seal) -> None:
    google.kept = [0, 256 * 1024]
    google.interfere = answers(("PUT", "upload_id", refusal(503, "backendError", "Backend Error")))
    await store.put("a", seal(LARGE), content_type="text/plain")
    assert await read_object(store, "a") == LARGE
    starts = [seen.headers["content-range"] for seen in google.seen if "content-range" in seen.headers]
    assert f"bytes */{len(LARGE)}" in starts
    assert any(start.startswith(f"bytes {256 * 1024}-") for start in starts)


async def test_object_that_differs_from_what_was_sent_is_deleted(
    make_gcs: MakeGcs, gcs: FakeGcs, gcs_bucket: str, seal: Seal
) -> None:
    # The emulator completes an upload when it is asked how much it has.
    async with fault_proxy(gcs.endpoint) as proxy:
        proxy.cuts = [MIB + MIB // 2]
        store = make_gcs(endpoint=proxy.endpoint, part_bytes=PART)
        await all_fail([store.put("a", seal(LARGE), content_type="text/plain")], "another object than was sent")
    assert gcs.keys(gcs_bucket) == []


@pytest.mark.parametrize("end", ["allowed", "refused", "cancelled"])
async def test_speculative_put_creates_the_object_once_allowed(
    store: GcsStore, google: Google, seal: Seal, end: str
) -> None:
    assert store.can_put_speculatively(len(LARGE))
    assert not store.can_put_speculatively(PART)
    allowed = asyncio.get_running_loop().create_future()
    put = asyncio.create_task(
        store.put_speculatively("a", seal(LARGE), content_type="application/pdf", allowed=allowed)
    )
    await google.reached(3 * MIB)
    assert google.keys() == []
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
        assert google.keys() == []
    assert google.sessions == {}


async def test_truncated_upload_is_cancelled(
    store: GcsStore, google: Google, seal: Seal, monkeypatch: pytest.MonkeyPatch
) -> None:
    sealed = seal(LARGE)

    def shorten(_fd: int, _size: int) -> str:
        os.ftruncate(sealed.fd, 2 * MIB)
        return ""

    monkeypatch.setattr(puts, "_md5_of_file", shorten)
    await all_fail([store.put("a", sealed, content_type="text/plain")], "received bytes ended")
    assert (google.sessions, google.keys()) == ({}, [])


async def test_session_leads_to_no_other_host(store: GcsStore, google: Google, seal: Seal) -> None:
    async with answering("200 OK", "{}", host="127.0.0.2") as inside:
        headers = {"Location": f"{inside.url}/secret?upload_id=1"}
        google.interfere = answers(("POST", "uploadType=resumable", Answer(200, headers=headers)))
        await all_fail([store.put("a", seal(LARGE), content_type="text/plain")])
        assert inside.seen == []


async def test_cancelled_small_put_completes(store: GcsStore, google: Google, seal: Seal) -> None:
    put = asyncio.create_task(store.put("a", seal(b"x"), content_type="text/plain"))
    await asyncio.sleep(0)
    put.cancel()
    with pytest.raises(asyncio.CancelledError):
        await put
    assert google.keys() == ["a"]


# Refusals

FORBIDDEN = "forbidden"
SENTENCES = [
    (refusal(404, "notFound", "The specified bucket does not exist."), "There is no bucket of this name."),
    (
        lacking("storage.objects.create"),
        "The service account lacks the permission storage.objects.create on the bucket.",
    ),
    (
        lacking("storage.objects.get"),
        "The service account lacks the permission storage.objects.get or storage.objects.list on the bucket.",
    ),
    (
        refusal(403, FORBIDDEN, "canary does not have storage.objects.destroy access"),
        "The service account may not write objects.",
    ),
    (
        refusal(403, "accountDisabled", "The billing account for the owning project is disabled in state absent"),
        "The billing account of the bucket's project is disabled or missing.",
    ),
    (
        refusal(400, "required", "Bucket is a requester pays bucket but no user project provided."),
        "The bucket has Requester Pays turned on, which is not supported.",
    ),
    (
        refusal(412, "orgPolicyConstraintFailed", "canary"),
        "An organization policy of Google Cloud forbids the request.",
    ),
    (
        refusal(
            403, FORBIDDEN, "Request is prohibited by organization's policy. vpcServiceControlsUniqueIdentifier: c"
        ),
        "VPC Service Controls of the organization forbid the request.",
    ),
    (
        refusal(403, "accessNotConfigured", "Cloud Storage JSON API has not been used in project 1 before"),
        "The Cloud Storage API is disabled in the project of the service account.",
    ),
    (refusal(403, "cloudKmsDisabledKey", "canary"), "The Cloud KMS key of the bucket is disabled."),
    (
        refusal(429, "rateLimitExceeded", "The rate limit for object mutations was exceeded"),
        "The store asks for fewer requests.",
    ),
    (refusal(403, "quotaExceeded", "canary"), "A quota of the project is used up."),
    (refusal(500, "internalError", "canary"), "The store responded with 500 internalError."),
    (refusal(418, "very{doing}odd!", "canary"), "The store responded with 418."),
    (
        Answer(302, headers={"Location": "http://127.0.0.2/"}),
        "The store sends the request on to another host, which is not followed.",
    ),
    (Answer(200, b"<html>"), "The store's response is not one that Google Cloud Storage gives."),
]


@each_row("answer, sentence", SENTENCES)
async def test_refusals_have_sentences(
    hasty: GcsStore, google: Google, seal: Seal, answer: Answer, sentence: str
) -> None:
    google.interfere = always(answer)
    call = hasty.size("a") if answer.status == 200 else hasty.put("a", seal(b"x"), content_type="text/plain")
    with pytest.raises(StoreError, match=f"^{re.escape(sentence)}$") as caught:
        await call
    assert isinstance(caught.value, StoreFull) == ("used up" in sentence)
    assert "canary" not in "".join(traceback.format_exception(caught.value))


@each_row(
    "settings, sentence",
    [
        ({"billing": {"requesterPays": True}}, "Requester Pays"),
        ({"retentionPolicy": {"retentionPeriod": "3600", "isLocked": True}}, "retention policy"),
        ({"defaultEventBasedHold": True}, "holds every new object"),
    ],
)
async def test_bucket_in_which_nothing_can_be_deleted_is_refused(
    store: GcsStore, google: Google, settings: dict[str, object], sentence: str
) -> None:
    google.interfere = answers(("GET", "iamConfiguration", Answer(200, json.dumps(settings).encode())))
    await all_fail([store.probe()], sentence)
    assert google.keys() == []


async def test_what_keeps_deleted_files_is_remarked(store: GcsStore, google: Google) -> None:
    settings = {"versioning": {"enabled": True}, "softDeletePolicy": {"retentionDurationSeconds": "604800"}}
    google.interfere = answers(("GET", "iamConfiguration", Answer(200, json.dumps(settings).encode())))
    await store.probe()
    assert isinstance(store, MakesRemarks)
    assert [remark.partition(":")[0] for remark in store.remarks] == ["Object versioning is on", "Soft delete is on"]
    await store.probe()
    assert store.remarks == []


async def test_retention_that_may_not_be_seen_is_found_by_the_deletion(store: GcsStore, google: Google) -> None:
    message = "Object 'b/o' is subject to bucket's retention policy and cannot be deleted or overwritten until 2027"
    google.interfere = answers(
        ("GET", "iamConfiguration", lacking("storage.buckets.get")),
        ("DELETE", "/o/", refusal(403, "retentionPolicyNotMet", message)),
    )
    await all_fail(
        [store.probe()], r"^The retention policy of the bucket does not allow the object to be deleted yet\.$"
    )


@pytest.mark.parametrize("may_see", [True, False])
async def test_public_bucket_is_refused_by_the_probe(store: GcsStore, google: Google, *, may_see: bool) -> None:
    sentence = r"^The bucket is public: anyone on the internet can read its objects\.$"
    if may_see:
        policy = {"bindings": [{"role": "roles/storage.objectViewer", "members": ["allAuthenticatedUsers"]}]}
        google.interfere = answers(("GET", "/iam", Answer(200, json.dumps(policy).encode())))
    else:
        google.is_public = True
    await all_fail([store.probe()], sentence)
    assert google.keys() == []
    google.is_public = False
    await store.probe()


@each_row(
    "method, permission",
    [("POST", "storage.objects.create"), ("GET", "storage.objects.get"), ("DELETE", "storage.objects.delete")],
)
async def test_probe_names_permission_that_is_missing(
    store: GcsStore, google: Google, method: str, permission: str
) -> None:
    google.interfere = lambda seen: lacking(permission) if (seen.method, "/o" in seen.path) == (method, True) else None
    await all_fail([store.probe()], f"lacks the permission {re.escape(permission)}")


async def test_missing_bucket_is_no_missing_object(make_gcs: MakeGcs, google: Google, seal: Seal) -> None:
    for endpoint in (google.url, google.gcs.endpoint):
        store = make_gcs(endpoint=endpoint, bucket="no-such-bucket", part_bytes=PART)
        large = store.put("large", seal(LARGE), content_type="text/plain")
        await all_fail([*every_call(store, seal, "a"), large, store.probe()], r"^There is no bucket of this name\.$")
        assert (await store.health()).detail == "There is no bucket of this name."
        many = make_gcs(endpoint=endpoint, bucket="no-such-bucket").delete_many(["a", "b"])
        await all_fail([many], r"^There is no bucket of this name\.$")


async def test_passing_failures_are_repeated(store: GcsStore, google: Google, seal: Seal) -> None:
    slow, broken = refusal(429, "rateLimitExceeded", ""), refusal(503, "backendError", "")
    google.interfere = answers(
        *[("POST", "/upload/", slow), ("POST", "/upload/", broken), ("GET", "/o/", broken), ("DELETE", "/o/", slow)]
    )
    await store.put("a", seal(b"x"), content_type="text/plain")
    assert await read_object(store, "a") == b"x"
    await store.delete("a")
    assert await store.size("a") is None


# Deletions and listings


async def test_many_objects_are_deleted_with_one_request_and_denied_ones_named(
    store: GcsStore, google: Google, seal: Seal
) -> None:
    for key in ("a", "b", "c"):
        await store.put(key, seal(b"x"), content_type="text/plain")
    google.seen.clear()
    assert await store.delete_many(["a", "missing", TRICKY]) == {}
    # In a batch, the emulator does not say whether the object or the bucket is missing.
    assert [seen.method for seen in google.seen] == ["POST", "GET"]
    denied = lacking("storage.objects.delete").body.decode()
    part = "--x\r\nContent-Type: application/http\r\nContent-ID: <response-{}>\r\n\r\nHTTP/1.1 {}\r\n\r\n{}\r\n"
    body = part.format(0, "204 No Content", "") + part.format(1, "403 Forbidden", denied)
    headers = {"Content-Type": 'multipart/mixed; boundary="x"'}
    google.interfere = answers(("POST", "/batch/", Answer(200, f"{body}--x--\r\n".encode(), headers)))
    sentence = "The service account lacks the permission storage.objects.delete on the bucket."
    assert await store.delete_many(["a", "b", "c"]) == {"b": sentence}
    assert google.keys() == ["b"], "the one without an answer was deleted singly"


async def test_server_without_batches_deletes_singly(store: GcsStore, google: Google, seal: Seal) -> None:
    await store.put("a", seal(b"x"), content_type="text/plain")
    google.interfere = answers(("POST", "/batch/", Answer(501)), ("POST", "/batch/", Answer(404)))
    google.interfere = lambda seen: Answer(404) if seen.path.startswith("/batch/") else None
    assert await store.delete_many(["a", "missing"]) == {}
    assert google.keys() == []


async def test_listing_follows_pages_and_ends_with_a_repeated_one(store: GcsStore, google: Google) -> None:
    page = {"items": [{"name": "a/1", "size": "1"}], "nextPageToken": "again"}
    google.interfere = always(Answer(200, json.dumps(page).encode()))
    assert [len(batch) async for batch in store.list_objects("a")] == [1, 1]
    queries = [seen.query for seen in google.seen if seen.path != "/token"]
    assert [query.get("pageToken") for query in queries] == [None, "again"]
    assert queries[0]["prefix"] == "a/"


# Network


@pytest.mark.parametrize(
    ("host", "sentence"),
    [("127.0.0.1", "The store cannot be reached."), ("nowhere.invalid", "The host name of the store is not known.")],
)
async def test_unreachable_endpoint_fails_quickly(make_gcs: MakeGcs, seal: Seal, host: str, sentence: str) -> None:
    store = make_gcs(endpoint=f"http://{host}:{free_port()}", timeouts=SHORT_TIMEOUTS)
    begin = time.monotonic()
    await all_fail([store.put("a", seal(b"x"), content_type="text/plain")], sentence)
    assert (await store.health()).detail == sentence
    assert time.monotonic() - begin < 4


async def test_unresponsive_store_times_out(make_gcs: MakeGcs, gcs: FakeGcs, seal: Seal) -> None:
    async with fault_proxy(gcs.endpoint) as proxy:
        proxy.fault = Fault.BLACK_HOLE
        store = make_gcs(endpoint=proxy.endpoint, timeouts=Timeouts(0.2, 0.3, 1), part_bytes=PART)
        large = store.put("large", seal(LARGE), content_type="text/plain")
        for call in (*every_call(store, seal, "a"), large):
            await all_fail([call], "did not respond in time|left alone")


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.asvs("15.3.2", "1.3.6")
async def test_redirect_is_not_followed(make_gcs: MakeGcs, seal: Seal, status: int) -> None:
    async with answering("200 OK", "inside", host="127.0.0.2") as inside:
        async with answering(f"{status} Elsewhere\r\nLocation: {inside.url}/secret") as server:
            store = make_gcs(endpoint=server.url, timeouts=SHORT_TIMEOUTS, part_bytes=PART)
            large = store.put("large", seal(LARGE), content_type="text/plain")
            await all_fail([*every_call(store, seal, "a"), large])
        assert inside.seen == []


async def test_requests_ignore_proxies_of_the_environment_and_use_the_relay(
    make_gcs: MakeGcs, gcs: FakeGcs, seal: Seal, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{free_port()}")
    await make_gcs().put("a", seal(b"x"), content_type="text/plain")
    async with answering("404 Not Found", '{"error": {"message": "No such object: a"}}') as relay:
        assert await make_gcs(relay_url=relay.url).size("a") is None
        assert relay.seen[0].startswith(f"GET {gcs.endpoint}/storage/v1/b/")


@pytest.mark.asvs("1.3.6")
async def test_relay_leads_to_the_address_that_was_checked(make_gcs: MakeGcs, gcs: FakeGcs, seal: Seal) -> None:
    origins = set[str]()

    async def resolve(origin: str) -> tuple[str, ...]:
        origins.add(origin)
        return ("127.0.0.1",)

    relay, named = Relay(resolve, 0.5), f"http://store.sluice.invalid:{urlsplit(gcs.endpoint).port}"
    await relay.start()
    store = make_gcs(endpoint=named, relay_url=relay.url, part_bytes=PART)
    await store.put("a b+c/é=1", seal(b"small"), content_type="text/plain")
    await store.put("large", seal(LARGE), content_type="text/plain")
    assert await read_object(store, "large") == LARGE
    assert [one.key async for batch in store.list_objects("") for one in batch] == ["a b+c/é=1", "large"]
    assert await store.delete_many(["a b+c/é=1", "large", "none"]) == {}
    assert await store.size("large") is None
    assert origins == {named}
    await store.aclose()
    await relay.aclose()


async def test_each_request_is_allowed_first(make_gcs: MakeGcs, gcs: FakeGcs, gcs_bucket: str, seal: Seal) -> None:
    asked = list[int]()

    async def refuse() -> None:
        asked.append(len(asked))
        if len(asked) > 2:
            raise StoreError("not any more")

    store = make_gcs(before=refuse, part_bytes=PART)
    await all_fail([store.put("a", seal(LARGE), content_type="text/plain")], "not any more")
    assert gcs.keys(gcs_bucket) == []
    link = store.presign("a", expires_in=60, filename="a", content_type="text/plain")
    await all_fail([link], "not any more")


async def test_truncated_or_other_range_is_refused(make_gcs: MakeGcs) -> None:
    for span, body, held_back in (("0-9/10", "only", 0), ("0-9/10", "only", 6), ("3-12/20", "0123456789", 0)):
        head = f"206 Partial Content\r\nContent-Range: bytes {span}"
        async with answering(head, body, held_back=held_back) as server:
            store = make_gcs(endpoint=server.url, timeouts=NO_RETRIES)
            await all_fail([read_object(store, "a")], "fewer bytes|connection to the store broke")


async def test_clock_of_google_explains_a_refused_key(store: GcsStore, google: Google) -> None:
    date = (datetime.now(UTC) - timedelta(hours=2)).strftime("%a, %d %b %Y %H:%M:%S GMT")
    body = b'{"error": "invalid_grant", "error_description": "Bad Request"}'
    google.interfere = answers(("POST", "/token", Answer(400, body, {"Date": date})))
    await all_fail([store.size("a")], "clock of this machine")
