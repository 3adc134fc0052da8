"""Download links: the response with the link, what the link returns, and a separate host. Counting is in `test_files`."""

import json
import time
from collections.abc import Iterator
from urllib.parse import parse_qs, unquote, urlsplit, urlunsplit

import httpx
import pytest

from tests.api import raw_http
from tests.api.responses import assert_error, assert_validation_error, check_response, data
from tests.api.samples import TEXT, noise, picture
from tests.cli.commands import sluice_in
from tests.deployments import Deployments
from tests.rows import each_row
from tests.scanning.waiting import until
from tests.servers.radosgw import RadosGateway
from tests.service import API, ApiClient, running_service

BYTES = noise(300_000)
SVG = b'<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"><rect width="5" height="5"/></svg>'


@pytest.fixture
def link(client: ApiClient) -> str:
    return _link(client, client.store("water.zzz", BYTES, context=client.create_context()))


@pytest.fixture
def local_link(without_s3: None, link: str) -> str:
    """The same link, on a setup where the service itself serves it."""
    return link


def _link(client: ApiClient, file_id: str, **query: object) -> str:
    return str(data(client.get(f"/files/{file_id}", **query))["download_url"])


def fetch(url: str, method: str = "GET", **headers: str) -> httpx.Response:
    """Send a request without any credential, as anybody with the link can."""
    with httpx.Client(timeout=30, event_hooks={"response": [check_response]}) as client:
        return client.request(method, url, headers={name.replace("_", "-"): value for name, value in headers.items()})


@pytest.mark.engine
@pytest.mark.asvs("4.1.3")
def test_link_response_has_exactly_its_fields_and_ignores_the_host_header(client: ApiClient) -> None:
    path = f"/files/{client.store('Hopper.png', picture(), context=client.create_context())}"
    for query, seconds in (({}, 300), ({"expires_in": 60}, 60), ({"expires_in": 3600}, 3600)):
        response = client.get(path, **query)
        assert response.json()["message"] == "Download URL generated"
        shown = data(response)
        assert shown.pop("download_url").startswith("http")
        described = {"original_filename": "Hopper.png", "content_type": "image/png"}
        assert shown == {"file_id": path.rpartition("/")[2], "expires_in_seconds": seconds, **described}
    response = client.request("GET", path, headers={"Host": "evil.example", "X-Forwarded-Host": "evil.example"})
    assert "evil" not in response.json()["data"]["download_url"]


@pytest.mark.engine
@pytest.mark.asvs("5.3.1", "5.4.1", "5.4.2", "1.2.1")
def test_link_serves_the_file_as_an_attachment_named_by_rfc_6266(client: ApiClient, link: str) -> None:
    """RFC 6266 and RFC 8187: a name in ASCII for old clients, and the real one."""
    response = fetch(_link(client, client.store("Hopper.png", picture(), context=client.create_context())))
    assert response.headers["content-disposition"].startswith("attachment")
    assert "Hopper.png" in response.headers["content-disposition"]
    assert response.headers["content-type"] == "image/png"
    response = fetch(link)
    assert (response.status_code, response.content) == (200, BYTES)
    for name in ["Ünïcødé 文件.txt", "two words.txt", "it's (1); x=y.txt", "per%41cent.txt", "back`tick.txt"]:
        response = fetch(_link(client, client.store(name, context=client.create_context())))
        disposition = response.headers["content-disposition"]
        extended = disposition.partition("filename*=UTF-8''")[2].partition(";")[0]
        plain = disposition.partition('filename="')[2].partition('"')[0]
        assert name in {unquote(extended), plain}
        assert disposition.isascii()


@pytest.mark.engine
def test_link_expires_after_the_requested_seconds(client: ApiClient) -> None:
    context = client.create_context(reject_blank_files=False, reject_corrupt_files=False)
    link = _link(client, client.store("empty.zzz", b"", context=context), expires_in=60)
    response = fetch(link)
    assert (response.status_code, response.content) == (200, b""), "an empty file can be downloaded too"
    query = parse_qs(urlsplit(link).query)
    if client.service.deployment.gateway is None:
        assert 55 <= int(query["expires"][0]) - time.time() <= 61
    else:
        assert query["X-Amz-Expires"] == ["60"]


@pytest.mark.engine
@each_row("before, after", [("x", ""), ("", "x")])
def test_altered_signature_is_refused(link: str, before: str, after: str) -> None:
    parts = urlsplit(link)
    query = "&".join(
        f"{name}={before + value[1:] + after if name.lower().endswith('signature') else value}"
        for name, _, value in (pair.partition("=") for pair in parts.query.split("&"))
    )
    assert fetch(urlunsplit(parts._replace(query=query))).status_code == 403


def test_local_link_answers_get_and_head_with_the_same_headers_and_an_etag(client: ApiClient, local_link: str) -> None:
    assert local_link.startswith(f"{client.service.url}/api/v1/downloads/")
    headers, head = fetch(local_link).headers, fetch(local_link, "HEAD")
    assert headers["x-content-type-options"] == "nosniff"
    assert "sandbox" in headers["content-security-policy"]
    assert (headers["content-length"], headers["accept-ranges"]) == ("300000", "bytes")
    assert headers["etag"]
    assert (head.status_code, head.content) == (200, b"")
    for name in ("content-length", "content-type", "content-disposition", "etag", "accept-ranges"):
        assert head.headers[name] == headers[name]
    assert fetch(local_link, "POST").status_code == 405
    assert fetch(local_link, "DELETE").status_code == 405
    etag = fetch(local_link).headers["etag"]
    response = fetch(local_link, If_None_Match=etag)
    assert (response.status_code, response.content) == (304, b"")
    assert fetch(local_link, If_None_Match='"another"').status_code == 200
    for names in (etag, "*", f'"another" , {etag}', f'{etag},"another"'):
        assert fetch(local_link, If_Match=names).status_code == 200
        assert fetch(local_link, If_Match=names, If_None_Match=etag).status_code == 304
    for names in ('"another"', f"W/{etag}", "", etag.strip('"')):
        for more in ({}, {"If_None_Match": etag}, {"Range": "bytes=0-9"}, {"Range": "bytes=300000-"}):
            response = fetch(local_link, If_Match=names, **more)
            assert_error(response, 412, "Precondition failed", "If-Match: names another version than the present one")
    assert fetch(local_link, "HEAD", If_Match='"another"').status_code == 412
    # the file has no date of modification, by which it could fail (RFC 9110 section 13.1.4)
    assert fetch(local_link, If_Unmodified_Since="Mon, 01 Jan 2001 00:00:00 GMT").status_code == 200
    assert fetch(local_link, Range="bytes=0-9", If_Range=etag).status_code == 206
    assert fetch(local_link, Range="bytes=0-9", If_Range='"another"').status_code == 200


def test_range_returns_partial_content_or_416_and_a_malformed_one_the_complete_file(local_link: str) -> None:
    for asked, start, end in [
        *(("0-0", 0, 1), ("0-99", 0, 100), ("100-199", 100, 200), ("299999-", 299_999, 300_000)),
        *(("1000-", 1000, 300_000), (f"0-{'9' * 6000}", 0, 300_000), (f"-{'9' * 30}", 0, 300_000)),
        (f"{'0' * 30}1-{'0' * 30}2", 1, 3),
        *(("299999-999999999", 299_999, 300_000), ("-1", 299_999, 300_000), ("-999999999", 0, 300_000)),
    ]:
        response = fetch(local_link, Range=f"bytes={asked}")
        assert (response.status_code, response.content) == (206, BYTES[start:end])
        assert response.headers["content-range"] == f"bytes {start}-{end - 1}/300000"
        assert response.headers["content-length"] == str(end - start)
    for asked in ("300000-", "999999999-", "300000-300001", "-0", f"{'9' * 30}-", f"{'9' * 30}-{'9' * 31}"):
        response = fetch(local_link, Range=f"bytes={asked}")
        assert_error(response, 416, "Range not satisfiable", "Range: begins after the end of the file")
        assert response.headers["content-range"] == "bytes */300000"
    malformed = ("bytes=", "bytes=x-y", "bytes=5-1", "lines=1-2", "nonsense", "bytes=--1", "bytes=1-2-3")
    for asked in (*malformed, "bytes=0-0,5-9", f"bytes={'9' * 31}-{'9' * 30}"):
        response = fetch(local_link, Range=asked)
        assert (response.status_code, len(response.content)) == (200, 300_000)


INVALID = (403, "Download link invalid or expired", "Ask for a new download URL")


def test_altered_link_or_disposition_is_refused(client: ApiClient, local_link: str) -> None:
    path, _, query = local_link.partition("?")
    expires, signature = sorted(query.split("&"))
    for altered in (
        *("", signature, expires),
        *(f"expires={value}&{signature}" for value in ("99999999999", "1", "soon")),
        *(f"{expires}&signature={value}" for value in ("", "%C3%BC")),
        *(f"{query}=", query.replace("expires=", "expires=0")),
        *(f"{query}&signature=x", f"{query}&expires=99999999999"),
        *(f"{query}&disposition={disposition}" for disposition in ("inline", "")),
    ):
        assert_error(fetch(f"{path}?{altered}".rstrip("?")), *INVALID)
    shown = _shown(client)
    for disposition in ("", "&disposition=attachment", "&disposition=inline&disposition=attachment"):
        assert_error(fetch(shown.replace("&disposition=inline", disposition)), *INVALID)


def test_local_link_is_good_for_its_own_file_until_that_is_deleted(client: ApiClient, local_link: str) -> None:
    parts = urlsplit(local_link)
    other = f"/api/v1/downloads/{client.store(context=client.create_context())}"
    response = fetch(urlunsplit(parts._replace(path=other)))
    assert response.status_code == 403
    assert TEXT not in response.content
    without_signature = fetch(local_link.partition("?")[0], Authorization=str(client.authorization))
    assert without_signature.status_code == 403
    client.set_status("suspended")
    assert fetch(local_link).status_code == 404
    client.set_status("active")
    assert fetch(local_link).status_code == 200
    client.delete(f"/files/{parts.path.rpartition('/')[2]}")
    assert_error(fetch(local_link), 404, "Resource not found", "Not found")


def test_s3_link_works_until_it_expires_and_contains_no_secret(s3: RadosGateway, client: ApiClient) -> None:
    file_id = client.store("water.zzz", BYTES, context=client.create_context())
    link = _link(client, file_id)
    assert s3.secret_key
    assert s3.secret_key not in link
    client.delete(f"/files/{file_id}")
    assert fetch(link).content == BYTES


# links to files that a browser shows: the service serves them itself, whatever the store


def _shown(client: ApiClient) -> str:
    return _link(client, client.store("Hopper.png", picture(), context=client.create_context()), disposition="inline")


@pytest.mark.engine
def test_inline_link_shows_the_file_in_a_sandbox_for_the_origins_of_its_tenant_but_no_page(client: ApiClient) -> None:
    response = fetch(_shown(client))
    policy = response.headers["content-security-policy"]
    assert (response.content, response.headers["content-type"]) == (picture(), "image/png")
    assert response.headers["content-disposition"] == 'inline; filename="Hopper.png"'
    assert policy.startswith("sandbox; default-src 'none';")
    assert "frame-ancestors 'none'" in policy
    assert response.headers["cross-origin-resource-policy"] == "same-origin"
    assert fetch(_shown(client), Range="bytes=0-3").content == picture()[:4]
    client.request("PUT", "/cors", json={"allowed_origins": ["https://b.example.com", "https://a.example.com"]})
    headers = fetch(_shown(client)).headers
    assert "frame-ancestors https://a.example.com https://b.example.com" in headers["content-security-policy"]
    assert headers["cross-origin-resource-policy"] == "cross-origin"
    for name, content in [("note.txt", TEXT), ("sign.svg", SVG)]:
        file_id = client.store(name, content, context=client.create_context())
        for disposition in ("inline", "other"):
            assert_validation_error(client.get(f"/files/{file_id}", disposition=disposition), "disposition")
            assert client.get(f"/files/{file_id}/metadata").json()["data"]["download_count"] == 0


# objects that someone changed in the bucket


def _logged(client: ApiClient, file_id: str) -> list[tuple[str, str]]:
    """Return level and name of each line of the log that has the file's id."""
    lines = [json.loads(line) for line in client.service.log.read_text().splitlines() if file_id in line]
    return [(line["level"], line["event"]) for line in lines]


def _quarantined(client: ApiClient, content: bytes) -> str:
    policies = {"filename_pattern": {"mode": "quarantine", "pattern": "good.*"}}
    context = client.create_context(max_file_size_mb=20, policies=policies)
    return str(data(client.upload("doubtful.zzz", content, context=context), 201)["file_id"])


@pytest.mark.engine
def test_file_whose_object_has_another_size_is_not_found(client: ApiClient) -> None:
    shown, file_id = _shown(client), _quarantined(client, BYTES)
    for key in client.object_keys():
        size = len(BYTES) if file_id in key else len(picture())
        for content in (b"", BYTES[: size - 1], BYTES + BYTES):
            client.overwrite_object(key, content)
            if file_id in key:
                assert_error(client.get(f"/quarantine/{file_id}/download"), 404, "Resource not found", "Not found")
                continue
            for asked in ("bytes=0-", "bytes=1-9", "none"):
                assert_error(fetch(shown, Range=asked), 404, "Resource not found", "Not found")
    inline_id = urlsplit(shown).path.rpartition("/")[2]
    assert _logged(client, inline_id) == [("warning", "download_broken")] * 9
    assert _logged(client, file_id) == [("warning", "download_broken")] * 3


@pytest.mark.engine
def test_object_that_changes_while_it_is_read_ends_the_connection(client: ApiClient) -> None:
    file_id = _quarantined(client, noise(12_000_000))
    (key,) = client.object_keys()
    with raw_http.connection(client) as sock:
        sock.sendall(raw_http.request_head(client, method="GET", path=f"{API}/quarantine/{file_id}/download"))
        head = sock.recv(65536)
        assert head.startswith(b"HTTP/1.1 200 ")
        assert b"content-length: 12000" in head.lower()
        client.overwrite_object(key, noise(1000))
        received = len(head)
        while chunk := sock.recv(65536):
            received += len(chunk)
        assert received < 12_000_000
    assert until(lambda: _logged(client, file_id) == [("warning", "download_broken")], 10)
    assert client.get("/files").status_code == 200


def test_download_is_read_by_listed_origins(client: ApiClient, without_s3: None) -> None:
    client.request("PUT", "/cors", json={"allowed_origins": ["https://app.example.com"]})
    other = client.other_tenant_client()
    other.request("PUT", "/cors", json={"allowed_origins": ["https://other.example"]})
    for link in (_link(client, client.store("note.txt", TEXT, context=client.create_context())), _shown(client)):
        readers = {
            origin: httpx.get(link, headers={"Origin": origin}).headers.get("access-control-allow-origin")
            for origin in ("https://app.example.com", "https://other.example")
        }
        assert readers == {"https://app.example.com": "https://app.example.com", "https://other.example": None}


_API_HOST, _FILES_HOST = "api.example.test", "files.example.test"


@pytest.fixture(scope="module")
def client_with_download_host(deployments: Deployments) -> Iterator[ApiClient]:
    """An API client of a service with two hosts, reached by its address as behind a proxy."""
    settings = {"PUBLIC_URL": f"https://{_API_HOST}", "DOWNLOAD_URL": f"https://{_FILES_HOST}"}
    with running_service(deployments.fresh("sqlite-local"), **settings) as service:
        yield service.new_client()


@pytest.fixture(scope="module")
def hosted_link(client_with_download_host: ApiClient) -> str:
    client = client_with_download_host
    file_id = client.store("note.txt", TEXT, context=client.create_context())
    origin, slash, path = str(data(client.get(f"/files/{file_id}"))["download_url"]).partition("/api/")
    assert origin == f"https://{_FILES_HOST}"
    return slash + path


def _request(client: ApiClient, path: str, host: str, method: str = "GET") -> httpx.Response:
    credential = {"Authorization": str(client.authorization)}
    return client.service.http.request(method, path, headers=credential | {"Host": host})


@pytest.mark.asvs("3.5.4")
def test_download_host_serves_only_files_and_other_hosts_everything_else(
    client_with_download_host: ApiClient, hosted_link: str
) -> None:
    for host in [_FILES_HOST, f"{_FILES_HOST}:8443", _FILES_HOST.upper(), f"{_FILES_HOST}."]:
        assert hosted_link.startswith(f"{API}/downloads/")
        assert _request(client_with_download_host, hosted_link, host).content == TEXT
        upload = _request(client_with_download_host, f"{API}/files/upload", host, "POST")
        paths = (f"{API}/files", "/health/ready", "/metrics", "/docs", "/openapi.json", "/")
        for response in (upload, *(_request(client_with_download_host, path, host) for path in paths)):
            assert_error(response, 404, "Resource not found", "Not found")
    for host in [_API_HOST, "127.0.0.1", f"{_FILES_HOST}.evil.example", "[::1]"]:
        assert_error(_request(client_with_download_host, hosted_link, host), 404, "Resource not found", "Not found")
        assert _request(client_with_download_host, f"{API}/files", host).status_code == 200
        assert _request(client_with_download_host, "/health/live", host).status_code == 200


def test_same_host_for_api_and_downloads_is_refused_at_startup(tmp_path_factory: pytest.TempPathFactory) -> None:
    same = {"PUBLIC_URL": "https://one.example.test", "DOWNLOAD_URL": "https://one.example.test:8443", "PORT": "0"}
    ended = sluice_in(tmp_path_factory.mktemp("one-host"), **same)("serve")
    assert "SLUICE_DOWNLOAD_URL" in ended.err
    assert ended.code == 1
