"""Hostile texts in every field of every route of the OpenAPI document: each is kept as sent or refused.

Hostile file names are in `test_hostile_names`.
"""

import itertools
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

import httpx
import pytest

from tests.api.forms import field, file
from tests.api.responses import data
from tests.api.samples import TEXT
from tests.api.test_hostile_names import STEP
from tests.api.test_tenant_isolation import webhook_ids
from tests.attacks import hostile_lines, naughty_strings, needs_attacks
from tests.deployments import Deployments
from tests.run_length import amount
from tests.service import API, ApiClient, Service, running_service

_STEP: Final = amount("TEXT_STEP", short=919, full=1)
"""The short run sends one of the 919 texts to each field, each time another one."""
pytestmark = [needs_attacks, pytest.mark.timeout(300 + 7200 // _STEP)]
_END_OF_STARTUP_MESSAGE: Final = b"Ctrl-C drains and stops."
"""The last line that a start prints for people; after it comes the log."""
_RESPONSE_HEADERS: Final = {
    *("cache-control", "content-length", "content-security-policy", "content-type", "date", "referrer-policy"),
    "request-id",
    *("x-frame-options", "sluice-error-code", "x-request-id", "x-content-type-options"),
    *("allow", "retry-after", "www-authenticate", "connection", "sluice-report-id", "vary"),
    *("tus-resumable", "tus-version", "upload-offset", "upload-length", "upload-expires"),
    *("cross-origin-resource-policy", "accept-ranges", "content-disposition", "content-range", "etag"),
}
"""Every header that a response may have."""
_REQUEST_HEADERS: Final = (
    *("Authorization", "Accept", "Accept-Encoding", "Content-Type", "Content-Encoding", "Cookie", "Forwarded"),
    "If-Match",
    *("If-None-Match", "If-Range", "Origin", "Range", "Referer", "Request-Id", "X-Request-Id", "Traceparent"),
    "Tracestate",
    *("User-Agent", "Via", "X-Api-Key", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"),
    "X-HTTP-Method-Override",
)
_SPREAD: Final = 7
"""How far the text of a field is from that of the field before: the first texts alone are of few kinds."""
_OFTEN_KEPT: Final = {
    *(f"PATCH {API}/contexts/{{context_key}} body {name}" for name in ("display_name", "description", "metadata")),
    f"PATCH {API}/api-keys/{{api_key_id}} body name",
}
_OFTEN_SET: Final = _OFTEN_KEPT | {
    f"PATCH {API}/contexts/{{context_key}} body storage_path_template",
    f"POST {API}/contexts body context_key",
    *(f"GET {API}/files query {name}" for name in ("context", "uploaded_by")),
    *("Authorization", "User-Agent", "If-None-Match", "X-Forwarded-For"),
}
"""Fields and headers that get each 36th naughty string in the short run, too."""
CHANGES_ONLY: Final = (
    *("/replay", "/rotate", "/recover", "/release", "/refuse", "/rescan", "/bulk-delete", "/bulk-restore", "/export"),
    "/erasures",
)
"""Ends of paths whose POST makes nothing."""
_HIDDEN_FIELDS: Final = {"access_key_id", "secret_access_key", "endpoint_url"}
"""Fields that are never shown, or masked."""
_CREDENTIAL: Final = {"access_key_id": "A" * 16, "secret_access_key": "s"}
_numbers = itertools.count()


@dataclass(frozen=True)
class Field:
    """One place for a text: `where` is `body`, `path` or `query`; `names` is the path into the body."""

    method: str
    path: str
    where: str
    names: tuple[str, ...]
    kind: str = "string"

    def __str__(self) -> str:
        return f"{self.method} {self.path} {self.where} {'.'.join(self.names)}"


@pytest.fixture(scope="module")
def service_without_probe(deployments: Deployments, setup_name: str) -> Iterator[Service]:
    """A service that adds buckets without a probe, so that each of their fields can have any value."""
    with running_service(
        deployments.fresh(setup_name), BUCKET_PROBE="false", LOG_LEVEL="debug", WEBHOOK_HOSTS="127.0.0.1"
    ) as service:
        yield service


@pytest.fixture(scope="module")
def target(service_without_probe: Service) -> tuple[ApiClient, dict[str, str]]:
    client = service_without_probe.new_client().with_store()
    context = client.create_context(scan_for_viruses=False)
    file_id = client.store(context=context)  # before there is a bucket without a server
    bucket = data(client.post(client.buckets, _valid(client.buckets)), 201)
    job = data(client.post("/files/bulk-delete", {"file_ids": ["file_unknown"]}), 201)
    return client, webhook_ids(client) | {
        "context_key": context,
        "check_name": "none",
        "example_id": "exm_none",
        "tenant_id": client.tenant_id,
        "api_key_id": client.create_key("metadata").api_key_id,
        "file_id": file_id,
        "config_id": bucket["config_id"],
        "job_id": job["job_id"],
    }


def _texts(number: int, target_field: object = None) -> list[str]:
    every = [*naughty_strings(), *hostile_lines()]
    often = naughty_strings()[:: 3 * STEP] if str(target_field) in _OFTEN_SET else []
    return every[number * _SPREAD % _STEP :: _STEP] + often


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
    for name, one in _resolved(document, schema)["properties"].items():
        kinds = [_resolved(document, kind) for kind in one.get("anyOf", [one])]
        kind = next(kind for kind in kinds if kind.get("type") != "null")
        if kind.get("properties"):
            yield from _properties(document, method, path, kind, (*above, name))
        yield Field(method, path, "body", (*above, name), kind.get("type", "string"))


def _resolved(document: Mapping[str, Any], schema: Mapping[str, Any]) -> Mapping[str, Any]:
    name = schema.get("$ref", "").rpartition("/")[2]
    found: Mapping[str, Any] = document["components"]["schemas"][name] if name else schema
    return found


def _valid(path: str) -> dict[str, Any]:
    number = next(_numbers)
    bodies: dict[str, dict[str, Any]] = {
        "contexts": {"context_key": f"made_{number}", "display_name": "x"},
        "api-keys": {"name": "x", "scopes": ["metadata"]},
        "webhook-endpoints": {"url": "http://127.0.0.1:9/hook", "events": ["*"]},
        "storage-configs": {"name": f"bucket {number}", "default_bucket": "bucket", **_CREDENTIAL},
    }
    return bodies.get(path.rpartition("/")[2], {})


def _body(target_field: Field, text: str) -> dict[str, Any]:
    value: Any = {"array": [text], "object": {text: text}}.get(target_field.kind, text)
    for name in reversed(target_field.names[1:]):
        value = {name: value}
    first, pair = target_field.names[0], dict[str, Any]()
    if first == "filter":
        pair = {"max_files": 1}
    elif first in _CREDENTIAL and target_field.method == "PATCH":  # both are changed together
        pair = _CREDENTIAL
    return {**_valid(target_field.path), **pair, first: value}


def _send(client: ApiClient, method: str, path: str, body: object = None, **query: str) -> httpx.Response:
    """Send a text as JSON, lone surrogates included, and assert a success or an error with known headers."""
    more: dict[str, Any] = {}
    if body is not None:
        more = {"content": json.dumps(body), "headers": {"Content-Type": "application/json"}}
    asked = "?" + "&".join(f"{name}={_quoted(value)}" for name, value in query.items()) if query else ""
    response = client.request(method, path.removeprefix(API) + asked, **more)
    _assert_handled(response, (method, path, body, query))
    return response


def _assert_handled(response: httpx.Response, sent: object) -> None:
    assert response.status_code < 500, (sent, response.status_code, response.text[:300])
    names = {name for name in response.headers if not name.startswith("ratelimit-")}
    assert names <= _RESPONSE_HEADERS, (sent, response.headers)


def _quoted(text: str) -> str:
    """Encode a text for a URL, dots included: the client would remove `.` and `..` from a path."""
    return quote(text.encode("utf-8", "surrogatepass"), safe="").replace(".", "%2E")


def _is_kept(target_field: Field, sent: Mapping[str, Any], shown: Mapping[str, Any]) -> bool:
    name = target_field.names[0]
    if name in _HIDDEN_FIELDS or name not in shown:
        return True
    value: Any = sent
    there: Any = shown
    for each in target_field.names:  # of an object, only what was sent: the rest is shown with its defaults
        value, there = value[each], there[each]
    if name == "base_path":
        value = value.strip("/")
    empty = {
        "storage_path_template": "{tenant_id}/{context_key}/{yyyy}/{mm}/{file_id}{extension}",
        "storage_config_id": None,
    }
    return bool(there == (empty[name] if value == "" and name in empty else value))


def _total(client: ApiClient, path: str) -> int:
    body = client.get(path.removeprefix(API)).json()
    return int(body["pagination"]["total"] if "pagination" in body else len(body["data"]))


@pytest.mark.asvs("1.3.3", "2.2.1", "15.3.5", "1.2.3", "2.2.2")
def test_every_body_field_keeps_or_refuses_a_hostile_text(
    service_without_probe: Service, target: tuple[ApiClient, dict[str, str]]
) -> None:
    client, ids = target
    target_fields = [target_field for target_field in _fields(service_without_probe) if target_field.where == "body"]
    assert len(target_fields) > 40
    numbered = enumerate(target_fields)
    for (method, template), fields in itertools.groupby(numbered, key=lambda each: (each[1].method, each[1].path)):
        path = template.format_map(ids)
        creates = method == "POST" and not path.endswith(CHANGES_ONLY)
        before = _total(client, path) if creates else 0
        current = data(client.get(path.removeprefix(API))) if method == "PATCH" else {}
        kept: Counter[str] = Counter()
        for number, target_field in fields:
            for text in _texts(number, target_field):
                body = _body(target_field, text)
                response = _send(client, method, path, body)
                if str(target_field) in _OFTEN_SET:
                    assert response.status_code in {200, 201, 400, 404, 422}, (str(target_field), text, response.text)
                if response.status_code >= 400:
                    continue
                kept[str(target_field)] += 1
                shown = response.json()["data"]
                assert _is_kept(target_field, body, shown), (str(target_field), body, shown)
                if method == "PATCH":
                    changed = {name for name in current if current[name] != shown[name]} - {"updated_at", *body}
                    assert not changed, (str(target_field), text, changed)
                    current = shown
            assert kept[str(target_field)] or str(target_field) not in _OFTEN_KEPT, str(target_field)
        if method == "PATCH":
            assert data(client.get(path.removeprefix(API))) == current, path
        elif creates:
            assert _total(client, path) == before + kept.total(), path


@pytest.mark.asvs("1.3.3", "2.2.1")
def test_every_path_and_query_parameter_handles_a_hostile_text(
    service_without_probe: Service, target: tuple[ApiClient, dict[str, str]]
) -> None:
    client, ids = target
    target_fields = [target_field for target_field in _fields(service_without_probe) if target_field.where != "body"]
    links = [Field("GET", f"{API}/downloads/{{file_id}}", "path", ("file_id",))]
    links += [Field("GET", f"{API}/downloads/{{file_id}}", "query", (name,)) for name in ("expires", "signature")]
    assert len(target_fields) > 30
    for number, target_field in enumerate([*target_fields, *links]):
        method, path, (name,) = target_field.method, target_field.path, target_field.names
        body = _valid(path) if method in {"POST", "PATCH"} else None
        for text in _texts(number, target_field):
            if target_field.where == "query":
                response = _send(client, method, path.format_map(ids), body, **{name: text})
                expected = {200, 422} if str(target_field) in _OFTEN_SET else {200, 403, 404, 422}
                assert response.status_code in expected, (str(target_field), text, response.text)
            else:
                response = _send(client, method, path.format_map(ids | {name: _quoted(text)}), body)
                is_there = response.status_code < 400 and response.json()["data"][name] == text
                assert is_there or response.status_code >= 400, (str(target_field), text, response.text)


@pytest.mark.asvs("2.2.1")
def test_every_request_header_handles_a_hostile_text(target: tuple[ApiClient, dict[str, str]]) -> None:
    client, ids = target
    link = data(client.get(f"/files/{ids['file_id']}"))["download_url"]
    for number, name in enumerate(_REQUEST_HEADERS):
        for text in _texts(number, name):
            value = text.encode("utf-8", "surrogatepass")
            if value != value.strip() or any(byte < 0x20 or byte == 0x7F for byte in value):
                continue  # no client sends this, and the framing refuses it: see server/tests/http1
            credential = [] if name == "Authorization" else [(b"Authorization", str(client.authorization).encode())]
            headers = [(name.encode(), value), *credential]
            for url in ("/api/v1/contexts", link if link.startswith(client.service.url) else "/health/live"):
                response = client.service.http.get(url, headers=headers)
                _assert_handled(response, (name, text))
                if url != link and name in _OFTEN_SET:
                    assert response.status_code in {200, 400, 401, 429}, (name, text, response.text[:200])


@pytest.mark.asvs("2.2.1")
def test_every_form_field_of_an_upload_handles_a_hostile_text(service_without_probe: Service) -> None:
    client = service_without_probe.new_client().with_store()
    context = client.create_context(scan_for_viruses=False)
    stored = 0
    for number, name in enumerate(3 * ("context", "context_key", "metadata", "other")):
        for text in _texts(number):
            raw = text.encode("utf-8", "surrogatepass").decode("latin-1")
            fields = {"context": context} | {name: raw}
            parts = [file("note.txt", TEXT), *(field(one, value) for one, value in fields.items())]
            response = client.upload_parts(parts)
            _assert_handled(response, (name, text))
            stored += response.status_code == 201
    assert client.get("/files").json()["pagination"]["total"] == stored
    assert len(client.object_keys()) == stored


@pytest.mark.asvs("16.4.1", "16.2.4")
def test_no_text_breaks_a_log_line(service_without_probe: Service, target: tuple[ApiClient, dict[str, str]]) -> None:
    client, _ = target
    for text in ("\n", "\r\n{}", "\u2028", "\x85", "\x1b[2J", '"}\n{"event": "forged"}'):
        _send(client, "GET", f"{API}/files/{_quoted(text)}")
        _send(client, "POST", f"{API}/contexts", {"context_key": text, "display_name": text})
        client.with_credential(client.token(sub=text)).get("/contexts")
        client.with_credential(client.create_key("metadata")).delete(f"/files/{_quoted(text)}")
    lines = service_without_probe.log.read_bytes().partition(_END_OF_STARTUP_MESSAGE)[2].split(b"\n")
    assert len(lines) > 5
    said = [json.loads(line) for line in lines if line]
    assert all(isinstance(line, dict) and {"event", "level", "timestamp"} <= line.keys() for line in said)
    assert not any(line["event"] == "forged" for line in said)
    assert not any(byte < 0x20 or byte == 0x7F for line in lines for byte in line)
