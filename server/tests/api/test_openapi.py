"""The OpenAPI document of the API: valid, complete, and true of the running service."""

import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import jsonschema_rs
import pytest

from sluice.access import PUBLIC_ROUTES, ROUTE_SCOPES
from tests.api import forms
from tests.api.responses import data
from tests.api.samples import TEXT
from tests.rows import each_row
from tests.run_length import LONG_RUN, amount
from tests.service import ApiClient, Service

SECONDS = 400 if not LONG_RUN else 1500
EXAMPLES = amount("DESCRIBED", short=1, full=50)
"""Random inputs for each operation, in addition to the examples and the bounds of each parameter and field."""


@pytest.fixture(scope="module")
def document(service: Service) -> dict[str, Any]:
    response = httpx.get(f"{service.url}/openapi.json", timeout=60)
    assert response.status_code == 200
    found: dict[str, Any] = response.json()
    for methods in found["paths"].values():
        for operation in methods.values():
            shown = operation["responses"].items()
            operation["responses"] = {status: _resolve(found, response) for status, response in shown}
    return found


def _operation(document: dict[str, Any], method: str, path: str) -> dict[str, Any]:
    operation: dict[str, Any] = document["paths"][path][method.lower()]
    return operation


def _resolve(document: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    while "$ref" in schema:
        found: Any = document
        for step in schema["$ref"].removeprefix("#/").split("/"):
            found = found[step]
        schema = found
    return schema


def test_document_is_openapi_3_1_with_valid_schemas_and_words_for_readers(document: dict[str, Any]) -> None:
    assert document["openapi"].startswith("3.1.")
    assert (document["info"]["title"], document["info"]["version"]) == ("Sluice", "0.1.0")
    for name in set(re.findall(r'"\$ref": "([^"]+)"', json.dumps(document))):
        assert _resolve(document, {"$ref": name})
    schemas = document["components"]["schemas"]
    assert [name for name, schema in schemas.items() if not jsonschema_rs.meta.is_valid(schema)] == []
    shapes = [{"$ref": f"#/components/schemas/{name}"} for name in ("FullReport", "SenderReport")]
    for name in ("ErrorEnvelope", "Validated"):
        assert schemas[name]["properties"]["report"]["anyOf"] == shapes
    tags = {tag for methods in document["paths"].values() for one in methods.values() for tag in one["tags"]}
    assert {tag["name"] for tag in document["tags"]} == tags
    for methods in document["paths"].values():
        for operation in methods.values():
            for kind, body in operation.get("requestBody", {}).get("content", {}).items():
                if kind == "application/json":
                    for schema in body["schema"].get("oneOf", [body["schema"]]):
                        assert "examples" in _resolve(document, schema), operation["operationId"]
    ids = [operation["operationId"] for methods in document["paths"].values() for operation in methods.values()]
    assert len(ids) == len(set(ids))
    assert not [name for name in ids if not re.fullmatch(r"[a-z]+(_[a-z]+){0,4}", name) or "_api_v" in name]
    assert {"upload_file", "list_contexts", "get_report"} <= set(ids)
    text = json.dumps(document)
    assert not re.findall(r"`(?:sluice|uploads|rules|api|kit)\.[a-z_.]+`|(?<!-)\bNone\b|\bTrue\b|`FileRejected`", text)


def test_responses_that_operations_share_are_written_once(service: Service) -> None:
    response = httpx.get(f"{service.url}/openapi.json", timeout=60)
    written = [
        json.dumps(one, sort_keys=True)
        for methods in response.json()["paths"].values()
        for operation in methods.values()
        for status, one in operation["responses"].items()
        if status >= "400" and "$ref" not in one
    ]
    assert len(written) == len(set(written))
    assert len(response.content) < 400_000


def test_only_known_routes_are_documented_and_only_500_mentions_a_service_failure(document: dict[str, Any]) -> None:
    described = {(method.upper(), path) for path, methods in document["paths"].items() for method in methods}
    api = {(method, path) for method, path in described if path.startswith("/api/v1") and "/downloads/" not in path}
    assert api == {*ROUTE_SCOPES, *PUBLIC_ROUTES}
    shown = [
        (status, one)
        for methods in document["paths"].values()
        for operation in methods.values()
        for status, response in operation["responses"].items()
        for one in _examples(response)
    ]
    assert len(shown) > 100
    assert {status for status, one in shown if status >= "400" and "service failed" in str(one["errors"])} <= {"500"}


EMPTY = {"204"}  # of resumable uploads: those with which bytes are still missing, and cancellations
CREATED = {
    *("uploads", "contexts", "webhook-endpoints", "api-keys", "files/upload"),
    *("files/bulk-delete", "files/bulk-restore", "files/export", "hash-lists", "hash-lists/{digest}/quarantine"),
    "contexts/{context_key}/examples",
}


@each_row("method, path", ROUTE_SCOPES)
def test_every_route_is_documented_with_its_responses(document: dict[str, Any], method: str, path: str) -> None:
    operation = _operation(document, method, path)
    for name in ("summary", "operationId", "tags"):
        assert operation[name]
    assert operation["security"] or document["security"]
    responses = operation["responses"]
    made = path.removeprefix("/api/v1/") in CREATED or path.endswith(("/storage-configs", "/upload-tokens"))
    created = method == "POST" and made
    successes = [status for status in responses if status.startswith("2")]
    if "/uploads" in path:
        successes = [status for status in successes if status not in EMPTY] or ["200"]
    accepted = (method, path) == ("POST", "/api/v1/erasures")
    assert successes == ["202" if accepted else "201" if created else "200"]
    scoped = ROUTE_SCOPES[method, path] is not None
    assert {"401", "429", "503"} | ({"403"} if scoped else set()) <= set(responses)
    if "{" in path:
        assert "404" in responses
    for status, response in responses.items():
        if status >= "400":
            assert "Sluice-Error-Code" in response["headers"]
            assert "application/problem+json" in response["content"]
            assert ("Retry-After" in response["headers"]) >= (status in {"429", "503", "507"})
            assert ("WWW-Authenticate" in response["headers"]) == (status == "401")
        if "/uploads" in path and (status in EMPTY or (method == "HEAD" and status == "200")):
            assert "content" not in response
            continue
        kind = {"download": "application/zip", "preview": "image/png"}.get(path.rpartition("/")[2])
        if path.startswith("/api/v1/quarantine/") and kind is not None and status == "200":
            assert list(response["content"]) == [kind]
            continue
        schema = _resolve(document, _resolve(document, response)["content"]["application/json"]["schema"])
        assert {"status", "message", "timestamp"} <= set(schema["properties"])


def _examples(response: dict[str, Any]) -> list[dict[str, Any]]:
    content = response.get("content", {}).get("application/json", {})
    several = [one["value"] for one in content.get("examples", {}).values()]
    return [*several, content["example"]] if "example" in content else several


OF_EVERY_ANSWER = {
    *("content-length", "content-type", "content-security-policy", "cache-control", "date", "referrer-policy"),
    "server",
    *("request-id", "vary", "x-content-type-options", "x-frame-options", "connection", "cross-origin-resource-policy"),
}


def _undeclared(document: dict[str, Any], path: str, response: httpx.Response) -> set[str]:
    """Return the headers of a response to a POST that the document does not list, and the type of its body likewise."""
    described = _operation(document, "POST", path)["responses"][str(response.status_code)]
    declared = {name.lower() for name in described.get("headers", {})} | OF_EVERY_ANSWER
    types = {response.headers["content-type"].partition(";")[0]} - set(described["content"])
    return (set(response.headers) - declared) | types


def test_headers_and_types_of_responses_are_documented(document: dict[str, Any], client: ApiClient) -> None:
    limit = {"max_uploads": 3, "window_seconds": 3600}
    context = client.create_context(scan_for_viruses=False, upload_rate_limit=limit)
    path, sent = "/api/v1/files/upload", []

    def upload(key: str, name: str = "a.txt", content: bytes = TEXT, caller: ApiClient = client, **more: str) -> None:
        parts = [forms.file(name, content), forms.field("context", context)]
        headers = {"Content-Type": forms.content_type(), "Idempotency-Key": key, **more}
        sent.append(caller.request("POST", "/files/upload", content=forms.encode(parts), headers=headers))

    upload("1")
    upload("1")
    upload("1", name="b.txt")
    upload("2", name="a.png", content=b"")
    upload("2", name="a.png", content=b"", Accept="application/problem+json")
    upload("3")
    upload("4")
    upload("5", caller=client.with_credential("Bearer nobody"), Accept="application/problem+json")
    assert [response.status_code for response in sent] == [201, 201, 422, 400, 400, 201, 429, 401]
    assert [_undeclared(document, path, response) for response in sent] == [set()] * len(sent)
    described = _operation(document, "POST", path)["responses"]
    for status in ("201", "400", "429", "401"):  # and each header that is declared is sent with one of them
        names = {name.lower() for name in described[status]["headers"]}
        assert names <= {name for each in sent if str(each.status_code) == status for name in each.headers}


PARAMETERS = {
    "/api/v1/contexts": {"page", "page_size", "status"},
    "/api/v1/files": {
        *("context", "context_key", "uploaded_by", "page", "page_size", "metadata.key"),
        *("filename", "sha256", "content_type", "created_after", "created_before", "min_size", "status", "sort"),
    },
    "/api/v1/api-keys": {"page", "page_size", "status"},
    "/api/v1/files/{file_id}": {"file_id", "expires_in", "disposition"},
}


def test_parameters_limits_and_the_form_of_uploads_are_documented(document: dict[str, Any]) -> None:
    for path, expected in PARAMETERS.items():
        parameters = {one["name"]: one for one in _operation(document, "GET", path)["parameters"]}
        assert set(parameters) == expected
        for name, least, most in (("page_size", 1, 100), ("expires_in", 60, 3600)):
            if name in parameters:
                assert (parameters[name]["schema"]["minimum"], parameters[name]["schema"]["maximum"]) == (least, most)
    body = _operation(document, "POST", "/api/v1/contexts")["requestBody"]["content"]["application/json"]["schema"]
    for field, limits in LIMITS.items():
        schema = _resolve(document, _resolve(document, body)["properties"][field])
        flat = {**schema, **{name: value for option in schema.get("anyOf", []) for name, value in option.items()}}
        assert {name: flat.get(name) for name in limits} == limits, field
    for path in ("/files/upload", "/files/validate", "/uploads/{upload_id}"):
        methods = document["paths"][f"/api/v1{path}"]
        response = (methods.get("post") or methods["patch"])["responses"]["413"]
        example = response["content"]["application/json"]["examples"]["body_too_large"]["value"]
        (limit,) = re.findall(r"at most (\d+) bytes", example["errors"][0])
        assert int(limit) >= 500 * 1024 * 1024
    operation = _operation(document, "POST", "/api/v1/files/upload")
    schema = _resolve(document, operation["requestBody"]["content"]["multipart/form-data"]["schema"])
    assert operation["requestBody"]["required"] is True
    assert sorted(schema["required"]) == ["context", "file"]
    assert set(schema["properties"]) == {"file", "context", "metadata"}
    assert schema["properties"]["file"]["format"] == "binary"
    assert schema["properties"]["file"]["contentMediaType"] == "application/octet-stream"
    # the form of the docs page fills in no metadata
    assert not {"example", "examples", "default"} & set(schema["properties"]["metadata"])
    statuses = {"201", "400", "401", "403", "404", "409", "413", "415", "422", "429", "503", "507"}
    assert statuses <= set(operation["responses"])


LIMITS: dict[str, dict[str, Any]] = {
    "context_key": {"minLength": 1, "maxLength": 100, "pattern": "^[a-z][a-z0-9_]*$"},
    "display_name": {"minLength": 1, "maxLength": 255},
    "description": {"maxLength": 1000},
    "max_file_size_mb": {"minimum": 1, "maximum": 500, "default": 10},
    "storage_path_template": {"maxLength": 500},
    "storage_quota_mb": {"minimum": 1, "maximum": 10_485_760},
}


_SHAPE = {"properties", "items", "required"}


def _kinds(document: dict[str, Any], schema: dict[str, Any], where: str) -> Iterator[tuple[object, ...]]:
    """Yield the kinds of each field of a schema: where it is, its type and format, and each limit that it has."""
    schema = _resolve(document, schema)
    limits = schema.keys() - {"title", "description", "examples", "example", "default"} - _SHAPE
    for limit in limits or {"none"}:
        yield where, schema.get("type"), schema.get("format"), limit
    parts = [*schema.get("anyOf", ()), *schema.get("properties", {}).values()]
    for part in (*parts, *([schema["items"]] if "items" in schema else ())):
        yield from _kinds(document, part, where)


def _with_every_kind_of_field(document: dict[str, Any]) -> set[str]:
    """Return the ids of operations that together have each kind of parameter and of field, in as few fields as may be.

    The more fields an operation has, the more requests are sent for each of them.
    """
    fields: dict[str, list[tuple[object, ...]]] = {}
    for methods in document["paths"].values():
        for operation in methods.values():
            bodies = operation.get("requestBody", {}).get("content", {}).values()
            inputs = [(one["schema"], one["in"]) for one in operation.get("parameters", ())]
            inputs += [(body["schema"], "body") for body in bodies]
            fields[operation["operationId"]] = [each for given in inputs for each in _kinds(document, *given)]
    found = Counter(kind for kinds in fields.values() for kind in set(kinds))
    chosen: set[str] = set()
    for kind in sorted(found, key=lambda kind: (found[kind], str(kind))):  # those that few operations have come first
        having = [name for name, kinds in fields.items() if kind in kinds]
        if chosen.isdisjoint(having):
            chosen.add(min(having, key=lambda name: len(fields[name])))
    return chosen


@pytest.mark.timeout(SECONDS + 60)
@pytest.mark.asvs("2.2.1", "15.3.1", "8.2.3")
def test_service_conforms_to_its_openapi_document(document: dict[str, Any], client: ApiClient, tmp_path: Path) -> None:
    """Schemathesis sends valid and invalid input to every operation and checks the responses.

    The short run tries each limit of each kind of field in one operation, the long one those of every field.
    """
    data(client.get(f"/contexts/{client.create_context()}"))
    checks = (
        "not_a_server_error,status_code_conformance,content_type_conformance,response_headers_conformance,"
        "response_schema_conformance,negative_data_rejection,unsupported_method,allow_header_conformance,ignored_auth"
    )
    command = [
        str(Path(sys.executable).with_name("schemathesis")),
        *("--config-file", "schemathesis.toml", "run"),
        f"{client.service.url}/openapi.json",
        *("--header", f"Authorization: {'Bearer ' + client.token(scope='admin', exp=4102444800)}"),
        *("--checks", checks),
        # It cannot send their media type, and takes 412 for an accepted request: `test_resumable` has their rules.
        *("--exclude-path-regex", "^/api/v1/uploads"),
        *("--max-examples", str(EXAMPLES), "--seed", "7", "--workers", "1", "--request-timeout", "20"),
        *("--suppress-health-check", "all", "--continue-on-failure", "--no-color"),
    ]
    names = json.dumps(sorted(_with_every_kind_of_field(document)))
    less = f"[[operations]]\nexclude-operation-id = {names}\nphases.coverage.enabled = false\n"
    (tmp_path / "schemathesis.toml").write_text("" if LONG_RUN else less)
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == 0, done.stdout[-8000:]


def test_method_that_is_not_described_is_refused_with_those_that_are(
    document: dict[str, Any], service: Service
) -> None:
    described = {path: {method.upper() for method in methods} for path, methods in document["paths"].items()}
    for path, methods in described.items():
        sent = re.sub(r"{\w+}", "x", path)
        alike = [known for known in described if re.fullmatch(re.sub(r"{\w+}", "[^/]+", known), sent)]
        method = min({"PUT", "PATCH", "DELETE"} - set().union(*(described[known] for known in alike)))
        response = service.http.request(method, sent)
        assert response.status_code == 405, (method, path)
        assert set(response.headers["allow"].split(", ")) - {"OPTIONS", "HEAD"} == methods - {"HEAD", "OPTIONS"}, path
