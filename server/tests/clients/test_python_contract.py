"""The Python client covers the API: every operation, with its method, path and fields, as the OpenAPI document has it."""

import inspect
import json
import re
import sys
import typing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
from pydantic import BaseModel

from sluice.errors import SluiceError as ServerError
from sluice_client import Sluice, errors, operations
from sluice_client.core import Call
from tests.rows import each_row

ROOT = Path(__file__).parents[3]
DOCUMENT: dict[str, Any] = json.loads((ROOT / "docs/reference/openapi.json").read_text(encoding="utf-8"))
OPERATIONS = {
    operation["operationId"]: (method.upper(), path, operation)
    for path, methods in DOCUMENT["paths"].items()
    for method, operation in methods.items()
}
NOT_IN_CLIENT = {
    "discover_uploads": "files.upload needs none of what it tells",
    "create_upload": "files.upload sends it for large files",
    "head_upload": "files.upload sends it to continue; uploads.get returns more",
    "import_hashes": "a file of millions of lines: the command `sluice hashes import` sends it",
    "append_to_upload": "files.upload sends it for large files",
}
FLOWS = {"upload_file", "validate_file", "add_example"}  # more than one call: test_python_client.py runs them
NOUNS = [noun for noun in vars(operations).values() if inspect.isclass(noun) and issubclass(noun, operations.Noun)]
METHODS: dict[str, Any] = {
    method.operation_id: method for noun in NOUNS for method in vars(noun).values() if hasattr(method, "operation_id")
}
_DUMMIES = {"Sequence": ["x"], "datetime": datetime(2026, 1, 1, tzinfo=UTC)}


def _call(operation_id: str) -> Call[Any]:
    """Return the call of an operation with an argument for everything that is required."""
    function = METHODS[operation_id].function
    required = {
        name: next((dummy for word, dummy in _DUMMIES.items() if word in str(parameter.annotation)), "x")
        for name, parameter in list(inspect.signature(function).parameters.items())[1:]
        if parameter.default is parameter.empty and parameter.kind is not parameter.VAR_KEYWORD
    }
    made = function(None, **required)
    assert isinstance(made, Call)
    return made


def _resolved(schema: dict[str, Any]) -> dict[str, Any]:
    while "$ref" in schema:
        schema = DOCUMENT["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    return schema


def _fields_of_body(operation: dict[str, Any]) -> tuple[set[str], set[str]]:
    """Return the fields that a body may have, and those that it always has, whichever of several schemas it follows."""
    schema = _resolved(operation["requestBody"]["content"]["application/json"]["schema"])
    options = [_resolved(option) for option in schema.get("oneOf", schema.get("anyOf", [schema]))]
    described = {name for option in options for name in option["properties"]}
    return described, set.intersection(*(set(option.get("required", ())) for option in options))


def _data_schema(operation: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of `data`, or of an item of it, or of a body without an envelope."""
    response = next(response for status, response in operation["responses"].items() if status.startswith("2"))
    schema = _resolved(response["content"]["application/json"]["schema"])
    data = _resolved(schema["properties"].get("data", schema))
    return _resolved(data["items"]) if data.get("type") == "array" else data


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    if inspect.isclass(annotation) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for part in typing.get_args(annotation) for model in _models_in(part)]


def _schemas_in(schema: dict[str, Any]) -> list[dict[str, Any]]:
    schema = _resolved(schema)
    inner = [*schema.get("anyOf", ()), *([schema["items"]] if "items" in schema else ())]
    return [schema] if "properties" in schema else [found for part in inner for found in _schemas_in(part)]


def _differences(model: type[BaseModel], schema: dict[str, Any], where: str) -> list[str]:
    """Return the fields of a response that the model lacks, has too many of, or asks for without need."""
    properties, required = schema["properties"], set(schema.get("required", ()))
    found = [f"{where}.{name}" for name in model.model_fields.keys() ^ properties.keys()]
    for name, field in model.model_fields.items():
        if name not in properties:
            continue
        if field.is_required() and name not in required:
            found.append(f"{where}.{name} may be missing")
        pairs = zip(_models_in(field.annotation), _schemas_in(properties[name]), strict=False)
        found += [line for inner, part in pairs for line in _differences(inner, part, f"{where}.{name}")]
    return found


def test_each_operation_has_a_method_or_a_reason_why_not() -> None:
    assert METHODS.keys() & NOT_IN_CLIENT.keys() == set()
    assert METHODS.keys() | NOT_IN_CLIENT.keys() == OPERATIONS.keys()


@each_row("operation_id", sorted(METHODS.keys() - FLOWS))
def test_method_sends_what_the_document_describes(operation_id: str) -> None:
    method, path, operation = OPERATIONS[operation_id]
    call = _call(operation_id)
    prefix = "" if call.path.startswith(("/health", "/.well-known")) else "/api/v1"
    assert (call.method, prefix + call.path) == (method, re.sub(r"{\w+}", "x", path))
    described = {parameter["name"] for parameter in operation.get("parameters", ())}
    assert {*call.params, *call.headers} <= described
    if "requestBody" not in operation:
        assert call.body is None
        return
    described, required = _fields_of_body(operation)
    assert required <= set(call.body or {}) <= described


@each_row("operation_id", sorted(METHODS.keys() - FLOWS))
def test_model_has_the_fields_of_the_response(operation_id: str) -> None:
    model = _call(operation_id).model
    if not issubclass(model, BaseModel):
        assert model in {bytes, type(None)}
        return
    assert _differences(model, _data_schema(OPERATIONS[operation_id][2]), model.__name__) == []


@each_row("operation_id", sorted(METHODS.keys() - FLOWS))
def test_optional_arguments_are_those_of_the_document(operation_id: str) -> None:
    _, _, operation = OPERATIONS[operation_id]
    described = {parameter["name"] for parameter in operation.get("parameters", ())}
    described |= {"language", "first_day", "last_day", "only", "reason", "comment", "changes"}  # other names here
    if "requestBody" in operation:
        described |= _fields_of_body(operation)[0]
    if operation_id == "replay_change":
        described |= _resolved(DOCUMENT["components"]["schemas"]["RuleChanges"])["properties"].keys()
    if operation_id == "list_files":
        described |= {"metadata"}
    function = METHODS[operation_id].function
    taken: set[str] = set()
    for name, parameter in list(inspect.signature(function).parameters.items())[1:]:
        if parameter.kind is parameter.VAR_KEYWORD:
            (fields,) = typing.get_args(parameter.annotation)
            taken |= typing.get_type_hints(fields).keys()
        else:
            taken.add(name)
    assert taken <= described


def _all_errors(kind: type[ServerError]) -> list[type[ServerError]]:
    return [kind, *(found for below in kind.__subclasses__() for found in _all_errors(below))]


def test_each_error_of_the_catalogue_has_a_class() -> None:
    by_status = {401: errors.Unauthenticated, 403: errors.PermissionDenied, 404: errors.NotFound, 409: errors.Conflict}
    by_status |= {429: errors.LimitExceeded}
    for error in _all_errors(ServerError):
        kind = errors.error_class(error.status, error.code)
        if error.code == "file_rejected":
            assert kind is errors.FileRejected
        else:
            usual = errors.Unavailable if error.status >= 500 else errors.InvalidRequest
            assert kind is by_status.get(error.status, usual), error.code


def test_responses_of_a_newer_service_are_read() -> None:
    response = {"status": "SUCCESS", "data": {"locale": "x", "language": "y", "default": False, "new": 1}}

    def answered(_request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, json={**response, "data": [response["data"]]})

    with Sluice("sl_test_x", http_client=httpx.Client(transport=httpx.MockTransport(answered))) as client:
        assert [locale.locale for locale in client.messages.list()] == ["x"]


def test_client_needs_nothing_but_its_dependencies() -> None:
    code = "\n".join(path.read_text(encoding="utf-8") for path in Path(operations.__file__).parent.glob("*.py"))
    imported = set(re.findall(r"^\s*(?:from|import) (\w+)", code, re.MULTILINE))
    foreign = imported - sys.stdlib_module_names - {"sluice_client"}
    assert foreign == {"httpx", "pydantic", "pydantic_core", "typing_extensions", "cryptography"}
