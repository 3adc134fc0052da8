"""The description of the API in OpenAPI: valid, complete, and true of the running service."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import jsonschema_rs
import pytest

from sluice.access import ROUTE_SCOPES
from tests.api.answers import data
from tests.gate import Gate, Service
from tests.length import WHOLE, amount

SECONDS = 150 if not WHOLE else 1500
EXAMPLES = amount("DESCRIBED", short=6, whole=50)
"""Inputs that are drawn at random for each operation, besides the examples and the limits of each parameter and field, which all are tried."""


@pytest.fixture(scope="module")
def document(service: Service) -> dict[str, Any]:
    answer = httpx.get(f"{service.url}/openapi.json")
    assert answer.status_code == 200
    found: dict[str, Any] = answer.json()
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


def test_it_is_openapi_3_1(document: dict[str, Any]) -> None:
    assert document["openapi"].startswith("3.1.")
    assert document["info"]["title"] == "Sluice"
    assert document["info"]["version"] == "0.1.0"


def test_every_reference_leads_somewhere(document: dict[str, Any]) -> None:
    def walk(node: Any) -> None:
        if isinstance(node, dict):
            if isinstance(node.get("$ref"), str):
                _resolve(document, node)
            for value in node.values():
                walk(value)
        elif isinstance(node, list):
            for value in node:
                walk(value)

    walk(document["paths"])
    walk(document["components"])


def test_every_schema_is_a_valid_schema(document: dict[str, Any]) -> None:
    for name, schema in document["components"]["schemas"].items():
        assert jsonschema_rs.meta.is_valid(schema), name


@pytest.mark.parametrize(("method", "path"), ROUTE_SCOPES, ids=" ".join)
def test_every_route_is_described(document: dict[str, Any], method: str, path: str) -> None:
    operation = _operation(document, method, path)
    assert operation["summary"]
    assert operation["operationId"]
    assert operation["tags"]
    assert operation["security"] or document["security"]


def test_no_route_is_described_that_nobody_decided(document: dict[str, Any]) -> None:
    described = {(method.upper(), path) for path, methods in document["paths"].items() for method in methods}
    api = {(method, path) for method, path in described if path.startswith("/api/v1") and "/downloads/" not in path}
    assert api == set(ROUTE_SCOPES)


def test_every_operation_has_a_name_of_its_own(document: dict[str, Any]) -> None:
    names = [operation["operationId"] for methods in document["paths"].values() for operation in methods.values()]
    assert len(names) == len(set(names))


CREATED = {("POST", "/api/v1/contexts"), ("POST", "/api/v1/api-keys"), ("POST", "/api/v1/files/upload")}


@pytest.mark.parametrize(("method", "path"), ROUTE_SCOPES, ids=" ".join)
def test_every_route_describes_its_success_and_its_failures(document: dict[str, Any], method: str, path: str) -> None:
    responses = _operation(document, method, path)["responses"]
    created = (method, path) in CREATED or (method == "POST" and path.endswith("/storage-configs"))
    assert [status for status in responses if status.startswith("2")] == ["201" if created else "200"]
    scoped = ROUTE_SCOPES[method, path] is not None
    assert {"401", "429", "503"} | ({"403"} if scoped else set()) <= set(responses)
    if "{" in path:
        assert "404" in responses
    for response in responses.values():
        schema = _resolve(document, _resolve(document, response)["content"]["application/json"]["schema"])
        assert {"status", "message", "timestamp"} <= set(schema["properties"])


def _examples(response: dict[str, Any]) -> list[dict[str, Any]]:
    content = response.get("content", {}).get("application/json", {})
    several = [one["value"] for one in content.get("examples", {}).values()]
    return [*several, content["example"]] if "example" in content else several


def test_no_refusal_is_shown_with_the_words_of_a_fault(document: dict[str, Any]) -> None:
    operations = [operation for methods in document["paths"].values() for operation in methods.values()]
    shown = [
        (status, one) for operation in operations for status, answer in operation["responses"].items() for one in _examples(answer)
    ]
    assert len(shown) > 100
    assert {status for status, one in shown if status >= "400" and "service failed" in str(one["errors"])} <= {"500"}


def test_the_upload_describes_its_form(document: dict[str, Any]) -> None:
    operation = _operation(document, "POST", "/api/v1/files/upload")
    schema = _resolve(document, operation["requestBody"]["content"]["multipart/form-data"]["schema"])
    assert operation["requestBody"]["required"] is True
    assert sorted(schema["required"]) == ["context", "file"]
    assert set(schema["properties"]) == {"file", "context", "metadata"}
    assert schema["properties"]["file"]["format"] == "binary"
    assert schema["properties"]["file"]["contentMediaType"] == "application/octet-stream"


def test_the_upload_describes_every_refusal(document: dict[str, Any]) -> None:
    responses = _operation(document, "POST", "/api/v1/files/upload")["responses"]
    assert {"201", "400", "401", "403", "404", "409", "413", "415", "422", "429", "503", "507"} <= set(responses)


PARAMETERS = {
    "/api/v1/contexts": {"page", "page_size", "status"},
    "/api/v1/files": {"context", "context_key", "uploaded_by", "page", "page_size"},
    "/api/v1/api-keys": {"page", "page_size", "status"},
    "/api/v1/files/{file_id}": {"file_id", "expires_in"},
}


@pytest.mark.parametrize("path", PARAMETERS)
def test_the_query_is_described(document: dict[str, Any], path: str) -> None:
    parameters = {one["name"]: one for one in _operation(document, "GET", path)["parameters"]}
    assert set(parameters) == PARAMETERS[path]
    for name, least, most in (("page_size", 1, 100), ("expires_in", 60, 3600)):
        if name in parameters:
            assert (parameters[name]["schema"]["minimum"], parameters[name]["schema"]["maximum"]) == (least, most)


LIMITS = [
    ("context_key", {"minLength": 1, "maxLength": 100, "pattern": "^[a-z][a-z0-9_]*$"}),
    ("display_name", {"minLength": 1, "maxLength": 255}),
    ("description", {"maxLength": 1000}),
    ("max_file_size_mb", {"minimum": 1, "maximum": 500, "default": 10}),
    ("storage_path_template", {"maxLength": 500}),
    ("storage_quota_mb", {"minimum": 1, "maximum": 10_485_760}),
]


@pytest.mark.parametrize(("field", "limits"), LIMITS, ids=[row[0] for row in LIMITS])
def test_the_limits_of_a_context_are_described(document: dict[str, Any], field: str, limits: dict[str, Any]) -> None:
    body = _operation(document, "POST", "/api/v1/contexts")["requestBody"]["content"]["application/json"]["schema"]
    schema = _resolve(document, _resolve(document, body)["properties"][field])
    flat = {**schema, **{name: value for option in schema.get("anyOf", []) for name, value in option.items()}}
    assert {name: flat.get(name) for name in limits} == limits


@pytest.mark.asvs("14.2.3")
def test_the_documentation_loads_nothing_from_elsewhere(service: Service) -> None:
    answer = httpx.get(f"{service.url}/docs")
    assert answer.status_code == 200
    assert "https://" not in answer.text.replace("https://www.w3.org", "")
    assert "//cdn" not in answer.text


@pytest.mark.asvs("2.2.1", "15.3.1", "8.2.3")
def test_the_service_is_as_described(gate: Gate, tmp_path: Path) -> None:
    """Schemathesis asks every operation with good and with bad input: no fault, nothing that is not described, no bad input taken."""
    data(gate.get(f"/contexts/{gate.context()}"))
    checks = (
        "not_a_server_error,status_code_conformance,content_type_conformance,response_headers_conformance,"
        "response_schema_conformance,negative_data_rejection,unsupported_method,allow_header_conformance,ignored_auth"
    )
    command = [
        str(Path(sys.executable).with_name("schemathesis")),
        "run",
        f"{gate.service.url}/openapi.json",
        *("--header", f"Authorization: {'Bearer ' + gate.token(scope='admin', exp=4102444800)}"),
        *("--checks", checks),
        *("--max-examples", str(EXAMPLES), "--seed", "7", "--workers", "1", "--request-timeout", "20"),
        *("--suppress-health-check", "all", "--continue-on-failure", "--no-color"),
    ]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == 0, done.stdout[-8000:]
