"""What is decided before, while and because of how the bytes of an upload arrive. What the form says is in `test_upload`."""

import hashlib
import socket

import pytest

from tests.api import forms, raw
from tests.api.answers import data, page
from tests.api.forms import field, file
from tests.api.samples import TEXT, noise
from tests.gate import Gate, Service

MB = 1_048_576
FORM = f"Content-Type: {forms.content_type()}"


@pytest.fixture
def context(gate: Gate) -> str:
    return gate.context()


def _body(context: str, content: bytes = TEXT, name: str = "data.zzz") -> bytes:
    return forms.encode([file(name, content), field("context", context)])


# before the body


@pytest.mark.parametrize("size", [500 * MB + 64 * 1024 + 1, 10**12, 10**18])
@pytest.mark.asvs("5.2.1")
def test_a_body_too_large_is_refused_before_its_first_byte(lobby: Gate, size: int) -> None:
    answer = raw.ask(lobby, FORM, f"Content-Length: {size}")
    assert answer.status == 413
    assert answer.said["message"] == "Request body too large"
    assert answer.said["status"] == "ERROR"


@pytest.mark.asvs("8.3.1")
def test_no_credential_is_refused_before_the_first_byte(lobby: Gate) -> None:
    answer = raw.ask(lobby.as_(None), FORM, "Content-Length: 100000000")
    assert (answer.status, answer.said["errors"]) == (401, ["Authentication required"])


def test_a_missing_scope_is_refused_before_the_first_byte(lobby: Gate) -> None:
    answer = raw.ask(lobby.as_(lobby.key("download")), FORM, "Content-Length: 100000000")
    assert (answer.status, answer.said["message"]) == (403, "Upload scope required")


def test_a_body_of_another_type_is_refused_before_the_first_byte(lobby: Gate) -> None:
    answer = raw.ask(lobby, "Content-Type: application/json", "Content-Length: 100000000")
    assert answer.status == 415


@pytest.mark.parametrize("coding", ["gzip", "br", "identity, gzip"])
def test_a_coded_body_is_refused_before_the_first_byte(lobby: Gate, coding: str) -> None:
    answer = raw.ask(lobby, FORM, f"Content-Encoding: {coding}", "Content-Length: 100000000")
    assert (answer.status, answer.said["errors"]) == (415, ["Content-Encoding: expected none"])


def test_the_refusal_of_a_missing_credential_goes_before_the_size(lobby: Gate) -> None:
    assert raw.ask(lobby.as_(None), FORM, "Content-Length: 1000000000000").status == 401


def test_a_client_that_waits_for_continue_is_told_the_refusal_instead(lobby: Gate) -> None:
    answer = raw.ask(lobby.as_(None), FORM, "Content-Length: 1000", "Expect: 100-continue")
    assert answer.status == 401


def test_a_client_that_waits_for_continue_is_let_go_on(gate: Gate, context: str) -> None:
    body = _body(context)
    with raw.connection(gate) as plug:
        plug.sendall(raw.request_head(gate, FORM, f"Content-Length: {len(body)}", "Expect: 100-continue"))
        assert plug.recv(1000).startswith(b"HTTP/1.1 100")
        plug.sendall(body)
        assert raw.read_answer(plug).status == 201


# in the middle of the body


@pytest.mark.asvs("5.2.1")
def test_a_file_too_large_for_its_known_context_is_refused_before_its_end(gate: Gate) -> None:
    context = gate.context(max_file_size_mb=1)
    start = forms.encode([field("context", context)])[: -len(forms.tail())] + forms.head(file("data.zzz", b""))
    with raw.connection(gate) as plug:
        plug.sendall(raw.request_head(gate, FORM, f"Content-Length: {100 * MB}") + start + noise(MB + 1))
        answer = raw.read_answer(plug)
    assert (answer.status, answer.said["errors"]) == (400, ["file_too_large"])


@pytest.mark.asvs("5.2.2")
def test_an_extension_not_allowed_is_refused_before_the_content(gate: Gate) -> None:
    context = gate.context(allowed_extensions=["pdf"])
    start = forms.encode([field("context", context)])[: -len(forms.tail())] + forms.head(file("data.zzz", b""))
    with raw.connection(gate) as plug:
        plug.sendall(raw.request_head(gate, FORM, f"Content-Length: {100 * MB}") + start + b"x")
        answer = raw.read_answer(plug)
    assert (answer.status, answer.said["errors"]) == (400, ["extension_not_allowed"])


@pytest.mark.asvs("5.2.1")
def test_a_chunked_body_is_refused_at_the_limit_and_not_after(lobby: Gate) -> None:
    """The file comes first, so only the service's own bound is known: 500 MB and 64 KiB, and no byte is sent beyond it."""
    chunk = b"%x\r\n%b\r\n" % (MB, noise(MB))
    with raw.connection(lobby) as plug:
        plug.sendall(raw.request_head(lobby, FORM, "Transfer-Encoding: chunked"))
        plug.sendall(raw.chunked(forms.head(file("data.zzz", b"")))[:-5])
        for _ in range(500):
            plug.sendall(chunk)
        plug.sendall(raw.chunked(bytes(64 * 1024))[:-5])
        answer = raw.read_answer(plug)
    assert (answer.status, answer.said["message"]) == (413, "Request body too large")


def test_a_chunked_body_is_an_upload(gate: Gate, context: str) -> None:
    body = _body(context, noise(100_000))
    pieces = [body[start : start + 1777] for start in range(0, len(body), 1777)]
    answer = raw.ask(gate, FORM, "Transfer-Encoding: chunked", body=raw.chunked(*pieces))
    assert answer.status == 201
    shown = data(gate.get(f"/files/{answer.said['data']['file_id']}/metadata"))
    assert shown["checksum"] == f"sha256:{hashlib.sha256(noise(100_000)).hexdigest()}"


@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_a_body_may_come_in_the_smallest_pieces(gate: Gate, context: str, size: int) -> None:
    body = _body(context)
    pieces = [body[start : start + size] for start in range(0, len(body), size)]
    assert raw.ask(gate, FORM, "Transfer-Encoding: chunked", body=raw.chunked(*pieces)).status == 201


def test_a_body_cut_off_stores_nothing(gate: Gate, context: str) -> None:
    body = _body(context, noise(200_000))
    with raw.connection(gate) as plug:
        plug.sendall(raw.request_head(gate, FORM, f"Content-Length: {len(body)}") + body[:100_000])
        plug.shutdown(socket.SHUT_WR)
        while plug.recv(65536):
            pass
    assert page(gate.get("/files"))[0] == []
    assert gate.objects() == set()
    assert gate.used(context) == 0


def test_a_silent_body_is_given_up(hasty: Service) -> None:
    gate = hasty.new_gate()
    with raw.connection(gate) as plug:
        plug.sendall(raw.request_head(gate, FORM, "Content-Length: 1000") + forms.head(file("a.txt", b"")))
        answer = raw.read_answer(plug)
    assert (answer.status, answer.said["message"]) == (408, "Request timeout")


# bodies that can be read in more than one way


EMPTY = b'--B\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\nx\r\n--B--\r\n'
CONTEXT = b'--B\r\nContent-Disposition: form-data; name="context"\r\n\r\n{context}\r\n'
FILE = b'--B\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\nclean water\r\n'
MALFORMED = {
    "no end": CONTEXT + FILE,
    "end cut off": CONTEXT + FILE + b"--B-",
    "another boundary": (CONTEXT + FILE + b"--B--\r\n").replace(b"--B", b"--C"),
    "nothing": b"",
    "words in front": b"preamble" + CONTEXT + FILE + b"--B--\r\n",
    "bare line feeds": (CONTEXT + FILE + b"--B--\r\n").replace(b"\r\n", b"\n"),
    "no disposition": b"--B\r\n\r\nx\r\n" + CONTEXT + FILE + b"--B--\r\n",
    "no name": b"--B\r\nContent-Disposition: form-data\r\n\r\nx\r\n" + CONTEXT + FILE + b"--B--\r\n",
    "two dispositions": CONTEXT
    + FILE.replace(b'a.txt"\r\n', b'a.txt"\r\nContent-Disposition: form-data; name="context"\r\n')
    + b"--B--\r\n",
    "two names": CONTEXT + FILE.replace(b'name="file"', b'name="file"; name="other"') + b"--B--\r\n",
    "two filenames": CONTEXT + FILE.replace(b'filename="a.txt"', b'filename="a.txt"; filename="b.exe"') + b"--B--\r\n",
    "folded header": CONTEXT + FILE.replace(b"; filename", b";\r\n filename") + b"--B--\r\n",
    "attachment": CONTEXT + FILE.replace(b"form-data", b"attachment") + b"--B--\r\n",
    "base64": CONTEXT + FILE.replace(b'a.txt"\r\n', b'a.txt"\r\nContent-Transfer-Encoding: base64\r\n') + b"--B--\r\n",
    "long header": CONTEXT + FILE.replace(b'a.txt"\r\n', b'a.txt"\r\nX-Long: ' + b"x" * 100_000 + b"\r\n") + b"--B--\r\n",
    "many headers": CONTEXT + FILE.replace(b'a.txt"\r\n', b'a.txt"\r\n' + b"X-Many: x\r\n" * 500) + b"--B--\r\n",
    "many parts": CONTEXT + b'--B\r\nContent-Disposition: form-data; name="x"\r\n\r\n\r\n' * 2000 + FILE + b"--B--\r\n",
}


@pytest.mark.parametrize("name", MALFORMED)
@pytest.mark.asvs("1.5.3")
def test_a_form_that_can_be_read_in_two_ways_is_malformed(gate: Gate, context: str, name: str) -> None:
    body = MALFORMED[name].replace(b"{context}", context.encode())
    answer = raw.ask(gate, "Content-Type: multipart/form-data; boundary=B", f"Content-Length: {len(body)}", body=body)
    assert (answer.status, answer.said["message"]) == (400, "Malformed request"), answer.body
    assert gate.objects() == set()


def test_a_form_without_fields_misses_them(lobby: Gate) -> None:
    answer = raw.ask(lobby, "Content-Type: multipart/form-data; boundary=B", "Content-Length: 7", body=b"--B--\r\n")
    assert (answer.status, answer.said["errors"]) == (422, ["file: field required", "context: field required"])


@pytest.mark.parametrize(
    "kind",
    [
        "multipart/form-data",
        "multipart/form-data; boundary=",
        "multipart/form-data; boundary=" + "b" * 300,
        "multipart/form-data; boundary=a; boundary=b",
        "multipart/form-data; boundary=\xff",
    ],
    ids=["none", "empty", "long", "two", "not ASCII"],
)
def test_a_form_without_one_clear_boundary_is_malformed(lobby: Gate, kind: str) -> None:
    answer = raw.ask(lobby, f"Content-Type: {kind}", f"Content-Length: {len(EMPTY)}", body=EMPTY)
    assert (answer.status, answer.said["message"]) == (400, "Malformed request"), answer.body


@pytest.mark.parametrize(
    "kind", ["application/json", "text/plain", "application/x-www-form-urlencoded", "multipart/mixed; boundary=B"]
)
def test_a_body_that_is_no_form_is_an_unsupported_type(lobby: Gate, kind: str) -> None:
    answer = raw.ask(lobby, f"Content-Type: {kind}", f"Content-Length: {len(EMPTY)}", body=EMPTY)
    assert answer.status == 415
    assert answer.said["errors"] == ["Content-Type: expected multipart/form-data"]


@pytest.mark.one_process
@pytest.mark.parametrize(
    "lines",
    [
        ("Content-Length: 10", "Transfer-Encoding: chunked"),
        ("Content-Length: 10", "Content-Length: 11"),
        ("Content-Length: 10, 10",),
        ("Content-Length: +10",),
        ("Content-Length: -1",),
        ("Content-Length: 0x10",),
        ("Transfer-Encoding: gzip, chunked",),
        ("Transfer-Encoding: chunked, chunked",),
        ("Transfer-Encoding: identity",),
        ("Content-Length : 10",),
    ],
    ids=repr,
)
def test_ambiguous_framing_is_refused(lobby: Gate, lines: tuple[str, ...]) -> None:
    with raw.connection(lobby) as plug:
        plug.sendall(raw.request_head(lobby, FORM, *lines) + b"0\r\n\r\n12345")
        assert raw.read_answer(plug).status in {400, 501}


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br"])
def test_an_encoded_body_is_not_taken_for_a_plain_one(lobby: Gate, encoding: str) -> None:
    answer = raw.ask(lobby, FORM, f"Content-Encoding: {encoding}", f"Content-Length: {len(EMPTY)}", body=EMPTY)
    assert answer.status in {400, 415}
