"""What every answer has in common. `answers.check_edges` holds all other tests' answers to it too."""

import httpx
import pytest

from tests.api.answers import check_envelope, data, moment, page, refused
from tests.gate import Gate, Service


def test_a_success_holds_status_message_data_and_time(lobby: Gate) -> None:
    answer = lobby.post("/contexts", {"context_key": "enveloped", "display_name": "x"})
    assert answer.status_code == 201
    assert set(answer.json()) == {"status", "message", "data", "timestamp"}
    assert answer.json()["status"] == "SUCCESS"


def test_a_failure_holds_status_message_errors_and_time(lobby: Gate) -> None:
    answer = lobby.get("/contexts/no_such_context")
    assert set(answer.json()) == {"status", "message", "errors", "timestamp"}
    assert answer.json()["status"] == "ERROR"


def test_a_timestamp_is_utc_with_a_z(lobby: Gate) -> None:
    moment(lobby.get("/contexts").json()["timestamp"])


@pytest.mark.parametrize("path", ["/contexts", "/files", "/api-keys"])
def test_a_list_is_paginated(lobby: Gate, path: str) -> None:
    _, pagination = page(lobby.get(path))
    assert (pagination["page"], pagination["page_size"]) == (1, 20)


@pytest.mark.parametrize("path", ["/contexts", "/files", "/api-keys"])
def test_an_empty_list_has_no_pages(newcomer: Gate, path: str) -> None:
    filters = {"status": "disabled"} if path == "/api-keys" else {}
    items, pagination = page(newcomer.get(path, **filters))
    assert (items, pagination["total"], pagination["total_pages"]) == ([], 0, 0)


@pytest.mark.parametrize("path", ["/contexts", "/files", "/api-keys"])
def test_a_page_past_the_end_is_empty_and_counts_all(newcomer: Gate, path: str) -> None:
    items, pagination = page(newcomer.get(path, page=99, page_size=1))
    assert items == []
    assert pagination["page"] == 99


BAD_PAGES = [
    *[("page", value) for value in ("1_0", "+1", " 1", "1 ", "1.0", "01", "1e0", "0x1", "\u0661", "\uff11", "1\0")],
    *[("page", value) for value in ("0", "-1", "x", "1.5", "", "true")],
    *[("page_size", value) for value in ("0", "101", "-1", "x", "1.5", "")],
]


@pytest.mark.parametrize("path", ["/contexts", "/files", "/api-keys"])
@pytest.mark.parametrize(("name", "value"), BAD_PAGES)
def test_a_page_out_of_bounds_is_invalid(lobby: Gate, path: str, name: str, value: str) -> None:
    answer = lobby.get(path, **{name: value})
    assert answer.status_code == 422
    assert [entry.split(": ")[0] for entry in answer.json()["errors"]] == [name]


@pytest.mark.parametrize("path", ["/contexts", "/files", "/api-keys"])
@pytest.mark.parametrize("size", [1, 100])
def test_page_sizes_at_the_edges_are_taken(lobby: Gate, path: str, size: int) -> None:
    assert page(lobby.get(path, page_size=size))[1]["page_size"] == size


@pytest.mark.parametrize("path", ["/contexts", "/files", "/api-keys"])
@pytest.mark.asvs("1.4.2")
def test_a_page_number_beyond_every_database_is_no_fault_of_the_service(lobby: Gate, path: str) -> None:
    assert lobby.get(path, page=10**30, page_size=100).status_code in {200, 422}
    assert lobby.get(path, page=2**62, page_size=100).status_code in {200, 422}


@pytest.mark.parametrize("path", ["/contexts", "/files", "/api-keys"])
def test_unknown_query_parameters_are_ignored(lobby: Gate, path: str) -> None:
    assert lobby.get(path, flavour="salt").status_code == 200


@pytest.mark.parametrize("path", ["/nothing", "/contexts/a/b", "/files/a/b/c", "/"])
def test_an_unknown_path_answers_in_the_envelope(lobby: Gate, path: str) -> None:
    refused(lobby.get(path), 404, "Resource not found", "Not found")


@pytest.mark.parametrize(
    ("method", "path"), [("DELETE", "/contexts"), ("PUT", "/contexts/a"), ("GET", "/files/upload/x"), ("PATCH", "/files/file_1")]
)
def test_a_method_that_the_path_lacks_answers_in_the_envelope(lobby: Gate, method: str, path: str) -> None:
    answer = lobby.ask(method, path)
    assert answer.status_code in {404, 405}
    assert answer.json()["status"] == "ERROR"


@pytest.mark.parametrize(
    ("path", "methods"),
    [
        ("/contexts", {"GET", "POST"}),
        ("/contexts/any", {"GET", "PATCH"}),
        ("/files/upload", {"POST"}),
        ("/files/any", {"DELETE", "GET"}),
        ("/api-keys/any", {"DELETE", "GET", "PATCH"}),
        ("/downloads/any", {"GET", "HEAD"}),
    ],
)
@pytest.mark.asvs("4.1.4")
def test_a_wrong_method_is_answered_with_the_right_ones(lobby: Gate, path: str, methods: set[str]) -> None:
    answer = lobby.ask("PUT", path)
    assert answer.status_code == 405
    assert {method.strip() for method in answer.headers["allow"].split(",")} == methods


@pytest.mark.asvs("3.4.2")
def test_no_origin_is_let_in_unless_configured(lobby: Gate) -> None:
    answer = lobby.ask("GET", "/contexts", headers={"Origin": "https://elsewhere.example"})
    assert not [name for name in answer.headers if name.startswith("access-control-")]


def test_each_answer_has_a_name_of_its_own(lobby: Gate) -> None:
    names = {lobby.get("/contexts").headers["request-id"] for _ in range(3)}
    assert len(names) == 3


JSON_ROUTES = ["/contexts", "/api-keys", "{buckets}"]


def _path(gate: Gate, route: str) -> str:
    return route.replace("{buckets}", gate.buckets)


@pytest.mark.parametrize("route", JSON_ROUTES)
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"   ",
        b"{",
        b"{'a': 1}",
        b'{"name": "a", "name": "b"}',
        b'{"name": NaN}',
        b'{"name": "\xff"}',
        b"[" * 5000,
        b"[]",
        b"null",
        b'"text"',
        b"7",
    ],
    ids=lambda body: repr(body[:12]),
)
def test_a_body_that_is_no_json_object_is_invalid(lobby: Gate, route: str, body: bytes) -> None:
    answer = lobby.ask("POST", _path(lobby, route), content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == 422, answer.text
    assert answer.json()["message"] == "Validation error"
    assert [entry.split(": ")[0] for entry in answer.json()["errors"]] == ["body"]


@pytest.mark.parametrize("route", JSON_ROUTES)
@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "application/xml", "multipart/form-data; boundary=x"]
)
def test_a_body_that_is_not_called_json_is_an_unsupported_type(lobby: Gate, route: str, kind: str) -> None:
    answer = lobby.ask("POST", _path(lobby, route), content=b"{}", headers={"Content-Type": kind})
    assert answer.status_code == 415
    assert answer.json()["errors"] == ["Content-Type: expected application/json"]


@pytest.mark.parametrize("route", JSON_ROUTES)
@pytest.mark.parametrize(
    "charset", ["utf-16", "latin-1", "utf-7", "utf-8; charset=utf-16", '"utf-16le"', "", "utf-8;CHARSET = utf-32"]
)
def test_json_in_another_charset_is_an_unsupported_type(lobby: Gate, route: str, charset: str) -> None:
    """It is read as UTF-8 whatever is said (RFC 8259 section 8.1): whoever stands before us may believe the header."""
    headers = {"Content-Type": f"application/json; charset={charset}"}
    answer = lobby.ask("POST", _path(lobby, route), content=b'{"name": "a"}', headers=headers)
    assert answer.status_code == 415
    assert answer.json()["errors"] == ["Content-Type: expected application/json in UTF-8"]


@pytest.mark.parametrize("coding", ["gzip", "deflate", "br", "zstd", "identity, gzip", "x", "chunked"])
def test_a_coded_body_is_refused_and_never_read_as_if_it_were_plain(lobby: Gate, coding: str) -> None:
    headers = {"Content-Type": "application/json", "Content-Encoding": coding}
    answer = lobby.ask("POST", "/contexts", content=b'{"context_key": "coded", "display_name": "x"}', headers=headers)
    assert answer.status_code == 415
    assert answer.json()["errors"] == ["Content-Encoding: expected none"]
    assert lobby.get("/contexts/coded").status_code == 404


@pytest.mark.parametrize("kind", ["application/json\xa0", "\x85application/json", "application\xa0/json"])
def test_a_type_is_not_what_only_some_take_for_space(lobby: Gate, kind: str) -> None:
    headers = [(b"Content-Type", kind.encode("latin-1"))]
    assert lobby.ask("POST", "/contexts", content=b"{}", headers=headers).status_code == 415


def test_json_may_say_that_it_is_not_coded(newcomer: Gate) -> None:
    headers = {"Content-Type": "application/json", "Content-Encoding": "identity"}
    data(newcomer.ask("POST", "/contexts", content=b'{"context_key": "plain", "display_name": "x"}', headers=headers), 201)


def test_json_may_name_its_charset(newcomer: Gate) -> None:
    body = b'{"context_key": "named", "display_name": "x"}'
    answer = newcomer.ask("POST", "/contexts", content=body, headers={"Content-Type": "application/json; charset=utf-8"})
    assert data(answer, 201)["context_key"] == "named"


@pytest.mark.parametrize("route", JSON_ROUTES)
def test_a_json_body_of_many_megabytes_is_refused(lobby: Gate, route: str) -> None:
    body = b'{"name": "' + b"a" * 8_000_000 + b'"}'
    answer = lobby.ask("POST", _path(lobby, route), content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code in {413, 422}


def test_the_service_says_that_it_lives_and_is_ready(service: Service) -> None:
    assert httpx.get(f"{service.url}/health/live").status_code == 200
    assert httpx.get(f"{service.url}/health/ready").status_code == 200


@pytest.mark.parametrize("path", ["/health/live", "/health/ready", "/openapi.json", "/nowhere"])
@pytest.mark.asvs("13.4.6")
def test_no_answer_names_the_server_or_lets_a_browser_guess(service: Service, path: str) -> None:
    headers = httpx.get(service.url + path).headers
    assert "server" not in headers
    assert headers["x-content-type-options"] == "nosniff"


def test_a_path_outside_the_api_answers_in_the_envelope_too(service: Service) -> None:
    answer = httpx.get(f"{service.url}/nowhere")
    check_envelope(answer, answer.text)
    refused(answer, 404, "Resource not found", "Not found")
