"""Downloads on a host of their own: that host hands out files and nothing else, and the other hosts do all else."""

from collections.abc import Iterator

import httpx
import pytest

from tests.api.answers import data, refused
from tests.api.places import Places
from tests.api.samples import TEXT
from tests.cli.commands import sluice_in
from tests.gate import API, Gate, running_service

_API_HOST, _FILES_HOST = "api.example.test", "files.example.test"


@pytest.fixture(scope="module")
def apart(places: Places) -> Iterator[Gate]:
    """A tenant of a service with two hosts, reached here by its address as behind a proxy."""
    settings = {"PUBLIC_URL": f"https://{_API_HOST}", "DOWNLOAD_URL": f"https://{_FILES_HOST}"}
    with running_service(places.fresh("sqlite-local"), **settings) as service:
        yield service.new_gate()


@pytest.fixture(scope="module")
def link(apart: Gate) -> str:
    file_id = apart.store("note.txt", TEXT, context=apart.context())
    return str(data(apart.get(f"/files/{file_id}"))["download_url"])


def _ask(gate: Gate, path: str, host: str, method: str = "GET") -> httpx.Response:
    credential = {"Authorization": str(gate.authorization)}
    return gate.service.http.request(method, path, headers=credential | {"Host": host})


def test_links_begin_with_the_downloads_own_host(link: str) -> None:
    assert link.startswith(f"https://{_FILES_HOST}{API}/downloads/")


@pytest.mark.asvs("3.5.4")
@pytest.mark.parametrize("host", [_FILES_HOST, f"{_FILES_HOST}:8443", _FILES_HOST.upper()])
def test_the_downloads_host_hands_out_files_and_nothing_else(apart: Gate, link: str, host: str) -> None:
    assert _ask(apart, link.removeprefix(f"https://{_FILES_HOST}"), host).content == TEXT
    for method, path in (
        ("GET", f"{API}/files"),
        ("POST", f"{API}/files/upload"),
        ("GET", "/health/ready"),
        ("GET", "/metrics"),
        ("GET", "/docs"),
        ("GET", "/openapi.json"),
        ("GET", "/"),
    ):
        refused(_ask(apart, path, host, method), 404, "Resource not found", "Not found")


@pytest.mark.asvs("3.5.4")
@pytest.mark.parametrize("host", [_API_HOST, "127.0.0.1", f"{_FILES_HOST}.evil.example", "[::1]"])
def test_any_other_host_hands_out_no_file_and_does_all_else(apart: Gate, link: str, host: str) -> None:
    refused(_ask(apart, link.removeprefix(f"https://{_FILES_HOST}"), host), 404, "Resource not found", "Not found")
    assert _ask(apart, f"{API}/files", host).status_code == 200
    assert _ask(apart, "/health/live", host).status_code == 200


def test_one_host_for_both_is_refused_at_the_start(tmp_path_factory: pytest.TempPathFactory) -> None:
    same = {"PUBLIC_URL": "https://one.example.test", "DOWNLOAD_URL": "https://one.example.test:8443", "PORT": "0"}
    ended = sluice_in(tmp_path_factory.mktemp("one-host"), **same)("serve")
    assert "SLUICE_DOWNLOAD_URL" in ended.err
    assert ended.code == 3
