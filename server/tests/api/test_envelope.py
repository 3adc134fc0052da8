"""What every response has in common. `responses.check_response` checks the responses of all other tests too."""

import httpx
import pytest

from tests.api.responses import assert_error, check_envelope, data, page
from tests.rows import each_row
from tests.service import ApiClient

LISTS = ["/contexts", "/files", "/api-keys"]


@each_row("path", LISTS)
@pytest.mark.asvs("1.4.2")
def test_list_is_paginated(bare_client: ApiClient, path: str) -> None:
    pagination = page(bare_client.get(path, flavour="salt"))[1]  # unknown parameters are ignored
    assert (pagination["page"], pagination["page_size"]) == (1, 20)
    items, pagination = page(bare_client.get(path, **({"status": "disabled"} if path == "/api-keys" else {})))
    assert (items, pagination["total"], pagination["total_pages"]) == ([], 0, 0)
    items, pagination = page(bare_client.get(path, page=99, page_size=1))
    assert (items, pagination["page"]) == ([], 99)
    for size in (1, 100):
        assert page(bare_client.get(path, page_size=size))[1]["page_size"] == size
    for huge in (10**30, 2**62):
        assert bare_client.get(path, page=huge, page_size=100).status_code in {200, 422}


BAD_PAGES = [
    *[("page", value) for value in ("1_0", "+1", " 1", "1 ", "1.0", "01", "1e0", "0x1", "\u0661", "\uff11", "1\0")],
    *[("page", value) for value in ("0", "-1", "x", "1.5", "", "true")],
    *[("page_size", value) for value in ("0", "101", "-1", "x", "1.5", "")],
]


@each_row("path", LISTS)
@each_row("name, value", BAD_PAGES)
def test_invalid_page_number_or_size_is_refused(shared_client: ApiClient, path: str, name: str, value: str) -> None:
    response = shared_client.get(path, **{name: value})
    assert response.status_code == 422
    assert [entry.split(": ")[0] for entry in response.json()["errors"]] == [name]


def test_unknown_path_returns_404_in_the_envelope(shared_client: ApiClient) -> None:
    outside = httpx.get(f"{shared_client.service.url}/nowhere")
    check_envelope(outside)
    inside = [shared_client.get(path) for path in ("/nothing", "/contexts/a/b", "/files/a/b/c", "/")]
    for response in (outside, *inside):
        assert_error(response, 404, "Resource not found", "Not found")
    assert len({response.headers["request-id"] for response in inside}) == len(inside)


@pytest.mark.asvs("4.1.4")
def test_unsupported_method_returns_the_allowed_methods(shared_client: ApiClient) -> None:
    for path, methods in {
        "/contexts": {"GET", "POST"},
        "/contexts/any": {"GET", "PATCH"},
        "/files/upload": {"POST"},
        "/files/any": {"DELETE", "GET"},
        "/api-keys/any": {"DELETE", "GET", "PATCH"},
        "/downloads/any": {"GET", "HEAD"},
    }.items():
        response = shared_client.request("PUT", path)
        assert response.status_code == 405
        assert response.json()["errors"] == [f"This path takes {', '.join(sorted(methods))}"]
        assert set(response.headers["allow"].split(", ")) == methods


JSON_ROUTES = ["/contexts", "/api-keys", "{buckets}"]


def post(client: ApiClient, route: str, body: bytes, **headers: str) -> httpx.Response:
    headers = {"Content-Type": "application/json"} | {name.replace("_", "-"): headers[name] for name in headers}
    return client.request("POST", route.replace("{buckets}", client.buckets), content=body, headers=headers)


@each_row("route", JSON_ROUTES)
@each_row("body", [
    *(b"", b"   ", b"{", b"{'a': 1}", b'{"name": "a", "name": "b"}', b'{"name": NaN}', b'{"name": "\xff"}'),
    *(b"[" * 5000, b"[]", b"null", b'"text"', b"7"),
])  # fmt: skip
def test_body_that_is_not_a_json_object_is_refused(shared_client: ApiClient, route: str, body: bytes) -> None:
    response = post(shared_client, route, body)
    assert response.status_code == 422, response.text
    assert response.json()["message"] == "Validation error"
    assert [entry.split(": ")[0] for entry in response.json()["errors"]] == ["body"]


def test_body_with_another_type_charset_or_encoding_returns_415(shared_client: ApiClient) -> None:
    types = ("text/plain", "application/x-www-form-urlencoded", "application/xml", "multipart/form-data; boundary=x")
    # The body is always read as UTF-8 (RFC 8259 section 8.1), but a proxy may believe the header.
    charsets = ("utf-16", "latin-1", "utf-7", "utf-8; charset=utf-16", '"utf-16le"', "", "utf-8;CHARSET = utf-32")
    problems = dict.fromkeys(types, "Content-Type: expected application/json")
    for charset in charsets:
        problems[f"application/json; charset={charset}"] = "Content-Type: expected application/json in UTF-8"
    for route in JSON_ROUTES:
        for kind, problem in problems.items():
            response = post(shared_client, route, b'{"name": "a"}', Content_Type=kind)
            assert (response.status_code, response.json()["errors"]) == (415, [problem]), kind
        for spaced in ("application/json\xa0", "\x85application/json", "application\xa0/json"):
            headers = [(b"Content-Type", spaced.encode("latin-1"))]
            assert shared_client.request("POST", "/contexts", content=b"{}", headers=headers).status_code == 415, spaced
    for coding in ["gzip", "deflate", "br", "zstd", "identity, gzip", "x", "chunked"]:
        body = b'{"context_key": "coded", "display_name": "x"}'
        response = post(shared_client, "/contexts", body, Content_Encoding=coding)
        assert (response.status_code, response.json()["errors"]) == (415, ["Content-Encoding: expected none"])
        assert shared_client.get("/contexts/coded").status_code == 404


def test_identity_content_encoding_and_charset_utf_8_are_accepted(bare_client: ApiClient) -> None:
    plain = post(bare_client, "/contexts", b'{"context_key": "a", "display_name": "x"}', Content_Encoding="identity")
    assert data(plain, 201)["context_key"] == "a"
    utf_8, body = "application/json; charset=utf-8", b'{"context_key": "b", "display_name": "x"}'
    assert data(post(bare_client, "/contexts", body, Content_Type=utf_8), 201)["context_key"] == "b"


@each_row("route", JSON_ROUTES)
def test_json_body_of_many_megabytes_is_refused(shared_client: ApiClient, route: str) -> None:
    body = b'{"name": "' + b"a" * 8_000_000 + b'"}'
    assert post(shared_client, route, body).status_code in {413, 422}
