"""Download links of Azure, which Azurite checks, and clients of a directory, whose tokens it accepts over TLS."""

import base64
import json
import ssl
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from sluice.storage import PROBES, AzureSettings, Connection, StoreError, transport
from sluice.storage.azure import address
from sluice.storage.azure.store import SigningAzureStore, open_container
from tests.certificates import self_signed
from tests.rows import each_row
from tests.servers.azurite import Azurite, running_azurite
from tests.servers.canned import Canned, answering
from tests.storage.conftest import MakeAzure, Seal, read_object

TRICKY = "t/Übersicht +%20&=#?/a b*~'.pdf"
DIRECTORY, CLIENT = "9f1c2b34-0000-4000-8000-000000000001", "9f1c2b34-0000-4000-8000-000000000002"


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(trust_env=False, verify=False) as opened:
        yield opened


@pytest.fixture
def signing(make_azure: MakeAzure) -> SigningAzureStore:
    made = make_azure()
    assert isinstance(made, SigningAzureStore)
    return made


@pytest.mark.parametrize("key", ["t/c/file.pdf", TRICKY, "k" * 1000])
async def test_link_downloads_by_its_name(
    signing: SigningAzureStore, client: httpx.AsyncClient, seal: Seal, key: str
) -> None:
    await signing.put(key, seal(b"content"), content_type="application/octet-stream")
    url = await signing.presign(key, expires_in=60, filename="Übersicht.pdf", content_type="application/pdf")
    response = await client.get(url)
    assert (response.status_code, response.content) == (200, b"content")
    assert response.headers["content-type"] == "application/pdf"
    disposition = "attachment; filename=\"_bersicht.pdf\"; filename*=UTF-8''%C3%9Cbersicht.pdf"
    assert response.headers["content-disposition"] == disposition


async def test_link_is_only_for_reading_one_object_as_signed(
    signing: SigningAzureStore, azurite: Azurite, client: httpx.AsyncClient, seal: Seal
) -> None:
    for key in "ab":
        await signing.put(key, seal(b"x"), content_type="text/plain")
    url = await signing.presign("a", expires_in=60, filename='x"\r\nSet-Cookie: a=b', content_type="text/plain")
    response = await client.get(url)
    assert (response.status_code, "set-cookie" in response.headers) == (200, False)
    assert azurite.key not in url
    for signed, changed in (("/a?", "/b?"), ("sp=r", "sp=rd"), ("text%2Fplain", "text%2Fhtml"), ("sr=b", "sr=c")):
        assert signed in url
        assert (await client.get(url.replace(signed, changed))).status_code == 403, changed
    assert (await client.delete(url)).status_code == 403
    with pytest.raises(StoreError, match="A key"):
        await signing.presign("../a", expires_in=60, filename="a", content_type="text/plain")


async def test_link_expires_after_its_lifetime(
    signing: SigningAzureStore, client: httpx.AsyncClient, seal: Seal
) -> None:
    await signing.put("a", seal(b"x"), content_type="text/plain")
    urls = [
        await signing.presign("a", expires_in=lasts, filename="a", content_type="text/plain") for lasts in (60, -10)
    ]
    assert [(await client.get(url)).status_code for url in urls] == [200, 403]


def _token() -> str:
    """Return a token as a directory issues it for Azure Storage. Azurite does not look at its signature."""
    now = datetime.now(UTC)
    claims = {
        "aud": "https://acmeuploads.blob.core.windows.net",
        "iss": f"https://sts.windows.net/{DIRECTORY}/",
        "oid": CLIENT,
        "tid": DIRECTORY,
        "iat": int(now.timestamp()),
        "nbf": int((now - timedelta(minutes=5)).timestamp()),
        "exp": int((now + timedelta(hours=1)).timestamp()),
    }
    parts: tuple[dict[str, Any], ...] = ({"alg": "RS256", "typ": "JWT"}, claims, {})
    return ".".join(base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts)


@pytest.fixture
def over_tls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Azurite]:
    files = (tmp_path / "certificate.pem", tmp_path / "key.pem")
    for path, text in zip(files, self_signed(address="127.0.0.1"), strict=True):
        path.write_bytes(text)
    trusted = ssl.create_default_context(cafile=str(files[0]))
    monkeypatch.setattr(transport, "_tls_context", lambda: trusted)
    with running_azurite(tmp_path / "azurite", identity=files) as running:
        yield running


@pytest.fixture
async def login(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Canned]:
    """The directory, which gives every client a token."""
    answer = json.dumps({"access_token": _token(), "expires_in": 3599, "token_type": "Bearer"})
    async with answering("200 OK", answer) as server:
        monkeypatch.setattr(address, "_PUBLIC_LOGIN", server.url)
        yield server


def by_client(endpoint_url: str, container: str = "files", **changed: str) -> SigningAzureStore:
    own: dict[str, Any] = {"directory_id": DIRECTORY, "client_id": CLIENT, "endpoint_url": endpoint_url} | changed
    made = open_container(
        AzureSettings("acmeuploads", "client_secret", **own), container, "the-secret", Connection(PROBES)
    )
    assert isinstance(made, SigningAzureStore)
    return made


async def test_client_of_a_directory_stores_reads_and_signs_with_one_token(
    over_tls: Azurite, login: Canned, client: httpx.AsyncClient, seal: Seal
) -> None:
    made = by_client(over_tls.endpoint, over_tls.fresh_container())
    await made.probe()
    await made.put(TRICKY, seal(b"content"), content_type="text/plain")
    assert await read_object(made, TRICKY) == b"content"
    for _ in range(2):
        url = await made.presign(TRICKY, expires_in=60, filename="a.pdf", content_type="application/pdf")
        response = await client.get(url)
        assert (response.status_code, response.content) == (200, b"content")
        assert response.headers["content-type"] == "application/pdf"
    assert await made.delete_many([TRICKY]) == {}
    assert (await client.get(url.replace("sp=r", "sp=rw"))).status_code == 403
    await made.aclose()
    (request,) = login.seen
    assert request.startswith(f"POST /{DIRECTORY}/oauth2/v2.0/token HTTP/1.1")
    assert "the-secret" not in url


@each_row(
    "status, codes, sentence",
    [
        ("401 No", [7000215], "The client secret is wrong: it is the secret's value, not its ID."),
        ("401 No", [7000222], "The client secret has expired."),
        ("400 No", [700016], "The directory has no application of this client ID."),
        ("400 No", [90002], "There is no directory .tenant. of this ID."),
        ("400 No", [50000], "Microsoft Entra gave the client no token: 400 AADSTS50000."),
        ("503 No", None, "Microsoft Entra gave the client no token: 503."),
    ],
)
async def test_client_that_gets_no_token_is_told_why(
    monkeypatch: pytest.MonkeyPatch, status: str, codes: list[int] | None, sentence: str
) -> None:
    answer = "<html>" if codes is None else json.dumps({"error": "canary", "error_codes": codes})
    async with answering(status, answer) as server:
        monkeypatch.setattr(address, "_PUBLIC_LOGIN", server.url)
        with pytest.raises(StoreError, match=f"^{sentence}$"):
            await by_client("https://127.0.0.1:9").size("a")


async def test_client_without_a_role_is_told_which_one(
    login: Canned, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pem = tmp_path / "pem"
    pem.write_bytes(b"".join(self_signed(address="127.0.0.1")))
    served = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    served.load_cert_chain(pem)
    trusted = ssl.create_default_context(cafile=str(pem))
    monkeypatch.setattr(transport, "_tls_context", lambda: trusted)
    error = "<Error><Code>AuthorizationPermissionMismatch</Code></Error>"
    async with answering("403 No", error, tls=served) as server:
        made = by_client(server.url)
        with pytest.raises(StoreError, match=r"may not read the container's properties: .* Storage Blob Data Contr"):
            await made.probe()
        with pytest.raises(
            StoreError, match="may not delete objects: assign it the role Storage Blob Data Contributor"
        ):
            await made.delete("a")
        with pytest.raises(StoreError, match=r"may not sign download links: .* at the storage account and not only"):
            await made.presign("a", expires_in=60, filename="a", content_type="text/plain")
        await made.aclose()


def test_client_needs_ids_and_tls() -> None:
    for changed, sentence in (
        ({"directory_id": "acme.example"}, r"The directory \(tenant\) ID is not one"),
        ({"client_id": "../evil"}, r"The application \(client\) ID is not one"),
        ({"endpoint_url": "http://127.0.0.1:1"}, "needs an https endpoint"),
    ):
        with pytest.raises(StoreError, match=sentence):
            by_client(**({"endpoint_url": "https://127.0.0.1:1"} | changed))


def test_tokens_are_of_the_cloud_of_the_account_and_for_it_alone() -> None:
    hosts: dict[str | None, tuple[str, str]] = {
        None: ("login.microsoftonline.com", "acmeuploads.blob.core.windows.net"),
        "https://127.0.0.1:10000": ("login.microsoftonline.com", "acmeuploads.blob.core.windows.net"),
        **{
            f"https://acmeuploads.blob.core.{domain}": (login, f"acmeuploads.blob.core.{domain}")
            for domain, login in (
                ("usgovcloudapi.net", "login.microsoftonline.us"),
                ("chinacloudapi.cn", "login.partner.microsoftonline.cn"),
            )
        },
    }
    for endpoint, (login, audience) in hosts.items():
        found = address.container_address("acmeuploads", "files", endpoint)
        assert (found.login, found.audience) == (f"https://{login}", f"https://{audience}")
