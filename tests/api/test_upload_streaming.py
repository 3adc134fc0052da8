"""Refusals before and during the body of an upload, and ambiguous forms. The fields are in `test_upload`."""

import hashlib
import socket

import pytest

from tests.api import forms, raw_http
from tests.api.forms import field, file
from tests.api.responses import data, page
from tests.api.samples import TEXT, noise
from tests.rows import each_row
from tests.service import ApiClient, Service

MB = 1_048_576
FORM = f"Content-Type: {forms.content_type()}"


def _body(context: str, content: bytes = TEXT, name: str = "data.zzz") -> bytes:
    return forms.encode([file(name, content), field("context", context)])


@pytest.mark.asvs("5.2.1", "8.3.1")
def test_body_of_another_size_type_or_credential_is_refused_before_its_first_byte(shared_client: ApiClient) -> None:
    for size in [500 * MB + 64 * 1024 + 1, 10**12, 10**18]:
        response = raw_http.send_request(shared_client, FORM, f"Content-Length: {size}")
        assert (response.status, response.json_body["message"]) == (413, "Request body too large")
        assert response.json_body["status"] == "ERROR"
    nobody = shared_client.with_credential(None)
    for lines in (
        ("Content-Length: 100000000",),
        ("Content-Length: 1000000000000",),  # before the size, and instead of 100:
        ("Content-Length: 1000", "Expect: 100-continue"),
    ):
        response = raw_http.send_request(nobody, FORM, *lines)
        assert (response.status, response.json_body["errors"]) == (401, ["Authentication required"])
    downloader = shared_client.with_credential(shared_client.create_key("download"))
    response = raw_http.send_request(downloader, FORM, "Content-Length: 100000000")
    assert (response.status, response.json_body["message"]) == (403, "Upload scope required")
    other_type = raw_http.send_request(shared_client, "Content-Type: application/json", "Content-Length: 100000000")
    assert other_type.status == 415
    for coding in ("gzip", "deflate", "br", "identity, gzip"):
        head = (FORM, f"Content-Encoding: {coding}", "Content-Length: 100000000")
        response = raw_http.send_request(shared_client, *head)
        assert (response.status, response.json_body["errors"]) == (415, ["Content-Encoding: expected none"])


def test_expect_continue_gets_100_and_then_the_upload_succeeds(client: ApiClient, context: str) -> None:
    body = _body(context)
    with raw_http.connection(client) as sock:
        sock.sendall(raw_http.request_head(client, FORM, f"Content-Length: {len(body)}", "Expect: 100-continue"))
        assert sock.recv(1000).startswith(b"HTTP/1.1 100")
        sock.sendall(body)
        assert raw_http.read_response(sock).status == 201


def _sent_in_part(client: ApiClient, context: str, content: bytes) -> raw_http.RawResponse:
    """Return the answer to the beginning of a file of 100 MB."""
    start = forms.encode([field("context", context)])[: -len(forms.tail())] + forms.head(file("data.zzz", b""))
    return raw_http.send_request(client, FORM, f"Content-Length: {100 * MB}", body=start + content)


@pytest.mark.asvs("5.2.1", "5.2.2")
def test_file_over_the_limit_or_with_a_forbidden_extension_is_refused_before_its_end(client: ApiClient) -> None:
    response = _sent_in_part(client, client.create_context(max_file_size_mb=1), noise(MB + 1))
    assert (response.status, response.json_body["errors"]) == (400, ["file_too_large"])
    response = _sent_in_part(client, client.create_context(allowed_extensions=["pdf"]), b"x")
    assert (response.status, response.json_body["errors"]) == (400, ["extension_not_allowed"])


@pytest.mark.asvs("5.2.1")
def test_chunked_body_is_refused_exactly_at_the_limit(shared_client: ApiClient) -> None:
    """The file comes first, so only the service's own limit applies: 500 MB and 64 KiB, and not one byte more."""
    chunk = b"%x\r\n%b\r\n" % (MB, noise(MB))
    with raw_http.connection(shared_client) as sock:
        sock.sendall(raw_http.request_head(shared_client, FORM, "Transfer-Encoding: chunked"))
        sock.sendall(raw_http.chunked(forms.head(file("data.zzz", b"")))[:-5])
        for _ in range(500):
            sock.sendall(chunk)
        sock.sendall(raw_http.chunked(bytes(64 * 1024))[:-5])
        response = raw_http.read_response(sock)
    assert (response.status, response.json_body["message"]) == (413, "Request body too large")


@each_row("content, size", [(noise(100_000), 1777), (TEXT, 1), (TEXT, 2), (TEXT, 3), (TEXT, 7)])
def test_chunked_body_is_accepted(client: ApiClient, context: str, content: bytes, size: int) -> None:
    body = _body(context, content)
    pieces = [body[start : start + size] for start in range(0, len(body), size)]
    response = raw_http.send_request(client, FORM, "Transfer-Encoding: chunked", body=raw_http.chunked(*pieces))
    assert response.status == 201
    shown = data(client.get(f"/files/{response.json_body['data']['file_id']}/metadata"))
    assert shown["checksum"] == f"sha256:{hashlib.sha256(content).hexdigest()}"


def test_truncated_body_stores_nothing(client: ApiClient, context: str) -> None:
    body = _body(context, noise(200_000))
    with raw_http.connection(client) as sock:
        sock.sendall(raw_http.request_head(client, FORM, f"Content-Length: {len(body)}") + body[:100_000])
        sock.shutdown(socket.SHUT_WR)
        while sock.recv(65536):
            pass
    assert page(client.get("/files"))[0] == []
    assert client.object_keys() == set()
    assert client.used_bytes(context) == 0


def test_stalled_upload_body_returns_408(limited_service: Service) -> None:
    start = forms.head(file("a.txt", b""))
    response = raw_http.send_request(limited_service.new_client(), FORM, "Content-Length: 1000", body=start)
    assert (response.status, response.json_body["message"]) == (408, "Request timeout")


DISPOSITION = b"--B\r\nContent-Disposition: form-data"
EMPTY = DISPOSITION + b'; name="file"; filename="a.txt"\r\n\r\nx\r\n--B--\r\n'
CONTEXT = DISPOSITION + b'; name="context"\r\n\r\n{context}\r\n'
FILE = DISPOSITION + b'; name="file"; filename="a.txt"\r\n\r\nclean water\r\n'
END = b"--B--\r\n"
MALFORMED = {
    "no end": CONTEXT + FILE,
    "another boundary": (CONTEXT + FILE + END).replace(b"--B", b"--C"),
    "no disposition": b"--B\r\n\r\nx\r\n" + CONTEXT + FILE + END,
    "many parts": CONTEXT + (DISPOSITION + b'; name="x"\r\n\r\n\r\n') * 2000 + FILE + END,
    "many headers": CONTEXT + FILE.replace(b'a.txt"\r\n', b'a.txt"\r\n' + b"X-Many: x\r\n" * 500) + END,
}
"""Forms that the service refuses as its parser does; those that are ambiguous are in `http1/test_multipart`."""


def _send_body(client: ApiClient, kind: str, body: bytes = EMPTY) -> raw_http.RawResponse:
    return raw_http.send_request(client, f"Content-Type: {kind}", f"Content-Length: {len(body)}", body=body)


@each_row("name", MALFORMED)
@pytest.mark.asvs("1.5.3")
def test_ambiguous_form_is_refused_as_malformed(client: ApiClient, context: str, name: str) -> None:
    body = MALFORMED[name].replace(b"{context}", context.encode())
    response = _send_body(client, "multipart/form-data; boundary=B", body)
    assert (response.status, response.json_body["message"]) == (400, "Malformed request"), response.body
    assert client.object_keys() == set()


def test_body_that_is_no_form_is_refused(shared_client: ApiClient) -> None:
    response = _send_body(shared_client, "multipart/form-data; boundary=B", END)
    assert (response.status, response.json_body["errors"]) == (422, ["file: field required", "context: field required"])
    for ending in ("", "; boundary=", "; boundary=" + "b" * 300, "; boundary=a; boundary=b", "; boundary=\xff"):
        response = _send_body(shared_client, f"multipart/form-data{ending}")
        assert (response.status, response.json_body["message"]) == (400, "Malformed request"), ending
    for kind in ("application/json", "text/plain", "application/x-www-form-urlencoded", "multipart/mixed; boundary=B"):
        response = _send_body(shared_client, kind)
        expected = (415, ["Content-Type: expected multipart/form-data"])
        assert (response.status, response.json_body["errors"]) == expected, kind


@pytest.mark.one_process
@each_row("lines", [
    *(["Content-Length: 10", "Transfer-Encoding: chunked"], ["Content-Length: 10", "Content-Length: 11"]),
    *(["Content-Length: 10, 10"], ["Content-Length: +10"], ["Content-Length: -1"], ["Content-Length: 0x10"]),
    *(["Transfer-Encoding: gzip, chunked"], ["Transfer-Encoding: chunked, chunked"], ["Transfer-Encoding: identity"]),
    ["Content-Length : 10"],
])  # fmt: skip
def test_ambiguous_framing_is_refused(shared_client: ApiClient, lines: list[str]) -> None:
    assert raw_http.send_request(shared_client, FORM, *lines, body=b"0\r\n\r\n12345").status in {400, 501}
