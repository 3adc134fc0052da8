"""Download links: what is answered, and what the link then gives. Counting is in `test_files`."""

import time
from collections.abc import Callable
from urllib.parse import parse_qs, unquote, urlsplit, urlunsplit

import httpx
import pytest

from tests.api.answers import check_edges, data, refused
from tests.api.samples import TEXT, noise, picture
from tests.gate import Gate

BYTES = noise(300_000)


@pytest.fixture
def link(gate: Gate) -> str:
    """A link to 300,000 bytes."""
    return _link(gate, gate.store("water.zzz", BYTES, context=gate.context()))


@pytest.fixture
def local_link(served_here: None, link: str) -> str:
    """The same, where the service itself serves it."""
    return link


def _link(gate: Gate, file_id: str, **query: object) -> str:
    return str(data(gate.get(f"/files/{file_id}", **query))["download_url"])


def fetch(url: str, method: str = "GET", **headers: str) -> httpx.Response:
    """Ask without any credential, as whoever was given the link."""
    with httpx.Client(timeout=30, event_hooks={"response": [check_edges]}) as client:
        return client.request(method, url, headers={name.replace("_", "-"): value for name, value in headers.items()})


# the answer that holds the link


@pytest.mark.parametrize(("query", "seconds"), [({}, 300), ({"expires_in": 60}, 60), ({"expires_in": 3600}, 3600)])
def test_the_answer_holds_what_the_interface_lists(gate: Gate, query: dict[str, int], seconds: int) -> None:
    file_id = gate.store("Hopper.png", picture(), context=gate.context())
    answer = gate.get(f"/files/{file_id}", **query)
    assert answer.json()["message"] == "Download URL generated"
    shown = data(answer)
    assert shown.pop("download_url").startswith("http")
    assert shown == {
        "file_id": file_id,
        "expires_in_seconds": seconds,
        "original_filename": "Hopper.png",
        "content_type": "image/png",
    }


def test_the_link_gives_the_bytes_that_were_sent(link: str) -> None:
    answer = fetch(link)
    assert answer.status_code == 200
    assert answer.content == BYTES


@pytest.mark.asvs("5.3.1")
def test_the_link_gives_a_file_to_keep_and_not_to_show(gate: Gate) -> None:
    answer = fetch(_link(gate, gate.store("Hopper.png", picture(), context=gate.context())))
    assert answer.headers["content-disposition"].startswith("attachment")
    assert "Hopper.png" in answer.headers["content-disposition"]
    assert answer.headers["content-type"] == "image/png"


@pytest.mark.parametrize("name", ["Ünïcødé 文件.txt", "two words.txt", "it's (1); x=y.txt", "per%41cent.txt", "back`tick.txt"])
@pytest.mark.asvs("5.4.1", "5.4.2", "1.2.1")
def test_the_link_names_the_file_in_the_standards_form(gate: Gate, name: str) -> None:
    """RFC 6266 and RFC 8187: a name in ASCII for old clients, and the true one."""
    disposition = fetch(_link(gate, gate.store(name, context=gate.context()))).headers["content-disposition"]
    extended = disposition.partition("filename*=UTF-8''")[2].partition(";")[0]
    plain = disposition.partition('filename="')[2].partition('"')[0]
    assert name in {unquote(extended), plain}
    assert disposition.isascii()


def test_the_links_of_a_suspended_tenant_lead_nowhere_until_it_is_let_in_again(gate: Gate, served_here: None) -> None:
    owner = gate.stranger()
    link = _link(owner, owner.store(context=owner.context()))
    owner.set_status("suspended")
    assert fetch(link).status_code == 404
    owner.set_status("active")
    assert fetch(link).status_code == 200


def test_a_link_expires_after_the_seconds_asked_for(gate: Gate) -> None:
    query = parse_qs(urlsplit(_link(gate, gate.store(context=gate.context()), expires_in=60)).query)
    if gate.service.place.gateway is None:
        assert 55 <= int(query["expires"][0]) - time.time() <= 61
    else:
        assert query["X-Amz-Expires"] == ["60"]


def test_an_empty_file_can_be_downloaded(gate: Gate) -> None:
    context = gate.context(reject_blank_files=False, reject_corrupt_files=False)
    answer = fetch(_link(gate, gate.store("empty.zzz", b"", context=context)))
    assert (answer.status_code, answer.content) == (200, b"")


@pytest.mark.parametrize("change", [("x", ""), ("", "x")])
def test_a_changed_signature_is_refused(link: str, change: tuple[str, str]) -> None:
    parts = urlsplit(link)
    query = "&".join(
        f"{name}={change[0] + value[1:] + change[1] if name.lower().endswith('signature') else value}"
        for name, _, value in (pair.partition("=") for pair in parts.query.split("&"))
    )
    assert fetch(urlunsplit(parts._replace(query=query))).status_code == 403


# links that the service serves itself


def test_a_local_link_leads_to_the_service(gate: Gate, local_link: str) -> None:
    assert local_link.startswith(f"{gate.service.url}/api/v1/downloads/")


def test_a_local_answer_protects_its_reader(local_link: str) -> None:
    headers = fetch(local_link).headers
    assert headers["x-content-type-options"] == "nosniff"
    assert "sandbox" in headers["content-security-policy"]
    assert headers["content-length"] == "300000"
    assert headers["accept-ranges"] == "bytes"
    assert headers["etag"]


def test_head_answers_as_get_without_the_bytes(local_link: str) -> None:
    whole, head = fetch(local_link), fetch(local_link, "HEAD")
    assert (head.status_code, head.content) == (200, b"")
    for name in ("content-length", "content-type", "content-disposition", "etag", "accept-ranges"):
        assert head.headers[name] == whole.headers[name]


@pytest.mark.parametrize(
    ("asked", "start", "end"),
    [
        ("bytes=0-0", 0, 1),
        ("bytes=0-99", 0, 100),
        ("bytes=100-199", 100, 200),
        ("bytes=299999-", 299_999, 300_000),
        ("bytes=299999-999999999", 299_999, 300_000),
        ("bytes=-1", 299_999, 300_000),
        ("bytes=-999999999", 0, 300_000),
        ("bytes=1000-", 1000, 300_000),
    ],
)
def test_a_range_is_answered(local_link: str, asked: str, start: int, end: int) -> None:
    answer = fetch(local_link, Range=asked)
    assert answer.status_code == 206
    assert answer.content == BYTES[start:end]
    assert answer.headers["content-range"] == f"bytes {start}-{end - 1}/300000"
    assert answer.headers["content-length"] == str(end - start)


@pytest.mark.parametrize("asked", ["bytes=300000-", "bytes=999999999-", "bytes=300000-300001", "bytes=-0"])
def test_a_range_beyond_the_end_is_not_satisfiable(local_link: str, asked: str) -> None:
    answer = fetch(local_link, Range=asked)
    refused(answer, 416, "Range not satisfiable", "Range: begins after the end of the file")
    assert answer.headers["content-range"] == "bytes */300000"


@pytest.mark.parametrize(
    "asked", ["bytes=", "bytes=x-y", "bytes=5-1", "lines=1-2", "nonsense", "bytes=--1", "bytes=1-2-3", "bytes=0-0,5-9"]
)
def test_a_range_that_is_none_answers_the_whole(local_link: str, asked: str) -> None:
    answer = fetch(local_link, Range=asked)
    assert (answer.status_code, len(answer.content)) == (200, 300_000)


def test_a_file_that_is_known_already_is_not_sent_again(local_link: str) -> None:
    etag = fetch(local_link).headers["etag"]
    answer = fetch(local_link, If_None_Match=etag)
    assert (answer.status_code, answer.content) == (304, b"")
    assert fetch(local_link, If_None_Match='"another"').status_code == 200


def test_a_range_of_another_version_answers_the_whole(local_link: str) -> None:
    etag = fetch(local_link).headers["etag"]
    assert fetch(local_link, Range="bytes=0-9", If_Range=etag).status_code == 206
    assert fetch(local_link, Range="bytes=0-9", If_Range='"another"').status_code == 200


def _without(link: str, name: str) -> str:
    parts = urlsplit(link)
    kept = "&".join(pair for pair in parts.query.split("&") if not pair.startswith(f"{name}="))
    return urlunsplit(parts._replace(query=kept))


def _with(link: str, name: str, value: str) -> str:
    return f"{_without(link, name)}&{name}={value}"


TAMPERED: dict[str, Callable[[str], str]] = {
    "no expiry": lambda link: _without(link, "expires"),
    "no signature": lambda link: _without(link, "signature"),
    "no query": lambda link: link.partition("?")[0],
    "later": lambda link: _with(link, "expires", "99999999999"),
    "sooner": lambda link: _with(link, "expires", "1"),
    "padded": lambda link: link + "=",
    "letters": lambda link: _with(link, "expires", "soon"),
    "zero in front": lambda link: link.replace("expires=", "expires=0"),
    "empty signature": lambda link: _with(link, "signature", ""),
    "odd signature": lambda link: _with(link, "signature", "%C3%BC"),
    "signature twice": lambda link: link + "&signature=x",
    "expires twice": lambda link: link + "&expires=99999999999",
}


@pytest.mark.parametrize("how", TAMPERED)
def test_a_changed_link_is_refused(local_link: str, how: str) -> None:
    answer = fetch(TAMPERED[how](local_link))
    refused(answer, 403, "Download link invalid or expired", "Ask for a new download URL")


def test_the_signature_of_one_file_opens_no_other(gate: Gate, local_link: str) -> None:
    other = gate.store(context=gate.context())
    parts = urlsplit(local_link)
    answer = fetch(urlunsplit(parts._replace(path=f"/api/v1/downloads/{other}")))
    assert answer.status_code == 403
    assert TEXT not in answer.content


def test_a_local_link_takes_no_credential_instead_of_its_signature(gate: Gate, local_link: str) -> None:
    answer = fetch(local_link.partition("?")[0], Authorization=str(gate.authorization))
    assert answer.status_code == 403


def test_a_local_link_ends_with_its_file(gate: Gate, local_link: str) -> None:
    file_id = urlsplit(local_link).path.rpartition("/")[2]
    gate.delete(f"/files/{file_id}")
    refused(fetch(local_link), 404, "Resource not found", "Not found")


def test_a_local_link_answers_to_no_other_method(local_link: str) -> None:
    assert fetch(local_link, "POST").status_code == 405
    assert fetch(local_link, "DELETE").status_code == 405


@pytest.mark.asvs("4.1.3")
def test_a_link_is_not_led_astray_by_the_host_asked(gate: Gate) -> None:
    file_id = gate.store(context=gate.context())
    answer = gate.ask("GET", f"/files/{file_id}", headers={"Host": "evil.example", "X-Forwarded-Host": "evil.example"})
    assert "evil" not in answer.json()["data"]["download_url"]


# links that S3 serves


def test_an_s3_link_lives_until_it_expires(s3: object, gate: Gate) -> None:
    file_id = gate.store("water.zzz", BYTES, context=gate.context())
    link = _link(gate, file_id)
    gate.delete(f"/files/{file_id}")
    assert fetch(link).content == BYTES


def test_an_s3_link_holds_no_secret(s3: object, gate: Gate, link: str) -> None:
    secret = gate.service.place.gateway.secret_key if gate.service.place.gateway else ""
    assert secret
    assert secret not in link
