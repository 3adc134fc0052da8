"""Hostile texts in every field of every route, as the OpenAPI document lists them: kept as sent or refused, and nothing in between.

What they do to the names of files is in `test_hostile_names`.
"""

import itertools
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

import httpx
import pytest

from tests.api.answers import data
from tests.api.forms import content_type, encode, field, file
from tests.api.places import Places
from tests.api.samples import TEXT
from tests.attacks import beside, hostile_lines, naughty_strings
from tests.gate import API, Gate, Service, running_service
from tests.length import amount

_STEP: Final = amount("TEXT_STEP", short=100, whole=1)
"""In the short form each field gets every fortieth text, and each field begins at another: all of them are tried somewhere."""
pytestmark = [beside, pytest.mark.timeout(300 + 7200 // _STEP)]
_GREETED: Final = b"Ctrl-C drains and stops."
"""The last of what a start says to people; what comes behind it is the log."""
_SAID: Final = {
    *("cache-control", "content-length", "content-security-policy", "content-type", "date", "referrer-policy", "request-id"),
    *("x-frame-options", "sluice-error-code", "x-request-id", "x-content-type-options"),
    *("allow", "retry-after", "www-authenticate", "connection"),
    *("cross-origin-resource-policy", "accept-ranges", "content-disposition", "content-range", "etag"),
}
"""Every header that an answer may have."""
_HEADERS: Final = (
    *("Authorization", "Accept", "Accept-Encoding", "Content-Type", "Content-Encoding", "Cookie", "Forwarded", "If-Match"),
    *("If-None-Match", "If-Range", "Origin", "Range", "Referer", "Request-Id", "X-Request-Id", "Traceparent", "Tracestate"),
    *("User-Agent", "Via", "X-Api-Key", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-HTTP-Method-Override"),
)
_UNSHOWN: Final = {"access_key_id", "secret_access_key", "endpoint_url"}
"""What is never shown, or masked."""
_numbers = itertools.count()


@dataclass(frozen=True)
class Field:
    """One place for a text: `where` is `body`, `path` or `query`; `names` leads into the body."""

    method: str
    path: str
    where: str
    names: tuple[str, ...]
    kind: str = "string"

    def __str__(self) -> str:
        return f"{self.method} {self.path} {self.where} {'.'.join(self.names)}"


@pytest.fixture(scope="module")
def apart(places: Places, setup_name: str) -> Iterator[Service]:
    """A service that keeps buckets without trying them out, so that each of their fields can be anything."""
    with running_service(places.fresh(setup_name), BUCKET_PROBE="false", LOG_LEVEL="debug") as service:
        yield service


@pytest.fixture(scope="module")
def target(apart: Service) -> tuple[Gate, dict[str, str]]:
    """A tenant that has one of everything, and the ids of these."""
    gate = apart.new_gate().with_store()
    context = gate.context(scan_for_viruses=False)
    ids = {"context_key": context, "tenant_id": gate.tenant_id, "api_key_id": gate.key("metadata").api_key_id}
    ids["file_id"] = gate.store(context=context)
    ids["config_id"] = data(gate.post(gate.buckets, _valid(gate, "/api/v1/tenants/{tenant_id}/storage-configs")), 201)["config_id"]
    return gate, ids


def _texts(number: int) -> list[str]:
    every = [*naughty_strings(), *hostile_lines()]
    return every[number % _STEP :: _STEP]


def _fields(service: Service) -> list[Field]:
    document = service.http.get("/openapi.json").json()
    return [
        found
        for path, methods in document["paths"].items()
        if path.startswith(API)
        for method, operation in methods.items()
        for found in _fields_of(document, method.upper(), path, operation)
    ]


def _fields_of(document: Mapping[str, Any], method: str, path: str, operation: Mapping[str, Any]) -> Iterator[Field]:
    for parameter in operation.get("parameters", ()):
        if parameter["in"] in {"path", "query"}:
            yield Field(method, path, parameter["in"], (parameter["name"],))
    schema = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
    if "$ref" in schema:
        yield from _properties(document, method, path, schema, ())


def _properties(
    document: Mapping[str, Any], method: str, path: str, schema: Mapping[str, Any], above: tuple[str, ...]
) -> Iterator[Field]:
    for name, one in _named(document, schema)["properties"].items():
        kinds = [_named(document, kind) for kind in one.get("anyOf", [one])]
        kind = next(kind for kind in kinds if kind.get("type") != "null")
        if kind.get("properties"):
            yield from _properties(document, method, path, kind, (*above, name))
        yield Field(method, path, "body", (*above, name), kind.get("type", "string"))


def _named(document: Mapping[str, Any], schema: Mapping[str, Any]) -> Mapping[str, Any]:
    name = schema.get("$ref", "").rpartition("/")[2]
    found: Mapping[str, Any] = document["components"]["schemas"][name] if name else schema
    return found


def _valid(gate: Gate, path: str) -> dict[str, Any]:
    number = next(_numbers)
    if path.endswith("/contexts"):
        return {"context_key": f"made_{number}", "display_name": "x"}
    if path.endswith("/api-keys"):
        return {"name": "x", "scopes": ["metadata"]}
    if path.endswith("/storage-configs"):
        return {
            "name": f"bucket {number}",
            "access_key_id": "A" * 16,
            "secret_access_key": "s",
            "default_bucket": "bucket",
        }
    return {}


def _body(gate: Gate, place: Field, text: str) -> dict[str, Any]:
    value: Any = {"array": [text], "object": {text: text}}.get(place.kind, text)
    for name in reversed(place.names[1:]):
        value = {name: value}
    paired = {"access_key_id": {"secret_access_key": "s"}, "secret_access_key": {"access_key_id": "A" * 16}}
    pair = paired.get(place.names[0], {}) if place.method == "PATCH" else {}
    return _valid(gate, place.path) | pair | {place.names[0]: value}


def _send(gate: Gate, method: str, path: str, body: object = None, **query: str) -> httpx.Response:
    """Send a text as JSON has it, lone surrogates too, and hold the answer to be a success or a refusal with known headers."""
    more: dict[str, Any] = {} if body is None else {"content": json.dumps(body), "headers": {"Content-Type": "application/json"}}
    asked = "?" + "&".join(f"{name}={_quoted(value)}" for name, value in query.items()) if query else ""
    answer = gate.ask(method, path.removeprefix(API) + asked, **more)
    _hold(answer, (method, path, body, query))
    return answer


def _hold(answer: httpx.Response, sent: object) -> None:
    assert answer.status_code < 500, (sent, answer.status_code, answer.text[:300])
    assert {name for name in answer.headers if not name.startswith("ratelimit-")} <= _SAID, (sent, answer.headers)


def _quoted(text: str) -> str:
    """Dots are encoded too: the client would take `.` and `..` out of a path by itself."""
    return quote(text.encode("utf-8", "surrogatepass"), safe="").replace(".", "%2E")


def _is_as_sent(place: Field, sent: Mapping[str, Any], shown: Mapping[str, Any]) -> bool:
    name = place.names[0]
    if name in _UNSHOWN or name not in shown:
        return True
    value = sent[name]
    if name == "base_path":
        value = value.strip("/")
    empty = {"storage_path_template": "{tenant_id}/{context_key}/{yyyy}/{mm}/{file_id}{extension}", "storage_config_id": None}
    return bool(shown[name] == (empty[name] if value == "" and name in empty else value))


def _total(gate: Gate, path: str) -> int:
    body = gate.get(path.removeprefix(API)).json()
    return int(body["pagination"]["total"] if "pagination" in body else len(body["data"]))


@pytest.mark.asvs("1.3.3", "2.2.1", "15.3.5", "1.2.3", "2.2.2")
def test_every_field_of_a_body_keeps_what_it_was_sent_or_refuses_it(apart: Service, target: tuple[Gate, dict[str, str]]) -> None:
    gate, ids = target
    places = [place for place in _fields(apart) if place.where == "body"]
    assert len(places) > 40
    for number, place in enumerate(places):
        path = place.path.format_map(ids)
        before = _total(gate, path) if place.method == "POST" else 0
        whole = data(gate.get(path.removeprefix(API))) if place.method == "PATCH" else {}
        kept = 0
        for text in _texts(number):
            body = _body(gate, place, text)
            answer = _send(gate, place.method, path, body)
            if answer.status_code >= 400:
                continue
            kept += 1
            shown = answer.json()["data"]
            assert _is_as_sent(place, body, shown), (str(place), body, shown)
            if place.method == "PATCH":
                changed = {name for name in whole if whole[name] != shown[name]} - {"updated_at", *body}
                assert not changed, (str(place), text, changed)
                whole = shown
        if place.method == "PATCH":
            assert data(gate.get(path.removeprefix(API))) == whole, str(place)
        else:
            assert _total(gate, path) == before + kept, str(place)


@pytest.mark.asvs("1.3.3", "2.2.1")
def test_every_parameter_of_a_path_or_query_finds_something_nothing_or_is_refused(
    apart: Service, target: tuple[Gate, dict[str, str]]
) -> None:
    gate, ids = target
    places = [place for place in _fields(apart) if place.where != "body"]
    links = [Field("GET", f"{API}/downloads/{{file_id}}", "path", ("file_id",))]
    links += [Field("GET", f"{API}/downloads/{{file_id}}", "query", (name,)) for name in ("expires", "signature")]
    assert len(places) > 30
    for number, place in enumerate([*places, *links]):
        body = _valid(gate, place.path) if place.method in {"POST", "PATCH"} else None
        for text in _texts(number):
            if place.where == "query":
                answer = _send(gate, place.method, place.path.format_map(ids), body, **{place.names[0]: text})
                assert answer.status_code in {200, 403, 404, 422}, (str(place), text, answer.text)
            else:
                answer = _send(gate, place.method, place.path.format_map(ids | {place.names[0]: _quoted(text)}), body)
                is_there = answer.status_code < 400 and answer.json()["data"][place.names[0]] == text
                assert is_there or answer.status_code >= 400, (str(place), text, answer.text)


@pytest.mark.asvs("2.2.1")
def test_every_header_that_a_client_may_send_is_judged_or_left_aside(target: tuple[Gate, dict[str, str]]) -> None:
    gate, ids = target
    link = data(gate.get(f"/files/{ids['file_id']}"))["download_url"]
    for number, name in enumerate(_HEADERS):
        for text in _texts(number):
            value = text.encode("utf-8", "surrogatepass")
            if value != value.strip() or any(byte < 0x20 or byte == 0x7F for byte in value):
                continue  # what no client sends, and what the framing refuses: see tests/edge
            credential = [] if name == "Authorization" else [(b"Authorization", str(gate.authorization).encode())]
            headers = [(name.encode(), value), *credential]
            for url in ("/api/v1/contexts", link if link.startswith(gate.service.url) else "/health/live"):
                _hold(gate.service.http.get(url, headers=headers), (name, text))


@pytest.mark.asvs("2.2.1")
def test_every_part_of_an_upload_takes_what_it_is_sent_or_refuses_it(apart: Service) -> None:
    gate = apart.new_gate().with_store()
    context = gate.context(scan_for_viruses=False)
    stored = 0
    for number, name in enumerate(("context", "context_key", "metadata", "other")):
        for text in _texts(number):
            raw = text.encode("utf-8", "surrogatepass").decode("latin-1")
            fields = {"context": context} | {name: raw}
            parts = [file("note.txt", TEXT), *(field(one, value) for one, value in fields.items())]
            answer = gate.ask("POST", "/files/upload", content=encode(parts), headers={"Content-Type": content_type()})
            _hold(answer, (name, text))
            stored += answer.status_code == 201
    assert gate.get("/files").json()["pagination"]["total"] == stored
    assert len(gate.objects()) == stored


@pytest.mark.asvs("16.4.1", "16.2.4")
def test_no_text_makes_two_lines_of_one_in_the_log(apart: Service, target: tuple[Gate, dict[str, str]]) -> None:
    gate, _ = target
    for text in ("\n", "\r\n{}", "\u2028", "\x85", "\x1b[2J", '"}\n{"event": "forged"}'):
        _send(gate, "GET", f"{API}/files/{_quoted(text)}")
        _send(gate, "POST", f"{API}/contexts", {"context_key": text, "display_name": text})
        gate.as_(gate.token(sub=text)).get("/contexts")
        gate.as_(gate.key("metadata")).delete(f"/files/{_quoted(text)}")
    lines = apart.log.read_bytes().partition(_GREETED)[2].split(b"\n")
    assert len(lines) > 5
    said = [json.loads(line) for line in lines if line]
    assert all(isinstance(line, dict) and {"event", "level", "timestamp"} <= line.keys() for line in said)
    assert not any(line["event"] == "forged" for line in said)
    assert not any(byte < 0x20 or byte == 0x7F for line in lines for byte in line)
