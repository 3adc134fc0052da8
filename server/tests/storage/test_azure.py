"""The store of Azure: what it sends, a sentence for each response, blocks that are discarded, and who may do what."""

import asyncio
import base64
import os
import time
import traceback
from collections.abc import Awaitable, Callable
from datetime import timedelta

import pytest

from sluice.kit.health import EngineState
from sluice.storage import PresignsDownloads, StoreError, StoreFull, Timeouts
from sluice.storage.azure.address import container_address
from sluice.storage.azure.store import AzureStore
from tests.rows import each_row
from tests.servers.azurite import Azurite
from tests.servers.canned import answering
from tests.storage.conftest import MakeAzure, Seal, all_fail, every_call, read_object

MIB = 1024 * 1024
PART = 5 * MIB
LARGE = os.urandom(2 * PART + 1)
QUICK = Timeouts(connect_seconds=0.5, request_seconds=2.0, retries=0)


@pytest.mark.parametrize("size", [10, 9 * MIB])
async def test_object_has_content_type_and_digest_metadata(
    azure_store: AzureStore, azurite: Azurite, container: str, seal: Seal, size: int
) -> None:
    sealed = seal(os.urandom(size))
    await azure_store.put("a", sealed, content_type="image/png")
    head = azurite.request("HEAD", f"/{container}/a").headers
    assert head["content-type"] == "image/png"
    assert head["x-ms-meta-sha256"] == sealed.sha256.hex()


async def test_put_sends_the_headers_that_the_documentation_asks_for(make_azure: MakeAzure, seal: Seal) -> None:
    async with answering("201 Created\r\nETag: x") as server:
        await make_azure(endpoint_url=server.url).put("a/ü +", seal(b"body"), content_type="text/plain")
    line, *headers = server.seen[0].strip().split("\r\n")
    sent = dict(header.split(": ", 1) for header in headers)
    mark = sent.pop("x-ms-meta-sluice_put")
    signature = sent.pop("authorization")
    assert line.startswith("PUT /acmeuploads/test-")
    assert line.endswith("/a/%C3%BC%20%2B HTTP/1.1")
    assert len(mark) == 16
    assert signature.startswith("SharedKey acmeuploads:")
    assert sent.pop("x-ms-date").endswith(" GMT")
    assert sent == {
        "host": server.url.removeprefix("http://"),
        "accept": "*/*",
        "content-length": "4",
        "content-md5": "hBotaJrYa9FhFEdFPCLG/A==",
        "if-none-match": "*",
        "x-ms-blob-content-type": "text/plain",
        "x-ms-blob-type": "BlockBlob",
        "x-ms-meta-sha256": "230d8358dc8e8890b4c58deeb62912ee2f20357ae92a5cc861b98e68fe31acb5",
        "x-ms-version": "2023-11-03",
    }


async def test_repr_and_errors_contain_no_secret(make_azure: MakeAzure, azurite: Azurite, seal: Seal) -> None:
    key = base64.b64encode(b"canary-secret-0123456789").decode()
    token = azurite.sas("elsewhere") + "canary"
    for store in (make_azure(secret=key), make_azure(credential="sas_token", secret=token)):
        with pytest.raises(StoreError) as caught:
            await store.put("a", seal(b"x"), content_type="text/plain")
        text = repr(store) + repr(caught.value) + "".join(traceback.format_exception(caught.value))
        assert "canary" not in text.lower()
        assert key not in text


WRONG_KEY = base64.b64encode(bytes(64)).decode()


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"secret": WRONG_KEY}, "The account key does not fit the storage account."),
        ({"container": "no-such-container"}, "There is no container of this name in the storage account."),
    ],
)
async def test_wrong_setting_is_named_by_every_call(
    make_azure: MakeAzure, seal: Seal, changed: dict[str, str], sentence: str
) -> None:
    store = make_azure(**changed, rest_seconds=0.0)
    large = store.put("large", seal(bytes(9 * MIB)), content_type="text/plain")
    listed = anext(store.list_objects(""))
    stale = store.abort_stale_parts("", timedelta(0), bool)
    for call in (*every_call(store, seal, "a"), large, listed, stale, store.probe(), store.is_ours("a")):
        with pytest.raises(StoreError, match=f"^{sentence}$"):
            await call
    assert (await store.health()).detail == sentence
    assert await make_azure(**changed).delete_many(["a", "b"]) == dict.fromkeys("ab", sentence)


NOW = "Date: Thu, 01 Jan 2026 00:00:00 GMT"


@each_row(
    "head, code, kind, sentence",
    [
        ("503 Busy", "ServerBusy", "account_key", "The store asks for fewer requests."),
        ("500 Error", "InternalError", "account_key", "The store responded with 500 InternalError."),
        ("507 Full", "", "account_key", "The store has no room left."),
        ("418 Teapot", "Very{doing}Odd!", "account_key", "The store responded with 418."),
        ("200 OK", None, "account_key", "The store's response is not one that Azure gives."),
        (f"403 No\r\n{NOW}", "AuthenticationFailed", "account_key", "The clock of this machine differs too much"),
        ("403 No", "AuthorizationFailure", "account_key", "The storage account's firewall .Networking. does not allow"),
        ("403 No", "AccountIsDisabled", "account_key", "The storage account is disabled."),
        ("403 No", "KeyBasedAuthenticationNotPermitted", "account_key", "does not allow access by account keys"),
        ("403 No", "KeyBasedAuthenticationNotPermitted", "sas_token", "does not allow SAS tokens that an account key"),
        ("403 No", "AuthorizationSourceIPMismatch", "sas_token", "The SAS token is only for other IP addresses"),
        ("403 No", "AuthorizationProtocolMismatch", "sas_token", "The SAS token is for HTTPS only."),
        ("403 No", "Unknown", "account_key", "The credentials may not write objects."),
        ("409 No", "ContainerBeingDeleted", "account_key", "The container is being deleted."),
        ("409 No", "BlobImmutableDueToPolicy", "account_key", "has an immutability policy or a legal hold"),
        ("412 No", "LeaseIdMissing", "account_key", "There is a lease on the object or the container."),
        ("400 No", "AccountRequiresHttps", "account_key", "requires secure transfer: the endpoint must begin with"),
    ],
)
async def test_errors_have_sentences(
    make_azure: MakeAzure, azurite: Azurite, seal: Seal, *, head: str, code: str | None, kind: str, sentence: str
) -> None:
    error = f"<Error><Code>{code}</Code><Message>canary</Message></Error>"
    secret = azurite.sas("files") if kind == "sas_token" else azurite.key
    async with answering(head, "<html>" if code is None else error) as server:
        store = make_azure(endpoint_url=server.url, timeouts=QUICK, credential=kind, secret=secret)
        with pytest.raises(StoreError, match=sentence) as caught:
            await store.put("a", seal(b"x"), content_type="text/plain")
        assert isinstance(caught.value, StoreFull) == ("no room" in str(caught.value))
        assert "canary" not in "".join(traceback.format_exception(caught.value))
        assert caught.value.answer.startswith(head[:3])


@pytest.mark.parametrize("end", ["allowed", "refused", "cancelled"])
async def test_speculative_put_appears_once_allowed_or_leaves_nothing(
    make_azure: MakeAzure, azurite: Azurite, container: str, seal: Seal, end: str
) -> None:
    store = make_azure(part_bytes=PART)
    assert [store.can_put_speculatively(size) for size in (PART, PART + 1)] == [False, True]
    allowed: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
    put = asyncio.create_task(
        store.put_speculatively("a/b", seal(LARGE), content_type="application/pdf", allowed=allowed)
    )
    while "a/b" not in await asyncio.to_thread(azurite.keys, container, include="uncommittedblobs"):
        pass
    assert await store.size("a/b") is None
    if end == "cancelled":
        put.cancel()
    else:
        allowed.set_result(end == "allowed")
    if end == "allowed":
        await put
        assert await read_object(store, "a/b") == LARGE
        return
    with pytest.raises(StoreError if end == "refused" else asyncio.CancelledError):
        await put
    assert azurite.keys(container, include="uncommittedblobs") == []


async def test_object_that_appears_while_blocks_are_sent_is_not_replaced(
    make_azure: MakeAzure, azurite: Azurite, container: str, seal: Seal
) -> None:
    store = make_azure(part_bytes=PART)
    allowed: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
    put = asyncio.create_task(store.put_speculatively("a", seal(LARGE), content_type="text/plain", allowed=allowed))
    while "a" not in await asyncio.to_thread(azurite.keys, container, include="uncommittedblobs"):
        pass
    azurite.request("PUT", f"/{container}/a", headers={"x-ms-blob-type": "BlockBlob"}, body=b"other")
    allowed.set_result(True)
    with pytest.raises(StoreError):
        await put
    assert await read_object(store, "a") == b"other"


async def test_only_old_blocks_of_this_service_are_discarded(
    azure_store: AzureStore, azurite: Azurite, container: str, seal: Seal, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stage(key: str, name: str) -> None:
        query = {"comp": "block", "blockid": base64.b64encode(name.encode()).decode()}
        azurite.request("PUT", f"/{container}/{key}", query, body=b"x")

    old = f"sluice-{'a' * 16}-{int(time.time()) - 7200:011d}-000000"
    young = f"sluice-{'a' * 16}-{int(time.time()):011d}-000000"
    for key, name in (("mine/old", old), ("mine/young", young), ("mine/other", "block-0"), ("theirs/old", old)):
        stage(key, name)
    stage("mine/mixed", old)
    stage("mine/mixed", "b" * len(old))
    for key in ("mine/empty", "mine/full"):
        await azure_store.put(key, seal(b"x" * (key == "mine/full")), content_type="text/plain")
    stage("mine/full", old)
    assert await azure_store.abort_stale_parts("mine/", timedelta(hours=1), lambda key: key != "mine/other") == 1
    left = {"mine/young", "mine/other", "mine/mixed", "mine/empty", "mine/full", "theirs/old"}
    assert set(azurite.keys(container, include="uncommittedblobs")) == left
    assert azurite.keys(container) == ["mine/empty", "mine/full"]


async def test_many_objects_are_deleted_with_one_request_or_one_by_one(make_azure: MakeAzure, seal: Seal) -> None:
    gone = "--b\r\nContent-ID: {}\r\n\r\nHTTP/1.1 {}\r\nx-ms-error-code: {}\r\n\r\n"
    parts = [gone.format(0, "202 Accepted", ""), gone.format(1, "404 Not", "BlobNotFound")]
    body = "".join((*parts, gone.format(2, "409 No", "BlobImmutableDueToPolicy"), "--b--"))
    async with answering("202 Accepted\r\nContent-Type: multipart/mixed; boundary=b", body) as server:
        store = make_azure(endpoint_url=server.url)
        assert await store.delete_many(["a", "b", "c"]) == {}
        assert [seen.split(" ")[:2] for seen in server.seen[1:]] == [["DELETE", f"{store._client.address.path('c')}"]]
        assert "?restype=container&comp=batch HTTP/1.1" in server.seen[0]
    async with answering("400 Bad", "<Error><Code>InvalidInput</Code></Error>") as server:
        failed = await make_azure(endpoint_url=server.url).delete_many(["a", "b"])
        assert failed == dict.fromkeys("ab", "The store responded with 400 InvalidInput.")
    async with answering("503 Busy") as server:
        with pytest.raises(StoreError, match="responded with 503"):
            await make_azure(endpoint_url=server.url, timeouts=QUICK).delete_many(["a", "b"])
        assert len(server.seen) == 1


async def test_probe_refuses_a_container_whose_files_anyone_can_read(
    make_azure: MakeAzure, azurite: Azurite, container: str
) -> None:
    for level, named in (("blob", "Blob"), ("container", "Container")):
        public = azurite.fresh_container(level)
        with pytest.raises(StoreError, match=f"anonymous access level is {named}"):
            await make_azure(container=public).probe()
        by_token = make_azure(container=public, credential="sas_token", secret=azurite.sas(public))
        with pytest.raises(StoreError, match="anonymous access level is"):
            await by_token.probe()
        assert azurite.keys(public) == []
    await make_azure(credential="sas_token", secret=azurite.sas(container)).probe()


async def test_probe_refuses_a_container_in_which_nothing_can_be_deleted(make_azure: MakeAzure) -> None:
    for held in ("immutability-policy", "legal-hold"):
        async with answering(f"200 OK\r\nx-ms-has-{held}: true") as server:
            with pytest.raises(StoreError, match="has an immutability policy or a legal hold"):
                await make_azure(endpoint_url=server.url).probe()
            assert len(server.seen) == 1


async def test_deletion_that_leaves_a_version_is_remarked(make_azure: MakeAzure, azure_store: AzureStore) -> None:
    async with answering("202 Accepted\r\nx-ms-delete-type-permanent: false") as server:
        store = make_azure(endpoint_url=server.url)
        await store.delete("a")
        assert store.remarks[0].startswith("Versioning or soft delete is on")
    await azure_store.probe()
    assert azure_store.remarks == []


@each_row(
    "permissions, sentence",
    [
        ("rcwd", r"The SAS token lacks the permission List \(l\)\."),
        ("rwl", r"The SAS token lacks the permissions Create \(c\), Delete \(d\)\."),
        ("cwdl", r"The SAS token lacks the permission Read \(r\)\."),
    ],
)
async def test_probe_names_the_permissions_that_a_token_lacks(
    make_azure: MakeAzure, azurite: Azurite, container: str, permissions: str, sentence: str
) -> None:
    store = make_azure(credential="sas_token", secret=azurite.sas(container, permissions))
    with pytest.raises(StoreError, match=f"^{sentence}$"):
        await store.probe()


async def test_each_request_that_a_token_lacks_a_permission_for_names_it(
    make_azure: MakeAzure, azurite: Azurite, container: str, seal: Seal
) -> None:
    sealed = seal(b"x")
    await make_azure().put("a", sealed, content_type="text/plain")
    calls: dict[str, Callable[[AzureStore], Awaitable[object]]] = {
        "r": lambda store: store.size("a"),
        "cw": lambda store: store.put("b", sealed, content_type="text/plain"),
        "d": lambda store: store.delete("a"),
        "l": lambda store: anext(store.list_objects("")),
    }
    for letters, call in calls.items():
        token = azurite.sas(container, "".join(letter for letter in "rcwdl" if letter not in letters))
        with pytest.raises(StoreError, match=f"The SAS token lacks the permission.*\\({letters[-1]}\\)\\."):
            await call(make_azure(credential="sas_token", secret=token))


async def test_token_must_last_longer_than_a_day_and_is_remarked_below_a_week(
    make_azure: MakeAzure, azurite: Azurite, container: str, seal: Seal
) -> None:
    def by_token(**lasts: float) -> AzureStore:
        return make_azure(credential="sas_token", secret="?" + azurite.sas(container, ends_in=timedelta(**lasts)))

    with pytest.raises(StoreError, match=r"^The SAS token expires on 20.* UTC: one that lasts longer than a day"):
        await by_token(hours=23).probe()
    short, long = by_token(days=3), by_token(days=8)
    for store in (short, long):
        await store.probe()
    health = await short.health()
    assert (health.state, [health.detail]) == (EngineState.DEGRADED, list(short.remarks))
    assert short.remarks[0].startswith("The SAS token expires on 20")
    assert ((await long.health()).state, long.remarks) == (EngineState.UP, [])
    expired = by_token(hours=-1)
    with pytest.raises(StoreError, match=r"^The SAS token expired on 20"):
        await expired.probe()
    await all_fail(every_call(expired, seal, "a"), r"^The SAS token expired on 20")


async def test_token_of_another_container_or_of_another_kind_is_named(
    make_azure: MakeAzure, azurite: Azurite, container: str
) -> None:
    token = azurite.sas(container)
    for secret, sentence in (
        (azurite.sas("elsewhere"), f"The SAS token is not for the container {container}"),
        (token.replace("sr=c", "sr=b"), "The SAS token is for a single blob or folder"),
        (token.replace("sr=c", "ss=qf&srt=co"), "The SAS token is not for the service Blob"),
        (token.replace("sr=c", "ss=b&srt=o"), "needs the resource types Container and Object"),
    ):
        with pytest.raises(StoreError, match=sentence):
            await make_azure(credential="sas_token", secret=secret).probe()
    for secret, sentence in (
        (f"https://acmeuploads.blob.core.windows.net/c?{token}", "only what follows the question mark"),
        (token.partition("&sig")[0], "copy it whole"),
        ("", "copy it whole"),
    ):
        with pytest.raises(StoreError, match=sentence):
            make_azure(credential="sas_token", secret=secret)


async def test_a_token_is_enough_for_all_but_links(
    make_azure: MakeAzure, azurite: Azurite, container: str, seal: Seal
) -> None:
    store = make_azure(credential="sas_token", secret=azurite.sas(container), part_bytes=PART)
    for key in ("a", "b/ü +"):
        await store.put(key, seal(LARGE), content_type="text/plain")
        assert await read_object(store, key) == LARGE
    assert [found.key async for batch in store.list_objects("") for found in batch] == ["a", "b/ü +"]
    assert await store.abort_stale_parts("", timedelta(0), bool) == 0
    assert await store.delete_many(["a", "b/ü +", "missing"]) == {}
    assert azurite.keys(container) == []


async def test_what_a_token_opens_signs_no_links(make_azure: MakeAzure, azurite: Azurite, container: str) -> None:
    by_token = make_azure(credential="sas_token", secret=azurite.sas(container))
    assert [isinstance(store, PresignsDownloads) for store in (by_token, make_azure())] == [False, True]


@each_row(
    "account, container, endpoint_url, begin",
    [
        ("acmeuploads", "files", None, "https://acmeuploads.blob.core.windows.net/files/"),
        ("acmeuploads", "a-b-c", "https://acmeuploads.z6.blob.storage.azure.net", "/a-b-c/"),
        ("acmeuploads", "files", "http://[::1]:10000/", "http://[::1]:10000/acmeuploads/files/"),
        ("acmeuploads", "files", "http://azurite:10000", "http://azurite:10000/acmeuploads/files/"),
    ],
)
def test_account_is_in_the_host_or_in_the_path(
    account: str, container: str, endpoint_url: str | None, begin: str
) -> None:
    address = container_address(account, container, endpoint_url)
    assert f"{address.endpoint}{address.path('a')}".endswith(f"{begin}a")


ACCOUNTS = ["", "ab", "a" * 25, "Acme", "acme-uploads", "acme.example", "evil.example/#", "äcme", "acme\n"]
CONTAINERS = ["", "ab", "a--b", "-abc", "abc-", "Files", "$web", "$root", "a" * 64, "a/b", "a?b", "abc\n"]
ENDPOINTS = ["", "example.org", "ftp://acmeuploads.example.org", "http://", "http://user@acmeuploads.example.org"]
ENDPOINTS += [f"http://acmeuploads.example.org{rest}" for rest in ("/path", "/?a=b", "/#a", ":port", "\\@evil.example")]


@each_row(
    "place, sentence",
    [((account, "files", None), "name of a storage account is 3 to 24") for account in ACCOUNTS]
    + [(("acmeuploads", name, None), "name of a container is 3 to 63") for name in CONTAINERS]
    + [(("acmeuploads", "files", url), "endpoint is an http or https address") for url in ENDPOINTS]
    + [(("acmeuploads", "files", "https://files.example.org"), "begins with the name of the storage account")],
)
def test_setting_that_could_change_the_address_is_refused(place: tuple[str, str, str | None], sentence: str) -> None:
    with pytest.raises(StoreError, match=sentence):
        container_address(*place)
