"""What every response has in common. `responses.check_response` checks the responses of all other tests too."""

import httpx
import pytest

from tests.api.responses import assert_error, check_envelope, data, page, parse_timestamp
from tests.rows import each_row
from tests.service import ApiClient, Service


def test_success_has_status_message_data_and_timestamp(shared_client: ApiClient) -> None:
    response = shared_client.post("/contexts", {"context_key": "enveloped", "display_name": "x"})
    assert response.status_code == 201
    assert set(response.json()) == {"status", "message", "data", "timestamp"}
    assert response.json()["status"] == "SUCCESS"


def test_error_has_status_message_errors_and_timestamp(shared_client: ApiClient) -> None:
    response = shared_client.get("/contexts/no_such_context")
    assert set(response.json()) == {"status", "message", "errors", "timestamp"}
    assert response.json()["status"] == "ERROR"


def test_timestamp_is_in_utc_with_a_z(shared_client: ApiClient) -> None:
    parse_timestamp(shared_client.get("/contexts").json()["timestamp"])


@each_row("path", ["/contexts", "/files", "/api-keys"])
def test_list_is_paginated(shared_client: ApiClient, path: str) -> None:
    _, pagination = page(shared_client.get(path))
    assert (pagination["page"], pagination["page_size"]) == (1, 20)


@each_row("path", ["/contexts", "/files", "/api-keys"])
def test_empty_list_has_zero_pages(bare_client: ApiClient, path: str) -> None:
    filters = {"status": "disabled"} if path == "/api-keys" else {}
    items, pagination = page(bare_client.get(path, **filters))
    assert (items, pagination["total"], pagination["total_pages"]) == ([], 0, 0)


@each_row("path", ["/contexts", "/files", "/api-keys"])
def test_page_past_the_end_is_empty(bare_client: ApiClient, path: str) -> None:
    items, pagination = page(bare_client.get(path, page=99, page_size=1))
    assert items == []
    assert pagination["page"] == 99


BAD_PAGES = [
    *[("page", value) for value in ("1_0", "+1", " 1", "1 ", "1.0", "01", "1e0", "0x1", "\u0661", "\uff11", "1\0")],
    *[("page", value) for value in ("0", "-1", "x", "1.5", "", "true")],
    *[("page_size", value) for value in ("0", "101", "-1", "x", "1.5", "")],
]


@each_row("path", ["/contexts", "/files", "/api-keys"])
@each_row("name, value", BAD_PAGES)
def test_invalid_page_number_or_size_is_refused(shared_client: ApiClient, path: str, name: str, value: str) -> None:
    response = shared_client.get(path, **{name: value})
    assert response.status_code == 422
    assert [entry.split(": ")[0] for entry in response.json()["errors"]] == [name]


@each_row("path", ["/contexts", "/files", "/api-keys"])
@each_row("size", [1, 100])
def test_smallest_and_largest_page_size_are_accepted(shared_client: ApiClient, path: str, size: int) -> None:
    assert page(shared_client.get(path, page_size=size))[1]["page_size"] == size


@each_row("path", ["/contexts", "/files", "/api-keys"])
@pytest.mark.asvs("1.4.2")
def test_huge_page_number_causes_no_server_error(shared_client: ApiClient, path: str) -> None:
    assert shared_client.get(path, page=10**30, page_size=100).status_code in {200, 422}
    assert shared_client.get(path, page=2**62, page_size=100).status_code in {200, 422}


@each_row("path", ["/contexts", "/files", "/api-keys"])
def test_unknown_query_parameters_are_ignored(shared_client: ApiClient, path: str) -> None:
    assert shared_client.get(path, flavour="salt").status_code == 200


@each_row("path", ["/nothing", "/contexts/a/b", "/files/a/b/c", "/"])
def test_unknown_path_returns_404_in_the_envelope(shared_client: ApiClient, path: str) -> None:
    assert_error(shared_client.get(path), 404, "Resource not found", "Not found")


@each_row(
    "method, path",
    [("DELETE", "/contexts"), ("PUT", "/contexts/a"), ("GET", "/files/upload/x"), ("PATCH", "/files/file_1")],
)
def test_unsupported_method_is_refused_in_the_envelope(shared_client: ApiClient, method: str, path: str) -> None:
    response = shared_client.request(method, path)
    assert response.status_code in {404, 405}
    assert response.json()["status"] == "ERROR"


@each_row(
    "path, methods",
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
def test_unsupported_method_returns_the_allowed_methods(shared_client: ApiClient, path: str, methods: set[str]) -> None:
    response = shared_client.request("PUT", path)
    assert response.status_code == 405
    assert {method.strip() for method in response.headers["allow"].split(",")} == methods


@pytest.mark.asvs("3.4.2")
def test_no_cross_origin_request_is_allowed_by_default(shared_client: ApiClient) -> None:
    response = shared_client.request("GET", "/contexts", headers={"Origin": "https://elsewhere.example"})
    assert not [name for name in response.headers if name.startswith("access-control-")]


def test_every_response_has_its_own_request_id(shared_client: ApiClient) -> None:
    names = {shared_client.get("/contexts").headers["request-id"] for _ in range(3)}
    assert len(names) == 3


JSON_ROUTES = ["/contexts", "/api-keys", "{buckets}"]


def _path(client: ApiClient, route: str) -> str:
    return route.replace("{buckets}", client.buckets)


@each_row("route", JSON_ROUTES)
@each_row(
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
)
def test_body_that_is_not_a_json_object_is_refused(shared_client: ApiClient, route: str, body: bytes) -> None:
    response = shared_client.request(
        "POST", _path(shared_client, route), content=body, headers={"Content-Type": "application/json"}
    )
    assert response.status_code == 422, response.text
    assert response.json()["message"] == "Validation error"
    assert [entry.split(": ")[0] for entry in response.json()["errors"]] == ["body"]


@each_row("route", JSON_ROUTES)
@each_row(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "application/xml", "multipart/form-data; boundary=x"]
)
def test_body_with_another_content_type_returns_415(shared_client: ApiClient, route: str, kind: str) -> None:
    response = shared_client.request("POST", _path(shared_client, route), content=b"{}", headers={"Content-Type": kind})
    assert response.status_code == 415
    assert response.json()["errors"] == ["Content-Type: expected application/json"]


@each_row("route", JSON_ROUTES)
@each_row(
    "charset", ["utf-16", "latin-1", "utf-7", "utf-8; charset=utf-16", '"utf-16le"', "", "utf-8;CHARSET = utf-32"]
)
def test_json_in_another_charset_returns_415(shared_client: ApiClient, route: str, charset: str) -> None:
    """The body is always read as UTF-8 (RFC 8259 section 8.1), but a proxy may believe the header."""
    headers = {"Content-Type": f"application/json; charset={charset}"}
    response = shared_client.request("POST", _path(shared_client, route), content=b'{"name": "a"}', headers=headers)
    assert response.status_code == 415
    assert response.json()["errors"] == ["Content-Type: expected application/json in UTF-8"]


@each_row("coding", ["gzip", "deflate", "br", "zstd", "identity, gzip", "x", "chunked"])
def test_body_with_a_content_encoding_returns_415(shared_client: ApiClient, coding: str) -> None:
    headers = {"Content-Type": "application/json", "Content-Encoding": coding}
    response = shared_client.request(
        "POST", "/contexts", content=b'{"context_key": "coded", "display_name": "x"}', headers=headers
    )
    assert response.status_code == 415
    assert response.json()["errors"] == ["Content-Encoding: expected none"]
    assert shared_client.get("/contexts/coded").status_code == 404


@each_row("kind", ["application/json\xa0", "\x85application/json", "application\xa0/json"])
def test_content_type_with_non_ascii_space_returns_415(shared_client: ApiClient, kind: str) -> None:
    headers = [(b"Content-Type", kind.encode("latin-1"))]
    assert shared_client.request("POST", "/contexts", content=b"{}", headers=headers).status_code == 415


def test_identity_content_encoding_is_accepted(bare_client: ApiClient) -> None:
    headers = {"Content-Type": "application/json", "Content-Encoding": "identity"}
    data(
        bare_client.request(
            "POST", "/contexts", content=b'{"context_key": "plain", "display_name": "x"}', headers=headers
        ),
        201,
    )


def test_charset_utf_8_is_accepted(bare_client: ApiClient) -> None:
    body = b'{"context_key": "named", "display_name": "x"}'
    response = bare_client.request(
        "POST", "/contexts", content=body, headers={"Content-Type": "application/json; charset=utf-8"}
    )
    assert data(response, 201)["context_key"] == "named"


@each_row("route", JSON_ROUTES)
def test_json_body_of_many_megabytes_is_refused(shared_client: ApiClient, route: str) -> None:
    body = b'{"name": "' + b"a" * 8_000_000 + b'"}'
    response = shared_client.request(
        "POST", _path(shared_client, route), content=body, headers={"Content-Type": "application/json"}
    )
    assert response.status_code in {413, 422}


def test_health_checks_return_200(service: Service) -> None:
    assert httpx.get(f"{service.url}/health/live").status_code == 200
    assert httpx.get(f"{service.url}/health/ready").status_code == 200


@each_row("path", ["/health/live", "/health/ready", "/openapi.json", "/nowhere"])
@pytest.mark.asvs("13.4.6")
def test_no_response_names_the_server_or_allows_sniffing(service: Service, path: str) -> None:
    headers = httpx.get(service.url + path).headers
    assert "server" not in headers
    assert headers["x-content-type-options"] == "nosniff"


def test_unknown_path_outside_the_api_returns_404_in_the_envelope(service: Service) -> None:
    response = httpx.get(f"{service.url}/nowhere")
    check_envelope(response, response.text)
    assert_error(response, 404, "Resource not found", "Not found")
