"""Uploads: the form, the response, names, metadata, refusals during the body. What the rules reject: `test_upload_rules`."""

import hashlib
import json
import socket
import unicodedata
from typing import Any

import pytest

from tests.api import forms, raw_http
from tests.api.forms import Part, field, file
from tests.api.responses import assert_error, assert_not_found, assert_validation_error, data, page
from tests.api.samples import TEXT, noise, picture
from tests.rows import each_row
from tests.service import ApiClient, Service


@pytest.fixture(scope="module")
def shared_context(shared_client: ApiClient) -> str:
    return shared_client.create_context()


def test_upload_response_has_exactly_the_fields_of_the_interface_and_the_type_of_the_content(
    client: ApiClient, context: str
) -> None:
    response = client.upload("Hopper.PNG", picture(), context=context, metadata={"invoice": 7})
    stored = data(response, 201)
    assert response.json()["message"] == "File uploaded"
    assert stored.pop("file_id").startswith("file_")
    assert stored.pop("report_id") == response.headers["sluice-report-id"]
    assert stored == {
        "original_filename": "Hopper.PNG",
        "content_type": "image/png",
        "size_bytes": len(picture()),
        "context_key": context,
        "metadata": {"invoice": 7},
    }
    for claimed in ("text/html", "image/png", "application/x-msdownload", "nonsense", None):
        parts = [Part("file", picture(), "p.png", claimed), field("context", context)]
        assert data(client.upload_parts(parts), 201)["content_type"] == "image/png", claimed
    unknown = data(client.upload("data.zzz", noise(5000), context=context), 201)
    assert unknown["content_type"] == "application/octet-stream"


@each_row("order", [(0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0), (0, 1), (1, 0), (3, 0, 1, 4)])
def test_form_fields_may_come_in_any_order(client: ApiClient, context: str, order: tuple[int, ...]) -> None:
    unknown = [field("flavour", "salt"), field("", "nameless")]
    fields = [file("note.txt", TEXT), field("context", context), field("metadata", '{"a": 1}'), *unknown]
    stored = data(client.upload_parts([fields[number] for number in order]), 201)
    assert (stored["size_bytes"], stored["metadata"]) == (len(TEXT), {"a": 1} if 2 in order else {})


@pytest.mark.asvs("15.3.7")
def test_missing_and_duplicate_form_fields_are_refused(shared_client: ApiClient, shared_context: str) -> None:
    fields = {"file": file("note.txt", TEXT), "context": field("context", shared_context)}
    for missing in fields:
        response = shared_client.upload_parts([part for name, part in fields.items() if name != missing])
        assert_validation_error(response, missing)
        assert response.json()["errors"] == [f"{missing}: field required"]
    assert_validation_error(shared_client.upload_parts([field("metadata", "{}")]), "file", "context")
    without_name = shared_client.upload_parts([field("file", "words"), fields["context"]])
    assert without_name.status_code in {400, 422}
    for twice in ["file", "context", "metadata"]:
        parts = [file("note.txt", TEXT), field("context", shared_context), field("metadata", "{}")]
        again = next(part for part in parts if part.name == twice)
        response = shared_client.upload_parts([*parts, again])
        assert response.status_code in {400, 422}, response.text
        assert page(shared_client.get("/files", context=shared_context))[0] == []


@each_row("key", ["unknown", "UPPER", "", "a" * 3000, "a\x00b", "../x"])
def test_returns_404_for_an_unknown_context(shared_client: ApiClient, key: str) -> None:
    assert_not_found(shared_client.upload(context=key))


@each_row("first", ["file", "context"])
def test_inactive_context_refuses_uploads(client: ApiClient, first: str) -> None:
    client = client.other_tenant_client().with_store()
    context = client.create_context()
    client.patch(f"/contexts/{context}", {"status": "inactive"})
    parts = [file("note.txt", TEXT), field("context", context)]
    response = client.upload_parts(parts if first == "file" else parts[::-1])
    assert_error(response, 409, "Context is inactive", "Set the context's status to active, or upload into another")
    assert client.object_keys() == set()
    client.patch(f"/contexts/{context}", {"status": "active"})
    client.store(context=context)


GOOD_METADATA: list[Any] = [
    {},
    {"a": 1},
    {"nested": {"list": [1, "two", None, 3.5, False]}},
    {"ü": "🌊"},
    {"zero": "a\u0000b", "big": 2**63, "": None},
    {"text": "x" * (4096 - len('{"text": ""}'))},
]


@each_row("metadata", GOOD_METADATA)
def test_valid_metadata_is_kept(client: ApiClient, context: str, metadata: Any) -> None:
    file_id = client.store(context=context, metadata=json.dumps(metadata, ensure_ascii=False))
    assert data(client.get(f"/files/{file_id}/metadata"))["metadata"] == metadata


BAD_METADATA = [
    json.dumps({"text": "x" * (4097 - len('{"text": ""}'))}),
    json.dumps({"text": "ü" * 2048}, ensure_ascii=False),
    *("", "null", "[]", '"text"', "7", "{", "{'a': 1}", '{"a": NaN}', '{"a": Infinity}', '{"a": 1, "a": 2}'),
    *('{"a": {"b": 1, "b": 2}}', '{"a": "\\ud800"}', '{"a": 1} {"b": 2}', '{"a": 1e999}'),
    '{"a":' * 33 + "1" + "}" * 33,
]


def test_invalid_metadata_is_refused(shared_client: ApiClient, shared_context: str) -> None:
    for metadata in BAD_METADATA:
        assert_validation_error(shared_client.upload(context=shared_context, metadata=metadata), "metadata")
    for content in (b'{"a": "\xff"}', b'{"text": "' + b"x" * 200_000 + b'"}'):
        parts = [file("note.txt", TEXT), field("context", shared_context), Part("metadata", content)]
        assert shared_client.upload_parts(parts).status_code in {400, 413, 422}


@each_row(
    "sent, kept",
    [
        (unicodedata.normalize("NFD", "Ünïcødé.txt"), "Ünïcødé.txt"),
        ("/etc/passwd.txt", "passwd.txt"),
        ("../../up.txt", "up.txt"),
        ("C:\\Users\\me\\note.txt", "note.txt"),
        ("..\\..\\up.txt", "up.txt"),
        *(
            (name, name)
            for name in ("note.txt", "Ünïcødé 文件 🌊.txt", "two words.tar.txt", ".hidden.txt", "noextension")
        ),
        *((name, name) for name in ("semi;colon.txt", "per%cent.txt", "it's.txt", "$(reboot).txt", "x" * 251 + ".txt")),
    ],
)
def test_file_name_is_kept_without_its_path(client: ApiClient, context: str, sent: str, kept: str) -> None:
    before = client.object_keys()
    stored = data(client.upload(sent.encode(), context=context), 201)
    assert stored["original_filename"] == kept
    (key,) = client.object_keys() - before
    assert stored["file_id"] in key
    assert kept.partition(".")[0] not in key.replace(stored["context_key"], "") or kept.startswith(".")


LONG_NAME = b"x" * 252 + b".txt"
BAD_NAMES = (b"/", b"..", b".", b"dir/", b"a\x01b.txt", b"a\x7fb.txt", b"tab\t.txt", b"\xff\xfe.txt", b"...")


@each_row("name", [b"a\x00b.txt", b"", LONG_NAME, *BAD_NAMES])
def test_invalid_file_name_is_refused(shared_client: ApiClient, shared_context: str, name: bytes) -> None:
    response = shared_client.upload(name, context=shared_context)
    assert response.status_code in ({400, 422} if name in BAD_NAMES else {422}), response.text
    if response.status_code == 422:
        assert_validation_error(response, "file")


TRICKY = b"\r\n--" + forms.BOUNDARY[:-1].encode() + b"\r\n--\r\n" + TEXT + b"\r\n--x\r\n\r\n"


def test_uploaded_bytes_are_stored_and_charged_each_time_with_their_checksum(client: ApiClient, context: str) -> None:
    stored = set()
    for number in (1, 2):
        stored.add(client.store(context=context))
        assert len(stored) == len(client.object_keys()) == number
        assert client.used_bytes(context) == number * len(TEXT)
    for content in [noise(300_000), TRICKY]:
        file_id = client.store("data.zzz", content, context=context)
        shown = data(client.get(f"/files/{file_id}/metadata"))
        assert (shown["checksum"], shown["size_bytes"]) == (
            f"sha256:{hashlib.sha256(content).hexdigest()}",
            len(content),
        )


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
    anonymous = shared_client.with_credential(None)
    for lines in (
        ("Content-Length: 100000000",),
        ("Content-Length: 1000000000000",),  # before the size, and instead of 100:
        ("Content-Length: 1000", "Expect: 100-continue"),
    ):
        response = raw_http.send_request(anonymous, FORM, *lines)
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


def test_body_in_chunks_or_after_100_continue_is_accepted(client: ApiClient, context: str) -> None:
    body = _body(context)
    with raw_http.connection(client) as sock:
        sock.sendall(raw_http.request_head(client, FORM, f"Content-Length: {len(body)}", "Expect: 100-continue"))
        assert sock.recv(1000).startswith(b"HTTP/1.1 100")
        sock.sendall(body)
        assert raw_http.read_response(sock).status == 201
    for content, size in [(noise(100_000), 1777), (TEXT, 1), (TEXT, 2), (TEXT, 3), (TEXT, 7)]:
        body = _body(context, content)
        pieces = [body[start : start + size] for start in range(0, len(body), size)]
        response = raw_http.send_request(client, FORM, "Transfer-Encoding: chunked", body=raw_http.chunked(*pieces))
        assert response.status == 201
        shown = data(client.get(f"/files/{response.json_body['data']['file_id']}/metadata"))
        assert shown["checksum"] == f"sha256:{hashlib.sha256(content).hexdigest()}"


def _sent_in_part(client: ApiClient, context: str, content: bytes) -> raw_http.RawResponse:
    """Return the response to the beginning of a file of 100 MB."""
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
    "no name": DISPOSITION + b"\r\n\r\nx\r\n" + CONTEXT + FILE + END,
    "attachment": CONTEXT + FILE.replace(b"form-data", b"attachment") + END,
    "bare line feeds": (CONTEXT + FILE + END).replace(b"\r\n", b"\n"),
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
