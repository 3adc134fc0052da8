"""A separate download host serves only files, and the other hosts serve everything else."""

from collections.abc import Iterator

import httpx
import pytest

from tests.api.responses import assert_error, data
from tests.api.samples import TEXT
from tests.cli.commands import sluice_in
from tests.deployments import Deployments
from tests.rows import each_row
from tests.service import API, ApiClient, running_service

_API_HOST, _FILES_HOST = "api.example.test", "files.example.test"


@pytest.fixture(scope="module")
def client_with_download_host(deployments: Deployments) -> Iterator[ApiClient]:
    """An API client of a service with two hosts, reached by its address as behind a proxy."""
    settings = {"PUBLIC_URL": f"https://{_API_HOST}", "DOWNLOAD_URL": f"https://{_FILES_HOST}"}
    with running_service(deployments.fresh("sqlite-local"), **settings) as service:
        yield service.new_client()


@pytest.fixture(scope="module")
def link(client_with_download_host: ApiClient) -> str:
    client = client_with_download_host
    file_id = client.store("note.txt", TEXT, context=client.create_context())
    origin, slash, path = str(data(client.get(f"/files/{file_id}"))["download_url"]).partition("/api/")
    assert origin == f"https://{_FILES_HOST}"
    return slash + path


def _request(client: ApiClient, path: str, host: str, method: str = "GET") -> httpx.Response:
    credential = {"Authorization": str(client.authorization)}
    return client.service.http.request(method, path, headers=credential | {"Host": host})


@pytest.mark.asvs("3.5.4")
@each_row("host", [_FILES_HOST, f"{_FILES_HOST}:8443", _FILES_HOST.upper(), f"{_FILES_HOST}."])
def test_download_host_serves_only_files(client_with_download_host: ApiClient, link: str, host: str) -> None:
    assert link.startswith(f"{API}/downloads/")
    assert _request(client_with_download_host, link, host).content == TEXT
    upload = _request(client_with_download_host, f"{API}/files/upload", host, "POST")
    paths = (f"{API}/files", "/health/ready", "/metrics", "/docs", "/openapi.json", "/")
    for response in (upload, *(_request(client_with_download_host, path, host) for path in paths)):
        assert_error(response, 404, "Resource not found", "Not found")


@pytest.mark.asvs("3.5.4")
@each_row("host", [_API_HOST, "127.0.0.1", f"{_FILES_HOST}.evil.example", "[::1]"])
def test_other_hosts_serve_everything_but_files(client_with_download_host: ApiClient, link: str, host: str) -> None:
    assert_error(_request(client_with_download_host, link, host), 404, "Resource not found", "Not found")
    assert _request(client_with_download_host, f"{API}/files", host).status_code == 200
    assert _request(client_with_download_host, "/health/live", host).status_code == 200


def test_same_host_for_api_and_downloads_is_refused_at_startup(tmp_path_factory: pytest.TempPathFactory) -> None:
    same = {"PUBLIC_URL": "https://one.example.test", "DOWNLOAD_URL": "https://one.example.test:8443", "PORT": "0"}
    ended = sluice_in(tmp_path_factory.mktemp("one-host"), **same)("serve")
    assert "SLUICE_DOWNLOAD_URL" in ended.err
    assert ended.code == 1
